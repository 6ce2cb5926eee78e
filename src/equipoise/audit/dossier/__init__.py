"""Reports over time and under review: compare, thresholds, manifest, verify."""

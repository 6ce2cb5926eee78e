"""Evaluation and tuning: split × models × ranks × gammas → one table, one choice."""

from equipoise.evaluation.catalogue import DEFAULT_METRICS, METRICS
from equipoise.evaluation.cost import Cost
from equipoise.evaluation.grid import Filter
from equipoise.evaluation.intervals import Comparison, Interval, bootstrap_mean, compare
from equipoise.evaluation.jobs import default_models
from equipoise.evaluation.results import Results, Row
from equipoise.evaluation.runner import evaluate
from equipoise.evaluation.trials import Trial, Tuning
from equipoise.evaluation.tuning import tune

__all__ = [
    "DEFAULT_METRICS",
    "METRICS",
    "Comparison",
    "Cost",
    "Filter",
    "Interval",
    "Results",
    "Row",
    "Trial",
    "Tuning",
    "bootstrap_mean",
    "compare",
    "default_models",
    "evaluate",
    "tune",
]

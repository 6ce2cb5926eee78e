"""Problems over groups: max–min, α-fair and constrained, solved by eigenproblems."""

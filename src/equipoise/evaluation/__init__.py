"""Evaluation and tuning: split × models × settings → one table, one choice."""

from equipoise.evaluation.closeness import Closeness, Shift, validation_shift
from equipoise.evaluation.cost import Cost
from equipoise.evaluation.plan import default_models
from equipoise.evaluation.runner import DEFAULT_METRICS, evaluate
from equipoise.evaluation.tuning import Trial, Tuning, tune
from equipoise.metrics.intervals import Comparison, Interval, bootstrap_mean, compare
from equipoise.metrics.results import Result, Results

__all__ = [
    "DEFAULT_METRICS",
    "Closeness",
    "Comparison",
    "Cost",
    "Interval",
    "Result",
    "Results",
    "Shift",
    "Trial",
    "Tuning",
    "bootstrap_mean",
    "compare",
    "default_models",
    "evaluate",
    "tune",
    "validation_shift",
]

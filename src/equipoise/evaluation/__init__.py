"""Evaluation and tuning: split × models × settings → one table, one choice."""

from equipoise.evaluation.cost import Cost
from equipoise.evaluation.plan import default_models
from equipoise.evaluation.runner import DEFAULT_METRICS, evaluate
from equipoise.evaluation.tuning import Trial, Tuning, tune
from equipoise.metrics.intervals import Comparison, Interval, bootstrap_mean, compare
from equipoise.metrics.results import Result, Results

__all__ = [
    "DEFAULT_METRICS",
    "Comparison",
    "Cost",
    "Interval",
    "Result",
    "Results",
    "Trial",
    "Tuning",
    "bootstrap_mean",
    "compare",
    "default_models",
    "evaluate",
    "tune",
]

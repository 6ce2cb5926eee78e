"""Evaluation and tuning: split × models × settings → one table, one choice."""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

"""Synthetic data: the demo, matrices of the paper's theorems, data of any size for benchmarks."""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

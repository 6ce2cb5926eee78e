"""Re-ranking: popularity corrections and fairness for the lists of any model or system."""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

"""Read tables of many formats as `Interactions`; names are imported when they are first used."""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

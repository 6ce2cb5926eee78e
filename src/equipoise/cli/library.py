"""What commands use of the package: listed in the stub, and imported when a command uses it."""

from equipoise.lazy import attach

__getattr__, __dir__, __all__ = attach(__name__, __file__)

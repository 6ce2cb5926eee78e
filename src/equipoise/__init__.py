"""equipoise: audit low-rank recommenders item by item, and fix them with Item-Weighted PCA.

The public API. Each name is imported when it is first used, which keeps ``import equipoise`` fast.
"""

from equipoise.lazy import attach

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = attach(__name__, __file__)
__all__ += ["__version__"]

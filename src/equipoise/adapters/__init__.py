"""Our models in the shape of other libraries, for code that was written for those.

Each adapter is imported by its own name, because each needs its own library:

- `equipoise.adapters.implicit_like.ImplicitLike`: the arguments and results of implicit's models
"""

from __future__ import annotations

from equipoise.adapters.implicit_like import ImplicitLike

__all__ = ["ImplicitLike"]

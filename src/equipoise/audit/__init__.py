"""How fairly low-rank models treat each item: measured and reported.

The module can be called: ``equipoise.audit(interactions)`` is `equipoise.audit.audit`.
"""

import inspect
import sys
from types import ModuleType

from equipoise.audit.engine import audit
from equipoise.audit.findings import Findings
from equipoise.audit.to_json import to_json
from equipoise.audit.to_markdown import to_markdown

__all__ = ["Findings", "audit", "to_json", "to_markdown"]


class _CallableModule(ModuleType):
    """A module that is also its main function: both have the name ``equipoise.audit``."""

    __call__ = staticmethod(audit)
    __signature__ = inspect.signature(audit)


sys.modules[__name__].__class__ = _CallableModule

"""How fairly low-rank models treat each item: measured and reported.

The module can be called: ``equipoise.audit(interactions)`` is `equipoise.audit.audit`.
"""

import inspect
import sys
from types import ModuleType

from equipoise.audit.dossier.compare import Changes, compare
from equipoise.audit.dossier.two_models import compare_models
from equipoise.audit.engine import audit
from equipoise.audit.findings import Findings
from equipoise.audit.models.given import Embeddings
from equipoise.audit.report.to_json import to_json
from equipoise.audit.report.to_markdown import to_markdown

__all__ = [
    "Changes",
    "Embeddings",
    "Findings",
    "audit",
    "compare",
    "compare_models",
    "to_json",
    "to_markdown",
]


class _CallableModule(ModuleType):
    """A module that is also its main function: both have the name ``equipoise.audit``."""

    __call__ = staticmethod(audit)
    __signature__ = inspect.signature(audit)


sys.modules[__name__].__class__ = _CallableModule

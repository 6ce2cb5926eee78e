"""How fairly low-rank models serve each item: measured, then told."""

from equipoise.audit.comparison import Comparison, ModelSummary, compare
from equipoise.audit.page import render

__all__ = ["Comparison", "ModelSummary", "compare", "render"]

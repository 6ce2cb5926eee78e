"""How fairly low-rank models serve each item: measured, then told."""

from equipoise.audit.engine import audit
from equipoise.audit.findings import Findings
from equipoise.audit.record import to_json
from equipoise.audit.text import to_markdown

__all__ = ["Findings", "audit", "to_json", "to_markdown"]

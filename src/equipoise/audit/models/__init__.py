"""Models as the audit measures them: ours, and those that users bring."""

from equipoise.audit.models.audited import (
    AuditedModel,
    Explained,
    Geometry,
    ItemNumbers,
    Owner,
    Projection,
    ScoreMatrix,
)
from equipoise.audit.models.given import (
    Embeddings,
    audited,
    notes_on,
    read_models,
    with_preparation,
)

__all__ = [
    "AuditedModel",
    "Embeddings",
    "Explained",
    "Geometry",
    "ItemNumbers",
    "Owner",
    "Projection",
    "ScoreMatrix",
    "audited",
    "notes_on",
    "read_models",
    "with_preparation",
]

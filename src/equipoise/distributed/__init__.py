"""Past one machine, and past the memory of one: data in blocks of users.

The solver asks the data one question, G(V) = XᵀXV, which is a sum over blocks of rows. A Dask
cluster answers it with its blocks in the memory of many machines (`DistributedInteractions`),
one process with its blocks on disk (`StreamedInteractions`). Models take either in `fit`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from equipoise.distributed.blocked import BlockedInteractions as BlockedInteractions
    from equipoise.distributed.errors import ClusterError as ClusterError
    from equipoise.distributed.interactions import (
        DistributedInteractions as DistributedInteractions,
    )
    from equipoise.distributed.opening import open_interactions as open_interactions
    from equipoise.distributed.streamed import StreamedInteractions as StreamedInteractions

_HOME = {
    "BlockedInteractions": "equipoise.distributed.blocked",
    "ClusterError": "equipoise.distributed.errors",
    "DistributedInteractions": "equipoise.distributed.interactions",
    "StreamedInteractions": "equipoise.distributed.streamed",
    "open_interactions": "equipoise.distributed.opening",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'equipoise.distributed' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)

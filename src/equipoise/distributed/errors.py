"""What can go wrong between machines, said in one place."""

from __future__ import annotations

from equipoise.exceptions import EquipoiseError


class ClusterError(EquipoiseError, RuntimeError):
    """The cluster could not answer: workers died, the scheduler is gone, memory ran out."""

"""One door for the command line: where the data go is told by what was asked for."""

from __future__ import annotations

from typing import Any

from equipoise.distributed.blocked import BlockedInteractions
from equipoise.exceptions import InvalidParameterError
from equipoise.progress import Progress, task


def open_interactions(
    source: str,
    *,
    memory: str | None = None,
    scheduler: str | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> BlockedInteractions:
    """Read data past one memory: onto a cluster, or onto the disk in blocks.

    Parameters
    ----------
    source : str
        Parquet, local or at a URL; with `memory`, local text files too.
    memory : str, optional
        Read in blocks that let this process do with so much, e.g. "4GB".
    scheduler : str, optional
        Address of a Dask scheduler, e.g. "tcp://10.0.0.1:8786".
    progress : Progress, optional
        Receives the progress; silent by default.
    options
        Of `StreamedInteractions.read` or `DistributedInteractions.from_parquet`.
    """
    if (memory is None) == (scheduler is None):
        raise InvalidParameterError(
            "give either memory (blocks on this machine's disk) or scheduler (a Dask cluster)."
        )
    if memory is not None:
        from equipoise.distributed.streamed import StreamedInteractions

        return StreamedInteractions.read(source, memory=memory, progress=progress, **options)
    from equipoise.data.readers.databases import without_credentials
    from equipoise.distributed.interactions import DistributedInteractions

    with task(progress, f"Reading {without_credentials(source)} onto the cluster"):
        return DistributedInteractions.from_parquet(source, client=scheduler, **options)

"""`DistributedInteractions`: users × items in the memory of a Dask cluster."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from equipoise.data.assembly import Duplicates, check_duplicates_policy
from equipoise.data.interactions import Interactions
from equipoise.data.readers.columns import Columns
from equipoise.data.validation import check_whole_number
from equipoise.distributed.blocked import BlockedInteractions
from equipoise.distributed.blocks import RowBlock
from equipoise.distributed.cluster import ClusterBlocks, compute, require_dask
from equipoise.distributed.errors import ClusterError
from equipoise.distributed.waiting import Patience
from equipoise.exceptions import InvalidParameterError


@dataclass(frozen=True, eq=False, repr=False)
class DistributedInteractions(BlockedInteractions):
    """Users × items in the memory of a Dask cluster, in blocks of users.

    Build it with `from_parquet`, `from_dask` or `from_interactions`; give it to a model's `fit`.
    Items have the order that `Interactions.read` would give them; a block holds the users of one
    hash bucket. The same table in the same number of blocks gives the same bits, whatever the
    number of workers and whatever happened to them.

    Examples
    --------
    ::

        client = distributed.Client("tcp://scheduler:8786")
        plays = DistributedInteractions.from_parquet("s3://bucket/plays/", client=client)
        model = ItemWeightedPCA(n_components=64).fit(plays)
    """

    # one: the sum within a block must not depend on the cores of the machine it is on
    threads_per_block: ClassVar[int | None] = 1

    @classmethod
    def from_parquet(
        cls,
        source: str,
        *,
        client: Any = None,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | None = None,
        timestamp: str | int | None = None,
        duplicates: Duplicates = "sum",
        n_blocks: int | None = None,
        rows_per_task: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
    ) -> Self:
        """Read Parquet files that every worker can reach.

        Parameters
        ----------
        source : str
            File, folder or glob; a path on a file system that all machines share, or a URL that
            fsspec knows (``s3://bucket/folder``).
        client : distributed.Client or str, optional
            Connected, or the scheduler's address. By default the current client of the process.
        user, item, value, timestamp, duplicates
            As in `Interactions.read`.
        n_blocks : int, optional
            Blocks of users. By default one for 4 million rows, at least 8.
        rows_per_task : int, optional
            Rows that one task reads, at least a row group.
        storage_options : mapping, optional
            fsspec's: endpoint, credentials.
        patience : Patience, optional
            How long to wait for a cluster without scheduler or workers.
        """
        from equipoise.distributed import loading, sources

        connected = connect(client)
        check_duplicates_policy(duplicates)
        rows = rows_per_task or sources.ROWS_AT_A_TIME
        parts = sources.parquet_parts(source, storage_options, rows)
        tasks = loading.parquet_tasks(parts, Columns(user, item, value, timestamp))
        return cls._loaded(connected, tasks, n_blocks, duplicates, patience)

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        client: Any = None,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | None = None,
        timestamp: str | int | None = None,
        duplicates: Duplicates = "sum",
        n_blocks: int | None = None,
        patience: Patience | None = None,
    ) -> Self:
        """Take the rows of a Dask DataFrame; arguments as in `from_parquet`."""
        from equipoise.distributed import loading

        connected = connect(client)
        check_duplicates_policy(duplicates)
        if not hasattr(frame, "to_delayed"):
            raise InvalidParameterError(
                f"from_dask takes a Dask DataFrame, got {type(frame).__name__}. Use "
                "Interactions.read for a table in memory."
            )
        tasks = loading.frame_tasks(frame, Columns(user, item, value, timestamp))
        return cls._loaded(connected, tasks, n_blocks, duplicates, patience)

    @classmethod
    def from_interactions(
        cls,
        interactions: Interactions,
        *,
        client: Any = None,
        n_blocks: int = 8,
        patience: Patience | None = None,
    ) -> Self:
        """Send a table that is in memory here, in blocks of neighbouring users.

        The scheduler keeps a copy, so that blocks can be made again: for data of moderate size.
        """
        from dask.delayed import delayed

        connected = connect(client)
        check_whole_number("n_blocks", n_blocks, 1)
        edges = np.linspace(0, interactions.n_users, n_blocks + 1).astype(int)
        blocks = [
            delayed(_rows(interactions, first, last), pure=False, traverse=False)
            for first, last in pairwise(edges)
        ]
        futures = compute(connected, blocks)
        return cls._of(ClusterBlocks(connected, futures, patience), interactions.item_ids)

    @classmethod
    def _loaded(
        cls,
        client: Any,
        tasks: Any,
        n_blocks: int | None,
        duplicates: Duplicates,
        patience: Patience | None,
    ) -> Self:
        from equipoise.distributed import loading

        if n_blocks is not None:
            check_whole_number("n_blocks", n_blocks, 1)
        loaded = loading.load(client, tasks, n_blocks, duplicates)
        return cls._of(ClusterBlocks(client, loaded.futures, patience), loaded.item_ids)


def connect(client: Any = None) -> Any:
    """Return a connected client: the one given, that of an address, or the current one."""
    distributed = require_dask()
    if client is None:
        try:
            return distributed.get_client()
        except ValueError as error:
            raise ClusterError(
                "there is no Dask client. Connect first: distributed.Client('tcp://host:8786'), "
                "or pass client=."
            ) from error
    if not isinstance(client, str):
        return client
    try:
        return distributed.Client(client)
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"no scheduler answers at {client}: {error}. Check the address and that it runs "
            "(dask scheduler)."
        ) from error


def _rows(interactions: Interactions, first: int, last: int) -> RowBlock:
    matrix = interactions.matrix
    times = interactions.timestamps
    entries = slice(matrix.indptr[first], matrix.indptr[last])
    return RowBlock(
        matrix[first:last],
        interactions.user_ids[first:last],
        np.arange(first, last),
        None if times is None else times[entries],
    )

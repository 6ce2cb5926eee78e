"""Blocks of users in the memory of a Dask cluster: one graph per question, one order per sum.

What happens to workers changes who computes a part, never the part: a sum has one tree whatever
the number of workers, and a lost block is read again by the functions that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from equipoise.distributed.blocks import RowBlock, driver_bytes, pairwise_sum, worker_bytes
from equipoise.distributed.errors import ClusterError
from equipoise.distributed.placement import balance
from equipoise.distributed.waiting import Patience, persistently
from equipoise.exceptions import require_extra
from equipoise.memory import require

# Partial sums added in one task. Fixed: it decides the order of the sum.
_FAN_IN = 4


def require_dask(purpose: str = "working on a cluster") -> Any:
    """Return `distributed`, or say which extra brings it."""
    return require_extra("distributed", "dask", purpose)


class ClusterBlocks:
    """Blocks that a cluster holds.

    Parameters
    ----------
    client : distributed.Client
        Connected.
    futures : sequence of distributed.Future
        Of `RowBlock`, in the order in which they are added up.
    patience : Patience, optional
        How long to wait for a cluster without workers or without scheduler.
    """

    def __init__(
        self, client: Any, futures: Sequence[Any], patience: Patience | None = None
    ) -> None:
        self.client = client
        self.futures = list(futures)
        self.patience = patience or Patience()
        self._workers: list[str] = []

    def __len__(self) -> int:
        return len(self.futures)

    def handles(self) -> list[Any]:
        """Return what stands for each block in a question about others."""
        return list(self.futures)

    def collect(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return what the function says of every block, in their order."""

        def ask() -> list[Any]:
            return compute(self.client, self._mapped(function, shared, each))

        return persistently(self.client, ask, self.patience)

    def total(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum over blocks, by one tree of additions whatever the workers."""

        def ask() -> list[Any]:
            return compute(self.client, [_tree(self._mapped(function, shared, each))])

        return persistently(self.client, ask, self.patience)[0]

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Sequence[Any] | None = None
    ) -> ClusterBlocks:
        """Return new blocks, made where the old ones are."""
        made = compute(self.client, self._mapped(function, shared, each))
        return ClusterBlocks(self.client, made, self.patience)

    def check_room(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors do not fit this process or the smallest worker."""
        _check_room_here(n_items, width, columns)
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for address, worker in workers.items():
            if worker["memory_limit"]:
                require(
                    worker_bytes(n_items, width, worker["nthreads"]),
                    f"a pass over {n_items:,} items, {width} vectors at a time, on the worker "
                    f"{address} with {worker['nthreads']} thread(s)",
                    "Its part of the data comes on top. Items are not partitioned: give the "
                    "workers more memory or fewer threads, or use a smaller n_components.",
                    available=worker["memory_limit"],
                    error=ClusterError,
                )

    def _mapped(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Sequence[Any] | None
    ) -> list[Any]:
        """The tasks of one question. What all of them share goes to each worker once.

        It is a task of the graph itself and not `Client.scatter`ed: the scheduler can make it
        again when the workers that hold it die, and waits for none that just did.
        """
        from dask.delayed import delayed

        self._use_new_workers()
        token = uuid4().hex
        told = delayed(shared, pure=False, traverse=False) if shared else ()
        call = delayed(_call, pure=False)
        name = getattr(function, "__name__", "call")
        return [
            call(
                function,
                block,
                told,
                *(each[i] if each is not None else ()),
                dask_key_name=f"{name}-{token}-{i}",
            )
            for i, block in enumerate(self.futures)
        ]

    def _use_new_workers(self) -> None:
        """Give workers that came since the last question their share of the blocks."""
        workers = sorted(self.client.nthreads())
        if workers != self._workers:
            self.futures = balance(self.client, self.futures, workers)
            self._workers = workers


def _check_room_here(n_items: int, width: int, columns: int) -> None:
    """The basis is held where `fit` is called: refuse one that this machine has no memory for."""
    require(
        driver_bytes(n_items, columns, width),
        f"a fit of {n_items:,} items, {width} vectors at a time and {columns} in the basis, in the "
        "process that calls fit",
        "Call it where there is more memory, or use a smaller n_components.",
        error=ClusterError,
    )


def compute(client: Any, tasks: list[Any]) -> list[Any]:
    """Send one graph and return the futures of its results.

    The vectors of a sweep are in it on purpose: no word about its size is needed.
    """
    config = require_extra("dask", "dask", "working on a cluster").config
    with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return list(client.compute(tasks))


def _call(function: Callable[..., Any], block: RowBlock, shared: tuple[Any, ...], *own: Any) -> Any:
    return function(block, *shared, *own)


def _tree(tasks: list[Any]) -> Any:
    """Add up neighbours, and their sums, until one is left."""
    from dask.delayed import delayed

    add = delayed(pairwise_sum, pure=False)
    token, level = uuid4().hex, 0
    while len(tasks) > 1:
        tasks = [
            add(*tasks[first : first + _FAN_IN], dask_key_name=f"sum-{token}-{level}-{first}")
            for first in range(0, len(tasks), _FAN_IN)
        ]
        level += 1
    return tasks[0]

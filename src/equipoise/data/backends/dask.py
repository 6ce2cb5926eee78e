"""Rows in the memory of a Dask cluster: one graph per computation, one order per sum.

Results do not depend on failing workers: a sum has the same tree for any number of workers, and a
lost block is computed again by the functions that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from equipoise.data.backends.placement import balance
from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.block_ops import prepared_block, size_of
from equipoise.data.rows import (
    BlockSize,
    Composed,
    Each,
    Prepare,
    RowBlock,
    Rows,
    driver_bytes,
    own,
    pairwise_sum,
    worker_bytes,
)
from equipoise.exceptions import ClusterError, require_extra
from equipoise.memory import require

# Partial sums added in one task. Fixed: it decides the order of the sum.
_FAN_IN = 4


class _Blocks:
    """The futures of blocks, moved when workers join; shared by all views of the same blocks."""

    def __init__(self, client: Any, futures: Sequence[Any]) -> None:
        self.client = client
        self.futures = list(futures)
        self.sizes: list[BlockSize] | None = None
        self._workers: list[str] = []

    def balanced(self) -> list[Any]:
        """Give workers that joined since the last computation their share of the blocks."""
        workers = sorted(self.client.nthreads())
        if workers != self._workers:
            self.futures = balance(self.client, self.futures, workers)
            self._workers = workers
        return self.futures


class DaskRows(Rows):
    """Blocks that a Dask cluster holds.

    Parameters
    ----------
    client : distributed.Client
        Connected.
    futures : sequence of distributed.Future
        Of `RowBlock`, in the order in which they are added up.
    retry : RetryPolicy, optional
        How long to wait for a cluster without workers or without scheduler.
    """

    # one: the sum within a block must not depend on the number of cores of its machine
    threads_per_block = 1

    def __init__(
        self, client: Any, futures: Sequence[Any], retry: RetryPolicy | None = None
    ) -> None:
        self.client = client
        self.retry = retry or RetryPolicy()
        self._prepare: Prepare | None = None
        self._blocks = _Blocks(client, futures)

    @classmethod
    def scattered(
        cls, client: Any, blocks: Sequence[RowBlock], retry: RetryPolicy | None = None
    ) -> DaskRows:
        """Send blocks that are in this process."""
        connected = connect(client)
        from dask.delayed import delayed

        tasks = [delayed(block, pure=False, traverse=False) for block in blocks]
        return cls(connected, compute(connected, tasks), retry)

    @property
    def futures(self) -> list[Any]:
        """The blocks on the cluster."""
        return self._blocks.futures

    def __len__(self) -> int:
        return len(self._blocks.futures)

    def sizes(self) -> list[BlockSize]:
        """Return the counts of every block; computed once."""
        if self._blocks.sizes is None:
            self._blocks.sizes = self.map(size_of)
        return self._blocks.sizes

    def handles(self) -> list[Any]:
        """Return a placeholder per block: its future."""
        if self._prepare is None:
            return list(self.futures)
        from dask.delayed import delayed

        prepare = delayed(prepared_block, pure=False)
        return [prepare(future, self._prepare) for future in self.futures]

    def map(
        self, function: Callable[..., Any], *shared: Any, each: Each | None = None
    ) -> list[Any]:
        """Return the result for every block, in order."""

        def submit() -> list[Any]:
            return compute(self.client, self._tasks(function, shared, each))

        return with_retries(self.client, submit, self.retry)

    def total(self, function: Callable[..., Any], *shared: Any, each: Each | None = None) -> Any:
        """Return the sum over blocks, by one tree of additions, the same for any workers."""

        def submit() -> list[Any]:
            return compute(self.client, [_tree(self._tasks(function, shared, each))])

        return with_retries(self.client, submit, self.retry)[0]

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Each | None = None
    ) -> DaskRows:
        """Return new blocks, made where the old ones are."""
        made = compute(self.client, self._tasks(function, shared, each))
        return DaskRows(self.client, made, self.retry)

    def prepared(self, prepare: Prepare) -> DaskRows:
        """Return the same blocks with a function applied to each matrix as it is used."""
        view = DaskRows(self.client, (), self.retry)
        view._blocks = self._blocks
        view._prepare = prepare if self._prepare is None else Composed(self._prepare, prepare)
        return view

    def check_memory(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors do not fit this process or the smallest worker."""
        require(
            driver_bytes(n_items, columns, width),
            f"a fit of {n_items:,} items, {width} vectors at a time and {columns} in the basis, in "
            "the process that calls fit",
            "Call it where there is more memory, or use a smaller n_components.",
            error=ClusterError,
        )
        workers = self.client.scheduler_info(n_workers=-1)["workers"]
        for address, worker in workers.items():
            if worker["memory_limit"]:
                require(
                    worker_bytes(n_items, width, worker["nthreads"]),
                    f"a pass over {n_items:,} items, {width} vectors at a time, on the worker "
                    f"{address} with {worker['nthreads']} thread(s)",
                    "Its part of the data needs more on top. Items are not partitioned: give the "
                    "workers more memory or fewer threads, or use a smaller n_components.",
                    available=worker["memory_limit"],
                    error=ClusterError,
                )

    def _tasks(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Each | None
    ) -> list[Any]:
        """The tasks of one computation. Shared arguments go to each worker once.

        They are a task of the graph itself and not scattered: the scheduler can recompute them
        when the workers that hold them die, and does not wait for a worker that just died.
        """
        from dask.delayed import delayed

        blocks = self._blocks.balanced()
        token = uuid4().hex
        common = delayed((function, self._prepare, shared), pure=False, traverse=False)
        call = delayed(_call, pure=False)
        name = getattr(function, "__name__", "call")
        return [
            call(block, common, *own(each, i), dask_key_name=f"{name}-{token}-{i}")
            for i, block in enumerate(blocks)
        ]


def connect(client: Any = None) -> Any:
    """Return a connected client: the one given, that of an address, or the current one."""
    distributed = require_extra("distributed", "dask", "working on a cluster")
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
            f"no scheduler responds at {client}: {error}. Check the address and that it runs "
            "(dask scheduler)."
        ) from error


def compute(client: Any, tasks: list[Any]) -> list[Any]:
    """Send one graph and return the futures of its results.

    It contains the vectors of a product on purpose, so Dask's warning about its size is off.
    """
    config = require_extra("dask", "dask", "working on a cluster").config
    with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return list(client.compute(tasks))


def _call(block: RowBlock, common: tuple[Any, ...], *arguments: Any) -> Any:
    function, prepare, shared = common
    return function(prepared_block(block, prepare), *shared, *arguments)


def _tree(tasks: list[Any]) -> Any:
    """Add adjacent results, then their sums, until one is left."""
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

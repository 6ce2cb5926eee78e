"""Rows in the memory of a Dask cluster: one graph per computation, one order per sum.

Results do not depend on failing workers: a sum has the same tree for any number of workers, and a
lost block is computed again by the functions that made it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.block_ops import prepared_block, size_of, whole
from equipoise.data.rows import (
    BlockSize,
    Each,
    RowBlock,
    Rows,
    driver_bytes,
    pairwise_sum,
    worker_bytes,
)
from equipoise.exceptions import ClusterError, explained, require_extra
from equipoise.memory import require

# Partial sums added in one task. Fixed: it decides the order of the sum.
_FAN_IN = 4


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
        self.futures = list(futures)
        self._sizes: list[BlockSize] | None = None
        self._workers: list[str] = []

    @classmethod
    def scattered(
        cls, client: Any, blocks: Sequence[RowBlock], retry: RetryPolicy | None = None
    ) -> DaskRows:
        """Send blocks that are in this process."""
        connected = connect(client)
        from dask.delayed import delayed

        tasks = [delayed(block, pure=False, traverse=False) for block in blocks]
        return cls(connected, compute(connected, tasks), retry)

    def __len__(self) -> int:
        return len(self.futures)

    def sizes(self) -> list[BlockSize]:
        """Return the counts of every block; computed once."""
        if self._sizes is None:
            self._sizes = self.map(size_of)
        return self._sizes

    def handles(self) -> list[Any]:
        """Return a placeholder per block: its future."""
        if not self._prepares:
            return list(self.futures)
        from dask.delayed import delayed

        prepare = delayed(prepared_block, pure=False)
        return [prepare(future, self._prepares) for future in self.futures]

    def map(
        self, function: Callable[..., Any], *shared: Any, each: Each | None = None
    ) -> list[Any]:
        """Return the result for every block, in order."""
        return self._results(lambda: self._tasks(function, shared, each))

    def total(self, function: Callable[..., Any], *shared: Any, each: Each | None = None) -> Any:
        """Return the sum over blocks, by one tree of additions, the same for any workers."""
        return self._results(
            lambda: [reduced(pairwise_sum, self._tasks(function, shared, each), _FAN_IN)]
        )[0]

    def _results(self, tasks: Callable[[], list[Any]]) -> list[Any]:
        return with_retries(self.client, lambda: compute(self.client, tasks()), self.retry)

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Each | None = None
    ) -> DaskRows:
        """Return new blocks, made where the old ones are."""
        made = compute(self.client, self._tasks(function, shared, each))
        return DaskRows(self.client, made, self.retry)

    def _balanced(self) -> list[Any]:
        """Give workers that joined since the last computation their share of the blocks."""
        workers = sorted(self.client.nthreads())
        if workers != self._workers:
            # in place: views of the same blocks share the list
            self.futures[:] = balance(self.client, self.futures, workers)
            self._workers = workers
        return self.futures

    def check_memory(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors do not fit this process or the smallest worker."""
        require(
            driver_bytes(n_items, columns, width),
            f"a fit of {n_items:,} items, {width} vectors at a time and {columns} in the basis, in "
            "the process that calls fit",
            "Call it where there is more memory, or fit fewer components.",
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
                    "workers more memory or fewer threads, or fit fewer components.",
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

        blocks = self._balanced()
        own = each or [()] * len(blocks)
        token = uuid4().hex
        common = delayed((function, self._prepares, shared), pure=False, traverse=False)
        call = delayed(_call, pure=False)
        name = getattr(function, "__name__", "call")
        return [
            call(block, common, *arguments, dask_key_name=f"{name}-{token}-{i}")
            for i, (block, arguments) in enumerate(zip(blocks, own, strict=True))
        ]


def connect(client: Any = None) -> Any:
    """Return a connected client: the one given, that of an address, or the current one."""
    distributed = require_extra("distributed", "dask", "working on a cluster")
    if client is None:
        problem = "no Dask client. Connect first: distributed.Client('tcp://host:8786')"
        with explained(problem, ValueError, kind=ClusterError):
            return distributed.get_client()
    if not isinstance(client, str):
        return client
    problem = f"no scheduler responds at {client}. Check the address and that `dask scheduler` runs"
    with explained(problem, OSError, TimeoutError, ValueError, kind=ClusterError):
        return distributed.Client(client)


def compute(client: Any, tasks: list[Any]) -> list[Any]:
    """Send one graph and return the futures of its results.

    It contains the vectors of a product on purpose, so Dask's warning about its size is off.
    """
    config = require_extra("dask", "dask", "working on a cluster").config
    with config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return list(client.compute(tasks))


def _call(block: RowBlock, common: tuple[Any, ...], *arguments: Any) -> Any:
    function, prepares, shared = common
    return function(prepared_block(block, prepares), *shared, *arguments)


def reduced(function: Callable[..., Any], tasks: list[Any], fan_in: int) -> Any:
    """Join adjacent results, then what they gave, until one is left."""
    from dask.delayed import delayed

    join = delayed(function, pure=False)
    token, level = uuid4().hex, 0
    while len(tasks) > 1:
        tasks = [
            join(
                *tasks[first : first + fan_in],
                dask_key_name=f"{function.__name__}-{token}-{level}-{first}",
            )
            for first in range(0, len(tasks), fan_in)
        ]
        level += 1
    return tasks[0]


# ---------------------------------------- which worker holds which block


def spread(n_blocks: int, workers: Sequence[str]) -> list[str]:
    """Return a worker for each block; adjacent blocks, which are added first, share one.

    Examples
    --------
    >>> spread(5, ["a", "b"])
    ['a', 'a', 'a', 'b', 'b']
    """
    return [workers[i * len(workers) // n_blocks] for i in range(n_blocks)]


def moves(holders: Sequence[str | None], workers: Sequence[str]) -> dict[int, str]:
    """Return block → worker: the fewest moves after which no worker has more than its share.

    Parameters
    ----------
    holders : sequence of str or None
        The worker of each block; None while it is being recomputed.
    workers : sequence of str
        All workers.

    Examples
    --------
    >>> moves(["a", "a", "a", "a"], ["a", "b"])
    {2: 'b', 3: 'b'}
    >>> moves(["a", "a", "b", None], ["a", "b"])
    {}
    """
    known = [holder for holder in holders if holder in workers]
    share = -(-len(known) // max(1, len(workers)))
    load = {worker: known.count(worker) for worker in workers}
    found: dict[int, str] = {}
    for block in reversed(range(len(holders))):
        holder = holders[block]
        if holder not in load or load[holder] <= share:
            continue
        lightest = min(workers, key=lambda worker: (load[worker], worker))
        load[holder] -= 1
        load[lightest] += 1
        found[block] = lightest
    return dict(sorted(found.items()))


def balance(client: Any, futures: list[Any], workers: Sequence[str]) -> list[Any]:
    """Move blocks to workers that have less than their share; the blocks do not change.

    A move is a task that returns the block: if its new worker dies, the scheduler can still
    recompute the block.
    """
    if not workers:
        return futures
    places = client.who_has(futures)
    # a block that several workers hold counts for the first: it can be moved without harm
    holders = [next(iter(sorted(places.get(future.key) or ())), None) for future in futures]
    moved = list(futures)
    for block, worker in moves(holders, workers).items():
        moved[block] = client.submit(
            whole,
            futures[block],
            workers=[worker],
            allow_other_workers=True,
            key=f"moved-{uuid4().hex}-{block}",
        )
    return moved

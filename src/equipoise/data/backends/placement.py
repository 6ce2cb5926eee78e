"""Which worker holds which block: adjacent blocks together, new workers get their share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import uuid4


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
            _same,
            futures[block],
            workers=[worker],
            allow_other_workers=True,
            key=f"moved-{uuid4().hex}-{block}",
        )
    return moved


def _same(block: Any) -> Any:
    return block

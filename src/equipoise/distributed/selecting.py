"""The k-th of all times without sorting them in one place: ask for marks, count, narrow down."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.split import required_times
from equipoise.distributed.blocks import BlockSet, RowBlock

# A block's values are cut into so many parts a round, and the search goes on in about one of them:
# 100 billion values are down to a hundred thousand after two rounds.
_MARKS = 1000


class _Between(NamedTuple):
    """Times above `low` and below `high`."""

    low: Any
    high: Any


def kth_time(blocks: BlockSet, k: int, *, marks: int = _MARKS) -> Any:
    """Return the time at place `k`, from 0, of the times of all blocks in ascending order.

    Parameters
    ----------
    blocks : BlockSet
        With `k` + 1 times at least.
    k : int
        Which one.
    marks : int
        Into how many parts a block cuts its times each round.
    """
    span: _Between | None = None
    while True:
        found = [each for each in blocks.collect(_marks, span, marks) if len(each)]
        candidates = np.unique(np.concatenate(found))
        below, up_to = blocks.total(_counted, candidates)
        place = int(np.searchsorted(up_to, k, side="right"))  # the first with more than k up to it
        if below[place] <= k:
            return candidates[place]
        # the first and the last of the span are candidates, so that it lies between two of them
        span = _Between(candidates[place - 1], candidates[place])


def _marks(block: RowBlock, span: _Between | None, count: int) -> NDArray[Any]:
    """Evenly spaced among the block's sorted times within the span, the first and last included."""
    times = required_times(block.timestamps, "temporal")
    if span is not None:
        times = times[(times > span.low) & (times < span.high)]
    times = np.sort(times)
    places = np.linspace(0, len(times) - 1, min(len(times), count + 1)).astype(np.intp)
    return times[places]


def _counted(block: RowBlock, candidates: NDArray[Any]) -> NDArray[np.int64]:
    """How many of the block's times are below each candidate, and how many below or equal."""
    times = np.sort(required_times(block.timestamps, "temporal"))
    sides = [np.searchsorted(times, candidates, side=side) for side in ("left", "right")]
    return np.array(sides, dtype=np.int64)

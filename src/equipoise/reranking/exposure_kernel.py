"""The best list of every user at given prices, compiled by numba on first use."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.parallel import compile_loop, in_threads, thread_count

# Fewer users are not worth a thread: some 50 µs to start one, about 1 µs per user.
_FEWEST_USERS = 2048


def _best_lists(
    items: Any,
    scores: Any,
    prices: Any,
    highest: float,
    discount: Any,
    start: int,
    stop: int,
    exposure: Any,
    order: Any,
) -> tuple[float, float]:
    """Fill `order`, add to `exposure`, and return the sum of relevance and of all exposure.

    The relevance is the score scaled to [0, 1] between the first and the last candidate. Candidates
    come in descending order, so the search stops where no later one can enter the list.
    """
    longest, length = items.shape[1], len(discount)
    values, places = np.empty(length), np.empty(length, np.int64)
    relevance, total = 0.0, 0.0
    for user in range(start, stop):
        known = longest
        while known > 0 and items[user, known - 1] < 0:
            known -= 1
        if known == 0:
            continue
        low = scores[user, known - 1]
        width = scores[user, 0] - low
        size = 0
        for j in range(known):
            own = (scores[user, j] - low) / width if width > 0 else 1.0
            if size == length and own + highest <= values[length - 1]:
                break
            value = own + prices[items[user, j]]
            if size < length:
                p = size
                size += 1
            elif value > values[length - 1]:
                p = length - 1
            else:
                continue
            while p > 0 and values[p - 1] < value:
                values[p], places[p] = values[p - 1], places[p - 1]
                p -= 1
            values[p], places[p] = value, j
        for p in range(size):
            item = items[user, places[p]]
            exposure[item] += discount[p]
            relevance += discount[p] * (values[p] - prices[item])
            total += discount[p]
            if order.shape[0]:
                order[user, p] = places[p]
    return relevance, total


@cache
def _kernel() -> Any:
    return compile_loop(_best_lists)


def best_lists(
    items: NDArray[Any],
    scores: NDArray[Any],
    prices: NDArray[np.float64],
    discount: NDArray[np.float64],
    *,
    with_order: bool = False,
) -> tuple[float, float, NDArray[np.float64], NDArray[np.int32]]:
    """Return relevance, total exposure, exposure per item, and the order of the candidates.

    Parameters
    ----------
    items, scores : ndarray of shape (n, m)
        Candidates, best first; −1 where a list is shorter.
    prices : ndarray of shape (n_items,)
        What is added to the relevance of an item.
    discount : ndarray of shape (k,)
        Exposure of each place, descending.
    with_order : bool
        Return the lists, too; otherwise they have no rows.
    """
    n = len(items)
    order = np.full((n if with_order else 0, len(discount)), -1, np.int32)
    parts = max(1, min(thread_count(), n // _FEWEST_USERS))
    bounds = np.linspace(0, n, parts + 1).astype(np.int64)
    exposure = np.zeros((parts, len(prices)))
    highest = float(prices.max(initial=0.0))
    run = _kernel()

    def work(part: int) -> tuple[float, float]:
        rows = int(bounds[part]), int(bounds[part + 1])
        return run(items, scores, prices, highest, discount, *rows, exposure[part], order)

    sums = np.array(in_threads(work, parts)).sum(axis=0)
    return float(sums[0]), float(sums[1]), exposure.sum(axis=0), order

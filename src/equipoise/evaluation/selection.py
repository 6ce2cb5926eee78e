"""Top-k again and again: for scores that changed a little, the last list is a good guess.

The k items of a near-by ranking have k scores in the new one, so nothing below their smallest can
enter the list. Nearly all items are dismissed by that one comparison, which runs as SIMD; from
rank to rank and from filter to filter this is several times faster than starting anew. The result
is that of `equipoise.models.ranking.rank_items`: higher scores first, then the lower item index.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.compiled import compile_loop
from equipoise.models.ranking import rank_items

Lists = NDArray[np.int32]


def top_items(
    scores: NDArray[Any],
    seen: sp.csr_array,
    k: int,
    guess: Lists | None = None,
    *,
    compiled: bool = False,
) -> Lists:
    """Return the k best unseen items of each row of scores, -1 where fewer are left.

    Parameters
    ----------
    scores : ndarray of shape (n, n_items)
        Finite; C-contiguous float32 or float64.
    seen : csr_array of shape (n, n_items)
        What to leave out.
    k : int
        Length of the lists.
    guess : ndarray of shape (n, k), optional
        Lists of unseen items from similar scores; the result does not depend on them.
    compiled : bool
        Pays from some million scores on; the result does not depend on it.

    Examples
    --------
    >>> scores = np.array([[0.5, 2.0, 2.0, 1.0]])
    >>> top_items(scores, sp.csr_array([[0, 1.0, 0, 0]]), 2).tolist()
    [[2, 3]]
    """
    return _top_compiled(scores, seen, k, guess) if compiled else _top_plain(scores, seen, k)


def _top_plain(scores: NDArray[Any], seen: sp.csr_array, k: int) -> Lists:
    whole = max(1, scores.size * 8)  # one block, as rank_items counts its bytes
    n_users, n_items = scores.shape
    ranked = rank_items(
        lambda _: scores, n_users, n_items, k, seen=seen, excluded=None, block_bytes=whole
    )
    return ranked.ids.astype(np.int32)


def _top_compiled(scores: NDArray[Any], seen: sp.csr_array, k: int, guess: Lists | None) -> Lists:
    n_users, n_items = scores.shape
    kept = min(k, n_items)
    start = np.full((n_users, kept), -1, np.int32)
    if guess is not None:
        start[:] = guess[:, :kept]
    lists = np.full((n_users, k), -1, np.int32)
    # One index width: scipy picks int32 or int64 by size, and each would compile its own loop.
    pattern = seen.indptr.astype(np.int64), seen.indices.astype(np.int64)
    lists[:, :kept] = _loop()(scores, *pattern, start)
    return lists


@cache
def _loop() -> Callable[..., Any]:
    return compile_loop(_select_rows)


def _select_rows(scores: Any, indptr: Any, indices: Any, guess: Any) -> Any:
    """Return the best of each row, best first; -1 where there are fewer.

    A heap keeps the best so far with the worst of them at its root. Items of the guess enter
    first and are then masked like seen ones, so that none enters twice.
    """

    def sift_down(items: Any, values: Any, size: int, item: int, value: float) -> None:
        """Put (item, value) in place of the root and restore the heap."""
        hole, child = 0, 1
        while child < size:
            right = child + 1
            if right < size and (
                values[right] < values[child]
                or (values[right] == values[child] and items[right] > items[child])
            ):
                child = right
            if value < values[child] or (value == values[child] and item > items[child]):
                break
            items[hole], values[hole] = items[child], values[child]
            hole, child = child, 2 * child + 1
        items[hole], values[hole] = item, value

    n, m = scores.shape
    kept = guess.shape[1]
    lists = np.empty((n, kept), np.int32)
    values = np.empty(kept, scores.dtype)
    masked = np.zeros(m, np.bool_)
    for i in range(n):
        row, items = scores[i], lists[i]
        items[:] = m  # worse than any item, with a score below any
        values[:] = -np.inf
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = True
        for place in range(kept):
            item = guess[i, place]
            if item >= 0 and not masked[item]:
                masked[item] = True
                sift_down(items, values, kept, item, row[item])
        for start in range(0, m, 64):
            stretch, worst = row[start : start + 64], values[0]
            # without a branch, so that the compiler makes it SIMD
            any_better = False
            for j in range(stretch.size):
                any_better |= stretch[j] >= worst
            if not any_better:
                continue
            for j in range(stretch.size):
                value, item = stretch[j], start + j
                if (value > values[0] or (value == values[0] and item < items[0])) and not masked[
                    item
                ]:
                    sift_down(items, values, kept, item, value)
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = False
        for place in range(kept):
            if guess[i, place] >= 0:
                masked[guess[i, place]] = False
        for last in range(kept - 1, 0, -1):
            item, value = items[0], values[0]
            sift_down(items, values, last, items[last], values[last])
            items[last], values[last] = item, value
        for place in range(kept):
            if items[place] == m:
                items[place] = -1
    return lists

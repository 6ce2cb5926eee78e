"""Compiled top-k selection per row. Importing this module imports numba.

`equipoise.models.ranking` defines the order of items. Its NumPy path is the reference for these
loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.kernels import keep_best, replace_root, settle
from equipoise.parallel import compile_loop


def _masked_row(row: Any, seen: Any, excluded: Any, room: Any) -> Any:
    """Return the row with -inf for what must not be recommended; NaN stays, to be refused."""
    if seen.shape[0] == 0 and excluded.shape[0] == 0:
        return row
    for item in range(row.shape[0]):
        room[item] = row[item]
    for e in range(seen.shape[0]):
        own = np.uint64(seen[e])
        room[own] = -np.inf if row[own] > -np.inf else row[own]
    for item in range(excluded.shape[0]):
        if excluded[item] and row[item] > -np.inf:
            room[item] = -np.inf
    return room


masked_row = compile_loop(_masked_row, inline=True)


def _set_bar(row: Any, guess: Any, limit: Any, factor: Any, margin: Any, scores: Any) -> None:
    """Let `scores` begin with a number that the best of the row are above, for `keep_best`.

    As many different items as are kept have scores above it. Scores that tie with the smallest of
    these are smaller by at most the margin or the limit.
    """
    scores[0] = np.inf
    for place in range(guess.shape[0]):
        score = row[np.uint64(guess[place])] if guess[place] >= 0 else -np.inf
        scores[0] = min(scores[0], score)
    worst = settle(scores[0], limit, factor)
    below = max(abs(worst) * margin, limit)
    scores[0] = worst - 2 * below - 1e-37 if abs(worst) < np.inf else -np.inf


set_bar = compile_loop(_set_bar, inline=True)


def _sort_heap(row: Any, ids: Any, scores: Any) -> None:
    """Bring the heap into order, best first, with the model's own scores; places may stay empty.

    Among ties, scores never increase along the list.
    """
    for last in range(ids.shape[0] - 1, 0, -1):
        item, score = ids[0], scores[0]
        replace_root(ids, scores, last, ids[last], scores[last])
        ids[last], scores[last] = item, score
    for place in range(ids.shape[0]):
        if ids[place] == row.shape[0]:
            ids[place], scores[place] = -1, np.nan
        else:
            score = row[np.uint64(ids[place])]
            scores[place] = scores[place - 1] if place and score > scores[place - 1] else score


sort_heap = compile_loop(_sort_heap, inline=True)


def _select_rows(
    block: Any,
    indptr: Any,
    indices: Any,
    excluded: Any,
    limits: Any,
    factor: Any,
    margin: Any,
    guess: Any,
    ids: Any,
    scores: Any,
    room: Any,
) -> Any:
    """Write the best of each row to `ids` and `scores`; return the flat index of a NaN, or -1."""
    n, m = block.shape
    for i in range(n):
        row = masked_row(block[i], indices[indptr[i] : indptr[i + 1]], excluded, room)
        set_bar(row, guess[i], limits[i], factor, margin, scores[i])
        nan = keep_best(row, limits[i], factor, ids[i], scores[i])
        if nan >= 0:
            return i * m + nan
        sort_heap(block[i], ids[i], scores[i])
    return -1


select_rows = compile_loop(_select_rows)

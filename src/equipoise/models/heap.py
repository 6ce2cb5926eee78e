"""Compiled top-k selection per row. Importing this module imports numba.

`equipoise.models.ranking` defines the order of items. Its NumPy path is the reference for these
loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.kernels import replace_root, settle
from equipoise.parallel import compile_loop

# Scores compared at a time: enough for SIMD, few enough to check one by one afterwards.
_STRETCH = 64


def _lowest_tie(worst: Any, limit: Any, margin: Any) -> Any:
    """Return a lower bound of all scores that tie with `worst`."""
    return worst - max(abs(worst) * margin, limit)


lowest_tie = compile_loop(_lowest_tie)


def _any_candidate(stretch: Any, worst: float, lowest: float, ties: bool) -> Any:
    """Return whether one of the scores may enter or is NaN; no branch in the loops, for SIMD.

    A score that is not above the worst kept, which is settled, is not above it when settled. One
    that is below it may still tie with it, down to `lowest`.
    """
    found = False
    if ties:
        for j in range(stretch.size):
            found |= not (stretch[j] < lowest)
    else:
        for j in range(stretch.size):
            found |= not (stretch[j] <= worst)
    return found


any_candidate = compile_loop(_any_candidate)


def _keep_best(
    row: Any, masked: Any, limit: Any, factor: Any, margin: Any, ids: Any, scores: Any
) -> Any:
    """Pass over the row once, keeping its best in the heap; return where NaN is, or -1."""
    m, kept = row.shape[0], ids.shape[0]
    spots = np.empty(_STRETCH, np.int64)
    lowest = lowest_tie(scores[0], limit, margin)
    for start in range(0, m, _STRETCH):
        stop = min(start + _STRETCH, m)
        # An item that only equals the worst kept wins the tie against a later one alone: in a
        # heap that is not yet full, or against a guess.
        if not any_candidate(row[start:stop], scores[0], lowest, ids[0] > start):
            continue
        count = 0
        for item in range(start, stop):  # no branch either: most of the scores are below
            spots[count] = item
            count += not (row[item] < lowest)
        for place in range(count):
            item = spots[place]
            score = row[item]
            if score != score:
                return item
            if score < lowest or masked[item]:
                continue
            score = settle(score, limit, factor)
            if score > scores[0] or (score == scores[0] and item < ids[0]):
                replace_root(ids, scores, kept, item, score)
                lowest = lowest_tie(scores[0], limit, margin)
    return -1


keep_best = compile_loop(_keep_best)


def _own_scores(row: Any, ids: Any, scores: Any) -> None:
    """Restore the model's scores; among ties, scores never increase along the list."""
    for place in range(ids.shape[0]):
        if ids[place] >= 0:
            score = row[ids[place]]
            scores[place] = scores[place - 1] if place and score > scores[place - 1] else score


own_scores = compile_loop(_own_scores)


def _sort_heap(ids: Any, scores: Any, nothing: int) -> None:
    """Bring the heap into order, best first; places still empty become (-1, NaN)."""
    for last in range(ids.shape[0] - 1, 0, -1):
        item, score = ids[0], scores[0]
        replace_root(ids, scores, last, ids[last], scores[last])
        ids[last], scores[last] = item, score
    for place in range(ids.shape[0]):
        if ids[place] == nothing:
            ids[place], scores[place] = -1, np.nan


sort_heap = compile_loop(_sort_heap)


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
) -> Any:
    """Write the best of each row to `ids` and `scores`; return the flat index of a NaN, or -1.

    The heap starts full of (m, -inf), which is worse than any item, so it never grows. Items
    of the guess enter first and are then masked like seen ones, so none enters twice.
    """
    n, m = block.shape
    kept = ids.shape[1]
    masked = excluded.copy()
    for i in range(n):
        row, heap, values = block[i], ids[i], scores[i]
        heap[:] = m
        values[:] = -np.inf
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = True
        for item in guess[i]:
            if item >= 0 and not masked[item]:
                masked[item] = True
                value = settle(row[item], limits[i], factor)
                replace_root(heap, values, kept, item, value)
        nan = keep_best(row, masked, limits[i], factor, margin, heap, values)
        if nan >= 0:
            return i * m + nan
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = excluded[indices[e]]
        for item in guess[i]:
            if item >= 0:
                masked[item] = excluded[item]
        sort_heap(heap, values, m)
        own_scores(row, heap, values)
    return -1


select_rows = compile_loop(_select_rows)

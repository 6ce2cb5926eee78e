"""Compiled inner loops. Import this module only where the work is large: it brings in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.compiled import compile_loop, in_threads, thread_count

# Compiled by a call, not by a decorator: the loops themselves stay plain Python that can be read,
# typed and stepped through.


def _count_below(ascending: Any, start: int, stop: int, value: float) -> Any:
    """Return the place of value among the sorted entries, known to lie in [start, stop]."""
    while start < stop:
        middle = (start + stop) >> 1
        if ascending[middle] < value:
            start = middle + 1
        else:
            stop = middle
    return start


count_below = compile_loop(_count_below)


def _sift_down(heap: Any, users: Any, place: int, length: int) -> None:
    """Restore the heap: the root is the first to go, lowest score and then highest index."""
    while True:
        child = 2 * place + 1
        if child >= length:
            return
        right = child + 1
        if right < length and (
            heap[right] < heap[child]
            or (heap[right] == heap[child] and users[right] > users[child])
        ):
            child = right
        if heap[child] > heap[place] or (
            heap[child] == heap[place] and users[child] <= users[place]
        ):
            return
        heap[child], heap[place] = heap[place], heap[child]
        users[child], users[place] = users[place], users[child]
        place = child


sift_down = compile_loop(_sift_down)


def _top_users(scores: Any, k: int) -> Any:
    """Return the k users with the highest scores; of equal scores the smaller index stays."""
    heap = scores[:k].copy()
    users = np.arange(k)
    for place in range(k // 2 - 1, -1, -1):
        sift_down(heap, users, place, k)
    for user in range(k, scores.shape[0]):
        if scores[user] > heap[0]:
            heap[0] = scores[user]
            users[0] = user
            sift_down(heap, users, 0, k)
    return users


top_users = compile_loop(_top_users)


def _run_ends(ascending: Any) -> Any:
    """Return for each sorted entry where the run of entries equal to it ends."""
    n = ascending.shape[0]
    ends = np.empty(n, np.int64)
    ends[n - 1] = n
    for a in range(n - 2, -1, -1):
        ends[a] = ends[a + 1] if ascending[a] == ascending[a + 1] else a + 1
    return ends


run_ends = compile_loop(_run_ends)


def _auc_of(scores: Any, positives: Any) -> Any:
    """Return the AUC of one item from the sorted scores of its positives."""
    n_positive = positives.shape[0]
    n_negative = scores.shape[0] - n_positive
    if n_positive == 0 or n_negative == 0:
        return np.nan
    lowest, highest = positives[0], positives[n_positive - 1]
    # Bins of equal width over the positives narrow the search to one or two entries. The bin
    # never falls as the score rises, so entries of lower bins are below, whatever the rounding.
    n_bins = 4 * n_positive
    width = (highest - lowest) / n_bins
    per_unit = 1.0 / width if width > 1e-300 else 0.0
    first = np.empty(n_bins + 2, np.int64)
    place = 0
    for b in range(n_bins + 2):
        while place < n_positive and (positives[place] - lowest) * per_unit < b:
            place += 1
        first[b] = place
    ends = run_ends(positives)
    twice = 0
    for user in range(scores.shape[0]):
        score = scores[user]
        if score < lowest:
            twice += 2 * n_positive
        elif score <= highest:
            b = min(int((score - lowest) * per_unit), n_bins)
            below = count_below(positives, first[b], first[b + 1], score)
            not_above = below
            if below < n_positive and positives[below] == score:
                not_above = ends[below]
            twice += 2 * n_positive - below - not_above
    # every positive was counted against the positives too: n_positive² / 2 pairs in all
    return (twice - n_positive * n_positive) / (2.0 * n_positive * n_negative)


auc_of = compile_loop(_auc_of)


def _score_items(
    scores: Any,
    diagonal: Any,
    items: Any,
    input_ptr: Any,
    input_users: Any,
    input_values: Any,
    label_ptr: Any,
    label_users: Any,
    k: int,
    cancelled: float,
    auc: Any,
    precision: Any,
) -> None:
    """Fill AUC and precision for a block of items."""
    for b in range(items.shape[0]):
        j = items[b]
        row = scores[b].copy()
        for p in range(input_ptr[j], input_ptr[j + 1]):
            own = diagonal[b] * input_values[p]
            rest = row[input_users[p]] - own
            row[input_users[p]] = 0.0 if abs(rest) <= cancelled * abs(own) else rest
        users = label_users[label_ptr[j] : label_ptr[j + 1]]
        auc[b] = auc_of(row, np.sort(row[users]))
        precision[b] = np.nan
        if k > 0 and users.shape[0] > 0:
            hits = 0
            for user in top_users(row, k):
                place = np.searchsorted(users, user)
                hits += place < users.shape[0] and users[place] == user
            precision[b] = hits / k


_score = compile_loop(_score_items)


def score_items(
    scores: Any, diagonal: Any, items: Any, *data: Any, auc: Any, precision: Any
) -> None:
    """Fill AUC and precision for a block of items, shared among threads."""
    threads = min(len(items), thread_count())
    edges = np.linspace(0, len(items), threads + 1).astype(int).tolist()

    def run(thread: int) -> None:
        part = slice(edges[thread], edges[thread + 1])
        own = (scores[part], diagonal[part], items[part])
        _score(*own, *data, auc[part], precision[part])

    in_threads(run, threads)

"""Compiled inner loops. Import this module only where the work is large: it brings in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.ties import settle as _settle
from equipoise.parallel import compile_loop, in_threads, thread_count

# Bins in which scores are counted: many per positive, so few scores share a bin with it, and no
# more than fit into the second-level cache.
_BINS_PER_POSITIVE, _MOST_BINS = 32, 2**14

# Positives in one bin up to which they are sorted by their bins, by insertion within a bin. A
# general sort takes longer than everything else; it is used if a bin has more.
_MOST_IN_BIN = 16

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


def _fill_bins(scores: Any, lowest: float, highest: float, n_bins: int, bins: Any) -> None:
    """Cut [lowest, highest] into bins 1 … n_bins; 0 is below, n_bins + 1 above (or NaN).

    The bin never falls as the score rises, despite rounding, so scores of different bins are in
    the order of the bins. No branch in the loop, for SIMD.
    """
    width = (highest - lowest) / n_bins
    per_unit = 1.0 / width if width > 1e-300 else 0.0
    last = n_bins - 1.0
    for user in range(scores.shape[0]):
        score = scores[user]
        place = (score - lowest) * per_unit
        inside = 1 + np.int32(place if place < last else last)
        at_most = inside if score <= highest else n_bins + 1
        bins[user] = 0 if score < lowest else at_most


fill_bins = compile_loop(_fill_bins)


def _mark_bins(bins: Any, n_bins: int, marks: Any) -> Any:
    """Mark each bin with how many entries are in lower ones, and whether some are in it.

    Both are in one number, 2 · lower + some, for one access per score. Returns how many entries
    the fullest bin has.
    """
    marks[: n_bins + 3] = 0
    fullest = 0
    for p in range(bins.shape[0]):
        marks[bins[p] + 1] += 1
        fullest = max(fullest, marks[bins[p] + 1])
    lower = 0
    for b in range(n_bins + 2):
        lower += marks[b]
        marks[b] = 2 * lower + (marks[b + 1] > 0)
    marks[n_bins + 2] = 2 * (lower + marks[n_bins + 2])
    return fullest


mark_bins = compile_loop(_mark_bins)


def _sort_by_bins(values: Any, bins: Any, marks: Any) -> Any:
    """Return the values sorted; each starts at the first place of its bin. NaN is a free place."""
    ordered = np.full(values.shape[0], np.nan, values.dtype)
    for p in range(values.shape[0]):
        value, place = values[p], marks[bins[p]] >> 1
        while ordered[place] < value:
            place += 1
        while ordered[place] == ordered[place]:
            ordered[place], value = value, ordered[place]
            place += 1
        ordered[place] = value
    return ordered


sort_by_bins = compile_loop(_sort_by_bins)


def _auc_of(scores: Any, unsorted: Any, bins: Any, close: Any, marks: Any) -> Any:
    """Return the AUC of one item from all scores and those of its positives.

    The bin of a score settles its place among the positives, unless some are in the same bin:
    those scores alone are searched for. `bins` and `close` have one entry per user, `marks` one per
    bin and three more.
    """
    n_users, n_positive = scores.shape[0], unsorted.shape[0]
    n_negative = n_users - n_positive
    if n_positive == 0 or n_negative == 0:
        return np.nan
    n_bins = min(_BINS_PER_POSITIVE * n_positive, _MOST_BINS)
    lowest, highest = unsorted.min(), unsorted.max()
    fill_bins(unsorted, lowest, highest, n_bins, bins)
    fullest = mark_bins(bins[:n_positive], n_bins, marks)
    few = fullest <= _MOST_IN_BIN
    positives = sort_by_bins(unsorted, bins, marks) if few else np.sort(unsorted)
    fill_bins(scores, lowest, highest, n_bins, bins)
    lower = 0
    n_close = 0
    for user in range(n_users):
        mark = marks[bins[user]]
        lower += mark >> 1
        close[n_close] = user
        n_close += mark & 1
    twice = 2 * (n_users * n_positive - lower)
    for c in range(n_close):
        score, b = scores[close[c]], bins[close[c]]
        start, stop = marks[b] >> 1, marks[b + 1] >> 1
        below = count_below(positives, start, stop, score)
        tied = below < stop and positives[below] == score
        end = count_below(positives, below, stop, np.nextafter(score, np.inf)) if tied else below
        twice -= below + end - 2 * start
    # every positive was counted against the positives too: n_positive² / 2 pairs in all
    return (twice - n_positive * n_positive) / (2.0 * n_positive * n_negative)


auc_of = compile_loop(_auc_of)


settle = compile_loop(_settle)


def _score_items(
    scores: Any,
    diagonal: Any,
    limits: Any,
    items: Any,
    sizes: Any,
    factor: float,
    input_ptr: Any,
    input_users: Any,
    input_values: Any,
    label_ptr: Any,
    label_users: Any,
    k: int,
    auc: Any,
    precision: Any,
) -> None:
    """Fill AUC and precision for a block of items."""
    n_users = scores.shape[1]
    row = np.empty(n_users, scores.dtype)
    bins, close = np.empty(n_users, np.int32), np.empty(n_users, np.int32)
    marks = np.empty(_MOST_BINS + 3, np.int32)
    for b in range(items.shape[0]):
        j = items[b]
        for user in range(n_users):
            row[user] = settle(scores[b, user], limits[b] * sizes[user], factor)
        for p in range(input_ptr[j], input_ptr[j + 1]):
            user = input_users[p]
            score = scores[b, user] - diagonal[b] * input_values[p]
            row[user] = settle(score, limits[b] * sizes[user], factor)
        users = label_users[label_ptr[j] : label_ptr[j + 1]]
        auc[b] = auc_of(row, row[users], bins, close, marks)
        precision[b] = np.nan
        if k > 0 and users.shape[0] > 0:
            hits = 0
            for user in top_users(row, k):
                place = np.searchsorted(users, user)
                hits += place < users.shape[0] and users[place] == user
            precision[b] = hits / k


_score = compile_loop(_score_items)


def score_items(
    scores: Any, diagonal: Any, limits: Any, items: Any, *data: Any, auc: Any, precision: Any
) -> None:
    """Fill AUC and precision for a block of items, shared among threads."""
    threads = min(len(items), thread_count())
    edges = np.linspace(0, len(items), threads + 1).astype(int).tolist()

    def run(thread: int) -> None:
        part = slice(edges[thread], edges[thread + 1])
        own = (scores[part], diagonal[part], limits[part], items[part])
        _score(*own, *data, auc[part], precision[part])

    in_threads(run, threads)

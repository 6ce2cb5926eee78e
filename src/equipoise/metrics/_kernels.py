"""Compiled inner loops. Import this module only where the work is large: it brings in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics._ties import settle as _settle
from equipoise.parallel import compile_loop, in_threads, thread_count

# Bins in which scores are counted: many per positive, so few scores share a bin with it, and no
# more than fit into the first-level cache.
_BINS_PER_POSITIVE, _MOST_BINS = 16, 4096

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


def _starts_of_bins(bins: Any, n_bins: int) -> Any:
    """Return, for sorted entries, how many are in lower bins than each."""
    starts = np.zeros(n_bins + 3, np.int64)
    for p in range(bins.shape[0]):
        starts[bins[p] + 1] += 1
    for b in range(1, n_bins + 3):
        starts[b] += starts[b - 1]
    return starts


starts_of_bins = compile_loop(_starts_of_bins)


def _auc_of(scores: Any, positives: Any, bins: Any, close: Any) -> Any:
    """Return the AUC of one item from the sorted scores of its positives.

    The bin of a score settles its place among the positives, unless some are in the same bin:
    those scores alone are searched for. `bins` and `close` are room for one entry a user.
    """
    n_users, n_positive = scores.shape[0], positives.shape[0]
    n_negative = n_users - n_positive
    if n_positive == 0 or n_negative == 0:
        return np.nan
    n_bins = min(_BINS_PER_POSITIVE * n_positive, _MOST_BINS)
    fill_bins(positives, positives[0], positives[n_positive - 1], n_bins, bins)
    starts = starts_of_bins(bins[:n_positive], n_bins)
    fill_bins(scores, positives[0], positives[n_positive - 1], n_bins, bins)
    not_below = 0
    n_close = 0
    for user in range(n_users):
        b = bins[user]
        not_below += n_positive - starts[b]
        close[n_close] = user
        n_close += starts[b + 1] > starts[b]
    twice = 2 * not_below
    ends = run_ends(positives)
    for c in range(n_close):
        score, b = scores[close[c]], bins[close[c]]
        below = count_below(positives, starts[b], starts[b + 1], score)
        tied = below < n_positive and positives[below] == score
        twice -= below + (ends[below] if tied else below) - 2 * starts[b]
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
    for b in range(items.shape[0]):
        j = items[b]
        row[:] = scores[b]
        for p in range(input_ptr[j], input_ptr[j + 1]):
            row[input_users[p]] -= diagonal[b] * input_values[p]
        for user in range(n_users):
            row[user] = settle(row[user], limits[b] * sizes[user], factor)
        users = label_users[label_ptr[j] : label_ptr[j + 1]]
        auc[b] = auc_of(row, np.sort(row[users]), bins, close)
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

"""Compiled inner loops. Import this module only where the work is large: it brings in numba."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.ties import settle as _settle
from equipoise.parallel import compile_loop

# Bins in which scores are counted: many per positive, so few scores share a bin with it, and no
# more than stay in the first-level cache while they are looked up.
_BINS_PER_POSITIVE, _MOST_BINS = 16, 2**12

# Positives in one bin up to which they are sorted by their bins, by insertion within a bin, and up
# to which a score is compared with each of them. More are sorted and searched.
_MOST_IN_BIN = 16

# numba tests each signed index for being negative; unsigned ones make the loops a third faster.
_index = np.uint64

# Compiled by a call, not by a decorator: the loops themselves stay plain Python that can be read,
# typed and stepped through.


def _count_below(ascending: Any, start: Any, stop: Any, value: float) -> Any:
    """Return the place of value among the sorted entries, known to lie in [start, stop]."""
    while start < stop:
        middle = (start + stop) >> _index(1)
        if ascending[middle] < value:
            start = middle + _index(1)
        else:
            stop = middle
    return start


count_below = compile_loop(_count_below)


def _replace_root(ids: Any, scores: Any, size: int, item: int, score: float) -> None:
    """Put (item, score) in place of the root, which is the worst kept, and restore the heap."""
    hole, child = 0, 1
    while child < size:
        right = child + 1
        if right < size and (
            scores[right] < scores[child]
            or (scores[right] == scores[child] and ids[right] > ids[child])
        ):
            child = right
        if score < scores[child] or (score == scores[child] and item > ids[child]):
            break
        ids[hole], scores[hole] = ids[child], scores[child]
        hole, child = child, 2 * child + 1
    ids[hole], scores[hole] = item, score


replace_root = compile_loop(_replace_root)


def _top_users(scores: Any, k: int) -> Any:
    """Return the k users with the highest scores; of equal scores the smaller index stays."""
    heap, users = scores[:k].copy(), np.arange(k)
    heap[:], users[:] = -np.inf, scores.shape[0]
    for user in range(scores.shape[0]):
        if scores[user] > heap[0] or user < k:
            replace_root(users, heap, k, user, scores[user])
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
    fullest = marks[0]
    for p in range(bins.shape[0]):
        place = _index(bins[p]) + _index(1)
        marks[place] += np.uint32(1)
        fullest = max(fullest, marks[place])
    lower, here = marks[0], marks[0]
    for b in range(_index(n_bins + 2)):
        lower += here
        here = marks[_index(b) + _index(1)]
        marks[b] = lower + lower + min(here, np.uint32(1))
    marks[n_bins + 2] = lower + lower + here + here
    return fullest


mark_bins = compile_loop(_mark_bins)


def _sort_by_bins(values: Any, bins: Any, marks: Any, ordered: Any) -> None:
    """Sort the values; each starts at the first place of its bin. NaN is a free place."""
    ordered[: values.shape[0]] = np.nan
    for p in range(values.shape[0]):
        value, place = values[p], _index(marks[_index(bins[p])] >> np.uint32(1))
        while ordered[place] < value:
            place += _index(1)
        while ordered[place] == ordered[place]:
            ordered[place], value = value, ordered[place]
            place += _index(1)
        ordered[place] = value


sort_by_bins = compile_loop(_sort_by_bins)


def _look_up(bins: Any, marks: Any, close: Any) -> Any:
    """Return the sum of the marks of all users, and how many share a bin with a positive.

    Those are written to `close`, without a branch.
    """
    total, n_close = _index(0), _index(0)
    for user in range(_index(bins.shape[0])):
        mark = _index(marks[_index(bins[user])])
        total += mark
        close[n_close] = user
        n_close += mark & _index(1)
    return total, n_close


look_up = compile_loop(_look_up)


def _compare(score: float, positives: Any, start: int, stop: int) -> Any:
    """Return how many of the sorted positives are below the score, plus how many not above."""
    if stop - start > _index(_MOST_IN_BIN):
        below = count_below(positives, start, stop, score)
        not_above = count_below(positives, below, stop, np.nextafter(score, np.inf))
        return below + not_above - start - start
    # nearly always there is one: the loop that follows is not entered
    twice = _index(positives[start] < score) + _index(positives[start] <= score)
    for p in range(start + _index(1), stop):
        twice += _index(positives[p] < score) + _index(positives[p] <= score)
    return twice


compare = compile_loop(_compare)


def _sum_below(
    scores: Any,
    left_out: Any,
    lowest: float,
    highest: float,
    n_bins: int,
    positives: Any,
    room: Any,
) -> Any:
    """Return the sum of `compare` over all users, except those left out.

    The bin of a score settles its place among the sorted positives, unless some are in the same
    bin: those scores alone are compared. `mark_bins` has marked the bins of the positives. Who is
    left out is in bin 0, below all positives, and so counts nothing.
    """
    bins, close, marks = room[0][: scores.shape[0]], room[2], room[3]
    fill_bins(scores, lowest, highest, n_bins, bins)
    for p in range(_index(left_out.shape[0])):
        bins[_index(left_out[p])] = 0
    total, n_close = look_up(bins, marks, close)
    below = total - n_close  # twice the positives in lower bins
    for c in range(n_close):
        user = _index(close[c])
        b = _index(bins[user])
        start, stop = marks[b] >> np.uint32(1), marks[b + _index(1)] >> np.uint32(1)
        below += compare(scores[user], positives, _index(start), _index(stop))
    return below


sum_below = compile_loop(_sum_below)


def _positives_below(scores: Any, positives: Any, room: Any) -> Any:
    """Return how many sorted positives are below a score plus how many not above, over all scores.

    The compiled form of `equipoise.metrics.collaboration.positives_below`.
    """
    n_positive = positives.shape[0]
    if n_positive == 0:
        return np.int64(0)
    lowest, highest = positives[0], positives[n_positive - 1]
    n_bins = min(_BINS_PER_POSITIVE * n_positive, _MOST_BINS)
    own = room[1][:n_positive]
    fill_bins(positives, lowest, highest, n_bins, own)
    mark_bins(own, n_bins, room[3])
    return np.int64(sum_below(scores, own[:0], lowest, highest, n_bins, positives, room))


positives_below = compile_loop(_positives_below)


def _auc_of(scores: Any, users: Any, room: Any) -> Any:
    """Return the AUC of one item from the scores of all users and the users who have it.

    Positives are not compared with each other. `room` is what `make_room` returns.
    """
    _, own_bins, _, marks, values, positives = room
    n_users, n_positive = scores.shape[0], users.shape[0]
    if n_positive == 0 or n_positive == n_users:
        return np.nan
    lowest, highest = np.inf, -np.inf
    for p in range(_index(n_positive)):
        score = scores[_index(users[p])]
        values[p] = score
        lowest, highest = min(lowest, score), max(highest, score)
    n_bins = min(_BINS_PER_POSITIVE * n_positive, _MOST_BINS)
    own, own_values = own_bins[:n_positive], values[:n_positive]
    fill_bins(own_values, lowest, highest, n_bins, own)
    if mark_bins(own, n_bins, marks) <= _MOST_IN_BIN:
        sort_by_bins(own_values, own, marks, positives)
    else:
        positives[:n_positive] = np.sort(own_values)
    below = sum_below(scores, users, lowest, highest, n_bins, positives, room)
    pairs = 2 * n_positive * (n_users - n_positive)
    return (pairs - np.int64(below)) / pairs


auc_of = compile_loop(_auc_of)


def make_room(n_users: int) -> tuple[Any, ...]:
    """Return the arrays that counting works in, for so many users or positives, for reuse."""
    bins, own_bins, close = (np.empty(n_users + 1, np.uint32) for _ in range(3))
    values, positives = np.empty(n_users), np.empty(n_users + 1)
    return bins, own_bins, close, np.empty(_MOST_BINS + 3, np.uint32), values, positives


settle = compile_loop(_settle)


def _settle_row(
    raw: Any,
    diagonal: float,
    limit: float,
    sizes: Any,
    factor: float,
    users: Any,
    values: Any,
    row: Any,
) -> None:
    """Fill the scores of one item that are compared, without the diagonal for its own users."""
    for user in range(raw.shape[0]):
        row[user] = settle(raw[user], limit * sizes[user], factor)
    for p in range(users.shape[0]):
        own = _index(users[p])
        row[own] = settle(raw[own] - diagonal * values[p], limit * sizes[own], factor)


settle_row = compile_loop(_settle_row)


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
    room: Any,
) -> None:
    """Fill AUC and precision for a block of items."""
    row = np.empty(scores.shape[1], scores.dtype)
    for b in range(items.shape[0]):
        j = items[b]
        start, stop = input_ptr[j], input_ptr[j + 1]
        own, values = input_users[start:stop], input_values[start:stop]
        settle_row(scores[b], diagonal[b], limits[b], sizes, factor, own, values, row)
        users = label_users[label_ptr[j] : label_ptr[j + 1]]
        auc[b] = auc_of(row, users, room)
        precision[b] = np.nan
        if k > 0 and users.shape[0] > 0:
            hits = 0
            for user in top_users(row, k):
                place = np.searchsorted(users, user)
                hits += place < users.shape[0] and users[place] == user
            precision[b] = hits / k


score_items = compile_loop(_score_items)

"""Compiled inner loops. Import this module only where the work is large: it brings in numba.

The loops take a second or two to compile on a new machine, mostly for what they call: NumPy's
functions and assignments of slices take longer than all loops together. So there are none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.metrics.ties import settle as _settle
from equipoise.parallel import compile_loop

# Bins in which scores are counted: many per positive, so few scores share a bin with it, and no
# more than stay in the first-level cache while they are looked up.
_BINS_PER_POSITIVE, _MOST_BINS = 16, 2**12

# Half a unit of the last bit that `settle` keeps is at most this times its factor.
_EPS = 2.0**-53

# Positives in one bin up to which a score is compared with each of them. More are sorted.
_MOST_IN_BIN = 16

# Scores compared at a time: enough for SIMD, few enough to check one by one afterwards.
_STRETCH = 64

# numba tests each signed index for being negative; unsigned ones make the loops a third faster.
_index = np.uint64

# Compiled by a call, not by a decorator: the loops themselves stay plain Python that can be read,
# typed and stepped through.

settle = compile_loop(_settle, inline=True)


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


replace_root = compile_loop(_replace_root, inline=True)


def _any_above(stretch: Any, bar: Any) -> Any:
    """Return whether one of the scores is above the bar or NaN; no branch, for SIMD."""
    found = False
    for j in range(stretch.shape[0]):
        found |= not (stretch[j] <= bar)
    return found


any_above = compile_loop(_any_above)


def _keep_best(row: Any, limit: Any, factor: Any, ids: Any, scores: Any) -> Any:
    """Fill a heap with the best of a row, settled, and return where NaN is, or -1.

    Scores up to what `scores` begins with cannot enter, nor can -inf; of equal scores the smaller
    index stays. What is not above the worst kept, which is settled, is not above it when settled.
    Places without an item have the length of the row for an id.
    """
    m, kept, bar = row.shape[0], ids.shape[0], scores[0]
    for place in range(kept):
        ids[place], scores[place] = m, -np.inf
    for start in range(0, m, _STRETCH):
        stop = min(start + _STRETCH, m)
        if not any_above(row[start:stop], bar):
            continue
        for item in range(start, stop):
            score = row[_index(item)]
            if not (score <= bar):
                if score != score:
                    return item
                score = settle(score, limit, factor)
                if score > scores[0]:
                    replace_root(ids, scores, kept, item, score)
                    bar = max(bar, scores[0])
    return -1


keep_best = compile_loop(_keep_best, inline=True)


def _bin_of(score: float, lowest: float, per_unit: float, top: float) -> Any:
    """Return the bin of a score: it never falls as the score rises. NaN is in the top bin."""
    place = (score - lowest) * per_unit + 1.25
    place = place if place < top else top
    return np.uint16(np.int32(place if place > 0.0 else 0.0))


bin_of = compile_loop(_bin_of, inline=True)


def _sort(values: Any, size: int, gap: int) -> None:
    """Sort by steps of falling gaps (Shell), from a gap that no entry is farther from its place."""
    while gap > 0:
        for p in range(gap, size):
            value, hole = values[p], p
            while hole >= gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap = gap * 5 // 11 if gap > 2 else gap - 1


sort = compile_loop(_sort, inline=True)


def _fill_bins(raw: Any, lowest: float, per_unit: float, top: float, bins: Any) -> None:
    """Fill the bin of every score as it is; no branch in the loop, for SIMD."""
    for user in range(raw.shape[0]):
        bins[user] = bin_of(raw[user], lowest, per_unit, top)


fill_bins = compile_loop(_fill_bins)


def _fill_settled_bins(
    raw: Any,
    limit: float,
    sizes: Any,
    factor: float,
    lowest: float,
    per_unit: float,
    top: float,
    bins: Any,
) -> None:
    """Fill the bin of every settled score; no branch in the loop, for SIMD."""
    for user in range(raw.shape[0]):
        score = settle(raw[user], limit * sizes[user], factor)
        bins[user] = bin_of(score, lowest, per_unit, top)


fill_settled_bins = compile_loop(_fill_settled_bins)


def _mark_bins(positives: Any, lowest: float, per_unit: float, n_bins: int, room: Any) -> Any:
    """Mark each bin with 2 · (positives in lower ones), plus 1 if some are in it; see `look_up`.

    Positives are put into the order of their bins. Returns how many the fullest bin has.
    """
    own, marks, starts, ordered = room
    for b in range(n_bins + 3):
        starts[b] = 0
    fullest = np.uint32(0)
    fill_bins(positives, lowest, per_unit, n_bins + 1.0, own)
    for p in range(positives.shape[0]):
        place = _index(own[p])
        starts[place] += np.uint32(1)
        fullest = max(fullest, starts[place])
    lower = np.uint32(0)
    for b in range(n_bins + 3):
        here = starts[b]
        starts[b], marks[b] = lower, lower + lower + min(here, np.uint32(1))
        lower += here
    for p in range(positives.shape[0]):
        place = _index(own[p])
        ordered[_index(starts[place])] = positives[p]
        starts[place] += np.uint32(1)
    return fullest


mark_bins = compile_loop(_mark_bins, inline=True)


def _are_inside(positives: Any, lowest: float, per_unit: float, reach: float) -> Any:
    """Return whether all positives are farther than the reach from the ends of their bins."""
    least, inside = reach * per_unit, reach * per_unit < 0.25
    for p in range(positives.shape[0]):
        place = (positives[p] - lowest) * per_unit + 1.25
        part = place - np.floor(place)
        inside &= (part > least) & (part < 1.0 - least)
    return inside


are_inside = compile_loop(_are_inside)


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


def _place(ordered: Any, start: Any, stop: Any, score: float, ties: bool) -> Any:
    """Return how many sorted entries from start to stop are below the score, or not above it."""
    low = start
    while low < stop:
        middle = (low + stop) >> _index(1)
        if ordered[middle] < score or (ties and ordered[middle] == score):
            low = middle + _index(1)
        else:
            stop = middle
    return low - start


place = compile_loop(_place, inline=True)


def _positives_below(
    raw: Any,
    limit: float,
    sizes: Any,
    largest: float,
    factor: float,
    positives: Any,
    left_out: Any,
    room: Any,
) -> Any:
    """Return how many positives are below a score plus how many not above, over all users.

    The compiled form of `equipoise.metrics.collaboration.positives_below`; scores are settled here,
    positives are settled before, in any order. Users who are left out count nothing.

    The bin of a score settles its place among the positives, unless some are in the same bin:
    those scores alone are compared. A mark of a bin is 2 · (positives in lower bins), plus 1 if
    some are in it: one access per score. Scores are put into bins as they are, unless settling
    could move one past the end of a bin and past a positive.
    """
    bins, close, own, marks, starts, ordered = room
    if positives.shape[0] == 0:
        return np.int64(0)
    n_bins = min(_BINS_PER_POSITIVE * positives.shape[0], _MOST_BINS)
    lowest, highest = np.inf, -np.inf
    for p in range(positives.shape[0]):
        lowest, highest = min(lowest, positives[p]), max(highest, positives[p])
    width = highest - lowest
    per_unit = (n_bins - 1) / width if width > 1e-300 else 1e300
    # settling moves a score between the positives, or up to them, by less; twice that for rounding
    reach = 2 * max(max(abs(lowest), abs(highest)) * factor * _EPS, limit * largest)
    fullest = mark_bins(positives, lowest, per_unit, n_bins, (own, marks, starts, ordered))
    if fullest > _MOST_IN_BIN:
        sort(ordered, positives.shape[0], np.int64(fullest))
    top = n_bins + 1.0
    if are_inside(positives, lowest, per_unit, reach):
        fill_bins(raw, lowest, per_unit, top, bins)
    else:
        fill_settled_bins(raw, limit, sizes, factor, lowest, per_unit, top, bins)
    for p in range(_index(left_out.shape[0])):
        bins[_index(left_out[p])] = 0
    total, n_close = look_up(bins, marks, close)
    total -= n_close
    for c in range(n_close):
        user = _index(close[c])
        b = _index(bins[user])
        start = _index(marks[b] >> np.uint32(1))
        stop = _index(marks[b + _index(1)] >> np.uint32(1))
        if stop - start <= _index(_MOST_IN_BIN):
            above, near = _index(0), False
            for p in range(start, stop):
                gap = raw[user] - ordered[p]
                above += _index(gap > 0.0)
                near |= not (abs(gap) > reach)
            if not near:  # nearly always
                total += above + above
                continue
        score = settle(raw[user], limit * sizes[user], factor)
        if stop - start > _index(_MOST_IN_BIN):
            total += place(ordered, start, stop, score, False)
            total += place(ordered, start, stop, score, True)
            continue
        for p in range(start, stop):
            total += _index(ordered[p] < score) + _index(ordered[p] <= score)
    return np.int64(total)


positives_below = compile_loop(_positives_below, inline=True)


def make_room(n_users: int, n_positive: int) -> tuple[Any, ...]:
    """Return the arrays that `positives_below` works in, for so many users and positives."""
    marks, starts = (np.empty(_MOST_BINS + 3, np.uint32) for _ in range(2))
    bins, own = np.empty(n_users, np.uint16), np.empty(n_positive, np.uint16)
    close = np.empty(n_users + 1, np.uint32)
    return bins, close, own, marks, starts, np.empty(n_positive)


def _fill_auc(
    scores: Any,
    limits: Any,
    sizes: Any,
    factor: float,
    largest: float,
    diagonal: Any,
    items: Any,
    input_ptr: Any,
    input_users: Any,
    input_values: Any,
    label_ptr: Any,
    label_users: Any,
    auc: Any,
    values: Any,
    room: Any,
) -> None:
    """Take the diagonal off the scores of a block of items, and fill their AUC."""
    n_users = scores.shape[1]
    for b in range(items.shape[0]):
        j, raw, limit = items[b], scores[b], limits[b]
        for e in range(input_ptr[j], input_ptr[j + 1]):
            raw[_index(input_users[e])] -= diagonal[b] * input_values[e]
        users = label_users[label_ptr[j] : label_ptr[j + 1]]
        n_positive = users.shape[0]
        for p in range(n_positive):
            user = _index(users[p])
            values[p] = settle(raw[user], limit * sizes[user], factor)
        auc[b] = np.nan
        if 0 < n_positive < n_users:
            pairs = 2 * n_positive * (n_users - n_positive)
            own = values[:n_positive]
            below = positives_below(raw, limit, sizes, largest, factor, own, users, room)
            auc[b] = (pairs - below) / pairs


fill_auc = compile_loop(_fill_auc)


def _fill_precision(
    scores: Any,
    limits: Any,
    sizes: Any,
    factor: float,
    items: Any,
    label_ptr: Any,
    label_users: Any,
    precision: Any,
    row: Any,
    best_users: Any,
    best_scores: Any,
) -> None:
    """Fill the precision of a block of items, from scores without the diagonal."""
    for b in range(items.shape[0]):
        for user in range(row.shape[0]):
            row[user] = settle(scores[b, user], limits[b] * sizes[user], factor)
        best_scores[0] = -np.inf
        keep_best(row, -1.0, 1.0, best_users, best_scores)
        worst, last = best_scores[0], best_users[0]
        start, stop = label_ptr[items[b]], label_ptr[items[b] + 1]
        hits = 0
        for p in range(start, stop):
            score = row[_index(label_users[p])]
            hits += score > worst or (score == worst and label_users[p] <= last)
        precision[b] = hits / best_users.shape[0] if stop > start else np.nan


fill_precision = compile_loop(_fill_precision)

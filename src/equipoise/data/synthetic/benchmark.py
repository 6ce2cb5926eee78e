"""Data of any size for benchmarks: Zipf popularity, interests from broad to narrow."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError

_ZIPF, _ZIPF_SHIFT = 0.9, 10.0
# Interests are intervals of a hidden order of items: all of it, a half, a quarter, ...
_DEEPEST = 7
_INTERESTS_PER_USER = 4
# Spread of how much users consume (log-normal)
_ACTIVITY = 1.0
# Draws at a time: takes about 100 MB in addition to the result
_BLOCK = 1 << 21
# Popular items are drawn repeatedly: first ratio of draws to distinct pairs, and attempts
_FIRST_OVERSAMPLING, _MOST_ROUNDS = 1.5, 6


class _Order(NamedTuple):
    """Items in a hidden order, with the running sum of their popularity."""

    cumulative: NDArray[np.float64]
    item: NDArray[np.int32]


def scale(n_users: int, n_items: int, nnz: int, seed: int = 0) -> Interactions:
    """Return `nnz` interactions with small whole values (float32), fast.

    Items have a hidden order. Each user has four interests, intervals of that order from all of it
    down to 1/128, and draws items from them by Zipf popularity; the number of items per user is
    log-normal. Many users share broad interests and few share narrow ones, so the spectrum decays
    slowly, as in real data. Some users may have no items.
    """
    (whole,) = scale_in_parts(n_users, n_items, nnz, 1, seed=seed)
    return whole


def scale_in_parts(
    n_users: int, n_items: int, nnz: int, parts: int, seed: int = 0
) -> Iterator[Interactions]:
    """Yield the users of such data in `parts` tables, one at a time, for data beyond memory.

    All parts share one order of items. Their numbers of interactions differ by at most one.
    """
    if min(n_users, n_items, nnz) < 1 or nnz > n_users * n_items // 4:
        raise InvalidParameterError(
            f"nnz={nnz} must be from 1 to a quarter of {n_users} x {n_items} pairs."
        )
    rng = np.random.default_rng(seed)
    order = _hidden_order(n_items, rng)
    users, entries = (np.arange(parts + 1) * total // parts for total in (n_users, nnz))
    more = _FIRST_OVERSAMPLING
    for part in range(parts):
        first, last = users[part : part + 2]
        wanted = int(entries[part + 1] - entries[part])
        pairs, more = _enough_pairs(order, int(last - first), wanted, more, rng)
        matrix = _matrix(_thinned(pairs, wanted, rng), int(last - first), n_items, rng)
        yield Interactions(matrix, np.arange(first, last), np.arange(n_items))


def _enough_pairs(
    order: _Order, n_users: int, nnz: int, more: float, rng: np.random.Generator
) -> tuple[NDArray[np.int64], float]:
    """Return `nnz` distinct pairs or more, and how many times `nnz` draws that took."""
    activity = rng.lognormal(0.0, _ACTIVITY, n_users)
    for _ in range(_MOST_ROUNDS):
        pairs = _distinct_pairs(order, activity * (more * nnz / activity.sum()), rng)
        if len(pairs) >= nnz:
            return pairs, more
        more *= 1.0 + 2.0 * (nnz - len(pairs)) / nnz
    raise InvalidParameterError(
        f"nnz={nnz} is too dense for {n_users} x {len(order.item)} with popular items drawn so "
        "often. Use fewer interactions or more items."
    )


def _hidden_order(n_items: int, rng: np.random.Generator) -> _Order:
    popularity = rng.permutation((np.arange(n_items) + _ZIPF_SHIFT) ** -_ZIPF)
    return _Order(np.cumsum(popularity), rng.permutation(n_items).astype(np.int32))


def _distinct_pairs(
    order: _Order, expected: NDArray[np.float64], rng: np.random.Generator
) -> NDArray[np.int64]:
    """Return sorted user·m + item of distinct pairs, drawn for blocks of users at a time."""
    draws = np.maximum(1, np.minimum(expected, 4.0 * len(order.item))).astype(np.int64)
    block_of_user = np.cumsum(draws) // _BLOCK
    bounds = np.searchsorted(block_of_user, np.arange(block_of_user[-1] + 2))
    parts = []
    for first, last in pairwise(bounds):
        if first < last:
            users = np.repeat(np.arange(first, last), draws[first:last])
            items = _draw_items(order, users - first, last - first, rng)
            # four times as fast as np.unique, which builds a hash table first
            pairs = np.sort(users * len(order.item) + items)
            parts.append(pairs[np.append(True, pairs[1:] != pairs[:-1])])
    return np.concatenate(parts)


def _draw_items(
    order: _Order, user: NDArray[np.int64], n_users: int, rng: np.random.Generator
) -> NDArray[np.int32]:
    """Draw an item for each entry: one of the user's intervals, then by popularity within it."""
    m = len(order.item)
    depth = rng.integers(0, _DEEPEST + 1, (n_users, _INTERESTS_PER_USER))
    parts = 2.0**depth
    # squaring draws the first items more often: some interests have many more users
    place = np.floor(rng.random(parts.shape) ** 2 * parts)
    left = (place * m / parts).astype(np.int64)
    right = np.maximum(left + 1, ((place + 1) * m / parts).astype(np.int64))
    cumulative = np.append(0.0, order.cumulative)
    low, high = cumulative[left].ravel(), cumulative[right].ravel()
    interest = user * _INTERESTS_PER_USER + rng.integers(0, _INTERESTS_PER_USER, len(user))
    target = low[interest] + rng.random(len(user)) * (high - low)[interest]
    slot = np.searchsorted(order.cumulative, target, side="right")
    return order.item[np.minimum(slot, m - 1)]


def _thinned(pairs: NDArray[np.int64], nnz: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Keep exactly `nnz` of the pairs, all equally likely."""
    lots = rng.random(len(pairs), dtype=np.float32)
    keep = np.zeros(len(pairs), dtype=bool)
    keep[np.argpartition(lots, nnz - 1)[:nnz]] = True
    return pairs[keep]


def _matrix(
    pairs: NDArray[np.int64], n_users: int, n_items: int, rng: np.random.Generator
) -> sparse.csr_array:
    users, items = np.divmod(pairs, n_items)
    indptr = np.append(0, np.cumsum(np.bincount(users, minlength=n_users)))
    values = rng.geometric(0.5, len(pairs)).astype(np.float32)
    return sparse.csr_array(
        (values, items.astype(np.int32), indptr.astype(np.int64)), shape=(n_users, n_items)
    )

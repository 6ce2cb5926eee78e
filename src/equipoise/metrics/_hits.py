"""Which recommended items were held out: counted once, read by every ranking metric."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.exceptions import InvalidDataError
from equipoise.metrics._checks import NDArrayInt, check_top_items, check_user_items
from equipoise.metrics.results import IntArray

BoolArray = NDArray[np.bool_]

# A map of users × items for a block of users takes this many bytes, however many users there are.
_MAP_BYTES = 2**24


class Hits:
    """The lists, the held-out items, and where they meet.

    Attributes
    ----------
    lists : ndarray of shape (n, k)
        Recommended items, -1 where a list is shorter.
    test : csr_array of shape (n, m)
        Held-out positives.
    matrix : ndarray of bool, shape (n, k)
        Whether the item at that place was held out for that user.
    relevant : ndarray of shape (n,)
        Number of held-out items of each user.
    """

    __slots__ = ("lists", "matrix", "relevant", "test")

    def __init__(self, top_items: ArrayLike, test: Any) -> None:
        self.test = check_user_items(test, "test")
        self.lists = check_top_items(top_items, self.test.shape)
        self.matrix = find_hits(self.lists, self.test)
        self.relevant: IntArray = np.diff(self.test.indptr).astype(np.intp)


def find_hits(lists: NDArrayInt, test: sp.csr_array) -> BoolArray:
    """Mark the places of each list that hold one of the user's test items.

    A block of users shares one map of their held-out items. Only what was set is cleared for
    the next block, so the cost follows the entries and the places, not users × items.
    """
    n_users, n_items = test.shape
    hits = np.zeros(lists.shape, dtype=bool)
    step = max(1, _MAP_BYTES // max(1, n_items))
    held_out = np.zeros(min(step, n_users) * n_items, dtype=bool)
    for start in range(0, n_users, step):
        rows = slice(start, min(start + step, n_users))
        pointers = test.indptr[start : rows.stop + 1]
        offsets = np.arange(rows.stop - start, dtype=np.int64) * n_items
        entries = np.repeat(offsets, np.diff(pointers)) + test.indices[pointers[0] : pointers[-1]]
        held_out[entries] = True
        # padding asks for the item before the row, and is masked
        asked = offsets[:, None] + lists[rows]
        found = held_out[asked] & (lists[rows] >= 0)
        held_out[asked[found]] = False
        # each hit has cleared one entry, unless an item was listed twice
        if np.count_nonzero(found) != len(entries) - np.count_nonzero(held_out[entries]):
            _refuse_double_hit(lists, rows, found)
        held_out[entries] = False
        hits[rows] = found
    return hits


def _refuse_double_hit(lists: NDArrayInt, rows: slice, found: BoolArray) -> None:
    """Name the first list that holds a hit twice: it would count as two."""
    for user, (row, hit) in enumerate(zip(lists[rows], found, strict=True), start=rows.start):
        items, counts = np.unique(row[hit], return_counts=True)
        if (counts > 1).any():
            raise InvalidDataError(
                f"top_items lists item {items[counts > 1][0]} more than once for the user in row "
                f"{user}. Each item may appear once in a list."
            )

"""The nearest items of each item by the cosine of their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.ranking import best_of_rows
from equipoise.parallel import map_in_threads, thread_count

# Rows of a block of cosines: 4 MB in float32. Blocks of a power of two are slow to transpose.
_BLOCK = 1000


def nearest_by_cosine(unit: NDArray[Any], count: int, *, block: int = _BLOCK) -> NDArray[np.int32]:
    """Return the `count` rows with the largest cosine to each row, without itself; −1 for none.

    The cosine of two items is computed once for both: half of the arithmetic.

    Parameters
    ----------
    unit : ndarray of shape (n, r)
        Vectors of length 1, float32 or float64.
    count : int
        Neighbors of each. Of equals, the smaller index comes first.
    block : int
        Rows of a block; the result does not depend on it, but for rounding.

    Examples
    --------
    >>> nearest_by_cosine(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), 1).tolist()
    [[1], [2], [1]]
    """
    n = len(unit)
    starts = range(0, n, block)
    n_blocks = max(1, len(starts))
    values = np.full((n, n_blocks, count), -np.inf, unit.dtype)
    ids = np.full((n, n_blocks, count), -1, np.int32)

    def keep(rows: int, columns: int, cosines: NDArray[Any]) -> None:
        itself = sp.eye_array(len(cosines), format="csr") if rows == columns else None
        left_out = sp.csr_array(cosines.shape) if itself is None else sp.csr_array(itself)
        kept = min(count, cosines.shape[1])
        found = best_of_rows(cosines, left_out, kept)
        own = slice(rows * block, rows * block + len(cosines))
        values[own, columns, :kept] = np.where(found.ids >= 0, found.scores, -np.inf)
        ids[own, columns, :kept] = np.where(found.ids >= 0, found.ids + columns * block, -1)

    def compare(pair: tuple[int, int]) -> None:
        one, other = (unit[number * block : (number + 1) * block] for number in pair)
        cosines = one @ other.T
        keep(*pair, cosines)
        if pair[0] != pair[1]:
            keep(pair[1], pair[0], np.ascontiguousarray(cosines.T))

    pairs = [(i, j) for i in range(len(starts)) for j in range(i, len(starts))]
    for _ in map_in_threads(compare, pairs, thread_count()):
        pass
    # blocks are in the order of the items, so a stable sort leaves equal ones in theirs
    found = (n, n_blocks * count)
    order = np.argsort(-values.reshape(found), axis=1, kind="stable")[:, :count]
    return np.take_along_axis(ids.reshape(found), order, axis=1)

"""The largest off-diagonal entries of each row of XᵀX, and products with them.

Importing this module imports numba. Each row of XᵀX is added up in one thread, in the order of the
users: the result does not depend on the number of threads or on the size of the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.parallel import compile_loop, map_in_threads, thread_count

# Memory of the entries that one task keeps; in addition, it has one row of XᵀX.
_TASK_BYTES = 16 * 2**20


class LargestEntries(NamedTuple):
    """The kept entries of some rows, one row after the other."""

    counts: NDArray[np.int64]
    items: NDArray[np.int32]
    values: NDArray[np.float64]


def largest_co_occurrences(
    X: sp.csr_array, k: int, *, threads: int | None = None, task_bytes: int = _TASK_BYTES
) -> sp.csr_array:
    """Return XᵀX without its diagonal, cut to the k largest entries of each row.

    Entries that are equal in float32 are ties: the smaller column is kept. The whole of XᵀX is
    never in memory.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        Positive entries.
    k : int
        Entries to keep per row, at least 1.
    threads : int, optional
        All cores by default; the result does not depend on it.
    task_bytes : int
        Memory of the kept entries of one task; the result does not depend on it.

    Examples
    --------
    >>> X = sp.csr_array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]])
    >>> largest_co_occurrences(X, 1).toarray().tolist()
    [[0.0, 2.0, 0.0], [2.0, 0.0, 0.0], [1.0, 0.0, 0.0]]
    """
    n_items = X.shape[1]
    by_item = X.tocsc()
    k = min(k, max(1, n_items - 1))

    def run(items: range) -> LargestEntries:
        matrix, transposed = ((A.indptr, A.indices, A.data) for A in (X, by_item))
        ends = (items.start, items.stop)
        return _compact(len(items), k, lambda *out: _rows(*matrix, *transposed, *ends, k, *out))

    step = max(1, task_bytes // (12 * k))
    tasks = [range(a, min(a + step, n_items)) for a in range(0, n_items, step)]
    return joined(map_in_threads(run, tasks, threads or thread_count()), n_items)


def largest_of_rows(rows: NDArray[np.float64], first: int, k: int) -> LargestEntries:
    """Return the k largest entries of dense rows `first`, `first` + 1, … of XᵀX.

    The rule is that of `largest_co_occurrences`.
    """
    k = min(k, max(1, rows.shape[1] - 1))
    return _compact(len(rows), k, lambda *out: _dense(rows, first, k, *out))


def joined(parts: Iterable[LargestEntries], n_items: int) -> sp.csr_array:
    """Return the entries of all rows as one matrix."""
    counts, items, values = map(np.concatenate, zip(*parts, strict=True))
    indptr = np.append(0, np.cumsum(counts))
    if indptr[-1] <= np.iinfo(np.int32).max:  # of one width, or else SciPy copies the indices
        indptr = indptr.astype(np.int32)
    matrix = sp.csr_array((values, items, indptr), shape=(n_items, n_items))
    matrix.has_canonical_format = True
    return matrix


def add_product(rows: sp.csr_array, B: sp.csr_array, scale: NDArray[Any], out: Any) -> None:
    """Add rows · B · diag(scale) to a dense array; threads may call it for different rows."""
    _add(rows.indptr, rows.indices, rows.data, B.indptr, B.indices, B.data, scale, out)


def _compact(n_rows: int, k: int, fill: Callable[..., None]) -> LargestEntries:
    """Call a loop that fills rows of fixed width; return the entries without the gaps."""
    counts = np.zeros(n_rows, np.int64)
    items, values = np.empty((n_rows, k), np.int32), np.empty((n_rows, k))
    fill(counts, items, values)
    kept = np.arange(k) < counts[:, None]
    return LargestEntries(counts, items[kept], values[kept])


def _kth_largest(values: Any, k: int) -> Any:
    """Return the k-th largest number, which quickselect moves to its place in sorted order.

    numba's own partition takes six seconds to compile, and this a fraction of one.
    """
    low, high, wanted = 0, len(values) - 1, len(values) - k
    while low < high:
        a, b, c = values[low], values[(low + high) // 2], values[high]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if wanted <= j:
            high = j
        elif wanted >= i:
            low = i
        else:
            return pivot
    return values[wanted]


kth_largest = compile_loop(_kth_largest)


def _cut_row(row: Any, found: Any, itself: int, k: int, kept: Any, sums: Any) -> int:
    """Write the k largest entries in the order of their columns; return how many there are."""
    others = found[found != itself]
    if len(others) > k:
        keys = row[others].astype(np.float32)
        least = kth_largest(keys.copy(), k)
        above, ties = others[keys > least], np.sort(others[keys == least])
        others = np.concatenate((above, ties[: k - len(above)]))
    others = np.sort(others)
    for place in range(len(others)):
        kept[place] = others[place]
        sums[place] = row[others[place]]
    return len(others)


cut_row = compile_loop(_cut_row)


def _add_up_rows(
    indptr: Any, indices: Any, data: Any, starts: Any, users: Any, values: Any,
    first: int, last: int, k: int, counts: Any, kept: Any, sums: Any,
) -> None:  # fmt: skip
    row = np.zeros(len(starts) - 1)
    found = np.empty(len(row), np.int32)
    for item in range(first, last):
        n = 0
        for s in range(starts[item], starts[item + 1]):
            x = np.float64(values[s])
            for p in range(indptr[users[s]], indptr[users[s] + 1]):
                j = indices[p]
                if row[j] == 0:
                    found[n] = j
                    n += 1
                row[j] += x * data[p]
        place = item - first
        counts[place] = cut_row(row, found[:n], item, k, kept[place], sums[place])
        for p in range(n):
            row[found[p]] = 0


_rows = compile_loop(_add_up_rows)


def _cut_dense(rows: Any, first: int, k: int, counts: Any, kept: Any, sums: Any) -> None:
    for place in range(len(rows)):
        found = np.flatnonzero(rows[place]).astype(np.int32)
        counts[place] = cut_row(rows[place], found, first + place, k, kept[place], sums[place])


_dense = compile_loop(_cut_dense)


def _add_rows(
    indptr: Any, indices: Any, data: Any, starts: Any, columns: Any, values: Any, scale: Any,
    out: Any,
) -> None:  # fmt: skip
    for row in range(len(indptr) - 1):
        scores = out[row]
        for p in range(indptr[row], indptr[row + 1]):
            x = data[p]
            for s in range(starts[indices[p]], starts[indices[p] + 1]):
                scores[columns[s]] += x * values[s] * scale[columns[s]]


_add = compile_loop(_add_rows)

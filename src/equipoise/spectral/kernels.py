"""Parallel loops over a sparse matrix, compiled on first use.

Each call reads a CSR matrix once, row by row, in all threads. A thread gets a range of users with
about the same number of interactions and adds into its own array. The arrays are then added in one
fixed order: same input, same number of threads, same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.parallel import compile_loop, in_threads, thread_count
from equipoise.spectral.matmul import aligned_empty

# Entries times columns from which threads pay off: a pass of about a millisecond on one core.
_THREADS_FROM = 4e6

# Units of products between which sums of float32 numbers stay far from the ends of its range
_PLAIN_UNITS = (1e-20, 1e20)


def _add_gram_rows(
    indptr: Any, indices: Any, data: Any, starts: Any, users: Any, values: Any, items: Any, C: Any
) -> None:
    """Add rows j of the upper triangle of XᵀX to C: the users of item j, and their items ≥ j."""
    for j in items:
        row = C[j]
        for s in range(starts[j], starts[j + 1]):
            x = np.float64(values[s])  # products of float32 values are exact in float64
            p = indptr[users[s] + 1] - 1
            while p >= indptr[users[s]] and indices[p] >= j:
                row[indices[p]] += x * data[p]
                p -= 1


@cache
def _compiled_gram_rows() -> Callable[..., None]:
    return compile_loop(_add_gram_rows)


def user_ranges(indptr: NDArray[Any], parts: int) -> list[tuple[int, int]]:
    """Divide the users into `parts` ranges with about the same number of interactions."""
    if parts == 1:
        return [(0, len(indptr) - 1)]
    targets = np.linspace(0, indptr[-1], parts + 1)
    edges = np.searchsorted(indptr, targets).tolist()
    edges[0], edges[-1] = 0, len(indptr) - 1
    return list(pairwise(edges))


def gram_product(
    X: sp.csr_array,
    V: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    row_weights: NDArray[Any] | None = None,
    threads: int | None = None,
    unit: float = 1.0,
    equal_values: bool = False,
) -> NDArray[Any]:
    """Return XᵀXV / unit, or with weights ½(w∘XᵀXV + XᵀX(w∘V)) / unit, in one pass.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        The data.
    V : ndarray of shape (n_items, width)
        Its dtype is that of the arithmetic.
    weights : ndarray of shape (n_items,), optional
        w; not together with row weights.
    row_weights : ndarray of shape (n_users,), optional
        d, of any sign: Xᵀ(d∘XV) / unit.
    threads : int, optional
        By default all cores where that pays off. The last bits of the result depend on it.
    unit : float
        A unit outside of the range of float32 divides the values, before they are rounded.
    equal_values : bool
        All values of X are equal, such as 1: they are not read.
    """
    from equipoise.spectral.vector_loop import column_slices, gram_loop

    half = None if weights is None else weights * 0.5
    factor, values = 1 / np.sqrt(unit), None if equal_values else X.data
    dtype = V.dtype.newbyteorder("=")
    scale = None  # of the sums: this takes less time than to scale values, where it is safe
    if equal_values:
        scale = dtype.type((X.data[0] * factor) ** 2)
    elif _PLAIN_UNITS[0] <= unit <= _PLAIN_UNITS[1]:
        scale = dtype.type(1 / unit)
    of = gram_loop(
        X.indptr, X.indices, values, factor if scale is None else None, half, row_weights
    )
    pays_off = X.nnz * V.shape[1] >= _THREADS_FROM
    ranges = user_ranges(X.indptr, threads or (thread_count() if pays_off else 1))

    def product(some: NDArray[Any]) -> NDArray[Any]:
        add = of(some)

        def run(part: int) -> NDArray[Any]:
            out = aligned_empty(some.shape, dtype)
            out.fill(0)
            add(*ranges[part], out)
            return out

        total, *others = in_threads(run, len(ranges))
        for other in others:
            total += other
        if scale is not None:
            total *= scale
        return total

    slices = column_slices(V.shape[1], dtype)
    if len(slices) == 1:
        return product(V)
    total = aligned_empty(V.shape, dtype)
    for columns in slices:
        total[:, columns] = product(V[:, columns])
    return total


def gram_matrix(X: sp.csr_array) -> NDArray[np.float64]:
    """Return XᵀX of a CSR matrix with sorted indices, dense, accumulated in float64."""
    by_item = X.tocsc()
    n_items, threads = X.shape[1], thread_count()
    # every thread gets items of all sizes, popular ones first, to balance the work
    order = np.argsort(-np.diff(by_item.indptr), kind="stable")
    C = np.zeros((n_items, n_items))
    loop = _compiled_gram_rows()

    def run(part: int) -> None:
        columns = (by_item.indptr, by_item.indices, by_item.data)
        loop(X.indptr, X.indices, X.data, *columns, order[part::threads], C)

    in_threads(run, threads)
    C += np.triu(C, 1).T
    return C

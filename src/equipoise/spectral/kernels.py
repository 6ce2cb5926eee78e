"""Parallel loops over a sparse matrix, compiled by numba on first use.

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


def _add_gram(
    indptr: Any, indices: Any, data: Any, V: Any, start: int, stop: int, out: Any
) -> None:
    """Add X_tᵀ(X_t V) to out, where X_t are the rows of users start to stop."""
    width = V.shape[1]
    y = np.empty(width, V.dtype)
    for user in range(start, stop):
        y[:] = 0
        for p in range(indptr[user], indptr[user + 1]):
            x = data[p]
            v = V[indices[p]]
            for k in range(width):
                y[k] += x * v[k]
        for p in range(indptr[user], indptr[user + 1]):
            x = data[p]
            o = out[indices[p]]
            for k in range(width):
                o[k] += x * y[k]


def _add_row_weighted_gram(
    indptr: Any, indices: Any, data: Any, d: Any, V: Any, start: int, stop: int, out: Any
) -> None:
    """Add X_tᵀ(d_t∘(X_t V)) to out; X_t: rows start to stop."""
    width = V.shape[1]
    y = np.empty(width, V.dtype)
    for user in range(start, stop):
        if d[user] == 0:
            continue
        y[:] = 0
        for p in range(indptr[user], indptr[user + 1]):
            x = data[p]
            v = V[indices[p]]
            for k in range(width):
                y[k] += x * v[k]
        for p in range(indptr[user], indptr[user + 1]):
            x = data[p] * d[user]
            o = out[indices[p]]
            for k in range(width):
                o[k] += x * y[k]


def _add_weighted_gram(
    indptr: Any, indices: Any, data: Any, half_w: Any, V: Any, start: int, stop: int, out: Any
) -> None:
    """Add ½(w∘X_tᵀ(X_t V) + X_tᵀ(X_t (w∘V))) to out; X_t: rows start to stop."""
    width = V.shape[1]
    y = np.empty(width, V.dtype)
    y_weighted = np.empty(width, V.dtype)
    for user in range(start, stop):
        y[:] = 0
        y_weighted[:] = 0
        for p in range(indptr[user], indptr[user + 1]):
            j = indices[p]
            x = data[p]
            xw = x * half_w[j]
            v = V[j]
            for k in range(width):
                y[k] += x * v[k]
                y_weighted[k] += xw * v[k]
        for p in range(indptr[user], indptr[user + 1]):
            j = indices[p]
            x = data[p]
            xw = x * half_w[j]
            o = out[j]
            for k in range(width):
                o[k] += xw * y[k] + x * y_weighted[k]


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
def _compiled(loop: Callable[..., None], *, fastmath: bool = True) -> Callable[..., None]:
    return compile_loop(loop, fastmath=fastmath)


def user_ranges(indptr: NDArray[Any], parts: int) -> list[tuple[int, int]]:
    """Divide the users into `parts` ranges with about the same number of interactions."""
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
) -> NDArray[Any]:
    """Return XᵀXV, ½(w∘XᵀXV + XᵀX(w∘V)) with weights, or Xᵀ(d∘XV) with row weights, in one pass.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        The data.
    V : ndarray of shape (n_items, width)
        In C order; its dtype is that of the arithmetic.
    weights : ndarray of shape (n_items,), optional
        w, in V's dtype; not together with row weights.
    row_weights : ndarray of shape (n_users,), optional
        d, of any sign, in V's dtype.
    threads : int, optional
        All cores by default. The last bits of the result depend on it.
    """
    if row_weights is not None:
        loop, operands = _compiled(_add_row_weighted_gram), [row_weights, V]
    elif weights is not None:
        loop, operands = _compiled(_add_weighted_gram), [weights * V.dtype.type(0.5), V]
    else:
        loop, operands = _compiled(_add_gram), [V]
    ranges = user_ranges(X.indptr, threads or thread_count())

    def run(part: int) -> NDArray[Any]:
        out = np.zeros(V.shape, V.dtype)
        loop(X.indptr, X.indices, X.data, *operands, *ranges[part], out)
        return out

    total, *others = in_threads(run, len(ranges))
    for other in others:
        total += other
    return total


def gram_matrix(X: sp.csr_array) -> NDArray[np.float64]:
    """Return XᵀX of a CSR matrix with sorted indices, dense, accumulated in float64."""
    by_item = X.tocsc()
    n_items, threads = X.shape[1], thread_count()
    # every thread gets items of all sizes, popular ones first, to balance the work
    order = np.argsort(-np.diff(by_item.indptr), kind="stable")
    C = np.zeros((n_items, n_items))
    loop = _compiled(_add_gram_rows, fastmath=False)

    def run(part: int) -> None:
        columns = (by_item.indptr, by_item.indices, by_item.data)
        loop(X.indptr, X.indices, X.data, *columns, order[part::threads], C)

    in_threads(run, threads)
    C += np.triu(C, 1).T
    return C

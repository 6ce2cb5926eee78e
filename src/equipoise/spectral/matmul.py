"""Products of matrices with many rows and few columns, in threads.

A Krylov basis has one row per item and far fewer columns. BLAS threads spin while they wait for
each other, which takes the cores from the parallel loops between two products. Here each Python
thread multiplies a range of rows, with BLAS limited to one thread. Partial sums are added in one
fixed order: same input, same number of threads, same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.parallel import in_threads, thread_count

Block = NDArray[Any]
Floats = NDArray[np.float64]

# Multiply-adds from which threads pay off: about a millisecond of work, more than a thread takes to
# start.
_THREADS_FROM = 2e7

# Rows of a temporary product: large enough for BLAS, small compared with the whole.
_ROWS_AT_ONCE = 512


def inner(A: Block, B: Block) -> Block:
    """Return AᵀB."""
    first, *others = _by_rows(lambda rows: A[rows].T @ B[rows], len(A), A.shape[1] * B.shape[1])
    for other in others:
        first += other
    product: Block = first
    return product


def times(A: Block, S: Block) -> Block:
    """Return A S in the dtype of A."""
    S = S.astype(A.dtype, copy=False)
    product: Block = np.empty((len(A), S.shape[1]), A.dtype)

    def fill(rows: slice) -> None:
        np.matmul(A[rows], S, out=product[rows])

    _by_rows(fill, len(A), S.size)
    return product


def subtract(W: Block, A: Block, S: Block) -> None:
    """Subtract A S from W in place."""

    def update(rows: slice) -> None:
        # BLAS multiplies a wide matrix by a narrow one twice as fast when both are transposed
        W[rows] -= (S.T @ A[rows].T).T

    _by_rows(update, len(A), S.size)


def ritz_vectors(V: Floats, W: Floats, Z: Floats, values: Floats) -> Floats:
    """Replace V by U = V Z, and return ‖W z_i − θ_i u_i‖ for every column i."""

    def squares(rows: slice) -> Floats:
        total = np.zeros(len(values))
        for start in range(rows.start, rows.stop, _ROWS_AT_ONCE):
            some = slice(start, min(start + _ROWS_AT_ONCE, rows.stop))
            V[some] = V[some] @ Z
            left = W[some] @ Z
            left -= V[some] * values
            total += np.einsum("ij,ij->j", left, left)
        return total

    norms: Floats = np.sqrt(sum(_by_rows(squares, len(W), Z.size)))
    return norms


def _by_rows(work: Callable[[slice], Any], n_rows: int, per_row: int) -> list[Any]:
    """Call `work` on all rows at once, or on one range of rows per thread if that pays off."""
    if float(n_rows) * per_row < _THREADS_FROM:
        return [work(slice(0, n_rows))]
    edges = np.linspace(0, n_rows, thread_count() + 1).astype(int).tolist()
    ranges = [slice(*edge) for edge in pairwise(edges)]
    return in_threads(lambda part: work(ranges[part]), len(ranges))

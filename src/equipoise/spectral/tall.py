"""Products of tall matrices, their rows shared among threads.

A Krylov basis has a row an item and far fewer columns. BLAS's own threads wait for each other
by spinning, which takes the cores from the compiled sweeps between two products; ranges of rows in
threads of ours, with BLAS at one thread each, need no waiting but at the end. Sums over the ranges
have one fixed order for a given number of threads: same input, same bits.
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

# Multiply-adds from which a second thread repays its start, about a millisecond of them.
_THREADS_FROM = 2e7


def inner(A: Block, B: Block) -> Block:
    """Return AᵀB."""
    first, *others = _by_rows(lambda rows: A[rows].T @ B[rows], len(A), A.shape[1] * B.shape[1])
    for other in others:
        first += other
    product: Block = first
    return product


def times(A: Block, S: Block) -> Block:
    """Return A S in A's precision."""
    S = S.astype(A.dtype, copy=False)
    product: Block = np.empty((len(A), S.shape[1]), A.dtype)

    def fill(rows: slice) -> None:
        np.matmul(A[rows], S, out=product[rows])

    _by_rows(fill, len(A), S.size)
    return product


def subtract(W: Block, A: Block, S: Block) -> None:
    """Take A S from W, in place."""

    def take(rows: slice) -> None:
        # BLAS multiplies a wide matrix by a narrow one twice as fast when both are transposed
        W[rows] -= (S.T @ A[rows].T).T

    _by_rows(take, len(A), S.size)


def residual_norms(W: Block, Z: Block, U: Block, values: Floats) -> Floats:
    """‖W z_i − θ_i u_i‖ of every column i."""

    def squares(rows: slice) -> Floats:
        left: Floats = W[rows] @ Z - U[rows] * values
        total: Floats = np.einsum("ij,ij->j", left, left)
        return total

    norms: Floats = np.sqrt(sum(_by_rows(squares, len(W), Z.size)))
    return norms


def _by_rows(work: Callable[[slice], Any], n_rows: int, per_row: int) -> list[Any]:
    """Do `work` on all rows: at once, or cut into as many ranges as there are threads."""
    if float(n_rows) * per_row < _THREADS_FROM:
        return [work(slice(0, n_rows))]
    edges = np.linspace(0, n_rows, thread_count() + 1).astype(int).tolist()
    ranges = [slice(*edge) for edge in pairwise(edges)]
    return in_threads(lambda part: work(ranges[part]), len(ranges))

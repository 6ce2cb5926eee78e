"""Products of matrices with many rows and few columns, in threads.

A Krylov basis has one row per item and far fewer columns. BLAS threads spin while they wait for
each other, which takes the cores from the parallel loops between two products. Here each Python
thread multiplies a range of rows, with BLAS limited to one thread. Partial sums are added in one
fixed order: same input, same number of threads, same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.parallel import in_threads, thread_count

Block = NDArray[Any]
Floats = NDArray[np.float64]

# Multiply-adds from which threads pay off: about a millisecond of work, more than a thread takes to
# start.
_THREADS_FROM = 2e7

# Bytes that memory delivers at once.
_CACHE_LINE = 64

# Rows of a temporary product, or of a copy: large enough for BLAS, small compared with the whole.
_ROWS_AT_ONCE = 512


def aligned_empty(shape: tuple[int, ...], dtype: Any) -> Block:
    """Return an array that begins at a cache line.

    NumPy's arrays begin at any multiple of 16 bytes. The loop over the data reads and writes single
    rows, often of just one cache line: it would take two lines for each of them.
    """
    wanted = math.prod(shape) * np.dtype(dtype).itemsize
    room = np.empty(wanted + _CACHE_LINE, np.uint8)
    first = -room.ctypes.data % _CACHE_LINE
    array: Block = room[first : first + wanted].view(dtype).reshape(shape)
    return array


def aligned(A: Block) -> Block:
    """Return A in C order, in an array that begins at a cache line: A itself if it is one."""
    if A.flags.c_contiguous and A.ctypes.data % _CACHE_LINE == 0:
        return A
    moved = aligned_empty(A.shape, A.dtype)
    moved[...] = A
    return moved


def write_columns(Q: Block, start: int, block: Block) -> None:
    """Write a block in C order into Q in Fortran order, from column `start` on.

    Some rows at a time stay in the cache: NumPy goes through all rows of one of the two with steps
    of a whole row or column, which takes twice as long.
    """
    columns = slice(start, start + block.shape[1])
    for first in range(0, len(Q), _ROWS_AT_ONCE):
        some = slice(first, first + _ROWS_AT_ONCE)
        Q[some, columns] = block[some]


def inner(A: Block, B: Block) -> Block:
    """Return AᵀB."""
    loop = _narrow_loop(A, B)

    def part(rows: slice) -> Block:
        if loop is None:
            return A[rows].T @ B[rows]
        product = aligned_empty((A.shape[1], B.shape[1]), B.dtype)
        product.fill(0)
        loop.add_inner(A[rows], B[rows], product)
        return product

    first, *others = _by_rows(part, len(A), A.shape[1] * B.shape[1])
    for other in others:
        first += other
    product: Block = first
    return product


def times(A: Block, S: Block) -> Block:
    """Return A S in the dtype of A."""
    S = S.astype(A.dtype, copy=False)
    product = aligned_empty((len(A), S.shape[1]), A.dtype)

    def fill(rows: slice) -> None:
        np.matmul(A[rows], S, out=product[rows])

    _by_rows(fill, len(A), S.size)
    return product


def subtract(W: Block, A: Block, S: Block) -> None:
    """Subtract A S from W in place."""
    loop, S = _narrow_loop(A, W), np.ascontiguousarray(S, W.dtype)

    def update(rows: slice) -> None:
        if loop is None:
            # BLAS multiplies a wide matrix by a narrow one twice as fast when both are transposed
            W[rows] -= (S.T @ A[rows].T).T
        else:
            loop.subtract(A[rows], W[rows], S)

    _by_rows(update, len(A), S.size)


def _narrow_loop(A: Block, W: Block) -> ModuleType | None:
    """Return the module that multiplies tall matrices by narrow ones; None where BLAS is faster."""
    if float(len(A)) * A.shape[1] * W.shape[1] < _THREADS_FROM:
        return None
    from equipoise.spectral import narrow_loop

    if not narrow_loop.suits(A, W):
        return None
    narrow_loop.prepare(W.dtype, W.shape[1])
    return narrow_loop


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

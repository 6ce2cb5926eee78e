"""Products of a basis with a narrow block, QᵀW and W − QH, as instructions for vectors of numbers.

BLAS copies a matrix before it multiplies it. With a block of 8 to 32 columns this takes longer than
the arithmetic, so BLAS reaches less than half of its speed. Here each column of the basis is read
once, in order, and the rows of the block are single vectors.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from equipoise.spectral.vector_loop import FAST, TYPES, repeated, translated, write_loop

# Rows of the block that stay in the first or second cache while all columns of the basis are read
_ROWS_AT_ONCE = 512

# Columns of the basis at a time. Their rows of QᵀW or H stay in registers: these bytes are half of
# the registers for vectors of 64 bytes, and two thirds of those for vectors of 32 bytes.
_COLUMNS, _HELD_512, _HELD_256 = 8, 1024, 320

# Bytes of a row of the block; wider blocks suit BLAS.
_WIDEST = 256

_INT64 = ir.IntType(64)


def suits(Q: NDArray[Any], W: NDArray[Any]) -> bool:
    """Whether the loop takes a basis Q with these columns and a block W with these rows."""
    width = W.shape[1]
    return (
        Q.strides[0] == Q.itemsize
        and W.flags.c_contiguous
        and Q.dtype == W.dtype
        and W.dtype in (np.float32, np.float64)
        and width & (width - 1) == 0
        and 0 < W.strides[0] <= _WIDEST
    )


def add_inner(Q: NDArray[Any], W: NDArray[Any], H: NDArray[Any]) -> None:
    """Add QᵀW to H, of shape (columns of Q, columns of W) in C order."""
    _run(Q, W, H, subtract=False)


def subtract(Q: NDArray[Any], W: NDArray[Any], H: NDArray[Any]) -> None:
    """Subtract QH from W."""
    _run(Q, W, H, subtract=True)


def prepare(dtype: np.dtype[Any], width: int) -> None:
    """Compile both products, before threads call them."""
    for subtract in (False, True):
        _compiled(dtype, width, subtract)


def _run(Q: NDArray[Any], W: NDArray[Any], H: NDArray[Any], *, subtract: bool) -> None:
    run = _compiled(W.dtype, W.shape[1], subtract)
    step = Q.strides[1] // Q.itemsize
    run(Q.ctypes.data, W.ctypes.data, H.ctypes.data, step, len(W), Q.shape[1])


@cache
def _compiled(dtype: np.dtype[Any], width: int, subtract: bool) -> Callable[..., None]:
    module = ir.Module()
    _write_function(module, dtype, width, subtract)
    arguments = [ctypes.c_void_p] * 3 + [ctypes.c_int64] * 3
    return translated(module, "multiply", arguments)


def _write_function(module: ir.Module, dtype: np.dtype[Any], width: int, subtract: bool) -> None:
    """Write multiply(Q, W, H, step, rows, columns); Q's columns are `step` numbers apart."""
    number, size = TYPES[dtype], dtype.itemsize
    vector = ir.VectorType(number, width)
    types = [number.as_pointer()] * 3 + [_INT64] * 3
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), "multiply")
    Q, W, H, step, rows, columns = function.args
    b = ir.IRBuilder(function.append_basic_block())
    zero, one = _INT64(0), _INT64(1)
    held_bytes = _HELD_512 if llvm.get_host_cpu_features().get("avx512f") else _HELD_256
    at_once = max(1, min(_COLUMNS, held_bytes // (width * size)))

    def at(array: Any, i: Any) -> Any:
        return b.bitcast(b.gep(array, [b.mul(i, _INT64(width))]), vector.as_pointer())

    def of_rows(first: Any) -> list[Any]:
        end = b.add(first, _INT64(_ROWS_AT_ONCE))
        last = b.sub(b.select(b.icmp_signed("<", end, rows), end, rows), one)

        def of_columns(j: Any, count: int) -> list[Any]:
            js = [b.add(j, _INT64(t)) for t in range(count)]
            starts = [b.gep(Q, [b.mul(j, step)]) for j in js]
            held = [b.load(at(H, j), align=size) for j in js]

            def of_row(i: Any, *sums: Any) -> list[Any]:
                w = b.load(at(W, i), align=size)
                changed = []
                for t, start in enumerate(starts):
                    q = repeated(b, b.load(b.gep(start, [i])), vector)
                    if subtract:
                        w = b.fsub(w, b.fmul(q, held[t], flags=FAST), flags=FAST)
                    else:
                        changed.append(b.fadd(sums[t], b.fmul(q, w, flags=FAST), flags=FAST))
                if subtract:
                    b.store(w, at(W, i), align=size)
                return changed

            # sums begin at 0 for some rows at a time: one long sum would lose digits of float32
            zeros = [] if subtract else [ir.Constant(vector, None)] * count
            _, *sums = write_loop(b, first, last, one, zeros, of_row)
            for j, before, total in zip(js, held, sums, strict=False):
                b.store(b.fadd(before, total), at(H, j), align=size)
            return []

        end_of_some = b.sub(columns, _INT64(at_once))
        some = _INT64(at_once)
        (j,) = write_loop(b, zero, end_of_some, some, [], lambda j: of_columns(j, at_once))
        write_loop(b, j, b.sub(columns, one), one, [], lambda j: of_columns(j, 1))
        return []

    write_loop(b, zero, b.sub(rows, one), _INT64(_ROWS_AT_ONCE), [], of_rows)
    b.ret_void()

"""The inner loop of the product XᵀXV, as instructions for vectors of numbers.

A compiler that sees only loops over a few columns uses vectors badly: with 8 or 16 columns most of
its code handles remainders. Here the instructions are written out with LLVM's own vectors: sums
over the items of a user stay in registers, for up to 32 columns. llvmlite translates them in some
hundredths of a second, without numba (most of a second), for the processor that runs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numpy.typing import NDArray

from equipoise.spectral.matmul import aligned

# Bytes of a row that one run over the items of a user takes: two cache lines. Its sums and weighted
# sums are half of the registers of a processor with vectors of 32 bytes. One run over rows of 64
# float64 numbers took 1.6 times as long as four over 16: fewer of them stay in the caches.
_ROW_BYTES = 128

_INT64, _BYTES = ir.IntType(64), ir.IntType(8).as_pointer()
TYPES: dict[np.dtype[Any], ir.Type] = {
    np.dtype(np.float32): ir.FloatType(),
    np.dtype(np.float64): ir.DoubleType(),
    np.dtype(np.uint16): ir.IntType(16),
    np.dtype(np.int32): ir.IntType(32),
    np.dtype(np.int64): _INT64,
}
# Entries ahead of the current one whose vectors are requested from memory: those of the next users,
# too. A processor looks ahead only as far as a user's last entry. 8 to 24 are equally fast.
_AHEAD = 16
_CACHE_LINE = 64

# Sums may be added in any order, and a product and a sum are one instruction.
FAST = ("fast",)


class _Variant(NamedTuple):
    """What the instructions depend on: types of arrays; None for an array that is left out."""

    number: np.dtype[Any]
    indptr: np.dtype[Any]
    indices: np.dtype[Any]
    values: np.dtype[Any] | None
    scaled: bool
    weighted: bool
    row_weighted: bool
    width: int


Add = Callable[[int, int, NDArray[Any]], None]


def gram_loop(
    indptr: NDArray[Any],
    indices: NDArray[Any],
    values: NDArray[Any] | None,
    factor: float | None,
    half_w: NDArray[Any] | None,
    d: NDArray[Any] | None,
) -> Callable[[NDArray[Any]], Add]:
    """Return a function of V, which returns `add(start, stop, out)`.

    That adds the part of users start to stop to an array of V's shape and dtype, in C order,
    without the GIL. With X_t the rows of these users: X_tᵀ(d_t∘(X_t V)), or with `half_w`, ½w,
    ½(w∘X_tᵀ(X_t V) + X_tᵀ(X_t (w∘V))). V is float32 or float64; for its width see
    `column_slices`.

    Parameters
    ----------
    indptr, indices, values : ndarray
        X as CSR; all values are 1 if `values` is None.
    factor : float, optional
        Values are multiplied by it, in float64, before they are rounded to the dtype of V.
    half_w, d : ndarray, optional
        Not together.
    """
    indptr, indices = _plain(indptr, np.int64), _plain(indices, np.int64)
    values = None if values is None else _plain(values, np.float64)

    def of(V: NDArray[Any]) -> Add:
        V = aligned(_plain(V))
        w, rows = (None if one is None else _plain(one.astype(V.dtype)) for one in (half_w, d))
        variant = _Variant(
            V.dtype,
            indptr.dtype,
            indices.dtype,
            None if values is None else values.dtype,
            factor is not None,
            w is not None,
            rows is not None,
            V.shape[1],
        )
        run = _compiled(variant)
        arrays = (indptr, indices, values, w, rows, V)

        def add(start: int, stop: int, out: NDArray[Any]) -> None:
            addresses = [None if array is None else array.ctypes.data for array in (*arrays, out)]
            run(*addresses, factor or 0.0, start, stop)

        return add

    return of


def column_slices(width: int, dtype: np.dtype[Any]) -> list[slice]:
    """Return slices of columns that the loop can take: powers of two, the widest first.

    Examples
    --------
    >>> column_slices(36, np.dtype(np.float64))
    [slice(0, 16, None), slice(16, 32, None), slice(32, 36, None)]
    """
    slices: list[slice] = []
    start = 0
    while start < width:
        stop = start + min(_ROW_BYTES // dtype.itemsize, 1 << ((width - start).bit_length() - 1))
        slices.append(slice(start, stop))
        start = stop
    return slices


def _plain(array: NDArray[Any], otherwise: type[np.generic] | None = None) -> NDArray[Any]:
    """Return the array as instructions read it: in C order, with this machine's order of bytes.

    `otherwise` is what types without instructions become: other indices, whole values.
    """
    dtype = array.dtype if array.dtype.isnative else array.dtype.newbyteorder("=")
    whole = otherwise is np.int64
    if dtype not in TYPES or (dtype.kind in "iu") != whole:
        dtype = dtype if otherwise is None else np.dtype(otherwise)
    return np.ascontiguousarray(array, dtype=dtype)


@cache
def _compiled(variant: _Variant) -> Callable[..., None]:
    module = ir.Module()
    _write_function(module, variant)
    arguments = [ctypes.c_void_p] * 7 + [ctypes.c_double] + [ctypes.c_int64] * 2
    return translated(module, "add_gram", arguments)


def translated(module: ir.Module, name: str, arguments: list[Any]) -> Callable[..., None]:
    """Return a function of the module, translated for this processor; it runs without the GIL."""
    for prepare in _SETUP:
        prepare()
    target = llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(), features=llvm.get_host_cpu_features().flatten(), opt=3
    )
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(str(module)), target)
    engine.finalize_object()
    function: Any = ctypes.CFUNCTYPE(None, *arguments)(engine.get_function_address(name))
    function.engine = engine  # the instructions are freed with it
    return function


def _write_function(module: ir.Module, variant: _Variant) -> None:
    """Write add_gram(indptr, indices, values, half_w, d, V, out, factor, start, stop)."""
    number = TYPES[variant.number]
    arrays = (
        variant.indptr,
        variant.indices,
        variant.values or variant.number,
        *4 * [variant.number],
    )
    types = [TYPES[dtype].as_pointer() for dtype in arrays] + [ir.DoubleType()] + [_INT64] * 2
    function = ir.Function(module, ir.FunctionType(ir.VoidType(), types), "add_gram")
    indptr, indices, values, half_w, d, V, out, factor, start, stop = function.args
    b = ir.IRBuilder(function.append_basic_block())
    one = _INT64(1)

    def whole(array: Any, at: Any) -> Any:
        return _as(b, b.load(b.gep(array, [at])), _INT64)

    last_entry = b.sub(whole(indptr, stop), one)

    def entry(p: Any) -> tuple[Any, Any, Any]:
        """Return the item of an entry, its value, and ½w of the item times the value."""
        j = whole(indices, p)
        x = number(1)
        if variant.values:
            x = b.load(b.gep(values, [p]))
            if variant.scaled:
                x = b.fmul(_as(b, x, ir.DoubleType()), factor)
            x = _as(b, x, number)
        w = b.load(b.gep(half_w, [j])) if variant.weighted else number(0)
        return j, x, b.fmul(w, x, flags=FAST) if variant.weighted else w

    vector = ir.VectorType(number, variant.width)
    size = variant.number.itemsize
    row_bytes = variant.width * size

    def at(array: Any, j: Any) -> Any:
        return b.bitcast(b.gep(array, [b.mul(j, _INT64(variant.width))]), vector.as_pointer())

    def plus(total: Any, c: Any, v: Any) -> Any:
        return b.fadd(total, b.fmul(repeated(b, c, vector), v, flags=FAST), flags=FAST)

    def request(place: Any, *, write: bool) -> None:
        for line in range(0, row_bytes, _CACHE_LINE):
            _prefetch(b, b.gep(b.bitcast(place, _BYTES), [_INT64(line)]), write=write)

    # with one sum per column, the processor itself looks far enough ahead, and with narrower
    # rows the arithmetic takes longer than memory
    from_memory = variant.weighted and row_bytes >= _CACHE_LINE

    def of_user(user: Any) -> list[Any]:
        first, last = whole(indptr, user), b.sub(whole(indptr, b.add(user, one)), one)

        def gather(p: Any, *sums: Any) -> list[Any]:
            j, x, xw = entry(p)
            v = b.load(at(V, j), align=size)
            if from_memory:
                ahead = b.add(p, _INT64(_AHEAD))
                ahead = b.select(b.icmp_signed("<", ahead, last_entry), ahead, last_entry)
                request(at(V, whole(indices, ahead)), write=False)
                request(at(out, j), write=True)
            return [plus(total, c, v) for total, c in zip(sums, (x, xw), strict=False)]

        zeros = [ir.Constant(vector, None)] * (2 if variant.weighted else 1)
        _, y, *weighted = write_loop(b, first, last, one, zeros, gather)
        if variant.row_weighted:
            y = b.fmul(repeated(b, b.load(b.gep(d, [user])), vector), y, flags=FAST)

        def scatter(p: Any) -> list[Any]:
            j, x, xw = entry(p)
            place = at(out, j)
            total = b.load(place, align=size)
            for c, part in zip((xw, x), (y, *weighted), strict=True) if weighted else [(x, y)]:
                total = plus(total, c, part)
            b.store(total, place, align=size)
            return []

        write_loop(b, first, last, one, [], scatter)
        return []

    write_loop(b, start, b.sub(stop, one), one, [], of_user)
    b.ret_void()


def write_loop(
    b: Any, start: Any, last: Any, step: Any, carried: list[Any], body: Callable[..., list[Any]]
) -> list[Any]:
    """Write a loop from start to last; return the index and the carried values after it."""
    before, head, after = b.block, b.append_basic_block(), b.append_basic_block()
    initial = [start, *carried]
    b.cbranch(b.icmp_signed("<=", start, last), head, after)
    b.position_at_end(head)
    current = [b.phi(value.type) for value in initial]
    changed = body(*current)
    following = [b.add(current[0], step), *changed]
    end = b.block
    b.cbranch(b.icmp_signed("<=", following[0], last), head, after)
    b.position_at_end(after)
    final = [b.phi(value.type) for value in initial]
    for phi, other, value, new in zip(current, final, initial, following, strict=True):
        for one in (phi, other):
            one.add_incoming(value, before)
            one.add_incoming(new, end)
    return final


def _prefetch(b: Any, place: Any, *, write: bool) -> None:
    """Load a line of memory into the first cache, to be written or only to be read."""
    flag = ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [_BYTES, flag, flag, flag])
    keep_near, data = flag(3), flag(1)
    b.call(
        b.module.declare_intrinsic("llvm.prefetch", [_BYTES], kind),
        [place, flag(int(write)), keep_near, data],
    )


def repeated(b: Any, number: Any, vector: Any) -> Any:
    """Return a vector of equal numbers."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = b.insert_element(nothing, number, ir.IntType(32)(0))
    places = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return b.shuffle_vector(first, nothing, places)


def _as(b: Any, value: Any, wanted: Any) -> Any:
    """Convert an index to a wider one, or a float to another float."""
    if value.type == wanted:
        return value
    if isinstance(wanted, ir.IntType):
        return b.zext(value, wanted)
    return b.fpext(value, wanted) if wanted == ir.DoubleType() else b.fptrunc(value, wanted)


def _setup() -> list[Callable[[], None]]:
    """Return what llvmlite must do first; from 0.45 on it initializes LLVM itself."""
    version = tuple(int(part) for part in llvmlite.__version__.split(".")[:2])
    native = [llvm.initialize_native_target, llvm.initialize_native_asmprinter]
    return native if version >= (0, 45) else [llvm.initialize, *native]


_SETUP = _setup()

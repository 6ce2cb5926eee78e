"""Eigenpairs by LAPACK: of a dense matrix, and of an operator within a small subspace.

All solvers share the rules set here. They return the largest *algebraic* eigenvalues of a
symmetric, indefinite matrix, only positive ones, and choose the signs of the vectors in one way.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray
from scipy.linalg import cython_lapack

from equipoise.spectral import matmul
from equipoise.spectral.matmul import Block, Floats

# `rayleigh_ritz` accepts V without a new basis if no entry of VᵀV − I exceeds this. The condition
# number of VᵀV is then near 1, and the generalized eigenproblem loses no digits.
_NEARLY_ORTHONORMAL = 1e-3

# Cholesky QR squares the condition of W. These relative pivots square to 1e-6 and 1e-14, some tens
# of rounding errors of float32 (1e-7) and float64 (2e-16): smaller ones would be mostly rounding.
_SAFE_PIVOT_FLOAT32, _SAFE_PIVOT_FLOAT64 = 1e-3, 1e-7

# The sum of a unit vector is at most √size. Below this share of it, the error of the solver (about
# 1e-6) can change the sign of the sum.
_NO_CLEAR_SUM = 1e-6

# Columns of a product that is needed only for its norms: enough for BLAS, few to hold.
_COLUMNS_AT_ONCE = 64

# Sizes from which LAPACK picks some eigenpairs faster than it computes all, in one thread: 40 of
# 300 take as long as all, 40 of 224 and 120 of 500 take longer, 300 of 1,500 take less time.
_MANY, _FEW = 300, 5

BoundMethod = Literal["lapack", "lanczos", "cholesky"]


class Operator(Protocol):
    """A symmetric matrix M, available only through its products."""

    size: int

    @property
    def passes(self) -> int:
        """Passes over the data so far."""

    @property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision in which products are fast."""

    def __call__(self, V: Block) -> Block:
        """Return MV in V's dtype."""


@dataclass(frozen=True)
class Eigenpairs:
    """The leading eigenpairs of an operator, largest first.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive eigenvalues θ; fewer than requested if there are no more.
    vectors : ndarray of shape (size, k)
        Orthonormal U, float64.
    residuals : ndarray of shape (k,)
        ‖M u − θ u‖ of each pair, measured in float64.
    next_value : float
        An estimate from above of the largest eigenvalue left out (−inf if none is left): the next
        Ritz value plus its residual.
    passes : int
        Passes over the data.
    method : {"lapack", "lanczos", "cholesky"}
        How `next_value` was obtained.
    """

    values: Floats
    vectors: Floats
    residuals: Floats
    next_value: float
    passes: int
    method: BoundMethod

    def in_units(self, unit: float) -> Eigenpairs:
        """Return the pairs of the operator times `unit`."""
        return replace(
            self,
            values=self.values * unit,
            residuals=self.residuals * unit,
            next_value=self.next_value * unit,
        )

    @property
    def max_residual(self) -> float:
        """The largest residual relative to the largest eigenvalue."""
        return float(self.residuals.max() / self.values[0]) if len(self.values) else 0.0


def dense_eigenpairs(M: Floats, rank: int, *, overwrite: bool = False) -> Eigenpairs:
    """Leading eigenpairs of a dense symmetric matrix.

    With `overwrite`, half of M is destroyed, and M is freed as soon as it is not needed if the
    caller keeps no reference to it: a large M is then the only matrix of its size.
    """
    size = M.shape[0]
    values, vectors = largest_eigenpairs(M, rank + 1, overwrite=overwrite)
    next_value = float(values[rank]) if rank < size else -np.inf
    values, vectors = values[:rank], vectors[:, :rank]
    residuals = _residuals_of_lower(M, values, vectors)
    del M
    found = Eigenpairs(values, vectors, residuals, next_value, passes=1, method="lapack")
    return keep_positive(found, size * np.finfo(np.float64).eps)


def _residuals_of_lower(M: Floats, values: Floats, vectors: Floats) -> Floats:
    """Return ‖M u_i − θ_i u_i‖ from the lower triangle of M, some columns at a time."""
    residuals = np.empty(len(values))
    for start in range(0, len(values), _COLUMNS_AT_ONCE):
        some = slice(start, start + _COLUMNS_AT_ONCE)
        left = sl.blas.dsymm(1.0, M.T, vectors[:, some])  # the upper triangle of the transpose
        residuals[some] = np.linalg.norm(left - vectors[:, some] * values[some], axis=0)
    return residuals


def rayleigh_ritz(operator: Operator, V: Block, next_value: float = -np.inf) -> Eigenpairs:
    """The best eigenpairs within the column space of V, in float64, with true residuals.

    V may be only nearly orthonormal, as after an iteration in float32: the small generalized
    eigenproblem VᵀMV z = θ VᵀV z corrects for that without a new basis.
    """
    given, V = V, matmul.aligned_empty(V.shape, np.float64)
    V[...] = given  # a copy, which becomes U
    G = matmul.inner(V, V)
    if np.abs(G - np.eye(len(G))).max() > _NEARLY_ORTHONORMAL:
        V = orthonormalize(V).Q
        G = matmul.inner(V, V)
    W = operator(V).astype(np.float64, copy=False)
    H = matmul.inner(V, W)
    values, Z = sl.eigh((H + H.T) / 2, (G + G.T) / 2, check_finite=False)
    values, Z = values[::-1], np.ascontiguousarray(Z[:, ::-1])
    residuals = matmul.ritz_vectors(V, W, Z, values)
    return Eigenpairs(values, V, residuals, next_value, operator.passes, "lanczos")


def keep_positive(found: Eigenpairs, zero: float) -> Eigenpairs:
    """Drop eigenvalues of at most `zero` times the largest, and fix the signs."""
    largest = float(np.abs(found.values).max())
    count = int(np.count_nonzero(found.values > zero * largest))
    next_value = found.next_value
    if count < len(found.values):
        next_value = max(0.0, float(found.values[count] + found.residuals[count]))
    return replace(
        found,
        values=found.values[:count].copy(),
        vectors=fix_signs(found.vectors[:, :count]),
        residuals=found.residuals[:count].copy(),
        next_value=next_value,
    )


def fix_signs(U: Floats) -> Floats:
    """Make the sum of every column positive, or its largest entry where the sum vanishes.

    On real data the sum is far from 0; the largest entry alone has near-ties.
    """
    sums = U.sum(axis=0)
    for j in np.flatnonzero(np.abs(sums) <= _NO_CLEAR_SUM * np.sqrt(U.shape[0])):
        sums[j] = U[np.abs(U[:, j]).argmax(), j]
    return np.ascontiguousarray(U * np.where(sums < 0, -1.0, 1.0))


def largest_eigenpairs(A: Floats, count: int, *, overwrite: bool = False) -> tuple[Floats, Floats]:
    """The `count` largest eigenvalues of a symmetric matrix, largest first, and their vectors.

    With `overwrite`, no copy of A is made: its lower triangle and diagonal stay, the rest does not.
    """
    size = len(A)
    count = min(count, size)
    # picking some pairs (evr) always takes less memory than computing all (evd), which works in two
    # more matrices, but is faster only where few are picked of many
    if overwrite or (size >= _MANY and _FEW * count <= size):
        diagonal = A.diagonal().copy()
        values, vectors = _last_eigenpairs(A if overwrite else A.copy(), count)
        if overwrite:
            np.fill_diagonal(A, diagonal)
        # LAPACK may return fewer than requested where nearly all eigenvalues are equal
        if len(values) == count:
            return values[::-1], vectors[:, ::-1]
    values, vectors = _all_eigenpairs(np.array(A.T, order="C"))
    return values[::-1][:count], vectors[:, ::-1][:, :count]


def _last_eigenpairs(A: Floats, count: int) -> tuple[Floats, Floats]:
    """The largest eigenvalues in ascending order, and their vectors; destroys half of A."""
    size, found = len(A), np.zeros(1, np.intc)
    A = np.require(A, np.float64, "C")
    values, vectors = np.empty(size), np.empty((count, size))
    support = np.empty(2 * count, np.intc)
    fixed = (b"V", b"I", b"L", size, A, size, 0.0, 0.0, size - count + 1, size, 0.0)
    _call_with_work_space("dsyevr", *fixed, found, values, vectors, size, support)
    return values[: found[0]], vectors[: found[0]].T


def _all_eigenpairs(A: Floats) -> tuple[Floats, Floats]:
    """All eigenvalues in ascending order, and their vectors in the place of A."""
    values = np.empty(len(A))
    _call_with_work_space("dsyevd", b"V", b"L", len(A), A, len(A), values)
    return values, A.T


def _call_with_work_space(name: str, *arguments: Any) -> None:
    """Call a routine that needs work space, as large as it asks for."""
    work, iwork = np.empty(1), np.empty(1, np.intc)
    call_lapack(name, *arguments, work, -1, iwork, -1)
    work, iwork = np.empty(int(work[0])), np.empty(iwork[0], np.intc)
    failed = call_lapack(name, *arguments, work, len(work), iwork, len(iwork))
    if failed:
        raise np.linalg.LinAlgError(f"LAPACK's {name} found no eigenvectors (info = {failed})")


def call_lapack(name: str, *arguments: Any) -> int:
    """Call a routine of LAPACK and return `info`, its last argument: 0 if all went well.

    SciPy's own functions hold Python's global lock: a large problem would stop all other threads,
    and what they show, for minutes. Arrays are contiguous, and LAPACK sees their transpose.
    """
    info = np.zeros(1, np.intc)
    _lapack_routine(name)(*[_pointer(argument) for argument in (*arguments, info)])
    return int(info[0])


@cache
def _lapack_routine(name: str) -> Callable[..., None]:
    capsule = cython_lapack.__pyx_capi__[name]
    name_of = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)
    address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
    signature = name_of(("PyCapsule_GetName", ctypes.pythonapi))(capsule)
    address = address_in(("PyCapsule_GetPointer", ctypes.pythonapi))(capsule, signature)
    n_arguments = signature.count(b",") + 1
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * n_arguments)(address)


def _pointer(value: NDArray[Any] | bytes | float) -> Any:
    """Fortran takes the address of every argument."""
    match value:
        case np.ndarray():
            return value.ctypes.data
        case int():
            return ctypes.byref(ctypes.c_int(value))
        case float():
            return ctypes.byref(ctypes.c_double(value))
    return value


class Orthonormal(NamedTuple):
    """W = Q R with QᵀQ = I."""

    Q: Block
    R: Floats


def orthonormalize(W: Block, squares: Block | None = None) -> Orthonormal:
    """Orthonormal basis of W's columns: Cholesky QR twice, Householder where that is unsafe.

    `squares` is WᵀW where the caller has it.
    """
    safe = _SAFE_PIVOT_FLOAT32 if W.dtype == np.float32 else _SAFE_PIVOT_FLOAT64
    Q, R = W, np.eye(W.shape[1])
    for G in (squares, None):
        G = (matmul.inner(Q, Q) if G is None else G).astype(np.float64, copy=False)
        norms = np.sqrt(np.maximum(G.diagonal(), np.finfo(np.float64).tiny))
        try:
            L = np.linalg.cholesky(G / np.outer(norms, norms)).T
        except np.linalg.LinAlgError:
            return _householder(W)
        if L.diagonal().min() < safe:
            return _householder(W)
        inverse, _ = sl.lapack.dtrtri(L * norms)
        Q = matmul.times(Q, inverse)
        R = (L * norms) @ R
    return Orthonormal(Q, R)


def _householder(W: Block) -> Orthonormal:
    Q, R = sl.qr(W, mode="economic", check_finite=False)
    return Orthonormal(Q, R.astype(np.float64))

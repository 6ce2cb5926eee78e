"""G(V) = XᵀXV: the one question that the solver asks the data.

Whoever answers it (a sparse matrix in memory, a dense Gram matrix, a file, a cluster) can be
fitted. All answer in units of `scale`, the largest squared column norm of X, so that float32
arithmetic neither overflows nor underflows whatever units the user counts in.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp

from equipoise.memory import require
from equipoise.spectral import tall
from equipoise.spectral.norms import squared_column_norms
from equipoise.spectral.tall import Block, Floats

Product = Callable[[Block], Block]

# A compiled sweep wins from about this many interactions; below, loading the compiler costs
# more than a whole fit with SciPy's products.
COMPILED_FROM = 300_000

# Rows densified at a time when BLAS accumulates the Gram matrix: at most this many bytes.
_DENSE_BLOCK_BYTES = 64 * 2**20

# Dense items × items matrices of float64 held at once: XᵀX, the same in units of its scale, and M.
# EASE holds XᵀX and a sparse product of up to 1.5 of them, later the inverse and its weights.
_DENSE_MATRICES = 3

# Multiply-adds a second when XᵀX is formed, as ratios that matter: one BLAS thread on dense
# blocks of users, SciPy's sparse product, the compiled loop on two cores.
_BLAS_RATE, _SCIPY_RATE, _LOOP_RATE = 2.9e10, 1.5e8, 5.0e8


class Gram(ABC):
    """Answers products with XᵀX / scale.

    Attributes
    ----------
    n_items : int
        Number of columns of X.
    squared_norms : ndarray of shape (n_items,)
        The diagonal of XᵀX, in the user's units, float64.
    scale : float
        The largest of them: the unit in which products are answered.
    working_dtype : numpy.dtype
        The precision in which the iteration is fast; the last sweep is always float64.
    """

    # Whether reading the data costs more than the arithmetic on them
    reading_dominates: ClassVar[bool] = False

    n_items: int
    squared_norms: Floats
    scale: float
    working_dtype: np.dtype[Any]

    @abstractmethod
    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype."""

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale, one read of the data per call."""

        def product(V: Block) -> Block:
            w = weights.astype(V.dtype)[:, None]
            width = V.shape[1]
            both = self.product(np.hstack([V, w * V]))
            return (w * both[:, :width] + both[:, width:]) / 2

        return product


class SparseGram(Gram):
    """XᵀX of a sparse matrix in memory, never formed.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        Non-negative, canonical.
    compiled : bool, optional
        Use the fused kernels instead of SciPy's products. By default from
        `COMPILED_FROM` interactions on.
    """

    def __init__(self, X: sp.csr_array, *, compiled: bool | None = None) -> None:
        self.X = X
        self.n_items = X.shape[1]
        self.row_weights: Floats | None = None
        self.squared_norms = squared_column_norms(X)
        self.scale = self._unit = float(self.squared_norms.max())
        self.compiled = X.nnz >= COMPILED_FROM if compiled is None else compiled
        self.working_dtype = np.dtype(np.float32 if self.compiled else np.float64)
        self._single: sp.csr_array | None = None

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype."""
        X, unit = self._matrix(V.dtype)
        d = None if self.row_weights is None else self.row_weights.astype(V.dtype)
        if self.compiled:
            from equipoise.spectral import kernels

            answer = kernels.sweep(X, np.ascontiguousarray(V), row_weights=d)
        else:
            answer = X.T @ _rows_weighted(X @ V, d)
        answer /= unit
        return answer

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale; the compiled form reads X once."""
        if not self.compiled or self.row_weights is not None:
            return super().weighted_product(weights)
        from equipoise.spectral import kernels

        def product(V: Block) -> Block:
            X, unit = self._matrix(V.dtype)
            w = weights.astype(V.dtype)
            answer = kernels.sweep(X, np.ascontiguousarray(V), w)
            answer /= unit
            return answer

        return product

    def row_weighted(self, d: Floats) -> SparseGram:
        """Return the products with Xᵀ diag(d) X, d of any sign; X is not copied.

        The squared norms stay those of X: Xᵀ diag(d) X may have a negative diagonal.
        """
        self._matrix(self.working_dtype)  # a copy in float32 is shared, not made for every d
        weighted = copy.copy(self)
        largest = max(float(np.abs(d).max()), np.finfo(np.float64).tiny)
        weighted.row_weights, weighted.scale = d / largest, self._unit * largest
        return weighted

    def _matrix(self, dtype: np.dtype[Any]) -> tuple[sp.csr_array, float]:
        """The matrix to multiply with, and what to divide its Gram products by.

        Float64 takes X as it is, without a copy; float32 a copy that is in units already.
        """
        if dtype == np.float64:
            return self.X, self._unit
        if self._single is None:
            unit = np.sqrt(self._unit)
            values = np.divide(self.X.data, unit, dtype=np.float64).astype(np.float32)
            self._single = sp.csr_array((values, self.X.indices, self.X.indptr), shape=self.X.shape)
        return self._single, 1.0


class DenseGram(Gram):
    """XᵀX as a dense m × m matrix: for few items, or many fits on one X.

    Parameters
    ----------
    C : ndarray of shape (n_items, n_items)
        XᵀX in the user's units, float64.
    """

    def __init__(self, C: Floats) -> None:
        self.n_items = C.shape[0]
        self.squared_norms = C.diagonal().copy()
        self.scale = float(self.squared_norms.max())
        self.C = C / self.scale
        self.working_dtype = np.dtype(np.float64)

    @classmethod
    def of(cls, X: sp.csr_array) -> DenseGram:
        """Form XᵀX of a sparse matrix; see `gram_matrix`."""
        return cls(gram_matrix(X))

    @staticmethod
    def require_memory(n_items: int, purpose: str, advice: str) -> None:
        """Refuse dense matrices of items × items that this machine has no memory for."""
        require(
            _DENSE_MATRICES * 8 * n_items**2,
            f"{purpose} forms dense matrices of {n_items:,} × {n_items:,} items. That",
            advice,
        )

    @staticmethod
    def seconds(X: sp.csr_array) -> float:
        """About how long `of` will take: for choosing whether to form XᵀX at all."""
        return min(_gram_ways(X).values())

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype."""
        return tall.times(self.C.astype(V.dtype, copy=False), V)

    def weighted_matrix(self, weights: Floats) -> Floats:
        """Return M / scale = C∘(w_i + w_j)/2."""
        M: Floats = self.C * ((weights[:, None] + weights[None, :]) / 2)
        return M

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ MV / scale with M formed once."""
        matrices = {self.C.dtype: self.weighted_matrix(weights)}

        def product(V: Block) -> Block:
            if V.dtype not in matrices:
                matrices[V.dtype] = matrices[self.C.dtype].astype(V.dtype)
            return tall.times(matrices[V.dtype], V)

        return product


def _rows_weighted(Y: Block, d: Block | None) -> Block:
    return Y if d is None else d[:, None] * Y


class Sweep(NamedTuple):
    """One product with XᵀX: the vectors, the weights of M if any, the unit, the loops."""

    V: Block
    weights: Block | None
    scale: float
    compiled: bool
    threads: int | None


class BlockGram(Gram):
    """XᵀX of blocks of rows, never formed: each product is one sum over the blocks.

    Parameters
    ----------
    total : callable
        From a `Sweep` to the sum of `sweep_rows` over all blocks, added in one fixed order.
    squared_norms : ndarray of shape (n_items,)
        Of the columns of X.
    nnz : int
        Number of entries of X.
    threads : int, optional
        Threads within a block. One on a cluster, which gives the sum the same order on every
        machine; all cores by default.
    """

    reading_dominates = True

    def __init__(
        self,
        total: Callable[[Sweep], Block],
        squared_norms: Floats,
        nnz: int,
        *,
        threads: int | None = None,
    ) -> None:
        self.total = total
        self.n_items = len(squared_norms)
        self.squared_norms = squared_norms
        self.scale = float(squared_norms.max())
        self.threads = threads
        self.compiled = nnz >= COMPILED_FROM
        self.working_dtype = np.dtype(np.float32 if self.compiled else np.float64)

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype: one pass over the data."""
        return self._sweep(V, None)

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale, one pass over the data per call."""
        return lambda V: self._sweep(V, weights)

    def _sweep(self, V: Block, weights: Floats | None) -> Block:
        w = None if weights is None else weights.astype(V.dtype)
        return self.total(
            Sweep(np.ascontiguousarray(V), w, self.scale, self.compiled, self.threads)
        )


def sweep_rows(X: sp.csr_array, ask: Sweep, row_weights: Floats | None = None) -> Block:
    """Return XᵀXV / scale of some rows, or ½(w∘XᵀXV + XᵀX(w∘V)) / scale with weights.

    With row weights d, of any sign, it is Xᵀ(d∘XV) / scale.
    """
    X = _in_units(X, ask.V.dtype, ask.scale)
    if row_weights is not None:
        if ask.weights is not None:
            raise NotImplementedError("item weights and row weights in one pass")
        return _sweep_weighted_rows(X, ask, row_weights.astype(ask.V.dtype))
    if ask.compiled:
        from equipoise.spectral import kernels

        V = _read_only(np.ascontiguousarray(ask.V))
        return kernels.sweep(X, V, ask.weights, threads=ask.threads)
    if ask.weights is None:
        plain: Block = X.T @ (X @ ask.V)
        return plain
    w, width = ask.weights[:, None], ask.V.shape[1]
    both = X.T @ (X @ np.hstack([ask.V, w * ask.V]))
    weighted: Block = (w * both[:, :width] + both[:, width:]) / 2
    return weighted


def _sweep_weighted_rows(X: sp.csr_array, ask: Sweep, d: Block) -> Block:
    if ask.compiled:
        from equipoise.spectral import kernels

        V = _read_only(np.ascontiguousarray(ask.V))
        return kernels.sweep(X, V, row_weights=_read_only(d), threads=ask.threads)
    product: Block = X.T @ (d[:, None] * (X @ ask.V))
    return product


def _in_units(X: sp.csr_array, dtype: np.dtype[Any], scale: float) -> sp.csr_array:
    """Divide by √scale: float32 then neither overflows nor underflows. Nothing of it is kept."""
    values = (X.data / np.sqrt(scale)).astype(dtype)
    parts = (_read_only(values), _read_only(X.indices), _read_only(X.indptr))
    return sp.csr_array(parts, shape=X.shape, copy=False)


def _read_only(array: Any) -> Any:
    """Return a read-only view: arrays from the network are, and loops compile for one kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def gram_matrix(X: sp.csr_array) -> Floats:
    """Form XᵀX by the fastest of three methods: BLAS on dense blocks, SciPy, the compiled loop."""
    ways = _gram_ways(X)
    return min(ways, key=ways.__getitem__)(X)


def _gram_ways(X: sp.csr_array) -> dict[Callable[[sp.csr_array], Floats], float]:
    """The ways to form XᵀX, and about how many seconds each takes."""
    entries = np.diff(X.indptr).astype(np.float64)
    pairs = float(entries @ entries)  # entries of a user, two by two: what sparse products touch
    ways: dict[Callable[[sp.csr_array], Floats], float] = {
        _gram_by_blocks: X.shape[0] * float(X.shape[1]) ** 2 / _BLAS_RATE,
        _gram_by_scipy: pairs / _SCIPY_RATE,
    }
    if X.nnz >= COMPILED_FROM:
        ways[_gram_by_loop] = pairs / _LOOP_RATE
    return ways


def _gram_by_scipy(X: sp.csr_array) -> Floats:
    wide = X.astype(np.float64, copy=False)
    C: Floats = (wide.T @ wide).toarray()
    return C


def _gram_by_loop(X: sp.csr_array) -> Floats:
    from equipoise.spectral import kernels

    return kernels.gram(X)


def _gram_by_blocks(X: sp.csr_array) -> Floats:
    n_users, n_items = X.shape
    C = np.zeros((n_items, n_items))
    rows = max(1, _DENSE_BLOCK_BYTES // (8 * n_items))
    for start in range(0, n_users, rows):
        block = X[start : start + rows].astype(np.float64).toarray()
        C += block.T @ block
    return C

"""Gram operators: the product XᵀXV is the only way in which the solver reads the data.

Any data with this product can be fitted: a sparse matrix in memory, a dense Gram matrix, blocks on
disk or on a cluster. Products are in units of `scale`, the largest squared column norm of X:
float32 arithmetic then neither overflows nor underflows, whatever the units of the data.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.memory import require
from equipoise.spectral import matmul
from equipoise.spectral.matmul import Block, Floats
from equipoise.spectral.norms import squared_column_norms

Product = Callable[[Block], Block]
GramMethod = Literal["blas", "scipy", "parallel"]

# Interactions from which products use the parallel loop, in float32. Below, SciPy's products finish
# a whole fit in less time than it takes to translate the loop (less than a tenth of a second).
PARALLEL_FROM = 20_000

# Interactions from which XᵀX is formed by a loop that numba compiles, which takes about a second.
_GRAM_LOOP_FROM = 300_000

# Rows are made dense in pieces of at most this many bytes when BLAS adds up the Gram matrix: large
# enough for BLAS to be efficient, small compared with the memory of any machine.
_DENSE_BLOCK_BYTES = 64 * 2**20

# Dense items × items matrices of float64 held at once: XᵀX, the same in units of its scale, and M.
# EASE holds XᵀX and a sparse product of up to 1.5 of them, later the inverse and its weights.
_DENSE_MATRICES = 3

# Multiply-adds per second when XᵀX is formed, measured on two cores; only their ratios matter.
_RATES: dict[GramMethod, float] = {"blas": 2.9e10, "scipy": 1.5e8, "parallel": 5.0e8}

# The smallest normal float32 is 1e-38. Sums over entries of M / scale that are all below this value
# would involve subnormal numbers, which have fewer digits.
_FLOAT32_LEAST = 1e-28


class Gram(ABC):
    """Products with XᵀX / scale.

    Attributes
    ----------
    n_items : int
        Number of columns of X.
    squared_norms : ndarray of shape (n_items,)
        The diagonal of XᵀX, in the units of the data, float64.
    scale : float
        The largest of them: the unit of the products.
    working_dtype : numpy.dtype
        The precision in which the iteration is fast. The last pass is always in float64.
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

    @abstractmethod
    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale, one pass over the data per call."""

    def in_own_units(self) -> Self:
        """Return the same products with scale 1: those of X divided by its largest column norm."""
        unit = copy.copy(self)
        unit.squared_norms, unit.scale = self.squared_norms / self.scale, 1.0
        return unit


class _RowsGram(Gram):
    """XᵀX that is never formed: each product is a pass over the rows of X."""

    def __init__(self, squared_norms: Floats, *, parallel: bool, row_scale: float = 1.0) -> None:
        self.n_items, self.squared_norms = len(squared_norms), squared_norms
        self._unit = float(squared_norms.max())
        self.scale = self._unit * row_scale
        self.parallel = parallel
        self.working_dtype = np.dtype(np.float32 if parallel else np.float64)

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype: one pass over the data."""
        return self._multiply(V, None)

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale, one pass over the data per call."""
        return lambda V: self._multiply(V, weights.astype(V.dtype))

    @abstractmethod
    def _multiply(self, V: Block, weights: Block | None) -> Block:
        """Return the product, or with weights the weighted one."""


class SparseGram(_RowsGram):
    """XᵀX of a sparse matrix in memory; the product is computed without forming XᵀX.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        Non-negative, canonical.
    parallel : bool, optional
        Use the parallel loops instead of SciPy's products. By default from
        `PARALLEL_FROM` interactions on.

    Attributes
    ----------
    rows : csr_array
        X as products read it: the parallel loop, whose time is that of memory, with short indices.
    """

    def __init__(self, X: sp.csr_array, *, parallel: bool | None = None) -> None:
        parallel = X.nnz >= PARALLEL_FROM if parallel is None else parallel
        super().__init__(squared_column_norms(X), parallel=parallel)
        self.X = X
        self.row_weights: Floats | None = None
        self._equal_values = self.parallel and bool(X.data.min() == X.data.max())
        self.rows = _with_short_indices(X) if self.parallel else X

    def row_weighted(self, d: Floats) -> SparseGram:
        """Return the products with Xᵀ diag(d) X, d of any sign; X is not copied.

        The squared norms stay those of X: Xᵀ diag(d) X may have a negative diagonal.
        """
        weighted = copy.copy(self)
        largest = max(float(np.abs(d).max()), np.finfo(np.float64).tiny)
        weighted.row_weights, weighted.scale = d / largest, self._unit * largest
        return weighted

    def _multiply(self, V: Block, weights: Block | None) -> Block:
        wanted = GramProduct(V, weights, self._unit, self.parallel)
        return _multiply(self.rows, wanted, self.row_weights, equal_values=self._equal_values)


def _with_short_indices(X: sp.csr_array) -> sp.csr_array:
    """Return X with indices of two or four bytes; SciPy's own products do not accept two."""
    shortest = np.dtype(np.uint16 if X.shape[1] <= 2**16 else np.int32)
    if X.indices.itemsize <= shortest.itemsize or X.shape[1] > 2**31:
        return X
    rows = copy.copy(X)
    rows.indices = X.indices.astype(shortest)
    return rows


class DenseGram(Gram):
    """XᵀX as a dense matrix: for few items, or many fits on one X.

    Parameters
    ----------
    C : ndarray of shape (n_items, n_items)
        XᵀX in the units of the data, float64.
    owned : bool
        Whether C may be overwritten, which saves a copy.
    """

    def __init__(self, C: Floats, *, owned: bool = False) -> None:
        self.n_items = C.shape[0]
        self.squared_norms = C.diagonal().copy()
        self.scale = float(self.squared_norms.max())
        self.C = np.divide(C, self.scale, out=C if owned else None)
        self.working_dtype = np.dtype(np.float64)

    def matrix(self) -> Floats:
        """Return XᵀX in the units of the data."""
        C: Floats = self.C * self.scale
        return C

    @classmethod
    def of(cls, X: sp.csr_array) -> DenseGram:
        """Form XᵀX of a sparse matrix; see `gram_matrix`."""
        return cls(gram_matrix(X), owned=True)

    @staticmethod
    def bytes_of(n_items: int) -> int:
        """Return the memory of the dense items × items matrices of a fit."""
        return _DENSE_MATRICES * 8 * n_items**2

    @staticmethod
    def require_memory(n_items: int, purpose: str, advice: str) -> None:
        """Refuse dense items × items matrices that exceed the available memory."""
        require(
            DenseGram.bytes_of(n_items),
            f"{purpose} forms dense matrices of {n_items:,} × {n_items:,} items. That",
            advice,
        )

    @staticmethod
    def seconds(row_entries: NDArray[Any], n_items: int) -> float:
        """Estimate how long `of` takes for rows with so many entries each."""
        return min(_gram_seconds(row_entries, n_items).values())

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype."""
        return matmul.times(self.C.astype(V.dtype, copy=False), V)

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
            return matmul.times(matrices[V.dtype], V)

        return product


class GramProduct(NamedTuple):
    """One product with XᵀX as it is sent to the blocks: what `multiply_rows` needs besides X."""

    V: Block
    weights: Block | None
    scale: float
    parallel: bool
    threads: int | None = None


class BlockGram(_RowsGram):
    """XᵀX of blocks of rows: each product is one sum over the blocks, without forming XᵀX.

    Parameters
    ----------
    total : callable
        From a `GramProduct` to the sum of `multiply_rows` over all blocks, in one fixed order.
    squared_norms : ndarray of shape (n_items,)
        Of the columns of X.
    nnz : int
        Number of entries of X.
    threads : int, optional
        Threads within a block. One on a cluster, which gives the sum the same order on every
        machine; all cores by default.
    row_scale : float
        Where `total` weights rows, the unit of those weights.
    """

    reading_dominates = True

    def __init__(
        self,
        total: Callable[[GramProduct], Block],
        squared_norms: Floats,
        nnz: int,
        *,
        threads: int | None = None,
        row_scale: float = 1.0,
    ) -> None:
        super().__init__(squared_norms, parallel=nnz >= PARALLEL_FROM, row_scale=row_scale)
        self.total, self.threads = total, threads

    def _multiply(self, V: Block, weights: Block | None) -> Block:
        V = np.ascontiguousarray(V)
        return self.total(GramProduct(V, weights, self._unit, self.parallel, self.threads))


def multiply_rows(X: sp.csr_array, wanted: GramProduct, row_weights: Floats | None = None) -> Block:
    """Return XᵀXV / scale of some rows, or ½(w∘XᵀXV + XᵀX(w∘V)) / scale with weights.

    With row weights d, of any sign, XᵀX is Xᵀ diag(d) X.
    """
    if not wanted.parallel:
        values = X.data / np.sqrt(wanted.scale)  # in units: squares do not overflow
        X = sp.csr_array((values, X.indices, X.indptr), shape=X.shape, copy=False)
        wanted = wanted._replace(scale=1.0)
    return _multiply(X, wanted, row_weights)


def _multiply(
    X: sp.csr_array,
    wanted: GramProduct,
    row_weights: Block | None,
    *,
    equal_values: bool = False,
) -> Block:
    """Return what `multiply_rows` does, by the parallel loop or by SciPy's products."""
    V, weights, unit, parallel, threads = wanted

    def product(columns: Block, w: Block | None = None) -> Block:
        if parallel:
            from equipoise.spectral.kernels import gram_product

            return gram_product(
                X,
                columns,
                w,
                row_weights=row_weights,
                threads=threads,
                unit=unit,
                equal_values=equal_values,
            )
        scores = X @ columns
        total = X.T @ (scores if row_weights is None else row_weights[:, None] * scores)
        total /= unit
        return total.astype(V.dtype, copy=False)

    # SciPy's products take no item weights; the loop takes either item weights or row weights
    if weights is None or (parallel and row_weights is None):
        return product(V, weights)
    w, width = weights[:, None], V.shape[1]
    both = product(np.hstack([V, w * V]))
    weighted: Block = (w * both[:, :width] + both[:, width:]) / 2
    return weighted


def gram_matrix(X: sp.csr_array, method: GramMethod | None = None) -> Floats:
    """Form XᵀX, dense, in float64.

    Parameters
    ----------
    X : csr_array of shape (n_users, n_items)
        With sorted indices.
    method : {"blas", "scipy", "parallel"}, optional
        BLAS on dense pieces of X is fastest for few items, SciPy's sparse product for few
        interactions, the parallel loop for many. By default the one estimated to be fastest.
    """
    seconds = _gram_seconds(np.diff(X.indptr), X.shape[1])
    chosen = min(seconds, key=seconds.__getitem__) if method is None else method
    if chosen == "blas":
        return _gram_by_blas(X)
    if chosen == "scipy":
        wide = X.astype(np.float64, copy=False)
        C: Floats = (wide.T @ wide).toarray()
        return C
    from equipoise.spectral import kernels

    return kernels.gram_matrix(X)


def _gram_seconds(row_entries: NDArray[Any], n_items: int) -> dict[GramMethod, float]:
    """Estimate the seconds that each method takes to form XᵀX."""
    entries = row_entries.astype(np.float64)
    pairs = float(entries @ entries)  # pairs of entries in a row: the work of a sparse product
    work: dict[GramMethod, float] = {
        "blas": len(entries) * float(n_items) ** 2,
        "scipy": pairs,
    }
    if entries.sum() >= _GRAM_LOOP_FROM:
        work["parallel"] = pairs
    return {method: operations / _RATES[method] for method, operations in work.items()}


def _gram_by_blas(X: sp.csr_array) -> Floats:
    n_users, n_items = X.shape
    C = np.zeros((n_items, n_items))
    rows = max(1, _DENSE_BLOCK_BYTES // (8 * n_items))
    for start in range(0, n_users, rows):
        block = X[start : start + rows].astype(np.float64).toarray()
        C += block.T @ block
    return C


class WeightedGram:
    """Products with M / scale, where M = ½(DC + CD), C = XᵀX and D = diag(w).

    The leading eigenvectors of M are the components. M is symmetric and *indefinite*. It is formed
    only for small catalogs. The passes over the data are counted.

    Parameters
    ----------
    gram : Gram
        Products XᵀXV.
    weights : ndarray of shape (n_items,)
        w, one weight per item, of any sign. If all are equal, M is a multiple of C and the
        cheaper unweighted product is used.

    Attributes
    ----------
    scale : float
        Eigenvalues of M in the units of the data are `scale` times those of the operator.
    passes, columns : int
        Passes over the data so far, and vectors multiplied in them.
    """

    def __init__(self, gram: Gram, weights: Floats) -> None:
        self.gram = gram
        self.size = gram.n_items
        # all zero weights give a zero matrix, not a division by zero
        largest = max(float(np.abs(weights).max()), np.finfo(np.float64).tiny)
        self.weights = weights / largest
        self.scale = gram.scale * largest
        self.passes = 0
        self.columns = 0

    @cached_property
    def _product(self) -> Product:
        """Built on first use: a dense Gram matrix forms M for it, and LAPACK needs no products."""
        uniform = bool(np.all(self.weights == 1.0))
        return self.gram.product if uniform else self.gram.weighted_product(self.weights)

    @cached_property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision in which the iteration is fast; float64 if float32 cannot represent M."""
        relative = np.sqrt(self.gram.squared_norms / self.gram.scale)
        largest = float((np.abs(self.weights) * relative).max())  # no entry of M / scale is larger
        return self.gram.working_dtype if largest > _FLOAT32_LEAST else np.dtype(np.float64)

    def __call__(self, V: Block) -> Block:
        """Return MV / scale in V's dtype: one pass over the data."""
        self.passes += 1
        self.columns += V.shape[1]
        return self._product(V)

    def dense(self) -> Floats | None:
        """Return M / scale as a matrix; None if the Gram matrix is not dense."""
        return self.gram.weighted_matrix(self.weights) if isinstance(self.gram, DenseGram) else None

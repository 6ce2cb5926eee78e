"""Symmetric matrices A_1, …, A_k that are known by their products: groups of items or of rows.

A family returns A(y) = Σ y_g A_g as an operator, and VᵀA_gV for every g from one pass over the
data. Groups of items weight the columns of X, groups of rows its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from equipoise.spectral import matmul
from equipoise.spectral.gram import Gram, SparseGram, WeightedGram
from equipoise.spectral.lapack import Operator
from equipoise.spectral.matmul import Block, Floats


class Family(Protocol):
    """k symmetric matrices of one size."""

    size: int
    k: int

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y) = Σ y_g A_g."""

    def image(self, V: Floats) -> Floats:
        """Return what `compress` needs of V: linear in V, one column per column of V."""

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀA_gV for every g, of shape (k, q, q)."""


class FamilyOperator(Operator, Protocol):
    """A(y) in units of `scale`, which small families can also return as a matrix."""

    @property
    def scale(self) -> float:
        """A(y) is `scale` times what products return."""

    def dense(self) -> Floats | None:
        """Return A(y) / scale as a matrix; None where that is not worthwhile."""


class MatrixFamily:
    """Symmetric matrices in memory.

    Parameters
    ----------
    matrices : array-like of shape (k, size, size)
        A_g, float64.

    Examples
    --------
    >>> family = MatrixFamily([np.eye(2), np.diag([3.0, 1.0])])
    >>> family.operator(np.array([1.0, 2.0])).dense().tolist()
    [[7.0, 0.0], [0.0, 3.0]]
    """

    def __init__(self, matrices: Any) -> None:
        self.A = np.asarray(matrices, dtype=np.float64)
        self.k, self.size = self.A.shape[0], self.A.shape[1]

    @classmethod
    def of(cls, family: Family) -> MatrixFamily:
        """Form the matrices of another family."""
        identity = np.eye(family.size)
        return cls(family.compress(identity, family.image(identity)))

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y)."""
        M = np.tensordot(y, self.A, 1)
        return FunctionOperator(self.size, lambda V: M @ V, lambda: M)

    def image(self, V: Floats) -> Floats:
        """Return V itself: products with small matrices are cheap."""
        return V

    def compress(self, V: Floats, image: Floats) -> Floats:  # noqa: ARG002
        """Return VᵀA_gV."""
        return _symmetric(V.T @ (self.A @ V))


class ItemFamily:
    """A_g = ½(D_gC + CD_g) with C = XᵀX and D_g = diag(s_·g): groups of columns.

    A(y) is the matrix of Item-Weighted PCA with weights Sy, of any sign.

    Parameters
    ----------
    gram : Gram
        Products with XᵀX.
    membership : ndarray of shape (n_items, k)
        S: how much each column counts in each group, scale included.
    """

    def __init__(self, gram: Gram, membership: Floats) -> None:
        self.gram, self.S = gram, membership
        self.size, self.k = membership.shape

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y) in the units of the data."""
        return WeightedGram(self.gram, self.S @ y)

    def image(self, V: Floats) -> Floats:
        """Return XᵀXV: one pass over the data."""
        return self.gram.product(np.ascontiguousarray(V)) * self.gram.scale

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀA_gV."""
        products = [matmul.inner(V, self.S[:, g, None] * image) for g in range(self.k)]
        return _symmetric(np.stack(products))


class RowGroups(Protocol):
    """Groups of the rows of X, in memory or in blocks.

    Attributes
    ----------
    n_items, k : int
        Columns of X, number of groups.
    sizes : ndarray of shape (k,)
        n_g: Σ over the rows of their membership.
    sums : ndarray of shape (k, n_items)
        Sum of the rows of each group.
    energies : ndarray of shape (k,)
        Sum of squares of each group's rows.
    """

    n_items: int
    k: int
    sizes: Floats
    sums: Floats
    energies: Floats

    def gram(self, y: Floats) -> Gram:
        """Return products with Xᵀ diag(d) X, d = Sy."""

    def image(self, V: Floats) -> Floats:
        """Return what `compress` needs of V."""

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return Σ_u s_ug (Vᵀx_u)(Vᵀx_u)ᵀ for every group."""

    def select(self, group: int) -> Gram:
        """Return products with C_g alone, reading no other rows where that is possible."""


class MatrixRowGroups:
    """Groups of the rows of a sparse matrix in memory.

    Parameters
    ----------
    X : csr_array of shape (n, n_items)
        Canonical.
    membership : csr_array of shape (n, k)
        S ≥ 0: how much each row counts in each group. A row of zeros belongs to no group.
    """

    def __init__(self, X: sp.csr_array, membership: sp.csr_array) -> None:
        self.X, self._gram = X, SparseGram(X)
        self.S = sp.csc_array(membership, dtype=np.float64)
        self.n_items, self.k = X.shape[1], membership.shape[1]
        self.sizes, self.sums, self.energies = group_totals(X, self.S)

    def gram(self, y: Floats) -> Gram:
        """Return products with Xᵀ diag(Sy) X."""
        return self._gram.row_weighted(self.S @ y)

    def select(self, group: int) -> Gram:
        """Return products with C_g."""
        rows, weights = self._members(group)
        # the loops that the whole matrix uses: they are compiled, and four times as fast
        gram = SparseGram(self.X[rows], parallel=self._gram.parallel)
        return gram if np.all(weights == 1.0) else gram.row_weighted(weights)

    def image(self, V: Floats) -> Floats:
        """Return XV: one pass over the data."""
        Y: Floats = self.X @ V
        return Y.astype(np.float64, copy=False)

    def compress(self, V: Floats, image: Floats) -> Floats:  # noqa: ARG002
        """Return Y_gᵀ diag(s_g) Y_g with Y = XV."""
        return compress_rows(image, self.S)

    def _members(self, group: int) -> tuple[Any, Floats]:
        part = slice(self.S.indptr[group], self.S.indptr[group + 1])
        return self.S.indices[part], self.S.data[part]


def group_totals(X: sp.csr_array, S: sp.csc_array) -> tuple[Floats, Floats, Floats]:
    """Sizes, sums of rows and sums of squares of every group."""
    sizes = np.asarray(S.sum(axis=0), dtype=np.float64).ravel()
    sums = np.asarray((S.T @ X.astype(np.float64, copy=False)).todense())
    squares = sp.csr_array((X.data.astype(np.float64) ** 2, X.indices, X.indptr), shape=X.shape)
    energies: Floats = S.T @ np.asarray(squares.sum(axis=1)).ravel()
    return sizes, sums, energies


def compress_rows(Y: Floats, S: sp.csc_array) -> Floats:
    """Σ_u s_ug y_u y_uᵀ for every column g of S.

    Examples
    --------
    >>> Y, S = np.array([[1.0], [2.0], [3.0]]), sp.csc_array([[1.0, 0], [0, 1], [1, 0]])
    >>> compress_rows(Y, S).ravel().tolist()
    [10.0, 4.0]
    """
    found = np.empty((S.shape[1], Y.shape[1], Y.shape[1]))
    for g in range(S.shape[1]):
        part = slice(S.indptr[g], S.indptr[g + 1])
        rows = Y[S.indices[part]]
        found[g] = rows.T @ (S.data[part, None] * rows)
    return found


class RowFamily:
    """A_g = c_g (X_gᵀX_g − n_g μ_g μ_gᵀ), the second term only if centered: groups of rows.

    Parameters
    ----------
    rows : RowGroups
        The rows and their groups.
    scale : ndarray of shape (k,)
        c_g, e.g. 1/n_g for averages.
    center : bool
        Subtract the mean μ_g of each group.
    """

    def __init__(self, rows: RowGroups, scale: Floats, *, center: bool = False) -> None:
        self.rows, self.scale, self.center = rows, scale, center
        self.size, self.k = rows.n_items, rows.k

    @cached_property
    def _means(self) -> Floats:
        return self.rows.sums / self.rows.sizes[:, None]

    @property
    def energies(self) -> Floats:
        """Tr A_g / c_g: the sum of squares of each group's rows, centered or not."""
        means = np.square(self._means).sum(axis=1) * self.rows.sizes if self.center else 0.0
        return self.rows.energies - means

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y): rows weighted by d, and a correction of rank k if centered."""
        return self._operator(self.rows.gram(y * self.scale), y * self.scale * self.rows.sizes)

    def alone(self, group: int) -> FamilyOperator:
        """Return A_g of one group."""
        counts = np.zeros(self.k)
        counts[group] = self.rows.sizes[group]
        return self._operator(self.rows.select(group), counts, self.scale[group])

    def _operator(self, gram: Gram, counts: Floats, factor: float = 1.0) -> FamilyOperator:
        plain = WeightedGram(gram, np.full(self.size, factor))
        return low_rank(plain, self._means, -counts * factor) if self.center else plain

    def image(self, V: Floats) -> Floats:
        """Return XV or V, whichever `rows` needs."""
        return self.rows.image(V)

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀA_gV."""
        B = self.rows.compress(V, image)
        if self.center:
            M = self._means @ V
            B = B - self.rows.sizes[:, None, None] * (M[:, :, None] * M[:, None, :])
        return _symmetric(self.scale[:, None, None] * B)


class Combined:
    """A'_i = Σ_g T_ig A_g: other functionals of the same groups, such as their differences.

    Parameters
    ----------
    family : Family
        A_g.
    T : ndarray of shape (k', k)
        Coefficients, of any sign.
    """

    def __init__(self, family: Family, T: Floats) -> None:
        self.family, self.T = family, np.asarray(T, dtype=np.float64)
        self.size, self.k = family.size, self.T.shape[0]

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A'(y) = A(Tᵀy)."""
        return self.family.operator(self.T.T @ y)

    def image(self, V: Floats) -> Floats:
        """Return the image of the family."""
        return self.family.image(V)

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀA'_iV."""
        return np.tensordot(self.T, self.family.compress(V, image), 1)


class FactorFamily:
    """A_g = F_g diag(c_g) F_gᵀ with few columns F_g each.

    Parameters
    ----------
    factors : sequence of ndarray of shape (size, any)
        F_g.
    coefficients : sequence of ndarray
        c_g: one number per column of F_g, of any sign.
    """

    def __init__(self, factors: Sequence[Floats], coefficients: Sequence[Floats]) -> None:
        self.F, self.c = np.hstack(factors), np.concatenate(coefficients)
        self.size, self.k = self.F.shape[0], len(factors)
        self._group = np.repeat(np.arange(self.k), [len(c) for c in coefficients])

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y)."""
        F, c = self.F, self.c * y[self._group]
        return FunctionOperator(
            self.size, lambda V: F @ (c[:, None] * (F.T @ V)), lambda: (F * c) @ F.T
        )

    def image(self, V: Floats) -> Floats:
        """Return FᵀV."""
        return self.F.T @ V

    def compress(self, V: Floats, image: Floats) -> Floats:  # noqa: ARG002
        """Return VᵀA_gV."""
        parts = ((image[self._group == g], self.c[self._group == g]) for g in range(self.k))
        return np.stack([rows.T @ (c[:, None] * rows) for rows, c in parts])


class Stacked:
    """The matrices of several families, one family after another.

    Parameters
    ----------
    *families : Family
        Of one size.
    """

    def __init__(self, *families: Family) -> None:
        self.families = families
        self.size, self.k = families[0].size, sum(family.k for family in families)
        self._rows = [0] * len(families)

    def operator(self, y: Floats) -> FamilyOperator:
        """Return A(y), the sum over the families."""
        parts = np.split(y, np.cumsum([family.k for family in self.families])[:-1])
        terms = [f.operator(part) for f, part in zip(self.families, parts, strict=True)]

        def product(V: Block) -> Block:
            return np.sum([term.scale * term(V) for term in terms], axis=0, dtype=V.dtype)

        def matrix() -> Floats | None:
            found = [(term.scale, term.dense()) for term in terms]
            known = [scale * M for scale, M in found if M is not None]
            return np.sum(known, axis=0) if len(known) == len(terms) else None

        return FunctionOperator(self.size, product, matrix, terms)

    def image(self, V: Floats) -> Floats:
        """Return the images of all families, one below the other."""
        images = [family.image(V) for family in self.families]
        self._rows = [len(image) for image in images]
        return np.vstack(images)

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀA_gV."""
        images = np.split(image, np.cumsum(self._rows)[:-1])
        return np.concatenate(
            [f.compress(V, part) for f, part in zip(self.families, images, strict=True)]
        )


class Deflated:
    """ΠA_gΠ with Π = I − NNᵀ: the family on the complement of some directions.

    Parameters
    ----------
    family : Family
        A_g.
    N : ndarray of shape (size, any)
        Orthonormal.
    """

    def __init__(self, family: Family, N: Floats) -> None:
        self.family, self.N = family, N
        self.size, self.k = family.size, family.k

    def operator(self, y: Floats) -> FamilyOperator:
        """Return ΠA(y)Π."""
        operator, N = self.family.operator(y), self.N

        def product(V: Block) -> Block:
            return remove(N, operator(remove(N, V)))

        return FunctionOperator(self.size, product, lambda: None, [operator], operator.scale)

    def image(self, V: Floats) -> Floats:
        """Return the image of ΠV."""
        return self.family.image(remove(self.N, V))

    def compress(self, V: Floats, image: Floats) -> Floats:
        """Return VᵀΠA_gΠV."""
        return self.family.compress(remove(self.N, V), image)


class FunctionOperator:
    """An operator given by functions, such as a sum of others, in float64: digits may cancel.

    Parameters
    ----------
    size : int
        Rows of the matrix.
    product : callable
        Returns the product with V.
    matrix : callable
        Returns the matrix, or None where that is not worthwhile.
    parts : sequence of FamilyOperator
        The operators that `product` uses; without any, every product is one pass.
    scale : float
        Unit of the products.
    """

    working_dtype = np.dtype(np.float64)

    def __init__(
        self,
        size: int,
        product: Callable[[Block], Block],
        matrix: Callable[[], Floats | None],
        parts: Sequence[FamilyOperator] = (),
        scale: float = 1.0,
    ) -> None:
        self.size, self.scale, self.dense = size, scale, matrix
        self._product, self._parts, self._products = product, parts, 0

    @property
    def passes(self) -> int:
        """Passes over the data so far."""
        return sum(part.passes for part in self._parts) if self._parts else self._products

    def __call__(self, V: Block) -> Block:
        """Return the product."""
        self._products += 1
        return self._product(V)


def low_rank(
    operator: FamilyOperator, F: Floats, coefficients: Floats, diagonal: Floats | float = 0.0
) -> FunctionOperator:
    """Return M + Fᵀ diag(c) F + diag(d) for few rows F."""
    c, d = coefficients / operator.scale, np.broadcast_to(diagonal, operator.size) / operator.scale

    def product(V: Block) -> Block:
        rows, weights, own = (part.astype(V.dtype, copy=False) for part in (F, c, d))
        return operator(V) + rows.T @ (weights[:, None] * (rows @ V)) + own[:, None] * V

    def matrix() -> Floats | None:
        M = operator.dense()
        return None if M is None else M + F.T @ (c[:, None] * F) + np.diag(d)

    return FunctionOperator(operator.size, product, matrix, [operator], operator.scale)


def remove(N: Floats, V: Block) -> Block:
    """(I − NNᵀ)V, twice for orthogonality to rounding."""
    N = N.astype(V.dtype, copy=False)
    for _ in range(2):
        V = V - N @ (N.T @ V)
    return V


def _symmetric(B: Floats) -> Floats:
    return (B + B.transpose(0, 2, 1)) / 2

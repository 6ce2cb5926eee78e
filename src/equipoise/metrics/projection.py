"""How a low-rank model reproduces each item: self-reconstruction, specialization and item error.

Self-reconstruction is the diagonal of the projection P = U diag(f) Uᵀ: how much of an item's score
comes from the user's own entry for that item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import (
    check_matrix,
    check_ranks,
    check_same_shape,
    check_share,
    check_user_items,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import slices
from equipoise.metrics.metric import declared
from equipoise.metrics.results import FloatArray, IntArray
from equipoise.parallel import one_blas_thread
from equipoise.spectral.matmul import inner
from equipoise.spectral.norms import squared_column_norms

# Factors from a float32 solver are orthonormal to about 1e-6. Anything further off is taken for
# general factors, and QR of nearly orthonormal factors would change nothing that matters.
_ORTHONORMAL_WITHIN = 1e-5

# Columns that a sparse product takes at a time: the rows of some thousand items, which it reads in
# no order, then stay in the second-level cache, and n × 64 numbers are few compared with X.
_COLUMNS_AT_ONCE = 64

# Items whose sums over components are formed at a time: a megabyte at 256 components, which stays
# in the cache.
_ITEMS_AT_ONCE = 512

# A column that keeps less than this share of its length after the earlier ones are taken out
# is rounding noise, and QR would give it an arbitrary direction.
_DEPENDENT_BELOW = 1e-10


def orthonormal_basis(item_factors: ArrayLike) -> FloatArray:
    """Return orthonormal columns that span the same space, prefix by prefix.

    Orthonormal factors are returned unchanged. Others are orthonormalized by QR: the first r
    columns still span the same space as the first r factors.

    Parameters
    ----------
    item_factors : array-like of shape (m, r)
        One row per item. Columns must be linearly independent.

    Examples
    --------
    >>> orthonormal_basis([[1.0, 1.0], [0.0, 2.0]]).round(6) + 0.0
    array([[1., 0.],
           [0., 1.]])
    """
    U = check_matrix(item_factors, "item_factors")
    n_items, r = U.shape
    if r > n_items:
        raise InvalidDataError(
            f"item_factors has {r} columns for {n_items} items. Rows are items: transpose it?"
        )
    with one_blas_thread():  # threads of BLAS spin for a while after a product
        products = inner(U, U)
    if np.abs(products - np.eye(r)).max(initial=0.0) <= _ORTHONORMAL_WITHIN:
        return U
    Q, R = np.linalg.qr(U)
    lengths = np.linalg.norm(U, axis=0)
    kept = np.abs(np.diag(R))
    dependent = np.flatnonzero(kept <= _DEPENDENT_BELOW * lengths)
    if len(dependent):
        raise InvalidDataError(
            f"item_factors has linearly dependent columns (first: column {dependent[0]}). "
            "Drop them: they add nothing to the space."
        )
    # LAPACK leaves the sign of each column open; this one keeps each column's own direction
    return np.asarray(Q * np.sign(np.diag(R)), dtype=np.float64)


def weighted_basis(item_factors: ArrayLike, component_weights: ArrayLike | None) -> Basis:
    """Return U and U·diag(f), the two sides of P = U diag(f) Uᵀ."""
    U = orthonormal_basis(item_factors)
    if component_weights is None:
        return Basis(U, U)
    f = np.asarray(component_weights, dtype=np.float64)
    if f.shape != (U.shape[1],) or not np.isfinite(f).all():
        raise InvalidParameterError(
            f"component_weights must be {U.shape[1]} finite numbers, one per column of "
            f"item_factors, got shape {f.shape}."
        )
    if U is not item_factors and not np.array_equal(U, np.asarray(item_factors, dtype=np.float64)):
        raise InvalidDataError(
            "component_weights need orthonormal item_factors, whose directions they weigh. "
            "Orthonormalize the factors first, or leave component_weights out."
        )
    return Basis(U, U * f)


def column_slices(n_columns: int) -> Iterator[slice]:
    """Return the columns that a sparse product takes at a time."""
    return slices(n_columns, _COLUMNS_AT_ONCE)


class Basis(NamedTuple):
    """The two sides of P = left · rightᵀ; for the paper's projection they are both U."""

    left: FloatArray
    right: FloatArray

    def diagonal(self, ranks: IntArray) -> FloatArray:
        """Return the diagonal of P at each rank."""
        return _at_ranks(lambda some: self.left[some] * self.right[some], len(self.left), ranks)


def _at_ranks(steps: Callable[[slice], FloatArray], n_items: int, ranks: IntArray) -> FloatArray:
    """Return the sum of the first r steps of every item at each rank r, some items at a time."""
    sums = np.empty((len(ranks), n_items))
    for some in slices(n_items, _ITEMS_AT_ONCE):
        each = steps(some)
        running = np.zeros((len(each), each.shape[1] + 1))
        np.cumsum(each, axis=1, out=running[:, 1:])
        sums[:, some] = running[:, ranks].T
    return sums


def self_reconstruction(
    item_factors: ArrayLike,
    ranks: Sequence[int] | IntArray | None = None,
    *,
    component_weights: ArrayLike | None = None,
) -> FloatArray:
    """Self-reconstruction of every item at every rank: the diagonal of the projection.

        (P_r)_jj = Σ_{i≤r} f_i U_ji²

    where

    - U is an orthonormal basis of the item factors (m × R), and P_r projects on its first r;
    - f_i is the weight of component i, 1 by default.

    It is the share of an item's score that comes from the user's own entry for that item: near 1
    the model copies the entry, near 0 it ignores it.

    Parameters
    ----------
    item_factors : array-like of shape (m, R)
        Orthonormal, or any factors: their column space is taken.
    ranks : sequence of int, optional
        By default every rank 0, 1, ..., R: row r is rank r.
    component_weights : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ, for models that weigh their components.

    Returns
    -------
    ndarray of shape (len(ranks), m)

    Examples
    --------
    >>> U = [[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]]
    >>> self_reconstruction(U)
    array([[0.  , 0.  , 0.  ],
           [1.  , 0.  , 0.  ],
           [1.  , 0.36, 0.64]])
    """
    basis = weighted_basis(item_factors, component_weights)
    return basis.diagonal(check_ranks(ranks, basis.left.shape[1]))


def specialization(diagonal: ArrayLike, share: float = 0.1) -> float | FloatArray:
    """Mean self-reconstruction of the items with the largest.

        (1/|T|) Σ_{j∈T} P_jj,   T = {j : P_jj ≥ q_{1−s}}

    where s is the share and q the percentile (linear interpolation) of the entries. Ties with
    the percentile belong to T.

    Parameters
    ----------
    diagonal : array-like of shape (m,) or (ranks, m)
        As `self_reconstruction` returns it.
    share : float, default 0.1
        The paper's top 10 %.

    Returns
    -------
    float, or one float per rank

    Examples
    --------
    Of 0.0, 0.1, ..., 1.0 the 90th percentile is 0.9: the mean of 0.9 and 1.0.

    >>> round(specialization([0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]), 6)
    0.95
    """
    entries = np.asarray(diagonal, dtype=np.float64)
    if entries.ndim not in (1, 2) or entries.size == 0 or not np.isfinite(entries).all():
        raise InvalidDataError(
            "diagonal must be finite, of shape (items,) or (ranks, items), "
            f"got shape {entries.shape}."
        )
    cut = np.percentile(entries, 100 * (1 - check_share(share, "share")), axis=-1, keepdims=True)
    largest = entries >= cut
    mean = np.where(largest, entries, 0.0).sum(axis=-1) / largest.sum(axis=-1)
    return float(mean) if entries.ndim == 1 else np.asarray(mean)


class Block(Protocol):
    """Some users: anything with a CSR `matrix` of them, and their ranks in the data."""

    matrix: Any
    order: Any


@runtime_checkable
class Blocks(Protocol):
    """Users in blocks, in memory or elsewhere: `Interactions`."""

    @property
    def rows(self) -> Any:
        """The blocks; they have a length."""

    @property
    def n_users(self) -> int:
        """Number of users."""

    @property
    def n_items(self) -> int:
        """Number of items."""

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return the result for every block, in order."""

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum over all blocks."""


class Whole(NamedTuple):
    """A matrix as `Blocks`: all users are its one block."""

    matrix: sp.csr_array

    @property
    def rows(self) -> tuple[Whole]:
        """The one block."""
        return (self,)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.matrix.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items."""
        return int(self.matrix.shape[1])

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return the result for the block."""
        return [function(self, *shared)]

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the result for the block."""
        return function(self, *shared)


def unchanged(rows: Any) -> Any:
    """Return the rows of data unchanged."""
    return rows


def in_blocks(X: Any, inputs: Any = None) -> tuple[Blocks, Callable[[Any], Any]]:
    """Return the users, and the function from their rows to those that are scored."""
    if isinstance(X, Blocks):
        if not (inputs is None or callable(inputs)):
            raise InvalidParameterError(
                "inputs of Interactions must be a function of a CSR matrix."
            )
        return X, inputs or unchanged
    labels = check_user_items(X)
    if inputs is None:
        return Whole(labels), unchanged
    scored = check_user_items(inputs, "inputs")
    check_same_shape(labels, scored, ("X", "inputs"))
    return Whole(labels), lambda _: scored


def item_error(
    X: Any,
    item_factors: ArrayLike,
    ranks: Sequence[int] | IntArray | None = None,
    *,
    component_weights: ArrayLike | None = None,
) -> FloatArray:
    """Normalized item error at every rank.

        e_j(r) = ‖X_·j − (XP_r)_·j‖² / ‖X_·j‖²
               = (C_jj − 2 Σ_{i≤r} (CU)_ji U_ji + u_jᵀ (UᵀCU)_r u_j) / C_jj

    where

    - C = XᵀX is never built: CU takes one pass over X;
    - u_j is row j of U cut at r, and P_r = U_r U_rᵀ (U_r diag(f) U_rᵀ with weights).

    Works for any orthonormal U, not only for the principal components of X.

    Parameters
    ----------
    X : sparse matrix (n, m) or Interactions
        Users × items, as they are projected; `Interactions` may be on disk or on a cluster.
    item_factors : array-like of shape (m, R)
        Orthonormal, or any factors: their column space is taken.
    ranks : sequence of int, optional
        By default every rank 0, 1, ..., R: row r is rank r.
    component_weights : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ.

    Returns
    -------
    ndarray of shape (len(ranks), m)
        nan for an item without users.

    Examples
    --------
    One component along the first item: the first is reproduced, the second is lost.

    >>> item_error([[1.0, 0.0], [1.0, 1.0]], [[1.0], [0.0]])
    array([[1., 1.],
           [0., 1.]])
    """
    basis = weighted_basis(item_factors, component_weights)
    chosen = check_ranks(ranks, basis.left.shape[1])
    data, prepare = in_blocks(X)
    check_n_items(data.n_items, basis)
    return _errors(data, prepare, basis, chosen)


def check_n_items(n_items: int, basis: Basis) -> None:
    """Refuse factors of another catalog."""
    if n_items != len(basis.left):
        raise InvalidDataError(f"X has {n_items} items, item_factors has {len(basis.left)} rows.")


def _errors(
    data: Blocks, prepare: Callable[[Any], Any], basis: Basis, ranks: IntArray
) -> FloatArray:
    U, W = basis
    CU, total = data.total(_block_products, U, prepare)
    # Component r adds the terms of row and column r of UᵀCU that earlier components did not have.
    G = U.T @ CU
    terms = 2 * np.triu(G, 1) + np.diag(np.diag(G))
    error = _at_ranks(lambda some: W[some] * (W[some] @ terms - 2 * CU[some]), len(U), ranks)
    error += total
    np.divide(error, total, out=error, where=total > 0)
    error[:, total == 0] = np.nan
    # a squared length: values below zero are rounding
    return np.asarray(np.maximum(error, 0.0, out=error))


def _gram_product(X: sp.csr_array, U: FloatArray) -> FloatArray:
    """Return XᵀXU a few columns at a time."""
    product = np.empty_like(U)
    for columns in column_slices(U.shape[1]):
        product[:, columns] = X.T @ (X @ U[:, columns])
    return product


def components_to_reach(
    errors: ArrayLike,
    share: float = 0.5,
    *,
    ranks: Sequence[int] | IntArray | None = None,
    unreached: float = np.nan,
) -> FloatArray:
    """Number of components after which an item's error is at most a share of the initial one.

    The first rank r with e_j(r) ≤ share. At rank 0 the error is 1, so the default is the
    paper's "number of principal components needed to halve the initial error".

    Parameters
    ----------
    errors : array-like of shape (ranks, m)
        As `item_error` returns it.
    share : float, default 0.5
        Share of the initial error, in (0, 1).
    ranks : sequence of int, optional
        Ranks of the rows, ascending; 0, 1, 2, ... by default.
    unreached : float, default nan
        Value for an item that no rank here brings under the share. nan needs ``nanmean`` and
        the number of items left out; the number of items is a conservative alternative.

    Returns
    -------
    ndarray of shape (m,)
        nan for an item without users.

    Examples
    --------
    >>> components_to_reach([[1.0, 1.0, 1.0], [0.4, 0.9, 1.0], [0.1, 0.5, 0.8]])
    array([ 1.,  2., nan])
    """
    e = np.asarray(errors, dtype=np.float64)
    if e.ndim != 2 or not len(e):
        raise InvalidDataError(f"errors must be of shape (ranks, items), got {e.shape}.")
    rows = np.arange(len(e)) if ranks is None else np.asarray(ranks)
    if rows.shape != (len(e),) or (np.diff(rows) <= 0).any():
        raise InvalidDataError(
            f"ranks must be {len(e)} ascending numbers, one per row of errors, got {ranks!r}."
        )
    reached = e <= check_share(share, "share")
    first: FloatArray = rows[np.argmax(reached, axis=0)].astype(np.float64)
    first[~reached.any(axis=0)] = unreached
    first[np.isnan(e).any(axis=0)] = np.nan
    return first


@dataclass(frozen=True, eq=False)
class ItemView:
    """A low-rank model at several sizes, and the data that it was fitted on.

    Attributes
    ----------
    data : Blocks
        The training data; an entry is a positive label.
    prepare : callable
        From rows of data to the rows that the model projects.
    factors : ndarray of shape (m, R)
        U, orthonormal.
    component_weights : ndarray of shape (R,)
        f.
    sizes : ndarray of int
        Numbers of components, ascending.
    items : ndarray of int
        The items whose AUC and precision are computed.
    k : int
        A cut-off of item precision that is wanted too: item AUC then comes from the same pass.
    kept : dict
        AUC and precision by cut-off, when they have been computed.
    """

    data: Blocks
    prepare: Callable[[Any], Any]
    factors: NDArray[Any]
    component_weights: NDArray[Any]
    sizes: IntArray
    items: IntArray
    k: int = 0
    kept: dict[int, Any] = field(default_factory=dict)

    @cached_property
    def basis(self) -> Basis:
        """The two sides of the projection."""
        weights = self.component_weights
        return weighted_basis(self.factors, None if np.all(weights == 1) else weights)


def _measure_error(view: ItemView, *_: Any) -> FloatArray:
    return _errors(view.data, view.prepare, view.basis, view.sizes)


def _block_products(
    block: Block, U: FloatArray, prepare: Callable[[Any], Any]
) -> tuple[FloatArray, FloatArray]:
    X = prepare(block.matrix)
    return _gram_product(X, U), squared_column_norms(X)


def _measure_self_reconstruction(view: ItemView, *_: Any) -> FloatArray:
    return view.basis.diagonal(view.sizes)


def _measure_specialization(view: ItemView, *_: Any) -> FloatArray:
    return np.asarray(specialization(view.basis.diagonal(view.sizes)))


METRICS = declared(
    specialization=_measure_specialization,
    self_reconstruction=_measure_self_reconstruction,
    item_error=_measure_error,
)

"""How far a low-rank model copies each item from itself: the diagonal of its projection."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics._checks import check_matrix, check_ranks, check_share
from equipoise.metrics.groups import ItemGroups, mean_by_group
from equipoise.metrics.results import FloatArray, GroupResult, IntArray

# Factors from a float32 solver are orthonormal to about 1e-6. Anything further off is taken for
# general factors, and QR of nearly orthonormal factors would change nothing that matters.
_ORTHONORMAL_WITHIN = 1e-5

# A column that keeps less than this share of its length after the earlier ones are taken out
# is rounding noise, and QR would give it an arbitrary direction.
_DEPENDENT_BELOW = 1e-10


def orthonormal_basis(item_factors: ArrayLike) -> FloatArray:
    """Return orthonormal columns that span the same space, prefix by prefix.

    Orthonormal factors come back as they are. Others go through QR, so that the first r
    columns still span what the first r factors span.

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
    if np.abs(U.T @ U - np.eye(r)).max(initial=0.0) <= _ORTHONORMAL_WITHIN:
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


def weighted_basis(item_factors: ArrayLike, spectrum: ArrayLike | None) -> Basis:
    """Return U and U·diag(f), the two sides of P = U diag(f) Uᵀ."""
    U = orthonormal_basis(item_factors)
    if spectrum is None:
        return Basis(U, U)
    f = np.asarray(spectrum, dtype=np.float64)
    if f.shape != (U.shape[1],) or not np.isfinite(f).all():
        raise InvalidParameterError(
            f"spectrum must be {U.shape[1]} finite numbers, one per column of item_factors, "
            f"got shape {f.shape}."
        )
    if U is not item_factors and not np.array_equal(U, np.asarray(item_factors, dtype=np.float64)):
        raise InvalidDataError(
            "spectrum needs orthonormal item_factors: it weighs their own directions. "
            "Orthonormalize them first, or leave spectrum out."
        )
    return Basis(U, U * f)


class Basis:
    """The two sides of P = left · rightᵀ; for the paper's projection they are both U."""

    __slots__ = ("left", "right")

    def __init__(self, left: FloatArray, right: FloatArray) -> None:
        self.left = left
        self.right = right

    def diagonal(self, ranks: IntArray) -> FloatArray:
        """Return the diagonal of P at each rank."""
        running = np.zeros((self.left.shape[1] + 1, len(self.left)))
        np.cumsum((self.left * self.right).T, axis=0, out=running[1:])
        return running[ranks]


def projection_diagonal(
    item_factors: ArrayLike,
    ranks: Sequence[int] | IntArray | None = None,
    *,
    spectrum: ArrayLike | None = None,
) -> FloatArray:
    """Diagonal of the projection at every rank.

        (P_r)_jj = Σ_{i≤r} f_i U_ji²

    where

    - U is an orthonormal basis of the item factors (m × R), and P_r projects on its first r;
    - f_i is the weight of component i, 1 unless a graded ``spectrum`` is given.

    The diagonal says how much of an item's score is the user's own entry for that item:
    near 1 the model copies, near 0 it has nothing to say.

    Parameters
    ----------
    item_factors : array-like of shape (m, R)
        Orthonormal, or any factors: their column space is taken.
    ranks : sequence of int, optional
        Which ranks; every rank 0, 1, ..., R by default, so that row r is rank r.
    spectrum : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ, for models that grade their components.

    Returns
    -------
    ndarray of shape (len(ranks), m)

    Examples
    --------
    >>> U = [[1.0, 0.0], [0.0, 0.6], [0.0, 0.8]]
    >>> projection_diagonal(U)
    array([[0.  , 0.  , 0.  ],
           [1.  , 0.  , 0.  ],
           [1.  , 0.36, 0.64]])
    """
    basis = weighted_basis(item_factors, spectrum)
    return basis.diagonal(check_ranks(ranks, basis.left.shape[1]))


def specialization(diagonal: ArrayLike, share: float = 0.1) -> float | FloatArray:
    """Mean of the largest diagonal entries of a projection.

        (1/|T|) Σ_{j∈T} P_jj,   T = {j : P_jj ≥ q_{1−s}}

    where s is the share and q the percentile (linear interpolation) of the entries. Ties with
    the percentile belong to T.

    Parameters
    ----------
    diagonal : array-like of shape (m,) or (ranks, m)
        As `projection_diagonal` returns it.
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


def diagonal_by_group(diagonal: ArrayLike, groups: ItemGroups) -> GroupResult[FloatArray]:
    """Mean diagonal entry within each group of items, rank by rank.

    Examples
    --------
    >>> groups = ItemGroups(("high", "low"), [0, 0, 1])
    >>> result = diagonal_by_group([[0.5, 0.7, 0.1]], groups)
    >>> {name: value.round(6).tolist() for name, value in result.by_group.items()}
    {'high': [0.6], 'low': [0.1]}
    """
    rows = np.atleast_2d(np.asarray(diagonal, dtype=np.float64))
    return mean_by_group(rows, groups, metric="projection diagonal")

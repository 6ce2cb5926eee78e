"""Which component an item waits for: its error at every rank, and the rank that halves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidDataError
from equipoise.metrics._checks import check_ranks, check_share, check_user_items
from equipoise.metrics.projection import weighted_basis
from equipoise.metrics.results import FloatArray, IntArray
from equipoise.spectral.norms import squared_column_norms

# Columns of U multiplied at a time: the n × 64 product stays small beside X itself.
_COLUMNS_AT_ONCE = 64


def item_error(
    X: Any,
    item_factors: ArrayLike,
    ranks: Sequence[int] | IntArray | None = None,
    *,
    spectrum: ArrayLike | None = None,
) -> FloatArray:
    """Normalized item error at every rank.

        e_j(r) = ‖X_·j − (XP_r)_·j‖² / ‖X_·j‖²
               = (C_jj − 2 Σ_{i≤r} (CU)_ji U_ji + u_jᵀ (UᵀCU)_r u_j) / C_jj

    where

    - C = XᵀX is never built: CU takes one pass over X;
    - u_j is row j of U cut at r, and P_r = U_r U_rᵀ (U_r diag(f) U_rᵀ with a spectrum).

    Works for any orthonormal U, not only for the principal components of X.

    Parameters
    ----------
    X : sparse matrix (n, m)
        Users × items.
    item_factors : array-like of shape (m, R)
        Orthonormal, or any factors: their column space is taken.
    ranks : sequence of int, optional
        Which ranks; every rank 0, 1, ..., R by default, so that row r is rank r.
    spectrum : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ.

    Returns
    -------
    ndarray of shape (len(ranks), m)
        nan for an item that nobody touched.

    Examples
    --------
    One component along the first item: it is copied, and the second is lost.

    >>> item_error([[1.0, 0.0], [1.0, 1.0]], [[1.0], [0.0]])
    array([[1., 1.],
           [0., 1.]])
    """
    X = check_user_items(X)
    basis = weighted_basis(item_factors, spectrum)
    U, W = basis.left, basis.right
    if X.shape[1] != len(U):
        raise InvalidDataError(f"X has {X.shape[1]} items, item_factors has {len(U)} rows.")
    return _errors(
        _gram_product(X, U), squared_column_norms(X), U, W, check_ranks(ranks, U.shape[1])
    )


def item_error_from_products(
    products: ArrayLike,
    squared_norms: ArrayLike,
    item_factors: ArrayLike,
    ranks: Sequence[int] | IntArray | None = None,
    *,
    spectrum: ArrayLike | None = None,
) -> FloatArray:
    """`item_error` for data that are elsewhere (a cluster, a disk), from what they answer.

    Parameters
    ----------
    products : array-like of shape (m, R)
        CU = XᵀXU.
    squared_norms : array-like of shape (m,)
        The diagonal of C = XᵀX.
    item_factors, ranks, spectrum
        As in `item_error`; the factors must be orthonormal.

    Examples
    --------
    >>> C = np.array([[2.0, 1.0], [1.0, 1.0]])
    >>> item_error_from_products(C[:, :1], C.diagonal(), [[1.0], [0.0]])
    array([[1., 1.],
           [0., 1.]])
    """
    basis = weighted_basis(item_factors, spectrum)
    U, W = basis.left, basis.right
    CU, squares = np.asarray(products, np.float64), np.asarray(squared_norms, np.float64)
    if CU.shape != U.shape or squares.shape != (len(U),):
        raise InvalidDataError(
            f"products must be {U.shape} like item_factors and squared_norms ({len(U)},), got "
            f"{CU.shape} and {squares.shape}."
        )
    return _errors(CU, squares, U, W, check_ranks(ranks, U.shape[1]))


def _errors(
    CU: FloatArray, total: FloatArray, U: FloatArray, W: FloatArray, chosen: IntArray
) -> FloatArray:
    G = U.T @ CU
    # Component r adds the terms of row and column r of G that earlier components did not have.
    steps = W * (2 * (W @ np.triu(G, 1)) + W * np.diag(G) - 2 * CU)
    running = np.zeros((U.shape[1] + 1, len(U)))
    np.cumsum(steps.T, axis=0, out=running[1:])
    error = running[chosen]
    error += total
    np.divide(error, total, out=error, where=total > 0)
    error[:, total == 0] = np.nan
    # a squared length: what lies below zero is rounding
    return np.asarray(np.maximum(error, 0.0))


def _gram_product(X: sp.csr_array, U: FloatArray) -> FloatArray:
    """Return XᵀXU a few columns at a time."""
    product = np.empty_like(U)
    for start in range(0, U.shape[1], _COLUMNS_AT_ONCE):
        columns = slice(start, start + _COLUMNS_AT_ONCE)
        product[:, columns] = X.T @ (X @ U[:, columns])
    return product


def components_to_reach(
    errors: ArrayLike,
    share: float = 0.5,
    *,
    ranks: Sequence[int] | IntArray | None = None,
    unreached: float = np.nan,
) -> FloatArray:
    """Components an item needs until its error is at most a share of what it was.

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
        Value for an item that no rank here brings under the share. nan keeps a mean honest
        only with ``nanmean`` and a word about how many were left out; the number of items
        is a cautious alternative.

    Returns
    -------
    ndarray of shape (m,)
        nan for an item that nobody touched.

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

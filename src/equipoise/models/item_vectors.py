"""A fitted model as arrays: vectors of items, an item × item matrix, norms and cosines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.ties import smallest_share

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

# Smaller float64 numbers have fewer significant digits, down to none.
_TINY = float(np.finfo(np.float64).tiny)

# Cosines of float32 vectors of some hundred entries differ by less through rounding.
_TIE = 1e-5


class Factors(NamedTuple):
    """Vectors whose inner products are a model's scores, ``users(rows) @ items.T``.

    Attributes
    ----------
    items : ndarray of shape (n_items, r)
        One vector per item.
    users : callable
        From rows of data, a CSR matrix, to one vector per user.
    """

    items: NDArray[Any]
    users: Callable[[csr_array], NDArray[Any]]


class LowRank(NamedTuple):
    """The score of item j for user u is Σ_i E_ui f_i U_ij, with coordinates E = prepare(X) Uᵀ.

    Attributes
    ----------
    components : ndarray of shape (R, n_items)
        U: orthonormal rows, the most important component first.
    component_weights : ndarray of shape (R,)
        f, which does not depend on R: the first r components score with the first r weights.
    prepare : callable
        From rows of data to the rows that are projected; can be sent to other processes.
    """

    components: NDArray[Any]
    component_weights: NDArray[Any]
    prepare: Prepare

    def coordinates(self, user_items: csr_array) -> NDArray[Any]:
        """Return E, one row per user."""
        prepared = self.prepare(user_items)
        return project_onto(self.components, prepared.nnz)(prepared)

    def user_vectors(self, user_items: csr_array) -> NDArray[Any]:
        """Return E·diag(f): scores are its inner products with the columns of the components."""
        return self.coordinates(user_items) * self.component_weights


def unchanged(user_items: csr_array) -> csr_array:
    """Return the rows unchanged."""
    return user_items


def project_onto(components: NDArray[Any], nnz: int) -> Callable[[csr_array], NDArray[Any]]:
    """Return the function X ↦ X Uᵀ for rows with so many entries in all, in the type of U.

    For few entries, only their columns of U are read; otherwise U is copied once, in the order that
    SciPy multiplies with.
    """
    from scipy.sparse import csr_array

    n_items = components.shape[1]
    loadings = None if 8 * nnz < n_items else np.ascontiguousarray(components.T)

    def project(rows: csr_array) -> NDArray[Any]:
        values = rows.data.astype(components.dtype, copy=False)
        if loadings is not None:
            rows = csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
            return np.asarray(rows @ loadings)
        few = components.T[rows.indices]
        if rows.shape[0] == 1:
            return np.asarray(values @ few)[None]
        entries = (values, np.arange(rows.nnz), rows.indptr)
        few = np.ascontiguousarray(few)
        return np.asarray(csr_array(entries, shape=(rows.shape[0], rows.nnz)) @ few)

    return project


class ItemItem(NamedTuple):
    """An item × item matrix B with the scores ``prepare(rows) @ B``.

    Attributes
    ----------
    coefficients : ndarray or csr_array of shape (n_items, n_items)
        B[i, j] is what an entry 1 at item i adds to the score of item j.
    prepare : callable
        From rows of data, a CSR matrix, to the rows that are multiplied.
    """

    coefficients: Any
    prepare: Callable[[csr_array], csr_array]


def item_norms(data: Interactions) -> Floats:
    """Return ‖X_·j‖₂ of every item; refuse values whose squares overflow or underflow."""
    norms = data.popularity("norm")
    with np.errstate(over="ignore", under="ignore"):  # refused below
        squares = np.square(norms)
    largest = float(squares.max())
    if not _TINY <= largest < np.inf:
        raise InvalidDataError(
            f"values as large as {data.largest_value():.3g} have squares beyond floating point. "
            "Multiply the data by a constant. If the model has a regularization, multiply that by "
            "the square of the constant."
        )
    vanished = (norms > 0) & (squares < _TINY)
    if vanished.any():  # these items would count as items without interactions
        raise InvalidDataError(
            f"the values of {int(vanished.sum())} item(s), the first in column "
            f"{int(vanished.argmax())}, are so small that their squares vanish, next to norms of "
            f"up to {float(np.sqrt(largest)):.3g}. Remove these items, or use one unit for all "
            "values."
        )
    return norms


def cosines_to(item: int, vectors: NDArray[Any]) -> NDArray[Any]:
    """Return the cosine of every item to one; −inf if either has no vector.

    Parameters
    ----------
    item : int
        Row of the item.
    vectors : ndarray of shape (n_items, r)
        One vector per row.

    Examples
    --------
    >>> cosines_to(0, np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]])).tolist()
    [1.0, 0.96, -inf]
    """
    norms = np.linalg.norm(vectors, axis=1)
    present = is_present(norms)
    known = present & present[item]
    divisors = np.where(known, norms * norms[item], 1.0)
    return np.where(known, vectors @ vectors[item] / divisors, -np.inf)


def itself_first(similarities: NDArray[Any], own: int) -> NDArray[Any]:
    """Let an item come before others that tie with it, up to rounding, in its own list.

    Examples
    --------
    >>> itself_first(np.array([1.0, 0.5, 1.0]), 2).argmax()
    np.int64(2)
    """
    largest = similarities.max()
    if similarities[own] >= largest - _TIE * abs(largest):
        similarities[own] = np.nextafter(largest, np.inf, dtype=similarities.dtype)
    return similarities


def is_present(norms: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items have a vector; a shorter one is rounding, of the solver or of storage.

    Examples
    --------
    >>> is_present(np.array([1.0, 1e-9, 5e-16])).tolist()
    [True, True, False]
    """
    least = max(float(np.finfo(norms.dtype).eps), smallest_share(np.float64))
    return np.asarray(norms > least * norms.max(initial=0))

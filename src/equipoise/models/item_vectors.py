"""Norms of the items' columns, and cosines between the items' vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError
from equipoise.metrics._ties import smallest_share

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Floats = NDArray[np.float64]

# Smaller float64 numbers have fewer significant digits, down to none.
_TINY = float(np.finfo(np.float64).tiny)


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
    cosines: NDArray[Any] = np.where(known, vectors @ vectors[item] / divisors, -np.inf)
    return cosines


def is_present(norms: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items have a vector; a shorter one is rounding, of the solver or of storage.

    Examples
    --------
    >>> is_present(np.array([1.0, 1e-9, 5e-16])).tolist()
    [True, True, False]
    """
    least = max(float(np.finfo(norms.dtype).eps), smallest_share(np.float64))
    return np.asarray(norms > least * norms.max(initial=0))

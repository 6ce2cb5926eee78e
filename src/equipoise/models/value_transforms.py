"""Transforms of the stored values before a model uses them, in `fit` and when serving.

Value transforms and user scaling depend on one user's row only, so they apply to new users too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock

ValueTransform = Literal["binary", "log1p", "one_plus"]
VALUE_TRANSFORMS: tuple[ValueTransform, ...] = get_args(ValueTransform)

_TRANSFORMS: dict[ValueTransform, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "binary": np.ones_like,
    "log1p": np.log1p,
    "one_plus": lambda values: values + 1,
}


# How rows can be prepared before a fit: the name of the method of `Interactions`
Preparation = Literal["binarize", "normalize_rows"]

# Values of float32 that were divided by their sum add up to 1 with an error of about 1e-7.
_SUM_TOLERANCE = 1e-6


def preparation_of(data: Interactions) -> Preparation | None:
    """Return how rows were prepared, as far as their values show: all 1, or sums of 1."""
    ones, shares = map(all, zip(*data.map(_prepared_values), strict=True))
    if ones:
        return "binarize"
    return "normalize_rows" if shares else None


def _prepared_values(block: RowBlock) -> tuple[bool, bool]:
    """Whether all values are 1, and whether all rows that are not empty sum to 1."""
    X = block.matrix
    sums = _row_sums(X)[np.diff(X.indptr) > 0]
    return bool(np.all(X.data == 1)), bool(np.all(np.abs(sums - 1) <= _SUM_TOLERANCE))


def first_unprepared(user_items: sp.csr_array, preparation: Preparation) -> int | None:
    """Return the first row that is surely not prepared like this, or None.

    Sums below 1 do not count: dropping items of a normalized row leaves such sums.
    """
    if preparation == "binarize":
        other = user_items.data != 1
        if not other.any():
            return None
        return int(np.searchsorted(user_items.indptr, other.argmax(), side="right")) - 1
    above = _row_sums(user_items) > 1 + _SUM_TOLERANCE
    return int(above.argmax()) if above.any() else None


def prepared_row(row: sp.csr_array, preparation: Preparation) -> sp.csr_array:
    """Return a single row, prepared."""
    values = np.ones_like(row.data) if preparation == "binarize" else row.data / row.data.sum()
    return sp.csr_array((values, row.indices, row.indptr), shape=row.shape)


def has_different_values(data: Interactions) -> bool:
    """Whether not all stored values are equal: only then does a value transform matter."""
    ranges = [found for found in data.map(_range_of_values) if found is not None]
    return len({value for pair in ranges for value in pair}) > 1


def _range_of_values(block: RowBlock) -> tuple[float, float] | None:
    values = block.matrix.data
    return (float(values.min()), float(values.max())) if len(values) else None


def _row_sums(user_items: sp.csr_array) -> NDArray[np.float64]:
    with np.errstate(over="ignore"):
        return np.asarray(user_items.sum(axis=1, dtype=np.float64)).ravel()


class TransformsValues:
    """Mixin of models with a parameter `value_transform`."""

    value_transform: ValueTransform | None = None

    def preprocess(self, user_items: sp.csr_array) -> sp.csr_array:
        """Return the matrix that the model computes with."""
        return transform_rows(user_items, self.value_transform)


def transform_rows(
    user_items: sp.csr_array, value_transform: ValueTransform | None, user_scaling: float = 0.0
) -> sp.csr_array:
    """Transform the stored values, then divide each row by (its number of items)^user_scaling.

    Parameters
    ----------
    user_items : csr_array of shape (n_users, n_items)
        Canonical, positive entries.
    value_transform : {"binary", "log1p", "one_plus"} or None
        x ↦ 1, log(1 + x), 1 + x, or x.
    user_scaling : float
        The exponent a; 0 leaves the rows unchanged, ½ makes 0/1 rows unit vectors.

    Examples
    --------
    >>> plays = sp.csr_array([[3.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    >>> transform_rows(plays, "one_plus").toarray().tolist()
    [[4.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0]]
    >>> transform_rows(plays, "binary", 1.0).toarray().tolist()
    [[0.5, 0.0, 0.5, 0.0], [0.0, 1.0, 0.0, 0.0]]
    """
    values = user_items.data
    if value_transform is not None:
        values = _TRANSFORMS[value_transform](values)
    if user_scaling != 0:
        counts = np.diff(user_items.indptr)
        divisors = np.maximum(counts, 1).astype(values.dtype) ** values.dtype.type(user_scaling)
        values = values / np.repeat(divisors, counts)
    if values is user_items.data:
        return user_items
    return sp.csr_array((values, user_items.indices, user_items.indptr), shape=user_items.shape)


def normalize_degrees(user_items: sp.csr_array) -> sp.csr_array:
    """Return D_U^{-½} R D_I^{-½}; D_U and D_I contain the sums of rows and columns of R.

    Examples
    --------
    >>> R = sp.csr_array([[1.0, 1.0], [0.0, 1.0]])
    >>> normalize_degrees(R).toarray().round(4).tolist()
    [[0.7071, 0.5], [0.0, 0.7071]]
    """
    of_users = invert(np.sqrt(user_items.sum(axis=1, dtype=np.float64)))
    of_items = invert(np.sqrt(user_items.sum(axis=0, dtype=np.float64)))
    by_user = np.repeat(of_users, np.diff(user_items.indptr))
    values = (user_items.data * by_user * of_items[user_items.indices]).astype(user_items.dtype)
    return sp.csr_array((values, user_items.indices, user_items.indptr), shape=user_items.shape)


def invert(values: NDArray[Any]) -> NDArray[Any]:
    """Return 1 / values, and 0 for a value of 0: a node without edges."""
    inverted: NDArray[Any] = np.divide(1, values, out=np.zeros_like(values), where=values > 0)
    return inverted

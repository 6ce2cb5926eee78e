"""From stored values to the preferences that a model sees: value transform, user scaling.

Both are functions of one user's row alone, so they apply to new users at serving time as they do
in `fit`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

ValueTransform = Literal["binary", "log1p", "one_plus"]
VALUE_TRANSFORMS: tuple[ValueTransform, ...] = get_args(ValueTransform)

_TRANSFORMS: dict[ValueTransform, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "binary": np.ones_like,
    "log1p": np.log1p,
    "one_plus": lambda values: values + 1,
}


class SeesPreferences:
    """A model that sees values through its `value_transform`, in `fit` and when it scores."""

    value_transform: ValueTransform | None = None

    def preprocess(self, user_items: sp.csr_array) -> sp.csr_array:
        """The matrix that the model computes with."""
        return preferences(user_items, self.value_transform, 0.0)


def preferences(
    user_items: sp.csr_array, value_transform: ValueTransform | None, user_scaling: float
) -> sp.csr_array:
    """Transform the stored values, then divide each row by (its number of items)^user_scaling.

    Parameters
    ----------
    user_items : csr_array of shape (n_users, n_items)
        Canonical, positive entries.
    value_transform : {"binary", "log1p", "one_plus"} or None
        x ↦ 1, log(1 + x), 1 + x, or x.
    user_scaling : float
        The exponent a; 0 leaves the rows as they are, ½ makes 0/1 rows unit vectors.

    Examples
    --------
    >>> plays = sp.csr_array([[3.0, 0.0, 1.0, 0.0], [0.0, 2.0, 0.0, 0.0]])
    >>> preferences(plays, "one_plus", 0.0).toarray().tolist()
    [[4.0, 0.0, 2.0, 0.0], [0.0, 3.0, 0.0, 0.0]]
    >>> preferences(plays, "binary", 1.0).toarray().tolist()
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

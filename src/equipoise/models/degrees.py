"""The graph of users and items, each edge divided by the roots of both its ends' degrees."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray


def degree_normalized(user_items: sp.csr_array) -> sp.csr_array:
    """D_U^{-½} R D_I^{-½}, with the pattern of R; D_U and D_I hold the sums of rows and columns.

    Examples
    --------
    >>> R = sp.csr_array([[1.0, 1.0], [0.0, 1.0]])
    >>> degree_normalized(R).toarray().round(4).tolist()
    [[0.7071, 0.5], [0.0, 0.7071]]
    """
    of_users = inverse(np.sqrt(user_items.sum(axis=1, dtype=np.float64)))
    of_items = inverse(np.sqrt(user_items.sum(axis=0, dtype=np.float64)))
    by_user = np.repeat(of_users, np.diff(user_items.indptr))
    values = (user_items.data * by_user * of_items[user_items.indices]).astype(user_items.dtype)
    return sp.csr_array((values, user_items.indices, user_items.indptr), shape=user_items.shape)


def inverse(values: NDArray[Any]) -> NDArray[Any]:
    """1 / values, and 0 where a value is 0: a node without edges passes nothing on."""
    inverted: NDArray[Any] = np.divide(1, values, out=np.zeros_like(values), where=values > 0)
    return inverted

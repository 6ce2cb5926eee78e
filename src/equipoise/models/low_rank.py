"""A fitted low-rank model as arrays: what item metrics and nested ranks are computed from."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equipoise.data.rows import Prepare


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
        prepared = self.prepare(user_items).astype(self.components.dtype, copy=False)
        return np.asarray(prepared @ self.components.T)


def unchanged(user_items: csr_array) -> csr_array:
    """Return the rows unchanged."""
    return user_items

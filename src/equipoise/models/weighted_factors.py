"""Models whose users are weighted least-squares fits to the item vectors."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.factors import FactorModel
from equipoise.models.weighted_als import Cells, Floats, contributions, solve_rows


class WeightedFactorModel(FactorModel):
    """Base of the matrix factorizations: a subclass says what each cell is worth, and fits.

    A user's vector is the exact minimiser of the model's own objective for the learned items, for
    users of the training data and new ones alike. It is linear in the values of the user's items,
    so that a score splits into their contributions without a remainder.
    """

    regularization: float

    @abstractmethod
    def cells(self, user_items: sp.csr_array) -> Cells:
        """Values and weights of these users' cells."""

    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Vectors of the users who touched these items, of shape (n_users, n_components)."""
        solved = solve_rows(self.cells(user_items), self._item_vectors, self.regularization)
        return solved.factors.astype(self.item_factors_.dtype, copy=False)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        cells = self.cells(user_items)
        return contributions(cells, self._item_vectors, self.regularization, item)

    @property
    def _item_vectors(self) -> Floats:
        return self.item_factors_.astype(np.float64, copy=False)

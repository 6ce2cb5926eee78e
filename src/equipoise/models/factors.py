"""Models that give each user and each item a short vector: scores are their inner products."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.recommender import Recommender


class FactorModel(Recommender):
    """Base of the models with learned item vectors, and users read off the rows they come with.

    A subclass learns `item_factors_` of shape (n_items, n_components) and says how a row of
    data becomes a user's vector (`user_factors`).
    """

    _arrays: ClassVar[tuple[str, ...]] = ("item_factors_",)

    item_factors_: NDArray[Any]

    @abstractmethod
    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Vectors of the users who touched these items, of shape (n_users, n_components)."""

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        scores: NDArray[Any] = self.user_factors(user_items) @ self.item_factors_.T
        return scores

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine between the items' vectors; −inf for items without one."""
        norms = np.linalg.norm(self.item_factors_, axis=1)
        present = norms > np.finfo(norms.dtype).eps * norms.max(initial=0)
        known = present & present[item]
        divisors = np.where(known, norms * norms[item], 1.0)
        products = self.item_factors_ @ self.item_factors_[item]
        similarities: NDArray[Any] = np.where(known, products / divisors, -np.inf)
        return similarities

"""Models that give each user and each item a short vector: scores are their inner products."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.ann import FactorForm
from equipoise.models.recommender import Recommender
from equipoise.models.similarity import cosines_to


class FactorModel(Recommender):
    """Base of the models with learned item vectors, and users read off the rows they come with.

    A subclass learns `item_factors_` of shape (n_items, n_components) and says how a row of
    data becomes a user's vector (`user_factors`).
    """

    _arrays: ClassVar[dict[str, str]] = {**Recommender._arrays, "item_factors_": "mr"}

    item_factors_: NDArray[Any]

    @abstractmethod
    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Vectors of the users who touched these items, of shape (n_users, n_components)."""

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        scores: NDArray[Any] = self.user_factors(user_items) @ self.item_factors_.T
        return scores

    def _factor_form(self) -> FactorForm:
        return FactorForm(self.item_factors_, self.user_factors)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Cosine between the items' vectors; −inf for items without one."""
        return cosines_to(item, self.item_factors_)

"""Base classes of models with one vector per item, and of models with an item × item matrix."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.base import Recommender
from equipoise.models.estimator import check_is_fitted
from equipoise.models.explanations import PaddedRows
from equipoise.models.item_vectors import Factors, ItemItem, cosines_to
from equipoise.models.user_rows import TransformsValues


class FactorModel(Recommender):
    """Base of models that score by inner products of user and item vectors.

    A subclass learns `item_factors_` of shape (n_items, n_components) and computes a user's vector
    from the user's row (`user_factors`).
    """

    @abstractmethod
    def user_factors(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Return one vector per row, of shape (n_users, n_components)."""

    def factors(self) -> Factors:
        """Return the item vectors, and the function from rows to user vectors."""
        check_is_fitted(self)
        return Factors(self.item_factors_, self.user_factors)

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return self.user_factors(user_items) @ self.item_factors_.T

    def _similarities(self, item: int) -> NDArray[Any]:
        """Return the cosines between item vectors; −inf for items without one."""
        return cosines_to(item, self.item_factors_)


class ItemItemModel(TransformsValues, Recommender):
    """Base of models with scores X B, where B is an item × item matrix.

    A subclass learns `coefficients_`, dense or sparse: B[i, j] is what an entry 1 at item i adds to
    the score of item j, after `value_transform`.
    """

    def item_item(self) -> ItemItem:
        """Return the coefficients, and the transform of the values."""
        check_is_fitted(self)
        return ItemItem(self.coefficients_, self.preprocess)

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return _dense(self.preprocess(user_items) @ self.coefficients_)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Return what an entry at `item` adds to every other score; −inf where that is 0."""
        added = _dense(self.coefficients_[[item]])[0]
        return np.where(added == 0, -np.inf, added)

    def _contributions_to(self, user_items: sp.csr_array, lists: NDArray[np.intp]) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        columns, stored = PaddedRows.of(signal)
        own, listed = np.broadcast_arrays(columns[:, None], lists[..., None])
        added = _dense(self.coefficients_[own.ravel(), listed.ravel()]).reshape(own.shape)
        return np.asarray(added * PaddedRows.spread(signal.data, stored)[:, None])


def _dense(matrix: Any) -> NDArray[Any]:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)

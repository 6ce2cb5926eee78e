"""Models whose scores are X B for an item × item matrix B: neighbours, EASE."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.preference import SeesPreferences
from equipoise.models.recommender import Recommender


class ItemItemModel(SeesPreferences, Recommender):
    """Base of the models that learn how much each item says for each other.

    A subclass learns `item_weights_`, dense or sparse; `item_weights_[i, j]` is what an entry 1 at
    item i adds to the score of item j, after `value_transform`.
    """

    _arrays: ClassVar[dict[str, str]] = {**Recommender._arrays, "item_weights_": "mm"}

    item_weights_: NDArray[Any] | sp.csr_array

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return _dense(self.preprocess(user_items) @ self.item_weights_)

    def _similarities(self, item: int) -> NDArray[Any]:
        """What an entry at `item` adds to every other score; −inf where it says nothing."""
        weights = _dense(self.item_weights_[[item]])[0]
        similarities: NDArray[Any] = np.where(weights == 0, -np.inf, weights)
        return similarities

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        weights = _dense(self.item_weights_[:, [item]])[:, 0]
        contributions: NDArray[Any] = signal.data * weights[signal.indices]
        return contributions


def _dense(matrix: Any) -> NDArray[Any]:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)

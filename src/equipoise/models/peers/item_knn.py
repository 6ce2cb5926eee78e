"""ItemKNN: item-based nearest neighbors by cosine similarity."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.models.item_vectors import Floats, item_norms
from equipoise.models.parameters import Count, NonNegative
from equipoise.models.peers.base import ItemItemModel
from equipoise.models.ranking import Ranking, rank_items


@dataclass(eq=False, repr=False)
class ItemKNN(ItemItemModel):
    """Score an item by those of its nearest neighbors that the user has.

    The score of item j for a row x is Σ_{i ∈ N(j)} x_i S_ij, with

        S_ij = ⟨X_·i, X_·j⟩ / (‖X_·i‖ ‖X_·j‖ + h).

    where

    - X is users × items, S the cosine between its columns, shrunk by h,
    - N(j) are the k items i ≠ j with the largest S_ij > 0; among equal ones those that come first
      in the catalog.

    Parameters
    ----------
    n_neighbors : int, default=100
        k; more than there are other items means all of them.
    shrinkage : float, default=0.0
        h ≥ 0: reduces the cosines of items with few users. 0 is the cosine itself.
    value_transform : {"binary", "log1p", "one_plus"} or None, default=None
        x ↦ 1, log(1 + x) or 1 + x for the stored values.

    Attributes
    ----------
    coefficients_ : csr_array of shape (n_items, n_items)
        S_ij at [i, j] for i ∈ N(j), and nothing elsewhere: at most k entries per column.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    The neighbors are those of the scored item, so every item that shares a user with another can be
    recommended. With the neighbors of the user's items instead, a niche item that is in no list of
    neighbors is never recommended. `similar_items` lists N(j), so at most k items. Cosines are
    computed in blocks of items, so the m × m matrix is never formed.

    References
    ----------
    Badrul Sarwar, George Karypis, Joseph Konstan and John Riedl, "Item-based collaborative
    filtering recommendation algorithms", WWW 2001. The shrinkage is that of Maurizio Ferrari
    Dacrema, Paolo Cremonesi and Dietmar Jannach, "Are we really making much progress? A worrying
    analysis of recent neural recommendation approaches", RecSys 2019.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    >>> model = ItemKNN(n_neighbors=1).fit(X)
    >>> model.coefficients_.toarray().round(3).tolist()
    [[0.0, 0.816, 0.0], [0.816, 0.0, 0.5], [0.0, 0.0, 0.0]]
    >>> model.recommend(X[3], k=1).ids
    array([1])
    """

    n_neighbors: Count = 100
    _: KW_ONLY
    shrinkage: NonNegative = 0.0

    def _fit(self, data: Interactions) -> None:
        """Find the neighbors of every item."""
        user_items = data.require_matrix(type(self).__name__)
        nearest = _nearest(self.preprocess(user_items), self.n_neighbors, self.shrinkage)
        self.coefficients_ = _as_columns(nearest).astype(user_items.dtype)

    def _similarities(self, item: int) -> NDArray[Any]:
        """Return the cosines to the item's own neighbors; −inf for all other items."""
        weights = self.coefficients_[:, [item]].toarray()[:, 0]
        return np.where(weights > 0, weights, -np.inf)


def _nearest(user_items: sp.csr_array, n_neighbors: int, shrinkage: float) -> Ranking:
    """Rank the neighbors of every item, without the item itself."""
    n_items = user_items.shape[1]
    norms = item_norms(Interactions.wrap(user_items))
    by_user = user_items.astype(np.float64, copy=False)
    by_item = by_user.T.tocsr()

    def cosines(block: slice) -> Floats:
        products = (by_item[block] @ by_user).toarray()
        divisors = norms[block, None] * norms + shrinkage
        return products / np.where(divisors > 0, divisors, 1.0)

    itself = sp.eye_array(n_items, format="csr")
    kept = min(n_neighbors, n_items)
    return rank_items(cosines, n_items, n_items, kept, seen=itself)


def _as_columns(nearest: Ranking) -> sp.csr_array:
    """Return the neighbors of item j with a positive cosine as column j of a sparse matrix."""
    n_items = len(nearest.ids)
    listed = (nearest.ids >= 0) & (nearest.scores > 0)
    items = np.nonzero(listed)[0]
    weights = (nearest.scores[listed], (nearest.ids[listed], items))
    return sp.csr_array(weights, shape=(n_items, n_items))

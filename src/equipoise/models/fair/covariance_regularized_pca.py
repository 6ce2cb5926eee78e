"""PCA whose scores covary with popularity by no more than a bound."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from equipoise.data.interactions import Interactions
from equipoise.models.fair.group_pca import Goal, GroupPCA
from equipoise.models.item_vectors import Floats
from equipoise.models.parameters import NonNegative
from equipoise.spectral.groups.families import ItemFamily

# Popularities that differ by less than this share are equal: there is nothing to bound.
_EQUAL = 1e-12

_NAMES = ("objective", "covariance, from above", "covariance, from below")


@dataclass(eq=False, repr=False, kw_only=True)
class CovarianceRegularizedPCA(GroupPCA):
    """PCA with a bound on the covariance of scores and popularity over the training interactions.

    Zhu et al. 2021 add the squared correlation of scores and popularity to the loss. The covariance
    over the interactions is linear in the projection P, so bounding it is exact: the solution is
    Item-Weighted PCA with the weights w_j = 1 − ν(pop_j − p̄), and ν is the multiplier of the
    bound. Weights of very popular items may be negative.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank.
    max_covariance : float, default=0.0
        Largest absolute covariance, relative to that of PCA at the same rank; from 1 on, the
        model is PCA.
    fractional, spectral_filter, filter_strength, user_scaling, value_transform
        As in `MaxMinItemWeightedPCA`.
    solver, passes, random_state
        As in `ItemWeightedPCA`.
    tol : float, default=1e-6
        Gap between the objective and its upper bound at which to stop, relative to the sum of the
        leading eigenvalues.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Orthonormal rows.
    item_weights_ : ndarray of shape (n_items,)
        w, of any sign.
    multiplier_ : float
        ν; 0 if the bound does not bind.
    covariance_, pca_covariance_ : float
        Of scores and popularity: of this model, and of PCA.
    certificate_ : GroupCertificate
        Share of ‖X‖² that is kept, its upper bound, and the slack of the two sides of the bound.
    eigenvalues_, occupations_, residuals_, item_norms_, n_components_, n_features_in_, item_ids_,
    solver_
        As in `MaxMinItemWeightedPCA`.

    Notes
    -----
    Let pop_j be the number of users of item j. For 0/1 data, X̂ = XP and N interactions, the
    covariance is Σ_j (pop_j − p̄)(CP)_jj / N with p̄ = Σ pop_j² / N. For other data, interactions
    count by their values. The correlation itself is not convex in P, and is not bounded here.

    References
    ----------
    Zhu et al. 2021, "Popularity-Opportunity Bias in Collaborative Filtering".

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = CovarianceRegularizedPCA(2, max_covariance=0.5).fit(X)
    >>> round(model.covariance_ / model.pca_covariance_, 6)
    0.5
    """

    max_covariance: NonNegative = 0.0

    def _fit(self, data: Interactions) -> None:
        gram = self._prepare(data, fits=4)
        counts = data.popularity("count")
        sums = data.prepared(self._row_transform()).popularity("sum")
        excess = np.where(sums > 0, counts - counts @ sums / sums.sum(), 0.0)
        energy = float(np.square(self.item_norms_).sum())
        S = np.column_stack([np.full(data.n_items, 1 / energy), excess / float(sums.sum())])
        parts = ItemFamily(gram, S)  # what is kept, and the covariance
        solver = self._eigen_solver(gram)
        pca = solver(parts.operator(np.array([1.0, 0.0])), self.n_components, self.tol).vectors
        self.pca_covariance_ = _covariance(parts, pca)
        unit = abs(self.pca_covariance_)
        T, offsets = np.array([[1.0, 0.0]]), np.zeros(1)
        if np.abs(excess).max() > _EQUAL * counts.max() and unit > 0:
            T = np.array([[1.0, 0.0], [0.0, -1 / unit], [0.0, 1 / unit]])
            offsets = np.array([0.0, self.max_covariance, self.max_covariance])
        goal = Goal(parts, T, offsets, _NAMES[: len(T)])
        found = self._maximize(goal, solver)
        weights = T.T @ found.dual_weights
        self.item_weights_ = energy * (S @ weights)
        self.multiplier_ = float(-energy * weights[1] / sums.sum())
        self._learn_solution(found, goal)
        self.covariance_ = _covariance(parts, found.vectors * np.sqrt(found.occupations))

    def _map_factors(self) -> Floats:
        """Return the eigenvalues of P itself: the covariance is linear in X̂ = XP."""
        return self.occupations_


def _covariance(parts: ItemFamily, U: Floats) -> float:
    """Return the covariance of scores XUUᵀ with popularity."""
    return float(np.trace(parts.compress(U, parts.image(U))[1]))

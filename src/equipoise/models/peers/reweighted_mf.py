"""Matrix factorizations that weight observed entries by the popularity of their item."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError, SolverWarning
from equipoise.models.parameters import Count, Finite, NonNegative, Positive, interval
from equipoise.models.peers.weighted_als import (
    Cells,
    Floats,
    WeightedFactorModel,
    factorize,
    weighted_squares,
)
from equipoise.models.user_rows import with_values

# Below this share of the weighted squares a fit ranks items by rounding and leftovers of the start.
_LEAST_EXPLAINED = 1e-3


@dataclass(eq=False, repr=False, kw_only=True)
class _ReweightedMF(WeightedFactorModel):
    """Base of both: weighted ALS in which the weight of an entry is that of its item."""

    exponent: NonNegative = 0.5
    unobserved_weight: NonNegative = 1.0
    regularization: Positive = 0.1
    iterations: Count = 30
    tol: NonNegative = 1e-4

    @abstractmethod
    def _weights(self, counts: NDArray[np.intp]) -> Floats:
        """The weight of an entry of each item, from the items' numbers of users."""

    def _fit(self, data: Interactions) -> None:
        """Learn the item vectors of users × items."""
        user_items = data.require_matrix(type(self).__name__)
        counts = np.bincount(user_items.indices, minlength=user_items.shape[1])
        self.item_weights_ = self._weights(counts)
        cells = self.cells(user_items)
        found = factorize(
            cells,
            self.n_components,
            regularization=self.regularization,
            iterations=self.iterations,
            tol=self.tol,
            rng=self._generator(),
            progress=self._progress,
        )
        self.item_factors_ = found.item_factors.astype(user_items.dtype, copy=False)
        self.n_iter_ = len(found.objectives) // 2
        self.objective_ = float(found.objectives[-1])
        explained = 1 - self.objective_ / weighted_squares(cells)
        if explained < _LEAST_EXPLAINED:
            warnings.warn(
                f"the vectors (nearly) vanished: the fit explains {explained:.1e} of the weighted "
                f"squares. regularization={self.regularization} is too large for values this "
                "small; lower it, or scale the values up.",
                SolverWarning,
                stacklevel=3,
            )

    def cells(self, user_items: sp.csr_array) -> Cells:
        """The users' values, each with the weight of its item."""
        targets = self.preprocess(user_items)
        return Cells.of(targets, self.item_weights_[targets.indices], self.unobserved_weight)


@dataclass(eq=False, repr=False, kw_only=True)
class IPSMF(_ReweightedMF):
    """Matrix factorization with inverse propensity weights: rare items count more.

    Popular items are shown to more people and so are observed more often. Each observed entry is
    therefore weighted by one over its propensity, the probability of being observed:

        Σ_{(u,i) observed} (x_ui − u_uᵀ v_i)² / max(p_i, clip)
            + w₀ Σ_{others} (u_uᵀ v_i)² + λ(‖U‖² + ‖V‖²),      p_i = (N_i / max_j N_j)^a,

    where N_i is the number of users of item i.

    Parameters
    ----------
    n_components : int, default=64
        r, the rank; at most the number of items.
    exponent : float, default=0.5
        a ≥ 0: how strongly propensity follows popularity. 0 weights all entries alike.
    clip : float, default=0.01
        No propensity counts as less: bounds the weights by 1/clip, and with them the variance.
    unobserved_weight : float, default=1.0
        w₀ ≥ 0; see Notes.
    value_transform : {"binary", "log1p", "one_plus"}, optional
        What to do to the stored values first, in `fit` and when serving.
    regularization : float, default=0.1
        λ > 0.
    iterations : int, default=30
        At most so many updates of both sides.
    tol : float, default=1e-4
        Stop when an iteration lowers the objective by this share of it or less.
    random_state : int, RandomState instance or None, default=None
        Draws the first item vectors. None means a fixed seed: same data, same bits.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_components)
        V.
    item_weights_ : ndarray of shape (n_items,)
        1 / max(p_i, clip): at least 1.
    objective_ : float
        The minimum that was reached.
    n_iter_ : int
        Iterations it took.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    See Also
    --------
    PopularityWeightedMF : Weights without bound, relative to their mean, and an imputed value.

    Notes
    -----
    Inverse propensity weights were proposed for ratings, where observed entries are likes and
    dislikes, and the sum is over them alone: w₀ = 0. Of implicit feedback only likes are
    observed, and all of them are 1. Then u_uᵀ v_i = 1 for every pair fits without error, and no
    item ranks above another. Therefore empty cells count too, with the value 0 and the weight w₀.
    The default, 1, is the weight of an entry of the most popular item. Use 0 for ratings.

    References
    ----------
    Dawen Liang, Laurent Charlin and David M. Blei, "Causal Inference for Recommendation", 2016.
    Tobias Schnabel et al., "Recommendations as Treatments", ICML 2016.

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = IPSMF(2, exponent=1.0).fit(X)
    >>> model.item_weights_.tolist()
    [1.0, 1.5, 1.5, 1.5]
    >>> model.recommend(X[2], k=1).ids
    array([1])
    """

    clip: Annotated[float, interval("(0, 1]")] = 0.01

    def _weights(self, counts: NDArray[np.intp]) -> Floats:
        propensities = (counts / counts.max()) ** self.exponent
        return 1.0 / np.maximum(propensities, self.clip)


@dataclass(eq=False, repr=False, kw_only=True)
class PopularityWeightedMF(_ReweightedMF):
    """Matrix factorization of all cells, in which an entry counts less the more popular its item.

    Missing entries are imputed with the value x₀ and a small weight; observed ones are weighted
    against popularity:

        Σ_{(u,i) observed} w_i (x_ui − x̂_ui)² + w₀ Σ_{others} (x₀ − x̂_ui)² + λ(‖U‖² + ‖V‖²),
        x̂_ui = x₀ + u_uᵀ v_i,      w_i ∝ N_i^(−β),

    where N_i is the number of users of item i. The w_i of all observed entries have mean 1, so w₀
    has the same meaning for every β. Scores are u_uᵀ v_i: the prediction minus x₀.

    Parameters
    ----------
    n_components : int, default=64
        r, the rank; at most the number of items.
    exponent : float, default=0.5
        β ≥ 0: how strongly weights fall with popularity. 0 weights all observed entries alike.
    unobserved_weight : float, default=0.3
        w₀ ≥ 0, relative to the mean weight of an observed entry.
    imputed_value : float, default=0.0
        x₀, the value of missing entries: 0 for clicks and counts; for ratings something below
        their mean.
    value_transform : {"binary", "log1p", "one_plus"}, optional
        What to do to the stored values first, in `fit` and when serving.
    regularization : float, default=0.1
        λ > 0, the same for all rows.
    iterations : int, default=30
        At most so many updates of both sides.
    tol : float, default=1e-4
        Stop when an iteration lowers the objective by this share of it or less.
    random_state : int, RandomState instance or None, default=None
        Draws the first item vectors. None means a fixed seed: same data, same bits.

    Attributes
    ----------
    item_factors_ : ndarray of shape (n_items, n_components)
        V.
    item_weights_ : ndarray of shape (n_items,)
        w_i.
    objective_, n_iter_, n_features_in_, item_ids_
        As in `IPSMF`.

    See Also
    --------
    IPSMF : Weights bounded by a clipped propensity.

    References
    ----------
    Harald Steck, "Item Popularity and Recommendation Accuracy", RecSys 2011.

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = PopularityWeightedMF(2, exponent=1.0).fit(X)
    >>> model.item_weights_.tolist()
    [0.75, 1.125, 1.125, 1.125]
    >>> model.recommend(X[2], k=1).ids
    array([1])
    """

    unobserved_weight: NonNegative = 0.3
    imputed_value: Finite = 0.0

    def cells(self, user_items: sp.csr_array) -> Cells:
        """The users' values above the imputed one, each with the weight of its item."""
        found = super().cells(user_items)
        above = found.targets.data - self.imputed_value
        return found._replace(targets=with_values(found.targets, above))

    def _weights(self, counts: NDArray[np.intp]) -> Floats:
        # relative to the most popular item first: N^(−β) alone would underflow for a large β
        with np.errstate(over="ignore"):  # refused below
            weights = (counts.max() / np.maximum(counts, 1)) ** self.exponent
            total = float(counts @ weights)
        if not np.isfinite(total):
            raise InvalidParameterError(
                f"exponent={self.exponent} gives weights beyond floating point: items have "
                f"between {max(counts.min(), 1)} and {counts.max()} users. Use a smaller exponent."
            )
        return weights * (counts.sum() / total)

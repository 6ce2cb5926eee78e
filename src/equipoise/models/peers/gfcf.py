"""GF-CF: a linear and an ideal low-pass filter on the item graph, in closed form."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.models.item_vectors import item_norms
from equipoise.models.parameters import Count, NonNegative
from equipoise.models.pca.projection import ComponentModel
from equipoise.models.user_rows import invert, normalize_degrees
from equipoise.parallel import one_blas_thread
from equipoise.spectral.gram import DenseGram, SparseGram

# R̃ᵀR̃ is formed where it takes no more than this. Scoring a user with 30 of 3 000 items then takes
# 90 000 multiplications, where R̃ of 100 000 such users takes two for each of 3 million entries.
_DENSE_BYTES = 256 * 2**20

# Users filtered by R̃ itself at a time: their signals on the other users take at most this.
_BLOCK_BYTES = 32 * 2**20


@dataclass(eq=False, repr=False)
class GFCF(ComponentModel):
    """Graph-filter collaborative filtering: recommends signals that are smooth on the item graph.

    The scores of rows X are

        X (R̃ᵀR̃ + α D_I^{-½} Ū Ūᵀ D_I^{½}),    R̃ = D_U^{-½} R D_I^{-½}.

    where

    - R is the training matrix, users × items; D_U and D_I contain the sums of its rows and columns,
    - Ū contains the k leading right singular vectors of R̃: an ideal low-pass filter,
    - α weighs that filter against the linear one, R̃ᵀR̃.

    Parameters
    ----------
    n_components : int, default=128
        k; at most the number of items. The published experiments have 256.
    ideal_weight : float, default=0.3
        α ≥ 0; the published value. 0 leaves the ideal filter out, as published for Amazon-Book.
    value_transform : {"binary", "log1p", "one_plus"} or None, default=None
        x ↦ 1, log(1 + x) or 1 + x for the stored values; the published data are 0/1.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        See `ItemWeightedPCA`.
    tol : float, default=1e-6
        Largest residual of a component, relative to the largest eigenvalue.
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors of the iteration. None means a fixed seed.

    Attributes
    ----------
    normalized_interactions_ : csr_array of shape (n_users, n_items)
        R̃.
    components_ : ndarray of shape (n_components_, n_items)
        Ūᵀ; no rows where α = 0.
    eigenvalues_ : ndarray of shape (n_components_,)
        Of R̃ᵀR̃, largest first; all are at most 1.
    item_degrees_ : ndarray of shape (n_items,)
        Diagonal of D_I.
    n_components_ : int
        Fewer than requested, with a warning, if R̃ has fewer.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    This is the form of the published code. There both filters act on the unscaled row, for known
    users too: the linear one is not wrapped into D_I^{-½} … D_I^{½} as the ideal one is, and a row
    is not divided by its own degree. The published data are 0/1; for other values the degrees are
    sums, which keeps all eigenvalues within [0, 1]. Where the published code divides by
    zero, at an item without users, D_I^{-½} and D_I^{½} are 0 here: its score is 0.

    The model keeps R̃, as large as the training data; a saved one therefore contains the (scaled)
    interactions it was fitted on. R̃ᵀR̃ is formed, on the first call that scores, for up to 5 792
    items (256 MB). For more it never is: scoring a user then costs one pass over R̃.

    `similar_items` ranks by what an entry at the item adds to every other score.

    References
    ----------
    Yifei Shen, Yongji Wu, Yao Zhang, Caihua Shan, Jun Zhang, Khaled Letaief and Dongsheng Li,
    "How Powerful is Graph Convolution for Recommendation?", CIKM 2021.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    >>> model = GFCF(n_components=2, ideal_weight=0.5).fit(X)  # R̃ᵀR̃: ½ within the first two
    >>> ids, scores = model.recommend(np.array([1.0, 0.0, 0.0]), k=2)
    >>> ids.tolist(), scores.round(6).tolist()
    ([1, 2], [0.75, 0.0])
    """

    n_components: Count = 128
    _: KW_ONLY
    ideal_weight: NonNegative = 0.3

    @property
    def free_parameters(self) -> frozenset[str]:
        """α, unless it is 0: then no components are computed."""
        return frozenset({"ideal_weight"} if self.ideal_weight > 0 else ())

    def _fit(self, data: Interactions) -> None:
        """Normalize the interaction graph, and find its smoothest signals on items."""
        user_items = data.require_matrix(type(self).__name__)
        signal = self.preprocess(user_items)
        item_norms(Interactions.wrap(signal))  # refuses squares beyond floating point
        self.__dict__.pop("_linear", None)
        self.item_degrees_ = signal.sum(axis=0, dtype=np.float64)
        self.normalized_interactions_ = normalize_degrees(signal)
        self._learn_components()

    def _learn_components(self) -> None:
        normalized = self.normalized_interactions_
        if self.ideal_weight == 0:
            self.n_components_, self.eigenvalues_ = 0, np.zeros(0)
            self.components_ = np.zeros((0, self.n_features_in_), normalized.dtype)
            return
        data = Interactions.wrap(normalized)
        solver = self._choose_solver(data)
        found = self._leading(data.gram(kind=solver), solver)
        why_fewer = "the normalized matrix has no more singular values above zero"
        self._keep(found, normalized.dtype, why_fewer)

    @cached_property
    def _linear(self) -> NDArray[Any] | SparseGram:
        """Return R̃ᵀR̃ as a matrix if it is small, else as an operator."""
        normalized = self.normalized_interactions_
        if 8 * self.n_features_in_**2 > _DENSE_BYTES:
            return SparseGram(normalized)
        with one_blas_thread():
            gram = DenseGram.of(normalized)
        return (gram.C * gram.scale).astype(normalized.dtype)

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        smooth = signal @ (self.components_ * invert(self._item_scale())).T
        scores: NDArray[Any] = smooth @ self._weighted_components()
        if not isinstance(self._linear, SparseGram):
            scores += signal @ self._linear
            return scores
        width = max(1, _BLOCK_BYTES // (8 * max(self.normalized_interactions_.shape)))
        for first in range(0, signal.shape[0], width):
            rows = slice(first, first + width)
            signals = signal[rows].T.toarray().astype(scores.dtype, copy=False)
            scores[rows] += self._linear.product(signals).T * self._linear.scale
        return scores

    def _similarities(self, item: int) -> NDArray[Any]:
        """Return what an entry at `item` adds to every other score; −inf where that is 0."""
        from_item = self.components_[:, item] * invert(self._item_scale())[item]
        weights = self._linear_column(item) + from_item @ self._weighted_components()
        return np.where(weights == 0, -np.inf, weights)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        signal = self.preprocess(user_items)
        to_item = self._weighted_components()[:, item]
        ideal = (to_item @ self.components_) * invert(self._item_scale())
        weights = self._linear_column(item) + ideal
        return signal.data * weights[signal.indices]

    def _linear_column(self, item: int) -> NDArray[Any]:
        """Column `item` of R̃ᵀR̃, which is row `item` too."""
        normalized = self.normalized_interactions_
        return normalized.T @ normalized[:, [item]].toarray()[:, 0]

    def _item_scale(self) -> NDArray[Any]:
        """Diagonal of D_I^{½}, in the precision of the model."""
        return np.sqrt(self.item_degrees_).astype(self.components_.dtype)

    def _weighted_components(self) -> NDArray[Any]:
        """α Ūᵀ D_I^{½}."""
        weighted: NDArray[Any] = self.components_ * self._item_scale()
        weighted *= weighted.dtype.type(self.ideal_weight)
        return weighted

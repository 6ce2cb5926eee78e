"""PCA, and PCA of columns scaled to norm one: the two models that the paper compares with."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare, RowBlock
from equipoise.models.item_vectors import Floats, item_norms
from equipoise.models.pca.projection import ProjectionModel
from equipoise.models.user_rows import with_values
from equipoise.spectral.certificate import Components
from equipoise.spectral.norms import column_sums


class VanillaPCA(ProjectionModel):
    """Uncentered PCA of users × items: truncated SVD, with the interface of the other models.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank; at most the number of items.
    user_scaling, value_transform
        How rows are prepared; see `ItemWeightedPCA`.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        See `ItemWeightedPCA`.
    tol : float, default=1e-6
        Largest residual of a component, relative to the largest eigenvalue.
    passes : {"auto", "few", "many"}, default="auto"
        See `ItemWeightedPCA`.
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors of the iteration. None means a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Right singular vectors of X as rows.
    singular_values_ : ndarray of shape (n_components_,)
        Of X, largest first.
    explained_variance_, explained_variance_ratio_ : ndarray of shape (n_components_,)
        Variance of the users' coordinates, and its share of the variance of X, as in
        scikit-learn's TruncatedSVD.
    eigenvalues_ : ndarray of shape (n_components_,)
        Of XᵀX: the squared singular values.
    residuals_, item_norms_, n_components_, n_features_in_, item_ids_, certificate_, solver_
        As in `ItemWeightedPCA`.

    Examples
    --------
    >>> X = np.array([[3.0, 0.0], [0.0, 1.0], [4.0, 0.0]])
    >>> VanillaPCA(n_components=2).fit(X).singular_values_.round(6).tolist()
    [5.0, 1.0]
    """

    @property
    def singular_values_(self) -> Floats:
        """Singular values of X."""
        return np.sqrt(self.eigenvalues_)

    def _signal(self, data: Interactions) -> Interactions:
        self._item_means = data.total(_part_of_means, data.n_users)
        self._n_users = data.n_users
        return super()._signal(data)

    def _weights_of(self, norms: Floats) -> Floats:
        return np.ones_like(norms)

    def _learn_more(self, found: Components) -> None:
        mean_squares = found.pairs.values / self._n_users
        self.explained_variance_ = mean_squares - (self._item_means @ found.pairs.vectors) ** 2
        mean_square = float(np.square(self.item_norms_).sum()) / self._n_users
        total = mean_square - float(self._item_means @ self._item_means)
        # equal users have no variance to explain
        self.explained_variance_ratio_ = self.explained_variance_ / (total if total > 0 else np.nan)


class NormalizedPCA(ProjectionModel):
    """PCA of X·diag(1/p), whose columns all have norm one; scores with that scaled matrix.

    A simple way to keep popular items from dominating the components. It overshoots: if
    popularities differ enough, niche items dominate them instead (the paper's Theorem 4).

    Parameters
    ----------
    n_components, user_scaling, value_transform, solver, tol, passes, random_state
        As in `VanillaPCA`; columns are scaled after the rows are prepared.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Right singular vectors of X·diag(1/p) as rows.
    item_norms_ : ndarray of shape (n_items,)
        p_j = ‖X_·j‖₂.
    eigenvalues_, residuals_, n_components_, n_features_in_, item_ids_, certificate_, solver_
        As in `ItemWeightedPCA`.

    Notes
    -----
    Scores are X diag(1/p) P, as in the published experiments; `reconstruct` returns to the units
    of the data, X diag(1/p) P diag(p). For an item without users 1/p is 0.

    Examples
    --------
    >>> X = np.array([[8.0, 4.0, 0.0], [8.0, 4.0, 0.0], [0.0, 0.0, 1.0]])
    >>> NormalizedPCA(n_components=1).fit(X).components_.round(4).tolist()
    [[0.7071, 0.7071, 0.0]]
    """

    def inverse_transform(self, X: Any) -> NDArray[Any]:
        """Return the approximation X̂ of these coordinates, in the units of the data."""
        approximation = super().inverse_transform(X)
        approximation *= self.item_norms_.astype(approximation.dtype)
        return approximation

    def _signal(self, data: Interactions) -> Interactions:
        self.item_norms_ = item_norms(data.prepared(super()._row_transform()))
        return data.prepared(self._row_transform())

    def _row_transform(self) -> Prepare:
        return partial(columns_divided, norms=self.item_norms_, before=super()._row_transform())


def _part_of_means(block: RowBlock, n_users: int) -> Floats:
    """Return what the users of a block add to the mean of each column."""
    return column_sums(block.matrix, 1) / n_users


def columns_divided(
    user_items: sp.csr_array, norms: Floats, before: Prepare | None = None
) -> sp.csr_array:
    """Return X·diag(1/p), with 0 for an item without users; `before` prepares the rows of X."""
    if before is not None:
        user_items = before(user_items)
    divisors = np.where(norms > 0, norms, np.inf)
    return with_values(user_items, user_items.data / divisors[user_items.indices])

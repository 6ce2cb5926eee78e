"""Local + global: a graded low rank and the co-occurrences that it leaves over, in closed form."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.models.base import grid_around, possible_sizes
from equipoise.models.estimator import check_is_fitted, clone
from equipoise.models.item_vectors import Floats, item_norms
from equipoise.models.parameters import Count, Finite, ItemWeights, NonNegative, Tolerance
from equipoise.models.pca.item_weighted_pca import item_weights_of
from equipoise.models.pca.projection import ComponentModel
from equipoise.models.user_rows import (
    VALUE_TRANSFORMS,
    has_different_values,
    invert,
    transform_rows,
    with_values,
)

# Dense rows of XᵀX that are added up over blocks of users: this share of the memory that the data
# may take, or of 2 GB. While two sums are added, three are in memory.
_ROWS_SHARE, _ROWS_BYTES = 6, 2 * 10**9

# All entries of C are kept up to the first number (200 MB in float32), else the second per item.
# With 400 per item, NDCG on validation is lower by .004 on MovieLens and the same on Gowalla.
_MOST_ENTRIES, _NEIGHBORS = 25e6, 400

# On Gowalla at rank 512, NDCG on validation is lower by .0004 than with a tolerance of 1e-3.
_SEARCH_TOLERANCE = 0.01

# Below this many scores SciPy's product takes less time than loading numba.
_COMPILED_FROM = 2_000_000


class Evidence(NamedTuple):
    """A score as a sum over the user's items, of a local part and of one part per component.

    Attributes
    ----------
    score : float
        The item's score: ``local.sum() + by_component.sum()``, up to rounding.
    ids : ndarray of shape (n,)
        The user's items.
    local : ndarray of shape (n,)
        What each adds by its own co-occurrences with the item.
    by_component : ndarray of shape (n, n_components_)
        What each adds through each component. The sum over components can be negative where the
        local part is large: read ``local + by_component.sum(axis=1)`` first.
    """

    score: float
    ids: NDArray[Any]
    local: NDArray[Any]
    by_component: NDArray[Any]


@dataclass(eq=False, repr=False)
class LocalGlobal(ComponentModel):
    """Item-weighted linear model for sparse catalogs: low rank plus sparse, without training.

    With `C = XᵀR²X` of the rows scaled by R, item weights W = diag(p^γ) and
    `G = W^½ C W^½ / λ_1`, the scores of rows X are

        X W^½ [ U f(Λ) Uᵀ + κ (G − U Λ Uᵀ) ] W^−½ P^−c,    f(λ) = λ / (λ + ρ),  κ = μ / (λ_r + ρ)

    where

    - R contains (number of the user's items)^−a,
    - U and Λ are the r leading eigenpairs of G, with λ_1 = 1,
    - G is kept off its diagonal, and of each row the k largest entries of C.

    The filter f is that of a linear autoencoder with item weights and a ridge ρ; below λ_r it is
    replaced by a line, for which the matrix is sparse.

    Parameters
    ----------
    n_components : int, default=256
        r; at most the number of items.
    gamma : float, default=-1.0
        γ, the exponent of the norms `p_j = ‖X_·j‖₂` in the item weights.
    item_weights : array of shape (n_items,) or callable, optional
        w ≥ 0 instead of p^γ, e.g. learned ones; a callable gets the norms p. An item of weight 0
        is neither used nor recommended.
    user_scaling : float, default=0.25
        a.
    ridge : float, default=0.1
        ρ ≥ 0, in units of the largest eigenvalue.
    local_weight : float, default=0.6
        μ ≥ 0: weight of the part beyond the components. 1 continues the filter at λ_r.
    popularity_discount : float, default=0.0
        c: scores are divided by p^c.
    n_neighbors : int, "auto" or None, default="auto"
        k, entries per item of the local part; None keeps all. "auto" keeps all where these are at
        most 25 million, by the number of pairs of items that users have, and else 400 per item.
    value_transform : {"binary", "log1p", "one_plus"}, optional
        Transform of the stored values, in `fit` and when serving.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        See `ItemWeightedPCA`.
    tol : float, default=1e-3
        Largest residual of a component, relative to the largest eigenvalue. Scores hardly depend
        on the accuracy of the last components: what they miss stays in the local part.
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors of the iteration. None means a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Uᵀ: orthonormal rows, largest eigenvalue first.
    eigenvalues_ : ndarray of shape (n_components_,)
        Of W^½ C W^½, in the units of the data.
    co_occurrences_ : csr_array of shape (n_items, n_items)
        C without its diagonal, cut to k entries per row, in units of the largest p_j².
    item_norms_, item_weights_ : ndarray of shape (n_items,)
        p and w; 0 for an item without users.
    n_components_ : int
        Fewer than requested, with a warning, if fewer eigenvalues are positive.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    See Also
    --------
    ItemWeightedPCA : The low rank alone, restricted to a projection.

    Notes
    -----
    `ridge`, `local_weight` and `popularity_discount` can be changed after the fit, and `truncate`
    gives every smaller rank. Scores of a user without items are 0 for all items; recommend
    popular ones to such users. Scores are linear in the row, so `explain` is exact; `evidence`
    splits it into local and global parts.

    Examples
    --------
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = LocalGlobal(n_components=2).fit(X)
    >>> model.recommend(X[2], k=1).ids
    array([1])
    """

    n_components: Count = 256
    _: KW_ONLY
    gamma: Finite = -1.0
    item_weights: ItemWeights | None = None
    user_scaling: Finite = 0.25
    ridge: NonNegative = 0.1
    local_weight: NonNegative = 0.6
    popularity_discount: Finite = 0.0
    n_neighbors: Count | Literal["auto"] | None = "auto"
    tol: Tolerance = 1e-3

    @property
    def free_parameters(self) -> frozenset[str]:
        """What the fit does not use: it weighs the parts when scoring."""
        return frozenset({"ridge", "local_weight", "popularity_discount"})

    def for_search(self) -> Self:
        """Return an unfitted copy with components of half the cost; `tune` refits its choice."""
        return clone(self).set_params(tol=max(self.tol, _SEARCH_TOLERANCE))

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:
        """Return the grids of the first step of `search_steps`."""
        return next(self.search_steps(train))

    def search_steps(
        self, train: Interactions
    ) -> Generator[list[dict[str, tuple[Any, ...]]], dict[str, Any], None]:
        """Yield the grids that `tune` searches by default: about 50 settings, 8 or 9 fits.

        If values differ, first their transforms. Then ridge and local weight, and the popularity
        discount; γ and user scaling, and values next to the best of them; the rank, with ridge and
        local weight again, and twice the largest rank if that is the best.
        """
        rank = min(256, max(1, train.n_items // 4))
        ridges, weights, discounts = (0.01, 0.03, 0.1, 0.3, 1.0), (0.6, 0.8, 1.0), (0.1, 0.2, 0.4)
        start: dict[str, Any] = {
            "n_components": rank, "gamma": -1.0, "user_scaling": 0.25, "ridge": 0.1,
            "local_weight": 0.6, "popularity_discount": 0.0,
        }  # fmt: skip
        if has_different_values(train):
            transforms = {"value_transform": (None, *VALUE_TRANSFORMS)}
            best = yield [grid_around({**start, **transforms}, local_weight=weights, **transforms)]
            start["value_transform"] = best["value_transform"]
        best = yield [
            grid_around(start, ridge=ridges, local_weight=weights),
            grid_around(start, popularity_discount=discounts),
        ]
        fits: list[dict[str, Any]] = [{"gamma": -1.4}, {"user_scaling": 0.5}, {"gamma": -0.6}]
        best = yield [
            grid_around({**best, **fit}, **values)
            for fit in fits
            for values in ({"local_weight": weights}, {"popularity_discount": (0.0, *discounts)})
        ]
        gamma, a, weight = (best[k] for k in ("gamma", "user_scaling", "local_weight"))
        best = yield [
            grid_around({**best, **fit}, local_weight=(weight, weight * 0.8))
            for fit in ({"gamma": gamma - 0.2}, {"gamma": gamma + 0.2}, {"user_scaling": a + 0.1})
        ]
        for ranks in ((max(1, rank // 2),), (rank, 2 * rank)), ((4 * rank,),):
            near = {
                "ridge": tuple(best["ridge"] * step for step in (0.5, 1, 2)),
                "local_weight": tuple(best["local_weight"] * step for step in (0.75, 1, 1.25)),
            }
            *smaller, larger = (possible_sizes(train.n_items, sizes) for sizes in ranks)
            best = yield [
                *(grid_around(best, n_components=sizes) for sizes in smaller),
                *(grid_around(best, n_components=larger, **{k: v}) for k, v in near.items()),
            ]
            if best["n_components"] != 2 * rank:
                break

    # ------------------------------------------------------------------------------------- fit

    def _fit(self, data: Interactions) -> None:
        """Find the leading eigenpairs of G, and the largest co-occurrences of every item."""
        self.item_norms_ = item_norms(data.prepared(self._value_transform()))
        self.item_weights_ = item_weights_of(self.item_norms_, self.gamma, self.item_weights)
        self._learn_components(data)
        self._progress.note("co-occurrences")
        counts = self._co_occurrences(data)
        counts.data /= self._unit()
        self.co_occurrences_ = counts.astype(data.dtype)

    def _value_transform(self) -> Callable[[sp.csr_array], sp.csr_array]:
        return partial(transform_rows, value_transform=self.value_transform)

    def _learn_components(self, data: Interactions) -> None:
        scaled = data.prepared(self._row_transform())
        scaled = scaled.prepared(partial(scale_columns, scale=np.sqrt(self.item_weights_)))
        solver = self._choose_solver(scaled)
        gram = scaled.gram(kind=solver)
        self._check_memory(data, gram, solver)
        found = self._leading(gram, solver, block=self._block(gram))
        self._keep(found, data.dtype, "the weighted matrix has no more positive eigenvalues")

    def _co_occurrences(self, data: Interactions) -> sp.csr_array:
        """Return C, cut; from several blocks, with one pass over them per range of items."""
        from equipoise.spectral import co_occurrence

        rows, n_items = data.prepared(self._row_transform()).rows, data.n_items
        k = self._neighbors(data)
        if len(rows) == 1:  # its sums are complete: they can be cut where they are formed
            found: sp.csr_array = rows.map(_largest_co_occurrences, k)[0]
            return found
        memory = (rows.memory or _ROWS_BYTES) // _ROWS_SHARE
        step = max(1, memory // (8 * n_items))
        parts = (
            co_occurrence.largest_of_rows(rows.total(_rows_of_gram, start, step), start, k)
            for start in range(0, n_items, step)
        )
        return co_occurrence.joined(parts, n_items)

    def _neighbors(self, data: Interactions) -> int:
        if self.n_neighbors not in (None, "auto"):
            return int(self.n_neighbors)
        counts = data.items_per_user().astype(np.float64)
        few = min(float(counts @ counts), float(data.n_items) ** 2) <= _MOST_ENTRIES
        return data.n_items if few or self.n_neighbors is None else _NEIGHBORS

    # ----------------------------------------------------------------------------------- serve

    def filter_factors(self) -> Floats:
        """Return f(λ_i) of every component; 1 without a ridge."""
        relative = self._relative()
        return relative / (relative + self.ridge)

    def self_reconstruction(self) -> NDArray[Any]:
        """Return the diagonal of U f(Λ) Uᵀ: how much of an item's score comes from the item itself.

        The local part has no diagonal.
        """
        check_is_fitted(self)
        return self.filter_factors() @ np.square(self.components_)

    def _relative(self) -> Floats:
        return self.eigenvalues_ / self.eigenvalues_[0]

    def _slope(self) -> float:
        """κ: the line that replaces the filter below λ_r."""
        return self.local_weight / (float(self._relative()[-1]) + self.ridge)

    def _unit(self) -> float:
        """The unit of C, its largest possible entry: float32 then holds data of any scale."""
        return float(self.item_norms_.max()) ** 2

    def _global_factors(self) -> NDArray[Any]:
        """Return f(λ) − κλ: what the components add to a score that has κG already."""
        factors = self.filter_factors() - self._slope() * self._relative()
        return np.asarray(factors, self.components_.dtype)

    def _local_input(self) -> NDArray[Any]:
        """κ/λ_1 · w, by which a row is multiplied before C; times the unit of C."""
        weights = self.item_weights_ / self.eigenvalues_[0] * self._unit() * self._slope()
        return np.asarray(weights, self.components_.dtype)

    def _discount(self) -> NDArray[Any]:
        """p^−c, and 0 for an item without users or of weight 0."""
        known = self.item_weights_ > 0
        discount = np.zeros(len(known), self.components_.dtype)
        discount[known] = self.item_norms_[known] ** -self.popularity_discount
        return discount

    def _outer_scales(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """W^½, and W^−½ P^−c: the scales of the global part on the left and on the right."""
        root = np.sqrt(self.item_weights_).astype(self.components_.dtype)
        return root, invert(root) * self._discount()

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return self._scorer(user_items)(slice(None))

    def _scorer(self, user_items: sp.csr_array) -> Callable[[slice], NDArray[Any]]:
        left, right = self._outer_scales()
        weighted = self.components_ * self._global_factors()[:, None] * right
        loadings = np.ascontiguousarray((self.components_ * left).T)
        local_input, discount = self._local_input(), self._discount()
        compiled = user_items.shape[0] * self.n_features_in_ >= _COMPILED_FROM

        def score(block: slice) -> NDArray[Any]:
            rows = self._value_transform()(user_items[block]).astype(loadings.dtype, copy=False)
            scores: NDArray[Any] = (rows @ loadings) @ weighted
            weighted_rows = scale_columns(rows, local_input)
            if compiled:
                from equipoise.spectral.co_occurrence import add_product

                add_product(weighted_rows, self.co_occurrences_, discount, scores)
            else:
                local = sp.csr_array(weighted_rows @ self.co_occurrences_)
                users = np.repeat(np.arange(len(scores)), np.diff(local.indptr))
                scores[users, local.indices] += local.data * discount[local.indices]
            return scores

        return score

    def _similarities(self, item: int) -> NDArray[Any]:
        """Return what an entry at `item` adds to every other score; −inf where that is 0."""
        left, right = self._outer_scales()
        added = (self.components_[:, item] * self._global_factors() * left[item]) @ self.components_
        local = self.co_occurrences_[[item]].toarray()[0] * self._local_input()[item]
        weights = added * right + local * self._discount()
        return np.where(weights == 0, -np.inf, weights)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        local, by_component = self._parts(user_items, item)
        return local + by_component.sum(axis=1)

    def _parts(self, user_items: sp.csr_array, item: int) -> tuple[NDArray[Any], NDArray[Any]]:
        row = self._value_transform()(user_items)
        items = row.indices
        left, right = self._outer_scales()
        to_item = self.components_[:, item] * self._global_factors() * right[item]
        by_component = (row.data * left[items])[:, None] * self.components_[:, items].T * to_item
        column = self.co_occurrences_[:, [item]].toarray()[:, 0]
        local = row.data * self._local_input()[items] * column[items] * self._discount()[item]
        return local, by_component

    def evidence(self, user_items: Any, item: Any) -> Evidence:
        """Split one user's score for an item into local evidence and parts of components.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            Exactly one user, as in `explain`.
        item : id or column number
            The item whose score is explained.
        """
        score = self.explain(user_items, item, k=1).score  # checks both arguments
        row = self.read_rows(user_items)
        return Evidence(score, self._named(row.indices), *self._parts(row, self._column(item)))


def scale_columns(user_items: sp.csr_array, scale: NDArray[Any]) -> sp.csr_array:
    """Return X·diag(scale), in the precision of X."""
    return with_values(user_items, user_items.data * scale[user_items.indices])


def _largest_co_occurrences(block: RowBlock, k: int) -> sp.csr_array:
    from equipoise.spectral.co_occurrence import largest_co_occurrences

    return largest_co_occurrences(block.matrix, k)


def _rows_of_gram(block: RowBlock, start: int, step: int) -> Floats:
    """Return what the users of a block add to some rows of XᵀX, dense."""
    X = block.matrix.astype(np.float64, copy=False)
    return (X[:, start : start + step].T @ X).toarray()

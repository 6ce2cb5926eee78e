"""Item-Weighted PCA: the method of the paper, in closed form."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.base import grid_around
from equipoise.models.estimator import check_is_fitted, clone
from equipoise.models.item_vectors import Floats
from equipoise.models.parameters import Finite, ItemWeights, NonNegative
from equipoise.models.pca.projection import FilteredProjection
from equipoise.progress import Progress, task
from equipoise.spectral.certificate import Certificate, Components
from equipoise.spectral.gram import DenseGram, Gram
from equipoise.spectral.solve import certify_rigorously

# Grids of the spectral filter that `tune` tries, around the paper's hard filter.
_FILTER_GRIDS: tuple[dict[str, tuple[Any, ...]], ...] = (
    {"spectral_filter": ("hard",), "filter_strength": (0.0,)},
    {"spectral_filter": ("power",), "filter_strength": (1 / 8, 1 / 4, 3 / 8, 1 / 2)},
    {"spectral_filter": ("ridge",), "filter_strength": (0.01, 0.03, 0.1)},
)


@dataclass(eq=False, repr=False)
class ItemWeightedPCA(FilteredProjection):
    """Low-rank model of users × items in which every item has its own weight.

    PCA reconstructs popular items best. This model maximizes `Σ_j w_j ⟨X_·j, X̂_·j⟩` over all
    projections X̂ = XUUᵀ of rank r instead. For γ < 0 the weight w_j = p_j^γ falls with the norm
    `p_j = ‖X_·j‖₂` of the item's column: niche items get their share of the components, and popular
    items share theirs with other items. (The paper calls p_j popularity; on 0/1 data it is the root
    of the number of users.) γ = 0 is PCA; γ = −1, the default, is the paper's choice.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank; at most the number of items.
    gamma : float, default=-1.0
        γ, the exponent of the norms in the weights.
    item_weights : array of shape (n_items,) or callable, optional
        w ≥ 0 instead of p^γ; a callable gets the norms p and returns the weights.
    error_budget : float, optional
        The paper's ε ≥ 0: ‖X − X̂‖² may exceed that of PCA at the same rank by the factor 1 + ε at
        most, up to the accuracy of the solver (1e-10 of ‖X‖²). This holds for `components_` as they
        are stored, in float32 too. 0 is PCA itself; None leaves the error free.
    spectral_filter : {"hard", "power", "ridge"}, default="hard"
        How component i with eigenvalue λ_i counts in a score: 1 (the paper), (λ_i/λ_1)^s or
        λ_i/(λ_i + ρλ_1).
    filter_strength : float, default=0.0
        s or ρ.
    user_scaling : float, default=0.0
        a: each row is divided by (number of the user's items)^a, in `fit` and when serving.
    value_transform : {"binary", "log1p", "one_plus", "shares"}, optional
        Transform of the stored values, in `fit` and when serving.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        Block Lanczos on the sparse matrix, block Lanczos on XᵀX, or LAPACK on XᵀX; "auto" takes
        the one estimated to be fastest. All are exact to `tol`.
    tol : float, default=1e-6
        Largest residual ‖M u − λ u‖ of a component, relative to λ_1.
    passes : {"auto", "few", "many"}, default="auto"
        Passes over the data: "few" multiplies more vectors in each, for data on disk or on a
        cluster; "many" does the least arithmetic. "auto" is few for data in blocks, else many.
    random_state : int, RandomState instance or None, default=None
        Draws the first vectors of the iteration. None means a fixed seed: same data, same bits.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Uᵀ: orthonormal rows, largest eigenvalue first, each with a positive sum.
    eigenvalues_ : ndarray of shape (n_components_,)
        Of M = ½(DXᵀX + XᵀXD), D = diag(w + μ).
    residuals_ : ndarray of shape (n_components_,)
        ‖M u − λ u‖ of each component.
    item_norms_ : ndarray of shape (n_items,)
        p_j, the norms of the columns.
    item_weights_ : ndarray of shape (n_items,)
        w_j; 0 for an item without users.
    n_components_ : int
        Fewer than requested, with a warning, if fewer eigenvalues are positive.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.
    error_budget_multiplier_ : float
        μ, the multiplier of the error budget: 0 if it is not active.
    certificate_ : Certificate
        Objective, upper bound, gap, residual, passes over the data. Printable.
    solver_ : str
        The solver that was used.

    See Also
    --------
    VanillaPCA : γ = 0.
    NormalizedPCA : PCA of the columns scaled to norm one.

    Notes
    -----
    P = UUᵀ is symmetric, so tr(DCP) = tr(MP) with M = ½(DC + CD) and C = XᵀX. By Ky Fan's theorem
    the maximum over {0 ⪯ P ⪯ I, tr P ≤ r} is the sum of the positive ones among the r largest
    eigenvalues of M, attained at the projector onto their eigenvectors: the paper's semidefinite
    program is one partial symmetric eigenproblem. Solutions are nested; see `truncate`.

    References
    ----------
    David Liu, Jackie Baek and Tina Eliassi-Rad, "When Collaborative Filtering is not
    Collaborative: Unfairness of PCA for Recommendations".

    Examples
    --------
    >>> import numpy as np
    >>> from equipoise import ItemWeightedPCA
    >>> X = np.array([[5, 4, 0, 0], [4, 5, 0, 0], [5, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = ItemWeightedPCA(n_components=2).fit(X)
    >>> model.recommend(X[2], k=1).ids
    array([1])
    >>> bool(model.certificate_.gap < 1e-9)
    True
    """

    _: KW_ONLY
    gamma: Finite = -1.0
    item_weights: ItemWeights | None = None
    error_budget: NonNegative | None = None

    @property
    def nested_parameter(self) -> str | None:
        """``n_components``, unless an error budget makes every rank a separate problem."""
        return self.size_parameter if self.error_budget is None else None

    @property
    def shared_parameters(self) -> frozenset[str]:
        """γ, unless item weights are given: fits along γ share XᵀX."""
        return frozenset({"gamma"} if self.item_weights is None else ())

    def fit_many(
        self, X: Any, settings: Sequence[Mapping[str, Any]], *, progress: Progress | None = None
    ) -> list[Self]:
        """Fit one model per mapping of parameters; those that differ in γ alone share XᵀX."""
        others = [{k: v for k, v in one.items() if k != "gamma"} for one in settings]
        if self.item_weights is not None or len(settings) < 2 or others != others[:1] * len(others):
            return super().fit_many(X, settings, progress=progress)
        base = clone(self).set_params(**others[0])
        gammas = [one.get("gamma", self.gamma) for one in settings]
        return base.fit_path(X, gammas, progress=progress)

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:
        """Return the grids that `tune` searches by default: three kinds of spectral filters."""
        (space,) = super().search_space(train)
        return [{**space, **one} for one in _FILTER_GRIDS]

    def search_steps(
        self, train: Interactions
    ) -> Generator[list[dict[str, tuple[Any, ...]]], dict[str, Any], None]:
        """Yield the grids that `tune` searches by default: one parameter after the other.

        The full grid of `search_space` needs 32 fits, or 128 if values differ; the steps need
        about 10. First the rank and, if values differ, their transform. Then γ and the scaling of
        users, in the direction that is better, at ranks around the best; γ in finer steps; the
        filters of the best fit. Last, ranks are doubled as long as that is better.
        """
        space = self.search_space(train)[0]
        ranks, transforms = space["n_components"], space.get("value_transform", ())
        start: dict[str, Any] = {name: values[0] for name, values in space.items()}
        start |= {"gamma": -1.0, "user_scaling": 0.25}
        grids = [grid_around(start, n_components=ranks)]
        if transforms:
            others = {"value_transform": transforms[1:]}
            grids.append(grid_around(start, n_components=ranks[-2:], **others))
        best = yield grids

        def near() -> tuple[int, ...]:
            at = ranks.index(best["n_components"])
            return tuple(ranks[max(0, at - 1) : at + 2])

        for name, steps in (("gamma", (-0.5, 0.5)), ("user_scaling", (-0.25, 0.25))):
            first = best[name]
            values = tuple(first + step for step in steps)
            best = yield [grid_around(best, n_components=near(), **{name: values})]
            beyond = 2 * best[name] - first
            if best[name] != first and (name == "gamma" or beyond >= 0):
                best = yield [grid_around(best, n_components=near(), **{name: (beyond,)})]
        finer = (best["gamma"] - 0.25, best["gamma"] + 0.25)
        best = yield [grid_around(best, n_components=near(), gamma=finer)]
        best = yield [grid_around(best, n_components=near()[-2:], **one) for one in _FILTER_GRIDS]
        for rank in (2 * ranks[-1], 4 * ranks[-1]):
            if best["n_components"] < rank // 2 or rank > train.n_items:
                return
            best = yield [grid_around(best, n_components=(rank,), **one) for one in _FILTER_GRIDS]

    def fit_path(
        self, X: Any, gammas: Iterable[float], *, progress: Progress | None = None
    ) -> list[Self]:
        """Fit one model for each γ; they share the data and, where that pays, XᵀX.

        Parameters
        ----------
        X : Interactions, or sparse or dense matrix of shape (n_users, n_items)
            Non-negative.
        gammas : iterable of float
            Any number of them, in any order.
        progress : Progress, optional
            Receives the progress; silent by default.

        Notes
        -----
        Each γ is solved from the start. Starting from the components of the last γ saves passes,
        but needs wider blocks, which cost more than that saves.
        """
        self._validate_params()
        if self.item_weights is not None:
            raise InvalidParameterError(
                "fit_path varies gamma, which item_weights override: every model would be the "
                "same. Leave item_weights out."
            )
        exponents = [float(gamma) for gamma in gammas]
        if not np.all(np.isfinite(exponents)):
            raise InvalidParameterError(f"gammas must be finite, got {exponents}.")
        base = clone(self)
        gram = base._prepare(base._accept(X), fits=max(1, len(exponents)))
        models: list[Self] = []
        with task(progress, f"Fitting {type(self).__name__} along γ", len(exponents)) as fitting:
            for gamma in exponents:
                model = copy.copy(base).set_params(gamma=gamma)
                with model._reporting_to(fitting, f"γ = {gamma:g}"):
                    components = model._solve(gram)
                model._learn(components)
                models.append(model)
                fitting.advance()
        return models

    def certify(self, X: Any) -> Certificate:
        """Prove the fit on its training data: a bound by factorization instead of an estimate.

        Forms the dense m × m matrix M, so it is for catalogs of up to a few thousand items.
        Not defined under a binding error budget, whose certificate is `certificate_` already.
        """
        check_is_fitted(self)
        if self.error_budget_multiplier_ != 0:
            raise InvalidParameterError(
                "certify covers fits without a binding error_budget; certificate_ contains the "
                "dual bound of this one."
            )
        advice = "Rely on certificate_, or certify a fit on fewer items."
        DenseGram.require_memory(self.n_features_in_, "certify", advice)
        gram = DenseGram.of(self.preprocess(self._read(X)))
        U = self.components_.T.astype(np.float64)
        return certify_rigorously(gram, self.item_weights_, U, self.n_components)

    def _solve(self, gram: Gram) -> Components:
        self.item_weights_ = item_weights_of(self.item_norms_, self.gamma, self.item_weights)
        found = self._leading(
            gram,
            self.solver_,
            self.item_weights_,
            error_budget=self.error_budget,
            rounding=float(np.finfo(self._dtype).eps),
            block=self._block(gram),
        )
        self.error_budget_multiplier_ = found.multiplier
        return found

    def _weights_of(self, norms: Floats) -> Floats:
        if self.item_weights is not None or self.error_budget is not None:
            return super()._weights_of(norms)
        return popularity_weights(norms, self.gamma)


def item_weights_of(
    norms: Floats,
    gamma: Finite,
    given: NDArray[Any] | Callable[[Floats], NDArray[Any]] | None = None,
) -> Floats:
    """Return p^γ, or the weights that an array or a function of the norms gives, checked."""
    if given is None:
        return popularity_weights(norms, gamma)
    weights = np.array(given(norms) if callable(given) else given, dtype=np.float64)
    if weights.shape != norms.shape:
        raise InvalidDataError(
            f"item_weights must contain one number for each of the {len(norms)} items, "
            f"got shape {weights.shape}."
        )
    if not np.all(np.isfinite(weights)) or np.any(weights < 0):
        worst = int(np.argmax(~np.isfinite(weights) | (weights < 0)))
        raise InvalidDataError(
            f"item_weights must be finite and at least 0, got {weights[worst]} for column "
            f"{worst}. Clip them, or use gamma."
        )
    weights[norms == 0] = 0.0
    with np.errstate(over="ignore"):
        too_large = not np.all(np.isfinite(weights * norms**2))
    if too_large:
        raise InvalidDataError(
            f"item_weights as large as {weights.max():.3g} lead beyond floating point. "
            "Divide them by a constant: the components do not depend on it."
        )
    if not weights.any():
        raise InvalidDataError(
            "item_weights are 0 for every item that has users, so no component "
            "is better than another. Give at least one a positive weight."
        )
    return weights


def popularity_weights(norms: Floats, gamma: float) -> Floats:
    """Return w_j = p_j^γ for column norms p_j, and 0 for an item without users.

    Examples
    --------
    >>> popularity_weights(np.array([4.0, 0.0, 1.0]), -0.5).tolist()
    [0.5, 0.0, 1.0]
    """
    touched = norms > 0
    weights = np.zeros_like(norms)
    with np.errstate(all="ignore"):  # what overflows is refused below
        weights[touched] = norms[touched] ** gamma
        objective = weights * norms**2  # w_j C_jj, the largest that any sum can be made of
    sound = np.all(np.isfinite(objective)) and np.all(weights[touched] > 0)
    if not sound or float(objective.max()) < np.finfo(np.float64).tiny:
        raise InvalidParameterError(
            f"gamma={gamma} gives weights beyond floating point: norms range from "
            f"{norms[touched].min():.3g} to {norms.max():.3g}. "
            "Use a gamma closer to 0, or rescale the data."
        )
    return weights

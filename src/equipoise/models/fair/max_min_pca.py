"""Item-Weighted PCA whose weights follow from a stated goal over groups of items."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InfeasibleError, InvalidParameterError
from equipoise.models.fair.group_pca import (
    GroupPCA,
    GroupSpec,
    WelfareName,
    find_groups,
    refuse_empty,
)
from equipoise.models.item_vectors import Floats
from equipoise.models.item_weighted_pca import SpectralFilter, popularity_weights
from equipoise.models.projection import Passes
from equipoise.models.value_transforms import ValueTransform
from equipoise.spectral.groups.families import ItemFamily
from equipoise.spectral.groups.minmax import Fractional, maximize
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.solve import Solver

# γ of the objective under floors if none is given: the paper's choice.
_PAPER_GAMMA = -1.0


class MaxMinItemWeightedPCA(GroupPCA):
    """Item-Weighted PCA that maximizes the smallest share retained by a group of items.

    The share of group g is Σ_{j∈g} ⟨X_·j, X̂_·j⟩ / Σ_{j∈g} ‖X_·j‖². `ItemWeightedPCA` sets item
    weights by γ. Here the weights are the multipliers of a goal: the largest smallest share, an
    α-fair sum of shares, or the paper's objective with a floor for every group's share. The
    solution is exact and comes with a certificate.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank.
    groups : int, Groups or array of labels, default=10
        Groups of items: a number of popularity groups of equal size, groups by id (providers,
        genres; an item may be in several), or one label per item in the order of the data.
    welfare : {"min", "nash"} or float, default="min"
        The goal: the smallest share, the sum of log shares, or for a number α > 0 the α-fair sum
        Σ share^(1−α)/(1−α). Larger α means more equal shares.
    floors : float or mapping of group name to float, optional
        Least share of each group. The objective is then Σ_j w_j ⟨X_·j, X̂_·j⟩ with w = p^γ, and
        `welfare` is not used. Floors out of reach are refused with the proof.
    base_gamma : float, optional
        γ of the objective under floors, −1 by default.
    fractional : {"auto", "map", "projector"}, default="auto"
        What to return where the optimum is not a projection of rank r: the optimal linear map, of
        a rank above r, or a projection of rank r near it. "auto" returns the map under floors.
    spectral_filter, filter_strength, user_scaling, value_transform
        As in `ItemWeightedPCA`.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        As in `ItemWeightedPCA`.
    tol : float, default=1e-6
        Gap between the objective and its upper bound at which to stop, relative to the sum of the
        leading eigenvalues.
    passes, random_state
        As in `ItemWeightedPCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Orthonormal rows.
    item_weights_ : ndarray of shape (n_items,)
        The learned weights: Item-Weighted PCA with these weights has this solution.
    occupations_ : ndarray of shape (n_components_,)
        1, or less for the fractional directions of a map.
    certificate_ : GroupCertificate
        Objective, upper bound, gap, shares and dual weights of the groups, which groups bind.
    eigenvalues_, residuals_, item_norms_, n_components_, n_features_in_, item_ids_, solver_
        As in `ItemWeightedPCA`.

    See Also
    --------
    ItemWeightedPCA : weights set by γ.
    FairPCA : groups of users.

    Notes
    -----
    The share of a group is ⟨A_g, P⟩ with A_g = ½(D_gC + CD_g) / Σ_{j∈g} p_j². The dual of the
    max–min problem is min over y in the simplex of the sum of the r largest eigenvalues of
    Σ y_g A_g: one eigenproblem of Item-Weighted PCA per y. Ranks are not nested.

    Examples
    --------
    >>> X = np.array([[5, 4, 0, 0], [4, 5, 0, 0], [5, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = MaxMinItemWeightedPCA(2, groups=["hit", "hit", "niche", "niche"]).fit(X)
    >>> [round(share, 3) for share in model.certificate_.values]
    [0.902, 0.902]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GroupPCA._parameter_constraints,
        "floors": [Interval(Real, 0, 1, closed="both"), Mapping, None],
        "base_gamma": [Interval(Real, None, None, closed="neither"), None],
    }
    _arrays: ClassVar[dict[str, str]] = {**GroupPCA._arrays, "item_weights_": "m"}

    item_weights_: Floats

    def __init__(
        self,
        n_components: int = 32,
        *,
        groups: GroupSpec | None = 10,
        welfare: WelfareName | float = "min",
        floors: float | Mapping[str, float] | None = None,
        base_gamma: float | None = None,
        fractional: Fractional = "auto",
        spectral_filter: SpectralFilter = "hard",
        filter_strength: float = 0.0,
        user_scaling: float = 0.0,
        value_transform: ValueTransform | None = None,
        solver: Solver = "auto",
        tol: float = 1e-6,
        passes: Passes = "auto",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.groups = groups
        self.welfare = welfare
        self.floors = floors
        self.base_gamma = base_gamma
        self.fractional = fractional
        self.spectral_filter = spectral_filter
        self.filter_strength = filter_strength
        self.user_scaling = user_scaling
        self.value_transform = value_transform
        self.solver = solver
        self.tol = tol
        self.passes = passes
        self.random_state = random_state

    def _fit(self, data: Interactions) -> None:
        if self.base_gamma is not None and self.floors is None:
            raise InvalidParameterError(
                "base_gamma is the γ of the objective under floors: pass floors too, or use "
                "ItemWeightedPCA."
            )
        groups = find_groups(self.groups, data, "items", type(self).__name__)
        membership = groups.align(data).toarray()
        gram = self._prepare(data, fits=8)
        squares = self.item_norms_**2
        energies = squares @ membership
        refuse_empty(groups.names, energies, "items")
        S, names = membership / energies, groups.names
        offsets, welfare = np.zeros(len(names)), self._welfare()
        if self.floors is not None:
            limits = self._limits(groups)
            kept = ~np.isnan(limits)
            S = np.column_stack([self._objective(squares), S[:, kept]])
            names = ("objective", *(name for name, keep in zip(names, kept, strict=True) if keep))
            offsets, welfare = np.append(0.0, -limits[kept]), Welfare("constrained")
        family = ItemFamily(gram, S)
        try:
            found = maximize(
                family,
                self.n_components,
                self._eigen_solver(block=self._block(gram)),
                offsets=offsets,
                welfare=welfare,
                tol=self.tol,
                fractional=self.fractional,
            )
        except InfeasibleError as error:
            raise self._refusal(error, names[1:], -offsets[1:]) from None
        self.item_weights_ = S @ found.dual_weights
        self._learn_solution(found, family.operator(found.dual_weights), names)

    def _map_factors(self) -> Floats:
        """Return the eigenvalues of P itself: shares are linear in X̂ = XP."""
        return self.occupations_

    def _objective(self, squares: Floats) -> Floats:
        """Return w = p^γ, scaled: the objective is the retained share of the weighted energy."""
        gamma = _PAPER_GAMMA if self.base_gamma is None else self.base_gamma
        weights = popularity_weights(self.item_norms_, gamma)
        return weights / float(weights @ squares)

    def _limits(self, groups: Groups) -> Floats:
        """The floor of every group; NaN for a group without one."""
        if not isinstance(self.floors, Mapping):
            return np.full(groups.n_groups, self.floors, dtype=np.float64)
        unknown = [name for name in self.floors if name not in groups.names]
        if unknown or not self.floors:
            raise InvalidParameterError(
                f"floors name groups that do not exist: {', '.join(map(str, unknown[:5]))}. "
                f"The groups are {', '.join(groups.names[:10])}."
            )
        limits = np.full(groups.n_groups, np.nan)
        for name, floor in self.floors.items():
            try:
                allowed = 0 <= floor <= 1
            except TypeError:
                allowed = False
            if not allowed:
                raise InvalidParameterError(
                    f"the floor of {name!r} must be a share between 0 and 1, got {floor!r}."
                )
            limits[groups.names.index(name)] = floor
        return limits

    def _refusal(
        self, error: InfeasibleError, names: tuple[str, ...], limits: Floats
    ) -> InfeasibleError:
        y = np.asarray(error.dual_weights)
        hardest = sorted(zip(y.tolist(), names, strict=True), reverse=True)[:3]
        if np.ptp(limits) == 0:
            reach = (
                f"the group with the smallest share reaches at most {limits[0] + error.best:.4g} "
                f"with {self.n_components} components, below the floor of {limits[0]:.4g}"
            )
        else:
            reach = (
                f"with {self.n_components} components some group stays at least "
                f"{-error.best:.4g} below its floor"
            )
        return InfeasibleError(
            f"the floors are out of reach: {reach}. The proof is an upper bound that weights "
            f"{', '.join(f'{name} by {weight:.2f}' for weight, name in hardest)}. "
            "Lower the floors, or raise n_components.",
            best=error.best,
            dual_weights=dict(zip(names, y.tolist(), strict=True)),
        )

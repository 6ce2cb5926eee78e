"""Item-Weighted PCA whose weights follow from a stated goal over groups of items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import compress
from typing import Any, NamedTuple

import numpy as np

from equipoise.data.groups import Groups, row_groups
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError
from equipoise.models.fair.group_pca import (
    Goal,
    GroupPCA,
    GroupSpec,
    WelfareGoal,
    find_groups,
    refuse_empty,
)
from equipoise.models.item_vectors import Floats
from equipoise.models.parameters import Finite, NonNegative, Share
from equipoise.models.pca.item_weighted_pca import popularity_weights
from equipoise.spectral.gram import Gram, WeightedGram
from equipoise.spectral.groups.families import (
    Combined,
    Family,
    ItemFamily,
    RowFamily,
    Stacked,
)

# γ of the objective under floors if none is given: the paper's choice.
_PAPER_GAMMA = -1.0

# Floors that `tune` tries by default; those out of reach are left out.
_FLOORS = (0.1, 0.15, 0.2, 0.25, 0.3)


class ItemShares(NamedTuple):
    """Groups of items, the matrix XᵀX, and what the share of each group is computed from.

    Attributes
    ----------
    groups : Groups
        Of the items of the data.
    gram : Gram
        XᵀX.
    membership : ndarray of shape (n_items, k)
        How much each item counts in each group.
    energies : ndarray of shape (k,)
        Σ ‖X_·j‖² of each group.
    """

    groups: Groups
    gram: Gram
    membership: Floats
    energies: Floats

    @property
    def weights(self) -> Floats:
        """Weights of items in the share of each group."""
        return self.membership / self.energies


class _Users(NamedTuple):
    """The shares of groups of users, and their names."""

    family: RowFamily
    names: tuple[str, ...]


@dataclass(eq=False, repr=False, kw_only=True)
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
    user_groups : int, Groups or array of labels, optional
        Groups of users that count in addition to those of items. The share of group g of users is
        Σ_{u∈g} ⟨x_u, x̂_u⟩ / Σ_{u∈g} ‖x_u‖².
    welfare : {"min", "nash"} or float, default="min"
        The goal: the smallest share, the product of what groups keep, or for a number α > 0 the
        α-fair sum Σ kept^(1−α)/(1−α), where kept is the group's retained part of ‖X‖². Larger α
        means more equal parts; α corresponds to γ = −2α.
    floors : float or mapping of group name to float, optional
        Least share of each group. The objective is then Σ_j w_j ⟨X_·j, X̂_·j⟩ with w = p^γ, and
        `welfare` is not used. Floors out of reach are refused with the proof.
    base_gamma : float, optional
        γ of the objective under floors, −1 by default.
    error_budget : float, optional
        ε ≥ 0: ‖X − X̂‖² may exceed that of PCA at the same rank by the factor 1 + ε at most, up to
        `tol`.
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
        The learned weights. Without groups of users, Item-Weighted PCA with these weights has
        this solution.
    shares_ : ndarray of shape (k,)
        Retained share of every group of items.
    occupations_ : ndarray of shape (n_components_,)
        1, or less for the fractional directions of a map.
    certificate_ : GroupCertificate
        Objective, upper bound, gap, values and dual weights of the groups, which groups bind.
        Values are shares; with α, retained parts of ‖X‖²; with floors, distances to the floors.
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

    groups: GroupSpec | None = 10
    user_groups: GroupSpec | None = None
    welfare: WelfareGoal = "min"
    floors: Share | Mapping[str, float] | None = None
    base_gamma: Finite | None = None
    error_budget: NonNegative | None = None

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:
        """Return the grids that `tune` searches by default: goals over groups, and floors."""
        (goals,) = super().search_space(train)
        return [goals, {"n_components": goals["n_components"], "floors": _FLOORS}]

    def _fit(self, data: Interactions) -> None:
        if self.base_gamma is not None and self.floors is None:
            raise InvalidParameterError(
                "base_gamma is the γ of the objective under floors: pass floors too, or use "
                "ItemWeightedPCA."
            )
        groups, gram, membership, energies = shares = self._item_shares(data, fits=8)
        squares, k = self.item_norms_**2, groups.n_groups
        # an α-fair sum is over what groups keep of ‖X‖², the others over shares of each group
        total = float(squares.sum()) if self.welfare != "min" and self.floors is None else None
        users = self._user_family(data, total, groups.names)
        names = groups.names + (() if users is None else users.names)
        limits = self._limits(names)
        kept = ~np.isnan(limits)
        solver, start, least = self._eigen_solver(gram), None, 0.0
        # weights of items: of the objective under floors, of each group, and of all for the budget
        S = (membership / (energies if total is None else total))[:, kept[:k]]
        everything = np.full((data.n_items, 1), 1 / float(squares.sum()))
        first, n_groups = int(self.floors is not None), S.shape[1]
        if self.floors is not None:
            S = np.column_stack([self._objective(squares), S])
        if self.error_budget is not None:
            C = WeightedGram(gram, everything[:, 0])
            least, start = self._within_budget(self.error_budget, C, 1.0, solver)
            S = np.hstack([S, everything])
        family: Family = ItemFamily(gram, S)
        if users is not None:
            family = Stacked(family, Combined(users.family, np.eye(users.family.k)[kept[k:]]))
        basis = np.eye(family.k)
        T = np.vstack([basis[first : first + n_groups], basis[S.shape[1] :]])
        offsets, names = -limits[kept], tuple(compress(names, kept))
        goal = Goal(family, T, offsets, names, self._welfare(self.welfare))
        if self.floors is not None:
            T, offsets = np.vstack([basis[0], T]), np.append(0.0, offsets)
            goal = Goal(family, T, offsets, ("objective", *names))
        if self.error_budget is not None:
            goal = goal.within_budget(basis[S.shape[1] - 1], least)
        found = self._maximize(goal, solver, start)
        self.item_weights_ = S @ (goal.T.T @ found.dual_weights)[: S.shape[1]]
        self._learn_solution(found, goal)
        of_groups = ItemFamily(gram, shares.weights)
        B = of_groups.compress(found.vectors, of_groups.image(found.vectors))
        self.shares_ = np.einsum("gii,i->g", B, found.occupations)

    def _item_shares(self, data: Interactions, fits: int) -> ItemShares:
        """Align the groups of items with the data, and form XᵀX."""
        groups = find_groups(self.groups, data, "items", type(self).__name__)
        membership = groups.align(data).membership.toarray()
        gram = self._prepare(data, fits=fits)
        energies = self.item_norms_**2 @ membership
        refuse_empty(groups.names, energies, "items")
        return ItemShares(groups, gram, membership, energies)

    def _user_family(
        self, data: Interactions, total: float | None, taken: tuple[str, ...]
    ) -> _Users | None:
        """The shares of the groups of users, if any are given, or their parts of a total."""
        if self.user_groups is None:
            return None
        groups = find_groups(self.user_groups, data, "users", type(self).__name__)
        if twice := sorted(set(taken) & set(groups.names)):
            raise InvalidParameterError(
                f"groups of items and of users must have different names: {', '.join(twice[:5])}."
            )
        rows = row_groups(self._signal(data), groups.align(data).membership)
        refuse_empty(groups.names, rows.energies, "users")
        scale = 1 / rows.energies if total is None else np.full(rows.k, 1 / total)
        return _Users(RowFamily(rows, scale), groups.names)

    def _map_factors(self) -> Floats:
        """Return the eigenvalues of P itself: shares are linear in X̂ = XP."""
        return self.occupations_

    def _objective(self, squares: Floats) -> Floats:
        """Return w = p^γ, scaled: the objective is the retained share of the weighted energy."""
        gamma = _PAPER_GAMMA if self.base_gamma is None else self.base_gamma
        weights = popularity_weights(self.item_norms_, gamma)
        return weights / float(weights @ squares)

    def _limits(self, names: tuple[str, ...]) -> Floats:
        """The floor of every group; NaN for a group without one. Without floors, 0 for all."""
        if not isinstance(self.floors, Mapping):
            return np.full(len(names), self.floors or 0.0)
        unknown = [name for name in self.floors if name not in names]
        if unknown or not self.floors:
            raise InvalidParameterError(
                f"floors name groups that do not exist: {', '.join(map(str, unknown[:5]))}. "
                f"The groups are {', '.join(names[:10])}."
            )
        limits = np.full(len(names), np.nan)
        for name, floor in self.floors.items():
            if not (isinstance(floor, int | float | np.number) and 0 <= floor <= 1):
                raise InvalidParameterError(
                    f"the floor of {name!r} must be a share between 0 and 1, got {floor!r}."
                )
            limits[names.index(name)] = floor
        return limits

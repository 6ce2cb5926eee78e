"""Fair PCA: reconstruction balanced over groups of users."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations
from typing import Literal

import numpy as np
import scipy.sparse as sp

from equipoise.data.groups import row_groups
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
from equipoise.models.parameters import NonNegative
from equipoise.spectral.groups.families import Family, MatrixFamily, RowFamily
from equipoise.spectral.groups.minmax import EigenSolver
from equipoise.spectral.lapack import Eigenpairs

Balance = Literal["loss", "variance", "share"]

# Numbers in the dense matrices of all groups up to which they are formed: LAPACK on them is then
# faster than one pass over the data after another.
_DENSE_NUMBERS = 2_000_000

# Residuals of the eigenproblems of each group alone, whose eigenvalues err by their squares.
_ALONE_TOL = 1e-5


@dataclass(eq=False, repr=False, kw_only=True)
class FairPCA(GroupPCA):
    """PCA that balances the reconstruction of groups of users.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank.
    groups : int, Groups or array of labels, default=5
        Groups of users: a number of groups of equal size by activity, groups by id, or one label
        per user in the order of the data. Users in no group do not count.
    balance : {"loss", "variance", "share"}, default="loss"
        What is balanced. "loss": the average error per user beyond that of the group's own best
        rank r (Samadi et al. 2018). "variance": the average squared norm kept per user
        (Tantipongpipat et al. 2019). "share": the share of the group's squared norm that is kept.
    welfare : {"min", "nash"} or float, default="min"
        The goal over groups: the worst group, the product, or an α-fair sum. A loss has no product:
        "loss" takes "min" only.
    max_disparity : float, optional
        Largest difference of the balanced quantity between any two groups. The objective is then
        the variance kept over all grouped users, and `welfare` is not used.
    error_budget : float, optional
        ε ≥ 0: ‖X − X̂‖² over all users may exceed that of PCA at the same rank by the factor 1 + ε
        at most, up to `tol`. With `center`, X is centered too.
    center : bool, default=False
        Subtract each group's own mean first, as in the papers. Off by default: rows of
        interactions are projected as they are.
    fractional, spectral_filter, filter_strength, user_scaling, value_transform
        As in `MaxMinItemWeightedPCA`.
    solver : {"auto", "matrix_free", "gram", "dense"}, default="auto"
        "dense" and "gram" form one dense matrix of items × items per group and use LAPACK;
        "matrix_free" forms none. "auto" takes the first where the matrices are small.
    tol : float, default=1e-6
        Gap between the objective and its upper bound at which to stop, relative to the sum of the
        leading eigenvalues.
    passes, random_state
        As in `ItemWeightedPCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Orthonormal rows.
    occupations_ : ndarray of shape (n_components_,)
        1, or less for the fractional directions of a map.
    best_ : ndarray of shape (k,)
        What each group keeps per user at its own best rank r; NaN unless balance is "loss".
    certificate_ : GroupCertificate
        Objective, upper bound, gap, values and dual weights of the groups, which groups bind.
        Losses have a minus sign: the objective is maximized.
    eigenvalues_, residuals_, item_norms_, n_components_, n_features_in_, item_ids_, solver_
        As in `ItemWeightedPCA`.

    References
    ----------
    Samadi et al. 2018, "The Price of Fair PCA". Tantipongpipat et al. 2019, "Multi-Criteria
    Dimensionality Reduction with Applications to Fairness". With `max_disparity`, the exact form
    of the constraints of Kamani et al. 2022 and Pelegrina & Duarte 2022.

    Examples
    --------
    >>> X = np.array([[2.0, 0, 0], [2, 0, 0], [2, 0, 0], [0, 1, 0], [0, 0, 1]])
    >>> model = FairPCA(1, groups=["a", "a", "a", "b", "b"], balance="share").fit(X)
    >>> [round(share, 3) for share in model.certificate_.values]
    [0.333, 0.333]
    """

    groups: GroupSpec | None = 5
    balance: Balance = "loss"
    welfare: WelfareGoal = "min"
    max_disparity: NonNegative | None = None
    error_budget: NonNegative | None = None
    center: bool = False

    def _fit(self, data: Interactions) -> None:
        if self.balance == "loss" and self.welfare != "min":
            raise InvalidParameterError(
                f"welfare={self.welfare!r} needs positive utilities, and losses are none: use "
                "balance='variance' or 'share', or welfare='min'."
            )
        groups = find_groups(self.groups, data, "users", type(self).__name__)
        self._dtype = data.dtype
        rows = row_groups(self._signal(data), self._members(groups.align(data).membership))
        # the groups, between the users of the objective and those of the error budget
        own = slice(first := int(self.max_disparity is not None), first + groups.n_groups)
        refuse_empty(groups.names, rows.energies[own], "users")
        size, small = data.n_items * int(np.ceil(np.sqrt(rows.k))), rows.k * data.n_items**2
        solver = self._row_solver(data, rows, size, small=small <= _DENSE_NUMBERS)
        scale = 1 / rows.sizes
        if self.balance == "share":
            scale[own] = 1 / rows.energies[own]
        by_rows = RowFamily(rows, scale, center=self.center)
        family: Family = by_rows
        if self.solver_ == "dense":
            family = MatrixFamily.of(by_rows)
        single = [self._single(family, by_rows, g, solver) for g in range(own.start, own.stop)]
        self.best_ = np.array([np.nan if one is None else one.values.sum() for one in single])
        start = [one.vectors * np.sqrt(one.values) for one in single if one is not None]
        least = None
        if self.error_budget is not None:
            everyone = family.operator(np.eye(family.k)[-1])
            energy = float(scale[-1] * by_rows.energies[-1])
            least, pca = self._within_budget(self.error_budget, everyone, energy, solver)
            start.append(pca)
        goal = self._goal(family, groups.names, least)
        found = self._maximize(goal, solver, np.hstack(start) if start else None)
        self._learn_solution(found, goal)

    def _members(self, S: sp.csr_array) -> sp.csr_array:
        """Add the users of the objective, if they differ from the groups, and of the budget."""
        columns = [S]
        if self.max_disparity is not None:  # the objective: all users of some group
            grouped = (S.sum(axis=1) > 0).astype(np.float64)
            columns.insert(0, sp.csr_array(grouped.reshape(-1, 1)))
        if self.error_budget is not None:
            columns.append(sp.csr_array(np.ones((S.shape[0], 1))))
        return sp.hstack(columns, format="csr")

    def _single(
        self, family: Family, own: RowFamily, group: int, solver: EigenSolver
    ) -> Eigenpairs | None:
        """The group's own best components, for losses."""
        if self.balance != "loss":
            return None
        dense = self.solver_ == "dense"
        operator = family.operator(np.eye(family.k)[group]) if dense else own.alone(group)
        return solver(operator, self.n_components, _ALONE_TOL)

    def _goal(self, family: Family, names: tuple[str, ...], least: float | None) -> Goal:
        """The goal over groups or the variance, then disparities and the error budget."""
        k, basis = len(names), np.eye(family.k)
        b = -self.best_ if self.balance == "loss" else np.zeros(k)
        goal = Goal(family, basis[:k], b, names, self._welfare(self.welfare))
        if self.max_disparity is not None:  # u_g − u_h + δ ≥ 0
            pairs = np.array(list(permutations(range(k), 2)), dtype=np.intp).reshape(-1, 2)
            g, h = pairs.T
            T = np.vstack([basis[:1], basis[1 + g] - basis[1 + h]])
            b = np.append(0.0, b[g] - b[h] + self.max_disparity)
            labels = ("variance", *(f"{names[i]} - {names[j]}" for i, j in pairs))
            goal = Goal(family, T, b, labels)
        return goal if least is None else goal.within_budget(basis[-1], least)

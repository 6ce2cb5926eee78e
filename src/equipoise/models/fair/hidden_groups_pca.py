"""PCA whose coordinates do not reveal the mean of a user's group."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import cycle
from typing import NamedTuple

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp

from equipoise.data.groups import Groups, row_groups
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.fair.group_pca import (
    Goal,
    GroupPCA,
    GroupSpec,
    find_groups,
    refuse_empty,
)
from equipoise.models.item_vectors import Floats
from equipoise.models.parameters import Count, NonNegative, Values
from equipoise.spectral.groups.families import (
    Combined,
    Deflated,
    FactorFamily,
    Family,
    MatrixFamily,
    RowFamily,
    Stacked,
)
from equipoise.spectral.groups.minmax import EigenSolver

# Differences of means below this share of the largest are in the span of the others.
_SAME_MEAN = 1e-10

# Items up to which the matrices of all groups are formed, for LAPACK.
_DENSE_ITEMS = 400

# Residuals of the eigenvectors of a covariance difference, whose eigenvalues err by their squares.
_ALONE_TOL = 1e-6


class _Constraint(NamedTuple):
    """⟨F diag(c) Fᵀ, P⟩ + limit ≥ 0 for one group."""

    kind: str
    factors: Floats
    coefficients: Floats
    limit: float


@dataclass(eq=False, repr=False, kw_only=True)
class HiddenGroupsPCA(GroupPCA):
    """PCA in the complement of the differences between the means of groups of users.

    The coordinates XU of all groups have the same mean, so the covariance between a coordinate
    and membership in a group is zero on the training data: ridge regression, linear discriminant
    analysis and logistic regression on XU cannot do better than guessing the largest group there.
    Nothing follows for trees, for kernels, or for other users.

    Parameters
    ----------
    n_components : int, default=32
        r, the rank.
    groups : int, Groups or array of labels, default=2
        Groups of users: a number of groups of equal size by activity, groups by id, or one label
        per user in the order of the data.
    mean_gap : float, default=0.0
        δ: how far the mean of a group's coordinates may be from the mean of all groups' means.
        0 removes the differences of means; more keeps part of them, and more variance.
    covariance : float, optional
        τ: bound also the differences between the groups' covariances. With Q = Σ_g − Σ̄ split into
        its positive part Q₊ and negative part Q₋, ⟨Q₊, P⟩ ≤ τ and ⟨Q₋, P⟩ ≤ τ for every group,
        which implies ‖UᵀQU‖₂ ≤ τ.
    covariance_directions : int, default=64
        Eigenvectors of Q₊ and of Q₋ that are bounded; all of them where the solver is "dense". If
        there are more, ‖UᵀQU‖₂ is at most `covariance_bound_`: τ plus the largest eigenvalue that
        was left out.
    equal_opportunity : array of bool of shape (n_users,), optional
        Match the means of these users only, e.g. those with a positive outcome; in the order of
        the data.
    fractional, spectral_filter, filter_strength, user_scaling, value_transform
        As in `MaxMinItemWeightedPCA`.
    solver, tol, passes, random_state
        As in `FairPCA`.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_items)
        Orthonormal rows, orthogonal to the differences of group means.
    n_directions_removed_ : int
        Dimensions of the span of those differences.
    mean_gap_, covariance_gap_ : float
        Largest distance of a group's mean, and largest ‖UᵀQU‖₂, over the groups.
    covariance_bound_ : float
        What `covariance` guarantees for `covariance_gap_`; NaN where it is None.
    certificate_ : GroupCertificate
        Variance per user that is kept, its upper bound, and the slack of the budgets.
    occupations_, eigenvalues_, residuals_, item_norms_, n_components_, n_features_in_, item_ids_,
    solver_
        As in `MaxMinItemWeightedPCA`.

    Notes
    -----
    The objective is the variance about the overall mean, in the complement of the differences of
    means: V ↦ Π(XᵀXΠV − n x̄x̄ᵀΠV) with thin products only, so X stays sparse. Matching covariances
    exactly is not convex; `covariance` is an exact solution of a sufficient condition.

    References
    ----------
    Kleindessner et al. 2023, "Efficient fair PCA for fair representation learning". Olfat and
    Aswani 2019, "Convex formulations for fair principal component analysis" (mean constraint with
    δ = 0).

    Examples
    --------
    >>> X = np.array([[3.0, 1, 0], [3, 0, 1], [1, 1, 0], [1, 0, 1]])
    >>> model = HiddenGroupsPCA(1, groups=["a", "a", "b", "b"]).fit(X)
    >>> Y = model.transform(X)
    >>> bool(abs(Y[:2].mean() - Y[2:].mean()) < 1e-12)
    True
    """

    groups: GroupSpec | None = 2
    mean_gap: NonNegative = 0.0
    covariance: NonNegative | None = None
    covariance_directions: Count = 64
    equal_opportunity: Values | None = None

    def _fit(self, data: Interactions) -> None:
        groups = find_groups(self.groups, data, "users", type(self).__name__)
        S = self._members(groups, data)
        self._dtype = data.dtype
        signal = self._signal(data)
        everyone = sp.csr_array(np.ones((data.n_users, 1)))
        rows = row_groups(signal, sp.hstack([everyone, S], format="csr"))
        refuse_empty(groups.names, rows.sizes[1:], "users")
        means = rows.sums[1:] / rows.sizes[1:, None]
        differences = (means - means.mean(axis=0)).T
        N = mean_differences(means) if self.mean_gap == 0 else differences[:, :0]
        self.n_directions_removed_ = N.shape[1]
        if self.n_components > data.n_items - N.shape[1]:
            raise InvalidParameterError(
                f"n_components={self.n_components} must be at most {data.n_items - N.shape[1]}: "
                f"{N.shape[1]} of the dimensions (n_features={data.n_items}) differ between the "
                "group means."
            )
        small = data.n_items <= _DENSE_ITEMS
        solver = self._row_solver(data, rows, 2 * data.n_items, small=small)
        own = RowFamily(rows, 1 / rows.sizes, center=True)
        family: Family = Deflated(own, N)
        if self.solver_ == "dense":
            family = MatrixFamily.of(family)
        variance: Family = Combined(family, np.eye(family.k)[:1])
        constraints = self._constraints(Combined(family, _gaps(family.k)), differences, solver)
        offsets, names = [0.0], ["variance"]
        if constraints:
            kinds, factors, coefficients, limits = zip(*constraints, strict=True)
            variance = Stacked(variance, FactorFamily(factors, coefficients))
            offsets += limits
            names += [f"{g}, {kind}" for g, kind in zip(cycle(groups.names), kinds, strict=False)]
        goal = Goal(variance, np.eye(variance.k), np.array(offsets), tuple(names))
        found = self._maximize(goal, solver)
        if not found.vectors.shape[1]:
            raise InvalidDataError(
                "no variance is left: apart from the group means, all rows are equal "
                f"(n_samples={data.n_users})."
            )
        self._learn_solution(found, goal)
        U = found.vectors * np.sqrt(found.occupations)
        self.mean_gap_ = float(np.linalg.norm(U.T @ differences, axis=0).max())
        gaps = np.tensordot(_gaps(own.k), own.compress(U, own.image(U)), 1)
        self.covariance_gap_ = float(max(np.linalg.norm(Q, 2) for Q in gaps))

    def _constraints(
        self, gaps: Family, differences: Floats, solver: EigenSolver
    ) -> list[_Constraint]:
        """The budgets of means and covariances, by kind and then by group."""
        found: list[_Constraint] = []
        if self.mean_gap > 0:
            found += [
                _Constraint("mean", difference[:, None], -np.ones(1), self.mean_gap**2)
                for difference in differences.T
            ]
        self.covariance_bound_ = np.nan
        if self.covariance is None:
            return found
        left, dense = 0.0, self.solver_ == "dense"
        for sign, kind in ((1.0, "covariance +"), (-1.0, "covariance -")):
            for row in sign * np.eye(gaps.k):
                count = gaps.size if dense else min(self.covariance_directions, gaps.size)
                pairs = solver(gaps.operator(row), count, _ALONE_TOL)
                positive = pairs.values > 0
                vectors, values = pairs.vectors[:, positive], pairs.values[positive]
                found.append(_Constraint(kind, vectors, -values, self.covariance))
                if count < gaps.size:  # largest eigenvalue that is left out, or a bound on it
                    left = max(left, pairs.next_value + float(pairs.residuals.max(initial=0.0)))
        self.covariance_bound_ = float(self.covariance + max(left, 0.0))
        return found

    def _members(self, groups: Groups, data: Interactions) -> sp.csr_array:
        """The membership of the users whose means are matched."""
        S = groups.align(data).membership
        if self.equal_opportunity is None:
            return S
        chosen = np.asarray(self.equal_opportunity)
        if chosen.shape != (data.n_users,) or chosen.dtype.kind not in "biu":
            raise InvalidDataError(
                f"equal_opportunity must have one bool for each of the {data.n_users} users, got "
                f"shape {chosen.shape} of dtype {chosen.dtype}."
            )
        return sp.csr_array(sp.diags_array(chosen.astype(bool).astype(np.float64)) @ S)


def mean_differences(means: Floats) -> Floats:
    """Orthonormal basis of the span of the differences between means, one row per group.

    Examples
    --------
    >>> mean_differences(np.array([[1.0, 0.0], [3.0, 0.0], [5.0, 0.0]])).shape
    (2, 1)
    """
    differences = (means - means.mean(axis=0)).T
    unit = float(np.abs(means).max())
    U, values, _ = sl.svd(differences, full_matrices=False)
    return U[:, values > _SAME_MEAN * max(unit, np.finfo(np.float64).tiny)]


def _gaps(k: int) -> Floats:
    """Coefficients of Σ_g − Σ̄ in a family of everyone and k − 1 groups."""
    n = k - 1
    return np.hstack([np.zeros((n, 1)), np.eye(n) - 1 / n])

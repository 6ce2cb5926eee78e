"""PCA whose coordinates do not reveal the mean of a user's group."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar

import numpy as np
import scipy.linalg as sl
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils._param_validation import Interval

from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.data.row_groups import row_groups
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.fair.group_pca import GroupPCA, GroupSpec, find_groups
from equipoise.models.item_vectors import Floats
from equipoise.models.item_weighted_pca import SpectralFilter
from equipoise.models.projection import Passes
from equipoise.models.value_transforms import ValueTransform
from equipoise.spectral.gram import DenseGram
from equipoise.spectral.groups.families import Deflated, Family, MatrixFamily, RowFamily
from equipoise.spectral.groups.minmax import Fractional, maximize
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.lanczos import basis_columns, block_width, wide_block
from equipoise.spectral.solve import Solver

# Differences of means below this share of the largest are in the span of the others.
_SAME_MEAN = 1e-10


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
    covariance : float, optional
        τ: bound also the differences between the groups' covariances. With Q = Σ_g − Σ̄ split into
        its positive part Q₊ and negative part Q₋, ⟨Q₊, P⟩ ≤ τ and ⟨Q₋, P⟩ ≤ τ for every group,
        which implies ‖UᵀQU‖₂ ≤ τ. Forms dense matrices of items × items.
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
    covariance_gap_ : float
        Largest ‖UᵀQU‖₂ over the groups; NaN where `covariance` is None.
    certificate_ : GroupCertificate
        Variance per user that is kept, its upper bound, and the slack of the covariance budget.
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GroupPCA._parameter_constraints,
        "covariance": [Interval(Real, 0, None, closed="left"), None],
        "equal_opportunity": ["array-like", None],
    }
    _scalars: ClassVar[dict[str, type]] = {
        **GroupPCA._scalars,
        "n_directions_removed_": int,
        "covariance_gap_": float,
    }

    n_directions_removed_: int
    covariance_gap_: float

    def __init__(
        self,
        n_components: int = 32,
        *,
        groups: GroupSpec | None = 2,
        covariance: float | None = None,
        equal_opportunity: ArrayLike | None = None,
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
        self.covariance = covariance
        self.equal_opportunity = equal_opportunity
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
        groups = find_groups(self.groups, data, "users", type(self).__name__)
        S = self._members(groups, data)
        self._dtype = data.dtype
        signal = self._signal(data)
        everyone = sp.csr_array(np.ones((data.n_users, 1)))
        rows = row_groups(signal, sp.hstack([everyone, S], format="csr"))
        empty = [name for name, n in zip(groups.names, rows.sizes[1:], strict=True) if n == 0]
        if empty:
            raise InvalidDataError(
                f"{len(empty)} groups have no users in these data: {', '.join(empty[:5])}. Leave "
                "them out with groups.select."
            )
        N = mean_differences(rows.sums[1:] / rows.sizes[1:, None])
        self.n_directions_removed_ = N.shape[1]
        if self.n_components > data.n_items - N.shape[1]:
            raise InvalidParameterError(
                f"n_components={self.n_components} must be at most {data.n_items - N.shape[1]}: "
                f"{N.shape[1]} of the dimensions (n_features={data.n_items}) differ between the "
                "group means."
            )
        names: tuple[str, ...] = ("variance",)
        self.covariance_gap_ = np.nan
        self.solver_ = self._choose(data.n_items)
        own = RowFamily(rows, 1 / rows.sizes, center=True)
        offsets, gaps = np.zeros(1), np.zeros((0, data.n_items, data.n_items))
        if self.solver_ == "dense":
            identity = np.eye(data.n_items)
            A = own.compress(identity, own.image(identity))
            Pi = identity - N @ N.T
            A = Pi @ A @ Pi
            if self.covariance is None:
                family: Family = MatrixFamily(A[:1])
            else:
                gaps = A[1:] - A[1:].mean(axis=0)
                family = MatrixFamily(np.concatenate([A[:1], *(-signed_parts(Q) for Q in gaps)]))
                offsets = np.append(0.0, np.full(2 * len(gaps), self.covariance))
                names += tuple(f"{name}, {sign}" for name in groups.names for sign in "+-")
        else:
            width = self._width(data) or block_width(self.n_components)
            data.check_memory(width, basis_columns(self.n_components, width))
            total = row_groups(signal, everyone)
            family = Deflated(RowFamily(total, 1 / total.sizes, center=True), N)
        found = maximize(
            family,
            self.n_components,
            self._eigen_solver(block=self._width(data)),
            offsets=offsets,
            welfare=Welfare("constrained") if self.covariance is not None else Welfare("min"),
            tol=self.tol,
            fractional=self.fractional,
        )
        if not found.vectors.shape[1]:
            raise InvalidDataError(
                "no variance is left: apart from the group means, all rows are equal "
                f"(n_samples={data.n_users})."
            )
        self._learn_solution(found, family.operator(found.dual_weights), names)
        if len(gaps):
            U = found.vectors * np.sqrt(found.occupations)
            self.covariance_gap_ = float(max(np.linalg.norm(U.T @ Q @ U, 2) for Q in gaps))

    def _members(self, groups: Groups, data: Interactions) -> sp.csr_array:
        """The membership of the users whose means are matched."""
        S = groups.align(data)
        if self.equal_opportunity is None:
            return S
        chosen = np.asarray(self.equal_opportunity)
        if chosen.shape != (data.n_users,) or chosen.dtype.kind not in "biu":
            raise InvalidDataError(
                f"equal_opportunity must have one bool for each of the {data.n_users} users, got "
                f"shape {chosen.shape} of dtype {chosen.dtype}."
            )
        return sp.csr_array(sp.diags_array(chosen.astype(bool).astype(np.float64)) @ S)

    def _choose(self, n_items: int) -> Solver:
        dense = self.covariance is not None or self.solver in ("gram", "dense")
        if dense:
            advice = "Leave covariance out, and use solver='matrix_free'."
            DenseGram.require_memory(2 * n_items, type(self).__name__, advice)
        return "dense" if dense or (self.solver == "auto" and n_items <= 400) else "matrix_free"

    def _width(self, data: Interactions) -> int | None:
        """Vectors per pass: many where reading the data dominates the cost."""
        blocks = data.rows.whole() is None
        few = blocks if self.passes == "auto" else self.passes == "few"
        return min(wide_block(self.n_components), data.n_items) if few else None

    def _saved_parameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        parameters, arrays = super()._saved_parameters()
        arrays.pop("equal_opportunity", None)
        parameters["equal_opportunity"] = None
        return parameters, arrays


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
    basis: Floats = U[:, values > _SAME_MEAN * max(unit, np.finfo(np.float64).tiny)]
    return basis


def signed_parts(Q: Floats) -> Floats:
    """Q₊ and Q₋ with Q = Q₊ − Q₋, both positive semidefinite.

    Examples
    --------
    >>> signed_parts(np.diag([2.0, -3.0])).diagonal(axis1=1, axis2=2).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    values, U = np.linalg.eigh((Q + Q.T) / 2)
    return np.stack([(U * np.maximum(sign * values, 0.0)) @ U.T for sign in (1, -1)])

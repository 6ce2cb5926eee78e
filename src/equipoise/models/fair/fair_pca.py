"""Fair PCA: reconstruction balanced over groups of users."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import permutations
from numbers import Real
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import scipy.sparse as sp
from sklearn.utils._param_validation import Interval, StrOptions

from equipoise.data.interactions import Interactions
from equipoise.data.row_groups import row_groups
from equipoise.exceptions import InfeasibleError, InvalidParameterError
from equipoise.models.fair.group_pca import (
    GroupPCA,
    GroupSpec,
    WelfareName,
    find_groups,
    refuse_empty,
)
from equipoise.models.item_vectors import Floats
from equipoise.spectral.gram import DenseGram
from equipoise.spectral.groups.families import Combined, Family, MatrixFamily, RowFamily
from equipoise.spectral.groups.minmax import EigenSolver, maximize
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.solve import Solver

Balance = Literal["loss", "variance", "share"]

# Numbers in the dense matrices of all groups up to which they are formed: LAPACK on them is then
# faster than one pass over the data after another.
_DENSE_NUMBERS = 2_000_000

# Residuals of the eigenproblems of each group alone, whose eigenvalues err by their squares.
_ALONE_TOL = 1e-5


class _Problem(NamedTuple):
    """A_g, b_g, the goal, and the names of the utilities."""

    family: Family
    offsets: Floats
    welfare: Welfare
    names: tuple[str, ...]


@dataclass(eq=False, repr=False)
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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **GroupPCA._parameter_constraints,
        "balance": [StrOptions(set(get_args(Balance)))],
        "max_disparity": [Interval(Real, 0, None, closed="left"), None],
        "center": ["boolean"],
    }

    _: KW_ONLY
    groups: GroupSpec | None = 5
    balance: Balance = "loss"
    welfare: WelfareName | float = "min"
    max_disparity: float | None = None
    center: bool = False

    def _fit(self, data: Interactions) -> None:
        if self.balance == "loss" and self.welfare != "min":
            raise InvalidParameterError(
                f"welfare={self.welfare!r} needs positive utilities, and losses are none: use "
                "balance='variance' or 'share', or welfare='min'."
            )
        groups = find_groups(self.groups, data, "users", type(self).__name__)
        S = groups.align(data).membership
        self._dtype = data.dtype
        signal = self._signal(data)
        if self.max_disparity is not None:  # the objective: all users of some group
            everyone = (S.sum(axis=1) > 0).astype(np.float64).reshape(-1, 1)
            S = sp.hstack([sp.csr_array(everyone), S], format="csr")
        rows = row_groups(signal, S)
        names = groups.names
        refuse_empty(names, rows.energies[-len(names) :], "users")
        self.solver_ = self._choose(data.n_items, rows.k)
        solver = self._eigen_solver(block=self._width(data))
        own = RowFamily(rows, self._scale(rows.sizes, rows.energies), center=self.center)
        family: Family = own
        if self.solver_ == "dense":
            identity = np.eye(data.n_items)
            family = MatrixFamily(own.compress(identity, own.image(identity)))
        else:
            self._check_memory(data)
        problem = self._problem(family, self._best(family, own, len(names), solver), names)
        try:
            found = maximize(
                problem.family,
                self.n_components,
                solver,
                offsets=problem.offsets,
                welfare=problem.welfare,
                tol=self.tol,
                fractional=self.fractional,
            )
        except InfeasibleError as error:
            raise InfeasibleError(
                f"max_disparity={self.max_disparity:g} is out of reach with {self.n_components} "
                f"components: some pair of groups differs by at least {-error.best:.4g} more. "
                "Raise max_disparity or n_components.",
                best=error.best,
                dual_weights=error.dual_weights,
            ) from None
        operator = problem.family.operator(found.dual_weights)
        self._learn_solution(found, operator, problem.names)

    def _choose(self, n_items: int, k: int) -> Solver:
        if self.solver in ("gram", "dense"):
            advice = "Use solver='matrix_free', which forms none."
            DenseGram.require_memory(n_items * int(np.ceil(np.sqrt(k))), "FairPCA", advice)
            return "dense"
        small = self.solver == "auto" and k * n_items**2 <= _DENSE_NUMBERS
        return "dense" if small else "matrix_free"

    def _scale(self, sizes: Floats, energies: Floats) -> Floats:
        if self.balance != "share":
            return 1 / sizes
        scale: Floats = 1 / energies
        if self.max_disparity is not None:
            scale[0] = 1 / sizes[0]
        return scale

    def _best(self, family: Family, own: RowFamily, k: int, solver: EigenSolver) -> Floats:
        """What each group keeps per user at its own best rank r."""
        self.best_ = np.full(k, np.nan)
        if self.balance == "loss":
            first = family.k - k
            for g in range(k):
                if self.solver_ == "dense":
                    operator = family.operator(np.eye(family.k)[first + g])
                else:
                    operator = own.alone(first + g)
                values = solver(operator, self.n_components, _ALONE_TOL).values
                self.best_[g] = float(values.sum())
        return self.best_

    def _problem(self, family: Family, best: Floats, names: tuple[str, ...]) -> _Problem:
        offsets = -best if self.balance == "loss" else np.zeros(len(names))
        if self.max_disparity is None:
            return _Problem(family, offsets, self._welfare(self.welfare), names)
        pairs = list(permutations(range(len(names)), 2))
        T = np.zeros((1 + len(pairs), family.k))
        b = np.zeros(1 + len(pairs))
        T[0, 0] = 1.0
        for row, (g, h) in enumerate(pairs, start=1):  # u_g − u_h + δ ≥ 0
            T[row, 1 + g], T[row, 1 + h] = 1.0, -1.0
            b[row] = offsets[g] - offsets[h] + self.max_disparity
        labels = ("variance", *(f"{names[g]} - {names[h]}" for g, h in pairs))
        return _Problem(Combined(family, T), b, Welfare("constrained"), labels)

"""What the PCAs with groups share: groups by id, the certificate, components of a solution."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.groups import Groups, Of
from equipoise.data.interactions import Interactions
from equipoise.exceptions import (
    InfeasibleError,
    InvalidDataError,
    InvalidParameterError,
    SolverWarning,
)
from equipoise.models.item_vectors import Floats
from equipoise.models.parameters import Count, Positive, Values
from equipoise.models.pca.projection import FilteredProjection
from equipoise.spectral.gram import DenseGram, Gram
from equipoise.spectral.groups.families import Combined, Family, FamilyOperator, RowGroups
from equipoise.spectral.groups.minmax import (
    EigenSolver,
    FairSolution,
    Fractional,
    Outcome,
    maximize,
)
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.lapack import BoundMethod

GroupSpec = Count | Groups | Values
WelfareGoal = Literal["min", "nash"] | Positive

# A group binds if its dual weight exceeds this share of the largest.
_BINDING = 1e-4

# Residuals of the PCA of an error budget, whose eigenvalues err by their squares.
_BUDGET_TOL = 1e-6

# Fields of the certificate that the solver reports.
_AS_FOUND = (
    *("gap", "n_fractional", "outcome", "relaxation"),
    *("max_residual", "eigenproblems", "passes", "method"),
)

_OUTCOMES: dict[Outcome, str] = {
    "projector": "the optimal projection",
    "map": "the optimal linear map, of a rank above n_components: the optimum is not a projection",
    "rounded": "a projection near the optimum, which is not a projection; only the gap is proven",
}


@dataclass(frozen=True)
class GroupCertificate:
    """What is proven about a fit with groups.

    Attributes
    ----------
    objective : float
        The welfare of what the model returns.
    dual_bound : float
        No projection of rank ≤ r, and no fractional one, has a larger welfare.
    gap : float
        dual_bound − objective, relative to the sum of the leading eigenvalues at the bound.
    names : tuple of str
        Of the groups and, in a problem with constraints, of the constraints.
    values : tuple of float
        What each group gets: a share, a variance, minus a loss, or the slack of a constraint.
    dual_weights : tuple of float
        y: the weights of the groups from which the bound follows.
    binding : tuple of str
        Groups with a weight above rounding: only these limit the welfare.
    n_fractional : int
        Directions of the optimum that are neither inside nor outside of a projection.
    outcome : {"projector", "map", "rounded"}
        What was returned; see `meaning`.
    relaxation : float
        By how much constraints were relaxed because no solution meets them strictly.
    max_residual, orthogonality : float
        Largest residual of the eigenpairs behind the bound, relative; largest entry of |UᵀU − I|.
    eigenproblems, passes : int
        Eigenproblems solved, and passes over the data in them.
    method : {"lapack", "lanczos"}
        How the next eigenvalue in the bound was obtained.
    """

    objective: float
    dual_bound: float
    gap: float
    names: tuple[str, ...]
    values: tuple[float, ...]
    dual_weights: tuple[float, ...]
    binding: tuple[str, ...]
    n_fractional: int
    outcome: Outcome
    relaxation: float
    max_residual: float
    orthogonality: float
    eigenproblems: int
    passes: int
    method: BoundMethod

    @classmethod
    def of(cls, found: FairSolution, names: tuple[str, ...]) -> GroupCertificate:
        """Return the certificate of a solution."""
        y, U = found.dual_weights, found.vectors
        binds = y > _BINDING * float(y.max())
        return cls(
            objective=found.value,
            dual_bound=max(found.upper, found.value),
            names=names,
            values=tuple(found.utilities.tolist()),
            dual_weights=tuple(y.tolist()),
            binding=tuple(name for name, binding in zip(names, binds, strict=True) if binding),
            orthogonality=float(np.abs(U.T @ U - np.eye(U.shape[1])).max(initial=0.0)),
            **{name: getattr(found, name) for name in _AS_FOUND},
        )

    @property
    def meaning(self) -> str:
        """What was returned, in words."""
        return _OUTCOMES[self.outcome]

    @property
    def how(self) -> str:
        """How the bound was obtained, in words."""
        if self.method == "lapack":
            return "the next eigenvalue, by LAPACK on the whole matrix"
        return "the next Ritz value plus its residual: an estimate, not a proof"

    def __str__(self) -> str:
        limited = self.names[0] in ("objective", "variance")
        title = "group, above its limit" if limited else "group"
        rows = [
            f"objective       {self.objective:.10g}",
            f"upper bound     {self.dual_bound:.10g}",
            f"relative gap    {self.gap:.1e}",
            f"returned        {self.meaning}",
            f"fractional      {self.n_fractional}",
            f"eigenproblems   {self.eigenproblems}",
            f"passes          {self.passes}",
            f"bound by        {self.how}",
            f"{title:<24} value      dual weight",
        ]
        for name, value, weight in zip(self.names, self.values, self.dual_weights, strict=True):
            mark = " binds" if name in self.binding else ""
            rows.append(f"{name:<20.20} {value:>12.6g} {weight:>12.6g}{mark}")
        return "\n".join(rows)


class Goal(NamedTuple):
    """Utilities u_i = ⟨Σ_g T_ig A_g, P⟩ + b_i with their names, and the goal over them.

    Attributes
    ----------
    family : Family
        The matrices A_g.
    T : ndarray of shape (k, number of matrices)
        Row i combines the matrices A_g into that of utility i.
    offsets : ndarray of shape (k,)
        b.
    names : tuple of str
        One name per utility.
    welfare : Welfare
        What is maximized; by default the first utility, with the others at least 0.
    """

    family: Family
    T: Floats
    offsets: Floats
    names: tuple[str, ...]
    welfare: Welfare = Welfare(goals=1)

    @property
    def utilities(self) -> Combined:
        """The matrices of the utilities."""
        return Combined(self.family, self.T)

    def within_budget(self, row: Floats, least: float) -> Goal:
        """Return the goal with one more utility of at least `least`: an error budget."""
        return self._replace(
            T=np.vstack([self.T, row]),
            offsets=np.append(self.offsets, -least),
            names=(*self.names, "error budget"),
            welfare=replace(self.welfare, goals=self.welfare.goals or len(self.names)),
        )


@dataclass(eq=False, repr=False, kw_only=True)
class GroupPCA(FilteredProjection):
    """Base of the PCAs with groups: filters, transforms, the certificate, saving."""

    _certificate: ClassVar[type] = GroupCertificate

    fractional: Fractional = "auto"

    @property
    def nested_parameter(self) -> str | None:
        """None: the optimum of rank r does not contain that of rank r − 1."""
        return None

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:
        """Return the grids that `tune` searches by default; groups of your own are kept."""
        spaces: list[dict[str, tuple[Any, ...]]] = super().search_space(train)
        own = not isinstance(self.get_params(deep=False).get("groups", 0), Integral)
        return [
            {name: values for name, values in space.items() if not (own and name == "groups")}
            for space in spaces
        ]

    def filter_factors(self) -> NDArray[Any]:
        """Return what component i counts in a score: f(λ_i), less for a fractional direction."""
        factors = self._filtered_values() * self._map_factors()
        return np.asarray(factors.astype(self.components_.dtype))

    def _map_factors(self) -> Floats:
        """Return the eigenvalues of the linear map that has the utilities of P.

        For groups of users it is I − (I − P)^½, whose error is tr C(I − P) for a fractional P too.
        """
        return 1 - np.sqrt(1 - self.occupations_)

    def _welfare(self, welfare: WelfareGoal) -> Welfare:
        if welfare == "min":
            return Welfare("min")
        return Welfare("alpha", 1.0 if welfare == "nash" else float(welfare))

    def _row_solver(
        self, data: Interactions, rows: RowGroups, size: int, *, small: bool
    ) -> EigenSolver:
        """Choose a solver for groups of rows, and check its memory.

        Dense matrices are used if `solver` asks for them, or if they are small. They need as much
        memory as one matrix of `size` × `size`.
        """
        forced = self.solver in ("gram", "dense")
        if forced:
            advice = "Use solver='matrix_free', which forms none."
            DenseGram.require_memory(size, type(self).__name__, advice)
        dense = forced or (small and self.solver == "auto")
        self.solver_ = "dense" if dense else "matrix_free"
        gram = rows.gram(np.ones(rows.k))
        self._check_memory(data, gram, self.solver_)
        return self._eigen_solver(gram)

    def _within_budget(
        self, error_budget: float, C: FamilyOperator, energy: float, solver: EigenSolver
    ) -> tuple[float, Floats]:
        """Return b of the constraint ‖X − XP‖² ≤ (1 + ε)·E_r, that is ⟨C, P⟩ ≥ b, and PCA's U√Λ.

        `energy` is tr C, in the units of the operator C.
        """
        pca = solver(C, self.n_components, _BUDGET_TOL)
        least_error = max(energy - float(pca.values.sum()), 0.0)
        least = energy - (1 + error_budget) * least_error
        return least, pca.vectors * np.sqrt(pca.values)

    def _maximize(
        self, goal: Goal, solver: EigenSolver, start: Floats | None = None
    ) -> FairSolution:
        try:
            return maximize(
                goal.utilities,
                self.n_components,
                solver,
                offsets=goal.offsets,
                welfare=goal.welfare,
                tol=self.tol,
                fractional=self.fractional,
                start=start,
            )
        except InfeasibleError as error:
            raise self._refusal(error, goal) from None

    def _refusal(self, error: InfeasibleError, goal: Goal) -> InfeasibleError:
        """Name the limits that cannot be met, and what proves it."""
        constraints = slice(goal.welfare.goals, None)
        names, limits = goal.names[constraints], -goal.offsets[constraints]
        weights = dict(zip(names, np.asarray(error.dual_weights).tolist(), strict=True))
        hardest = sorted(weights, key=lambda name: -weights[name])[:3]
        what, reach = "limits", f"some limit is missed by at least {-error.best:.4g}"
        chosen = {k: v for k, v in self.get_params(deep=False).items() if v is not None}
        others = [name for name in ("max_disparity", "error_budget") if name in chosen]
        within = f"{self.n_components} components"
        within += "".join(f" and {name}={chosen[name]:g}" for name in others)
        if "floors" in chosen:
            what = "floors"
            if np.ptp(limits) == 0 and "error_budget" not in chosen:
                best = f"{limits[0] + error.best:.4g}, below the floor of {limits[0]:.4g}"
                reach = f"the group with the smallest share reaches at most {best}"
        return InfeasibleError(
            f"the {what} are out of reach with {within}: {reach}. The proof is an upper bound that "
            f"weights {', '.join(f'{name} by {weights[name]:.2f}' for name in hardest)}. "
            f"Relax the {what}, or fit more components.",
            best=error.best,
            dual_weights=weights,
        )

    def _learn_solution(self, found: FairSolution, goal: Goal) -> None:
        """Keep the components and the certificate of a solution."""
        self.certificate_ = GroupCertificate.of(found, goal.names)  # type: ignore[assignment]
        self.n_components_ = found.vectors.shape[1]
        if found.gap > self.tol and found.outcome != "rounded":
            warnings.warn(
                f"the solver stopped at a gap of {found.gap:.1e}, above tol={self.tol:.1e}. The "
                "bounds in certificate_ hold. Raise tol, or use fewer groups.",
                SolverWarning,
                stacklevel=4,
            )
        self.components_ = np.ascontiguousarray(found.vectors.T, dtype=self._dtype)
        self.eigenvalues_ = found.eigenvalues
        self.occupations_ = found.occupations
        operator = goal.utilities.operator(found.dual_weights)
        image = operator(np.ascontiguousarray(found.vectors)) * operator.scale
        self.residuals_ = np.linalg.norm(image - found.vectors * found.eigenvalues, axis=0)

    def _solve(self, gram: Gram) -> Any:
        raise NotImplementedError  # `_fit` of each model needs the data, not only their Gram matrix

    def _saved_parameters(self) -> dict[str, Any]:
        """Leave groups out: who belongs to a group of users may be confidential."""
        parameters: dict[str, Any] = super()._saved_parameters()
        for name in {"groups", "user_groups", "equal_opportunity"} & parameters.keys():
            if not isinstance(parameters[name], int):
                parameters[name] = None
        return parameters


def find_groups(groups: GroupSpec | None, data: Interactions, of: Of, who: str) -> Groups:
    """Return the groups that a parameter stands for.

    Parameters
    ----------
    groups : int, Groups or array-like
        A number of groups by popularity (items) or activity (users); groups; or one label per
        item or user in the order of the data.
    data : Interactions
        The training data.
    of : {"items", "users"}
        What the model groups.
    who : str
        Name of the model, for errors.
    """
    if groups is None:
        raise InvalidParameterError(
            f"{who} needs groups of {of}. They are not saved with a model: set_params(groups=...)."
        )
    if isinstance(groups, Groups):
        if groups.of != of:
            raise InvalidParameterError(
                f"{who} takes groups of {of}, got groups of {groups.of}. Pass of={of!r}."
            )
        return groups
    if isinstance(groups, Integral):
        by = Groups.by_popularity if of == "items" else Groups.by_activity
        return by(data, int(groups))
    labels = np.asarray(groups, dtype=object)
    if labels.ndim != 1:
        raise InvalidDataError(
            f"groups as an array must have one label per entry of the {of}, got shape "
            f"{labels.shape}. Use Groups for several memberships."
        )
    return Groups.from_labels(list(labels), of=of)


def refuse_empty(names: tuple[str, ...], energies: Floats, of: str) -> None:
    """Refuse groups without interactions: they have no share to balance."""
    empty = [name for name, energy in zip(names, energies, strict=True) if not energy > 0]
    if empty:
        raise InvalidDataError(
            f"{len(empty)} of the {len(names)} groups have no interactions in these data: "
            f"{', '.join(empty[:5])}. Leave them out with groups.select, or merge them; "
            f"{of} in no group are allowed."
        )

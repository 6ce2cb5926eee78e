"""Theorem 2: the semidefinite programme is tight, and the closed form solves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from equipoise.exceptions import MissingExtraError
from equipoise.models import ItemWeightedPCA
from equipoise.models.sdp import solve_sdp
from equipoise.paper.theory.experiment import Experiment, Floats, Panel, Series, Table, judge
from equipoise.paper.verdicts import Claim, Finding

# What the interior-point solver reaches; the closed form is exact to rounding.
_OBJECTIVE_TOLERANCE = 1e-6
_ERROR_TOLERANCE = 1e-6

TITLE = "Theorem 2: the relaxation is tight"
CLAIM = Claim(
    id="theorem-2",
    what="The relaxation is tight: the semidefinite programme has the projection's optimum",
    where="Theorem 2",
    published="equal",
    how=(
        "Σ w_j ⟨X_j, X̂_j⟩ of the SDP (interior point) against that of the closed form on random "
        f"matrices: largest relative difference at most {_OBJECTIVE_TOLERANCE:g}"
    ),
)
BUDGET_CLAIM = Claim(
    id="theorem-2-budget",
    what="The same holds with a bound on the reconstruction error",
    where="§4.1.2 and Appendix A.2",
    published="equal",
    how=(
        "the same with ‖X − X̂‖² ≤ (1 + ε) E_r; the closed form must keep the bound to "
        f"{_ERROR_TOLERANCE:g}"
    ),
)
PROJECTION_CLAIM = Claim(
    id="theorem-2-projection",
    what="The optimum of the programme is a projection of rank at most r",
    where="Appendix A.2",
    published=True,
    how="eigenvalues of the SDP's P within 1e-4 of 0 or 1, and at most r of them near 1",
)


class Instance(NamedTuple):
    """A random matrix with its two solutions; `budget` is NaN where the error is free."""

    n: int
    m: int
    rank: int
    gamma: float
    budget: float
    sdp: float  # Σ w_j ⟨X_j, X̂_j⟩
    closed_form: float
    sdp_rank: int
    sdp_is_projection: bool
    error_ratio: float  # ‖X − X̂‖² of the closed form, relative to PCA's E_r

    @property
    def difference(self) -> float:
        """Between the two optima, relative."""
        return abs(self.sdp - self.closed_form) / abs(self.sdp)


def tightness(quick: bool = False) -> Experiment:
    """Solve random instances as a semidefinite programme and in closed form."""
    try:
        instances = _solve_all(2 if quick else 8)
    except MissingExtraError as error:
        return Experiment(CLAIM.id, TITLE, CLAIM, note=str(error))
    findings = (
        judge_objectives(instances),
        judge_budgets(instances),
        judge_projections(instances),
    )
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(instances), _panels())


def judge_objectives(instances: Sequence[Instance]) -> Finding:
    """Whether the optima agree where the error is free."""
    free = [i for i in instances if np.isnan(i.budget)]
    worst = max(i.difference for i in free)
    return judge(CLAIM, worst <= _OBJECTIVE_TOLERANCE, worst, f"{len(free)} random instances.")


def judge_budgets(instances: Sequence[Instance]) -> Finding:
    """Whether the optima agree under a budget that the closed form keeps."""
    bound = [i for i in instances if not np.isnan(i.budget)]
    worst = max(i.difference for i in bound)
    kept = all(i.error_ratio <= (1 + i.budget) * (1 + _ERROR_TOLERANCE) for i in bound)
    binding = sum(i.error_ratio > (1 + i.budget) * (1 - _ERROR_TOLERANCE) for i in bound)
    note = (
        f"{len(bound)} random instances, the bound is active in {binding} and "
        f"{'kept in all' if kept else 'NOT kept in all'}."
    )
    return judge(BUDGET_CLAIM, kept and worst <= _OBJECTIVE_TOLERANCE, worst, note)


def judge_projections(instances: Sequence[Instance]) -> Finding:
    """Whether every SDP solution is a projection of rank at most r."""
    good = sum(i.sdp_is_projection and i.sdp_rank <= i.rank for i in instances)
    measured = f"{good} of {len(instances)} solutions"
    return judge(PROJECTION_CLAIM, good == len(instances), measured)


def _solve_all(count: int) -> list[Instance]:
    instances = []
    for seed in range(count):
        X = _preferences(n=20 + 5 * seed, m=6 + seed, seed=seed)
        rank, gamma = 2 + seed % 3, (-1.0, -0.5, -2.0)[seed % 3]
        # free, a budget that binds, and one near PCA
        instances += [_solve(X, rank, gamma, budget) for budget in (None, 0.1, 0.01)]
    return instances


def _preferences(n: int, m: int, seed: int) -> Floats:
    """Positive numbers whose columns differ tenfold in size: a hit, and a tail."""
    rng = np.random.default_rng([2, seed])
    X: Floats = rng.gamma(0.5, size=(n, m)) * np.geomspace(1.0, 0.1, m)
    return X


def _solve(X: Floats, rank: int, gamma: float, budget: float | None) -> Instance:
    solution = solve_sdp(X, rank, gamma, budget)
    model = ItemWeightedPCA(rank, gamma=gamma, error_budget=budget, solver="dense", tol=1e-10).fit(
        X
    )
    X_hat = X @ model.components_.T @ model.components_
    weights = np.linalg.norm(X, axis=0) ** gamma
    best_error = float((np.linalg.svd(X, compute_uv=False)[rank:] ** 2).sum())
    return Instance(
        len(X),
        X.shape[1],
        rank,
        gamma,
        np.nan if budget is None else budget,
        solution.objective,
        float((weights * (X * X_hat).sum(axis=0)).sum()),
        solution.rank,
        solution.is_projection,
        float(((X - X_hat) ** 2).sum()) / best_error,
    )


def _table(instances: Sequence[Instance]) -> Table:
    columns = dict(zip(Instance._fields, map(np.array, zip(*instances, strict=True)), strict=True))
    curve = np.where(np.isnan(columns["budget"]), "free", "budget")
    difference = np.array([i.difference for i in instances])
    return {"curve": curve, **columns, "relative_difference": difference}


def _panels() -> tuple[Panel, ...]:
    series = (
        Series("equal", "closed_form", "closed_form", style="reference"),
        Series("error free", "closed_form", "sdp", "free", "points"),
        Series("error bounded", "closed_form", "sdp", "budget", "points"),
    )
    title = "Optimum of the programme and of the closed form"
    return (Panel(title, "closed form", "semidefinite programme", series, "log", "log"),)

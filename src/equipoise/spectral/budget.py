"""The reconstruction-error budget is a shift of the weights.

The constraint ‖X − XP‖² ≤ (1+ε)·E_r, with E_r the error of PCA at the same rank, is linear in P:
tr(CP) ≥ b with b = tr C − (1+ε)E_r. Its Lagrangian has the matrix M + μC = ½((D+μI)C + C(D+μI)):
the same problem with weights w + μ. The multiplier μ is the root of the non-decreasing function
h′(μ) = tr(C P_μ) − b; every step of the search is one eigenproblem, started from the last solution.
See docs/math/budget.md.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg as sl

from equipoise.exceptions import SolverError
from equipoise.spectral.certificate import suboptimality
from equipoise.spectral.gram import Gram
from equipoise.spectral.lapack import Eigenpairs, fix_signs
from equipoise.spectral.matmul import Floats

# The search for μ ends when primal and dual agree to this share of the objective, or when μ is
# known to as many digits (tr(CP) jumps at a repeated eigenvalue, and no μ meets the budget). The
# eigenproblems are solved to residuals of 1e-9, which leave errors of about their square.
_AGREE = 1e-10

# A search that takes more steps than this makes no progress beyond rounding: even bisection would
# have exhausted all digits of μ.
_MAX_STEPS = 100

# Passes over the data of `_meet`: one for C times the normals of the path, two for the Ritz pairs,
# and one for C times the final vectors.
_PASSES_TO_MEET = 4

# Eigenvalues of C closer than this, relative to the largest, count as equal: they are computed to
# residuals of 1e-9.
_TIED = 1e-9

# The cosine of a smaller angle differs from 1 by less than 5e-15, the rounding of the product AᵀB,
# so arccos cannot resolve it.
_SMALLEST_ANGLE = 1e-7

# Bisections of the path between two subspaces: 2^-60 is below the rounding of float64.
_BISECTIONS = 60


class Solve(Protocol):
    """Leading eigenpairs of the Gram matrix weighted by w, in units of gram.scale."""

    def __call__(self, w: Floats, near: Floats | None, components: int = ...) -> Eigenpairs:
        """Solve for this many components, starting from vectors near the solution."""


@dataclass(frozen=True)
class BudgetedPairs:
    """A solution that meets the budget.

    Attributes
    ----------
    pairs : Eigenpairs
        Of M + μC, or of C if the budget is zero; in units of gram.scale.
    multiplier : float
        μ: 0 if the budget does not bind, inf if only PCA meets it.
    objective : float
        tr(MP), in units of gram.scale.
    bound : float
        The dual value h(μ) = Σ max(λ_i(M + μC), 0) − μb: no feasible P has a larger objective.
    passes : int
        Passes over the data in all eigenproblems together.
    """

    pairs: Eigenpairs
    multiplier: float
    objective: float
    bound: float
    passes: int


@dataclass(frozen=True)
class _Step:
    """One solved eigenproblem: its multiplier, and a lower bound on its energy tr(CP).

    `captured` is the energy that remains after the vectors are rounded to their stored dtype.
    """

    multiplier: float
    pairs: Eigenpairs
    CU: Floats
    captured: float


class _Problem:
    """Solves the eigenproblem at a given μ and counts the passes over the data."""

    def __init__(
        self, gram: Gram, weights: Floats, rank: int, solve: Solve, rounding: float
    ) -> None:
        self.gram = gram
        self.weights = weights
        self.rank = rank
        self.solve = solve
        self.rounding = rounding
        self.passes = 0

    def at(self, multiplier: float, start: Floats | None) -> _Step:
        shifted = np.ones_like(self.weights) if np.isinf(multiplier) else self.weights + multiplier
        pairs = self.solve(shifted, start)
        CU = self.gram.product(pairs.vectors)
        self.passes += pairs.passes + 1
        captured = float(np.sum(pairs.vectors * CU))
        return _Step(
            multiplier, pairs, CU, captured - _rounding_loss(pairs.vectors, CU, self.rounding)
        )

    def objective(self, step: _Step) -> float:
        """tr(MP) = Σ_j w_j (CU)_j · U_j."""
        return float(self.weights @ np.sum(step.pairs.vectors * step.CU, axis=1))

    def bound(self, step: _Step, b: float) -> float:
        """h(μ) plus the largest possible error of the eigensolver."""
        total = float(step.pairs.values.sum()) + suboptimality(step.pairs, self.rank)
        return total - step.multiplier * b


def solve_within_budget(
    gram: Gram,
    weights: Floats,
    rank: int,
    error_budget: float,
    solve: Solve,
    rounding: float = 0.0,
) -> BudgetedPairs:
    """Maximize tr(MP) subject to ‖X − XP‖² ≤ (1 + error_budget)·E_r.

    Parameters
    ----------
    gram : Gram
        Products XᵀXV.
    weights : ndarray of shape (n_items,)
        w.
    rank : int
        r.
    error_budget : float
        The paper's ε ≥ 0.
    solve : callable
        Solves the eigenproblem for given weights.
    rounding : float
        Machine epsilon of the dtype in which the vectors are stored. The budget holds after they
        are rounded to it.
    """
    problem = _Problem(gram, weights, rank, solve, rounding)
    pca = problem.at(np.inf, None)
    energy = float(gram.squared_norms.sum() / gram.scale)
    least_error = energy - float(np.sum(pca.pairs.vectors * pca.CU))
    if least_error <= _AGREE * energy:  # PCA reconstructs X; the rest is rounding
        least_error = 0.0
    b = energy - (1 + error_budget) * least_error
    if error_budget * least_error <= _AGREE * energy:  # only PCA meets the budget
        best = _best_pca(problem, pca)
        objective = problem.objective(best)
        return BudgetedPairs(best.pairs, np.inf, objective, objective, problem.passes)
    plain = problem.at(0.0, pca.pairs.vectors)
    if plain.captured >= b:
        bound = problem.bound(plain, b)
        return BudgetedPairs(plain.pairs, 0.0, problem.objective(plain), bound, problem.passes)
    short, enough = _narrow(problem, *_bracket(problem, plain, b), b)
    met = _meet(problem, short, enough, b)
    return BudgetedPairs(
        met.pairs,
        enough.multiplier,
        problem.objective(met),
        problem.bound(enough, b),
        problem.passes + _PASSES_TO_MEET,
    )


def _rounding_loss(U: Floats, CU: Floats, epsilon: float) -> float:
    """Bound the increase of the error when U is rounded to a dtype with this machine epsilon.

    Rounding changes U by E with |E| ≤ ½ε|U|, and ‖X − XUUᵀ‖² by −2 tr(Eᵀ(CU − U UᵀCU)) to first
    order. This is 0 for PCA. Row norms make the bound independent of rotations of U.
    """
    if epsilon == 0:
        return 0.0
    residual = CU - U @ (U.T @ CU)
    return epsilon * float(np.linalg.norm(U, axis=1) @ np.linalg.norm(residual, axis=1))


def _bracket(problem: _Problem, short: _Step, b: float) -> tuple[_Step, _Step]:
    """Raise μ until the solution captures enough."""
    multiplier = float(problem.weights.max())
    for _ in range(_MAX_STEPS):
        step = problem.at(multiplier, short.pairs.vectors)
        if step.captured >= b:
            return short, step
        short, multiplier = step, 4 * multiplier
    raise SolverError(
        f"no multiplier up to {multiplier:.1e} meets the error budget: it is tighter than the "
        "tolerance of the eigensolver. Raise error_budget, or lower tol."
    )


def _best_pca(problem: _Problem, pca: _Step) -> _Step:
    """Return the solution of PCA with the largest objective.

    PCA has several solutions only if λ_r(C) = λ_{r+1}(C). They differ within the eigenspace of that
    value, where the leading eigenvectors of M are the best choice.
    """
    values = pca.pairs.values
    tie = _TIED * float(values[0])
    if len(values) < problem.rank or pca.pairs.next_value < values[-1] - tie:
        return pca
    wider, size = pca.pairs, problem.gram.n_items
    while wider.values[-1] >= values[-1] - tie:
        more = problem.solve(np.ones(size), wider.vectors, min(2 * len(wider.values) + 1, size))
        problem.passes += more.passes
        if len(more.values) == len(wider.values):  # there are no more
            break
        wider = more
    tied = np.flatnonzero(np.abs(wider.values - values[-1]) <= tie)
    T = wider.vectors[:, tied]
    CT = problem.gram.product(np.ascontiguousarray(T))
    problem.passes += 1
    H = T.T @ (problem.weights[:, None] * CT)
    S = sl.eigh((H + H.T) / 2, check_finite=False)[1][:, ::-1][:, : len(values) - tied[0]]
    U = np.hstack([wider.vectors[:, : tied[0]], T @ S])
    pairs = replace(pca.pairs, vectors=fix_signs(U))
    return replace(pca, pairs=pairs, CU=problem.gram.product(pairs.vectors))


def _narrow(problem: _Problem, short: _Step, enough: _Step, b: float) -> tuple[_Step, _Step]:
    """Narrow the bracket by regula falsi with the Illinois rule.

    The rule halves the weight of an end that stays. At the upper end the duality gap is
    h(μ) − tr(MP_μ) = μ·(tr(CP_μ) − b).
    """
    low, high = short.captured - b, enough.captured - b
    stayed = 0
    for _ in range(_MAX_STEPS):
        gap = enough.multiplier * (enough.captured - b)
        wide = enough.multiplier - short.multiplier
        if gap <= _AGREE * problem.objective(enough) or wide <= _AGREE * enough.multiplier:
            break
        # steps to an end of the bracket would not shrink it
        fraction = min(max(-low / (high - low), 1e-3), 1 - 1e-3)
        step = problem.at(short.multiplier + fraction * wide, enough.pairs.vectors)
        excess = step.captured - b
        if excess >= 0:
            enough, high = step, excess
            low, stayed = (low / 2 if stayed == 1 else low), 1
        else:
            short, low = step, excess
            high, stayed = (high / 2 if stayed == -1 else high), -1
    return short, enough


def _meet(problem: _Problem, short: _Step, enough: _Step, b: float) -> _Step:
    """Find the point between the two ends of the bracket that meets the budget with equality.

    Equality up to a margin for rounding the vectors when they are stored.

    Where λ_r = λ_{r+1} at the root, tr(CP_μ) jumps and no solution of an eigenproblem meets the
    budget. Both ends then lie in one optimal eigenspace, and so does every projector on the
    geodesic between them. Along it tr(CP) is continuous and the Lagrangian is constant.
    """
    A, B = enough.pairs.vectors, short.pairs.vectors
    if A.shape != B.shape:
        return enough
    Y, cosines, Zt = sl.svd(A.T @ B, check_finite=False)
    start, toward = A @ Y, B @ Zt.T
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    turning = angles > _SMALLEST_ANGLE
    sines = np.where(turning, np.sin(angles), 1.0)
    normal = np.where(turning, (toward - start * cosines) / sines, 0.0)
    C_start, C_normal = enough.CU @ Y, problem.gram.product(np.ascontiguousarray(normal))

    def turned(fraction: float) -> tuple[Floats, Floats]:
        c, s = np.cos(fraction * angles), np.sin(fraction * angles)
        return start * c + normal * s, C_start * c + C_normal * s

    def farthest(target: float) -> float:
        low, high = 0.0, 1.0  # enough is captured at `low`, too little at `high`
        for _ in range(_BISECTIONS):
            middle = (low + high) / 2
            U, CU = turned(middle)
            low, high = (middle, high) if float(np.sum(U * CU)) >= target else (low, middle)
        return low

    fraction = farthest(b)
    if problem.rounding > 0:
        fraction = farthest(b + _rounding_loss(*turned(fraction), problem.rounding))
    return _ritz(problem.gram, problem.weights, enough, turned(fraction)[0])


def _ritz(gram: Gram, weights: Floats, step: _Step, U: Floats) -> _Step:
    """Ritz pairs of M + μC in the span of U, with true residuals."""
    shifted = (weights + step.multiplier)[:, None]
    CU = gram.product(np.ascontiguousarray(U))
    MU = (shifted * CU + gram.product(shifted * U)) / 2
    H = U.T @ MU
    values, S = sl.eigh((H + H.T) / 2, check_finite=False)
    values, S = values[::-1], S[:, ::-1]
    residuals = np.linalg.norm(MU @ S - (U @ S) * values, axis=0)
    pairs = replace(step.pairs, values=values, vectors=fix_signs(U @ S), residuals=residuals)
    return replace(step, pairs=pairs, CU=gram.product(pairs.vectors))

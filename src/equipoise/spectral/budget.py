"""The reconstruction-error budget is a shift of the weights.

The constraint ‖X − XP‖² ≤ (1+ε)·E_r, with E_r the error of PCA at the same rank, is linear in P:
tr(CP) ≥ b with b = tr C − (1+ε)E_r. Its Lagrangian has the matrix M + μC = ½((D+μI)C + C(D+μI)):
the same problem with weights w + μ. One number μ is left to be found, as the root of the
non-decreasing h′(μ) = tr(C P_μ) − b; every step is one warm-started eigenproblem.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sl

from equipoise.spectral.certificate import suboptimality
from equipoise.spectral.eigen import Eigenpairs, fix_signs
from equipoise.spectral.gram import Floats, Gram

# The search for μ ends when primal and dual agree to this share of the objective, or when μ is
# known to as many digits (a jump of tr(CP) at a repeated eigenvalue: no μ meets the budget).
_AGREE = 1e-10

# Each step at least halves the bracket twice in three, so this many reach the last digit.
_MAX_STEPS = 100

Solve = Callable[[Floats, Floats | None], Eigenpairs]
"""(weights, warm start) → eigenpairs of the weighted Gram matrix, in units of gram.scale."""


@dataclass(frozen=True)
class BudgetedPairs:
    """A solution within the budget.

    Attributes
    ----------
    pairs : Eigenpairs
        Of M + μC, or of C where the budget is zero; in units of gram.scale.
    multiplier : float
        μ: 0 if the budget does not bind, inf if it leaves PCA alone.
    objective : float
        tr(MP), in units of gram.scale.
    bound : float
        The dual value h(μ) = Σ max(λ_i(M + μC), 0) − μb: no feasible P has a larger objective.
    sweeps : int
        Reads of the data in all eigenproblems together.
    """

    pairs: Eigenpairs
    multiplier: float
    objective: float
    bound: float
    sweeps: int


@dataclass(frozen=True)
class _Step:
    """One solved eigenproblem: its multiplier, and how much energy tr(CP) it captures."""

    multiplier: float
    pairs: Eigenpairs
    CU: Floats
    captured: float


class _Ledger:
    """Solves at a given μ and keeps account of the sweeps."""

    def __init__(self, gram: Gram, weights: Floats, rank: int, solve: Solve) -> None:
        self.gram = gram
        self.weights = weights
        self.rank = rank
        self.solve = solve
        self.sweeps = 0

    def at(self, multiplier: float, start: Floats | None) -> _Step:
        shifted = np.ones_like(self.weights) if np.isinf(multiplier) else self.weights + multiplier
        pairs = self.solve(shifted, start)
        CU = self.gram.product(pairs.vectors)
        self.sweeps += pairs.sweeps + 1
        return _Step(multiplier, pairs, CU, float(np.sum(pairs.vectors * CU)))

    def objective(self, step: _Step) -> float:
        """tr(MP) = Σ_j w_j (CU)_j · U_j."""
        return float(self.weights @ np.sum(step.pairs.vectors * step.CU, axis=1))

    def bound(self, step: _Step, b: float) -> float:
        """h(μ), with what the solver may have missed added."""
        total = float(step.pairs.values.sum()) + suboptimality(step.pairs, self.rank)
        return total - step.multiplier * b


def solve_within_budget(
    gram: Gram, weights: Floats, rank: int, error_budget: float, solve: Solve
) -> BudgetedPairs:
    """Maximise tr(MP) subject to ‖X − XP‖² ≤ (1 + error_budget)·E_r.

    Parameters
    ----------
    gram : Gram
        Who answers XᵀXV.
    weights : ndarray of shape (n_items,)
        w.
    rank : int
        r.
    error_budget : float
        The paper's ε ≥ 0.
    solve : callable
        Solves the eigenproblem for given weights.
    """
    ledger = _Ledger(gram, weights, rank, solve)
    pca = ledger.at(np.inf, None)
    energy = float(gram.squared_norms.sum() / gram.scale)
    b = energy - (1 + error_budget) * (energy - pca.captured)
    if error_budget == 0:  # the one feasible point
        objective = ledger.objective(pca)
        return BudgetedPairs(pca.pairs, np.inf, objective, objective, ledger.sweeps)
    plain = ledger.at(0.0, pca.pairs.vectors)
    if plain.captured >= b:
        bound = ledger.bound(plain, b)
        return BudgetedPairs(plain.pairs, 0.0, ledger.objective(plain), bound, ledger.sweeps)
    short, enough = _narrow(ledger, *_bracket(ledger, plain, b), b)
    met = _meet(gram, weights, short, enough, b)
    return BudgetedPairs(
        met.pairs,
        enough.multiplier,
        ledger.objective(met),
        ledger.bound(enough, b),
        ledger.sweeps + 1,
    )


def _bracket(ledger: _Ledger, short: _Step, b: float) -> tuple[_Step, _Step]:
    """Raise μ until the solution captures enough."""
    multiplier = float(ledger.weights.max())
    while True:
        step = ledger.at(multiplier, short.pairs.vectors)
        if step.captured >= b:
            return short, step
        short, multiplier = step, 4 * multiplier


def _narrow(ledger: _Ledger, short: _Step, enough: _Step, b: float) -> tuple[_Step, _Step]:
    """Shrink the bracket by regula falsi, halving the weight of an end that stays (Illinois).

    At the upper end h(μ) − tr(MP_μ) = μ·(tr(CP_μ) − b): its slack is the gap.
    """
    low, high = short.captured - b, enough.captured - b
    stayed = 0
    for _ in range(_MAX_STEPS):
        gap = enough.multiplier * (enough.captured - b)
        wide = enough.multiplier - short.multiplier
        if gap <= _AGREE * ledger.objective(enough) or wide <= _AGREE * enough.multiplier:
            break
        fraction = min(max(-low / (high - low), 1e-3), 1 - 1e-3)
        step = ledger.at(short.multiplier + fraction * wide, enough.pairs.vectors)
        excess = step.captured - b
        if excess >= 0:
            enough, high = step, excess
            low, stayed = (low / 2 if stayed == 1 else low), 1
        else:
            short, low = step, excess
            high, stayed = (high / 2 if stayed == -1 else high), -1
    return short, enough


def _meet(gram: Gram, weights: Floats, short: _Step, enough: _Step, b: float) -> _Step:
    """Turn from one side of the bracket to the other until the budget is met exactly.

    Where λ_r = λ_{r+1} at the root, tr(CP_μ) jumps and no eigen-solution meets the budget. Both
    sides then lie in one optimal eigenspace, and so does every projector on the shortest path
    (the geodesic) between them: tr(CP) is continuous along it, and the Lagrangian constant.
    """
    A, B = enough.pairs.vectors, short.pairs.vectors
    if A.shape != B.shape:
        return enough
    Y, cosines, Zt = sl.svd(A.T @ B, check_finite=False)
    start, toward = A @ Y, B @ Zt.T
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    turning = angles > 1e-7  # arccos cannot tell smaller angles from zero
    sines = np.where(turning, np.sin(angles), 1.0)
    normal = np.where(turning, (toward - start * cosines) / sines, 0.0)
    C_start, C_normal = enough.CU @ Y, gram.product(np.ascontiguousarray(normal))

    def turned(fraction: float) -> tuple[Floats, Floats]:
        c, s = np.cos(fraction * angles), np.sin(fraction * angles)
        return start * c + normal * s, C_start * c + C_normal * s

    low, high = 0.0, 1.0  # enough is captured at `low`, too little at `high`
    for _ in range(60):
        middle = (low + high) / 2
        U, CU = turned(middle)
        low, high = (middle, high) if float(np.sum(U * CU)) >= b else (low, middle)
    return _ritz(enough, weights, *turned(low))


def _ritz(step: _Step, weights: Floats, U: Floats, CU: Floats) -> _Step:
    """Ritz pairs of M + μC in the span of U; as CU is known, this reads no data.

    Uᵀ(M + μC)U is the symmetric part of Uᵀ(D + μI)CU. The residuals kept are those of the
    eigen-solution that U was turned from.
    """
    H = U.T @ ((weights + step.multiplier)[:, None] * CU)
    values, S = sl.eigh((H + H.T) / 2, check_finite=False)
    values, S = values[::-1], S[:, ::-1]
    U, CU = U @ S, CU @ S
    pairs = replace(step.pairs, values=values, vectors=fix_signs(U))
    return replace(step, pairs=pairs, CU=CU * np.sign(np.sum(pairs.vectors * U, axis=0)))

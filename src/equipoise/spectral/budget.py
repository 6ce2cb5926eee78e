"""The reconstruction-error budget is a shift of the weights.

The constraint ‖X − XP‖² ≤ (1+ε)·E_r, with E_r the error of PCA at the same rank, is linear in P:
tr(CP) ≥ b with b = tr C − (1+ε)E_r. Its Lagrangian has the matrix M + μC = ½((D+μI)C + C(D+μI)):
the same problem with weights w + μ. One number μ is left to be found, as the root of the
non-decreasing h′(μ) = tr(C P_μ) − b; every step is one warm-started eigenproblem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import scipy.linalg as sl

from equipoise.exceptions import SolverError
from equipoise.spectral.certificate import suboptimality
from equipoise.spectral.eigen import Eigenpairs, fix_signs
from equipoise.spectral.gram import Gram
from equipoise.spectral.tall import Floats

# The search for μ ends when primal and dual agree to this share of the objective, or when μ is
# known to as many digits (a jump of tr(CP) at a repeated eigenvalue: no μ meets the budget).
_AGREE = 1e-10

# A search that takes more steps than this is lost in rounding.
_MAX_STEPS = 100

# `_meet` reads the data for C times the path's normals, twice for the Ritz pairs, and once more
# for C times their final form.
_SWEEPS_TO_MEET = 4

# Eigenvalues of C closer than this, relative to the largest, are one eigenvalue.
_TIED = 1e-9


class Solve(Protocol):
    """Leading eigenpairs of the Gram matrix weighted by w, in units of gram.scale."""

    def __call__(self, w: Floats, near: Floats | None, components: int = ...) -> Eigenpairs:
        """Solve, from vectors near the solution, for as many components as asked for."""


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
    """One solved eigenproblem: its multiplier, and the energy tr(CP) it surely captures.

    `captured` is what is left after the vectors are rounded to the type they are stored in.
    """

    multiplier: float
    pairs: Eigenpairs
    CU: Floats
    captured: float


class _Ledger:
    """Solves at a given μ and keeps account of the sweeps."""

    def __init__(
        self, gram: Gram, weights: Floats, rank: int, solve: Solve, rounding: float
    ) -> None:
        self.gram = gram
        self.weights = weights
        self.rank = rank
        self.solve = solve
        self.rounding = rounding
        self.sweeps = 0

    def at(self, multiplier: float, start: Floats | None) -> _Step:
        shifted = np.ones_like(self.weights) if np.isinf(multiplier) else self.weights + multiplier
        pairs = self.solve(shifted, start)
        CU = self.gram.product(pairs.vectors)
        self.sweeps += pairs.sweeps + 1
        captured = float(np.sum(pairs.vectors * CU))
        return _Step(
            multiplier, pairs, CU, captured - _rounding_loss(pairs.vectors, CU, self.rounding)
        )

    def objective(self, step: _Step) -> float:
        """tr(MP) = Σ_j w_j (CU)_j · U_j."""
        return float(self.weights @ np.sum(step.pairs.vectors * step.CU, axis=1))

    def bound(self, step: _Step, b: float) -> float:
        """h(μ), with what the solver may have missed added."""
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
    rounding : float
        Machine epsilon of the type in which the vectors will be stored: the budget holds after
        they are rounded to it.
    """
    ledger = _Ledger(gram, weights, rank, solve, rounding)
    pca = ledger.at(np.inf, None)
    energy = float(gram.squared_norms.sum() / gram.scale)
    least_error = energy - float(np.sum(pca.pairs.vectors * pca.CU))
    if least_error <= _AGREE * energy:  # PCA rebuilds X, and what is left is rounding
        least_error = 0.0
    b = energy - (1 + error_budget) * least_error
    if error_budget * least_error <= _AGREE * energy:  # no room: PCA, whatever μ
        best = _best_pca(ledger, pca)
        objective = ledger.objective(best)
        return BudgetedPairs(best.pairs, np.inf, objective, objective, ledger.sweeps)
    plain = ledger.at(0.0, pca.pairs.vectors)
    if plain.captured >= b:
        bound = ledger.bound(plain, b)
        return BudgetedPairs(plain.pairs, 0.0, ledger.objective(plain), bound, ledger.sweeps)
    short, enough = _narrow(ledger, *_bracket(ledger, plain, b), b)
    met = _meet(ledger, short, enough, b)
    return BudgetedPairs(
        met.pairs,
        enough.multiplier,
        ledger.objective(met),
        ledger.bound(enough, b),
        ledger.sweeps + _SWEEPS_TO_MEET,
    )


def _rounding_loss(U: Floats, CU: Floats, epsilon: float) -> float:
    """A bound on how much rounding U to a type with this machine epsilon raises the error.

    Rounding changes U by E with |E| ≤ ½ε|U|, and ‖X − XUUᵀ‖² by −2 tr(Eᵀ(CU − U UᵀCU)) to first
    order. It is 0 for PCA. The norms are those of rows, so no rotation of U changes the bound.
    """
    if epsilon == 0:
        return 0.0
    residual = CU - U @ (U.T @ CU)
    return epsilon * float(np.linalg.norm(U, axis=1) @ np.linalg.norm(residual, axis=1))


def _bracket(ledger: _Ledger, short: _Step, b: float) -> tuple[_Step, _Step]:
    """Raise μ until the solution captures enough."""
    multiplier = float(ledger.weights.max())
    for _ in range(_MAX_STEPS):
        step = ledger.at(multiplier, short.pairs.vectors)
        if step.captured >= b:
            return short, step
        short, multiplier = step, 4 * multiplier
    raise SolverError(
        f"no multiplier up to {multiplier:.1e} brings the reconstruction error within the budget: "
        "it is tighter than the solver's tolerance. Raise error_budget, or lower tol."
    )


def _best_pca(ledger: _Ledger, pca: _Step) -> _Step:
    """Of all solutions of PCA, the one with the largest objective.

    They differ only inside the eigenspace of C that the cut goes through, if it does: there, the
    leading eigenvectors of M are the best. Without a tie there is one solution, and this is it.
    """
    values = pca.pairs.values
    tie = _TIED * float(values[0])
    if len(values) < ledger.rank or pca.pairs.next_value < values[-1] - tie:
        return pca
    wider, size = pca.pairs, ledger.gram.n_items
    while wider.values[-1] >= values[-1] - tie:
        more = ledger.solve(np.ones(size), wider.vectors, min(2 * len(wider.values) + 1, size))
        ledger.sweeps += more.sweeps
        if len(more.values) == len(wider.values):  # there are no more
            break
        wider = more
    tied = np.flatnonzero(np.abs(wider.values - values[-1]) <= tie)
    T = wider.vectors[:, tied]
    CT = ledger.gram.product(np.ascontiguousarray(T))
    ledger.sweeps += 1
    H = T.T @ (ledger.weights[:, None] * CT)
    S = sl.eigh((H + H.T) / 2, check_finite=False)[1][:, ::-1][:, : len(values) - tied[0]]
    U = np.hstack([wider.vectors[:, : tied[0]], T @ S])
    pairs = replace(pca.pairs, vectors=fix_signs(U))
    return replace(pca, pairs=pairs, CU=ledger.gram.product(pairs.vectors))


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


def _meet(ledger: _Ledger, short: _Step, enough: _Step, b: float) -> _Step:
    """Turn from one side of the bracket to the other until the budget is met with equality.

    Equality up to rounding: what storing the vectors may cost is left unspent.

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
    C_start, C_normal = enough.CU @ Y, ledger.gram.product(np.ascontiguousarray(normal))

    def turned(fraction: float) -> tuple[Floats, Floats]:
        c, s = np.cos(fraction * angles), np.sin(fraction * angles)
        return start * c + normal * s, C_start * c + C_normal * s

    def farthest(target: float) -> float:
        low, high = 0.0, 1.0  # enough is captured at `low`, too little at `high`
        for _ in range(60):
            middle = (low + high) / 2
            U, CU = turned(middle)
            low, high = (middle, high) if float(np.sum(U * CU)) >= target else (low, middle)
        return low

    fraction = farthest(b)
    if ledger.rounding > 0:
        fraction = farthest(b + _rounding_loss(*turned(fraction), ledger.rounding))
    return _ritz(ledger.gram, ledger.weights, enough, turned(fraction)[0])


def _ritz(gram: Gram, weights: Floats, step: _Step, U: Floats) -> _Step:
    """Ritz pairs of M + μC in the span of U, with their true residuals."""
    shifted = (weights + step.multiplier)[:, None]
    CU = gram.product(np.ascontiguousarray(U))
    MU = (shifted * CU + gram.product(shifted * U)) / 2
    H = U.T @ MU
    values, S = sl.eigh((H + H.T) / 2, check_finite=False)
    values, S = values[::-1], S[:, ::-1]
    residuals = np.linalg.norm(MU @ S - (U @ S) * values, axis=0)
    pairs = replace(step.pairs, values=values, vectors=fix_signs(U @ S), residuals=residuals)
    return replace(step, pairs=pairs, CU=gram.product(pairs.vectors))

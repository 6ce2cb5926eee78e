"""The reconstruction-error budget: one linear constraint of the problem with groups.

The constraint ‖X − XP‖² ≤ (1+ε)·E_r, with E_r the error of PCA at the same rank, is linear in P:
tr(CP) ≥ b with b = tr C − (1+ε)E_r. So it is the problem of `groups.minmax` with A_0 = M, A_1 = C:
maximize ⟨A_0, P⟩ subject to ⟨A_1, P⟩ − b ≥ 0. The dual weight μ of the constraint shifts the item
weights: M + μC = ½((D+μI)C + C(D+μI)). See docs/math/budget.md.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg as sl

from equipoise.spectral.certificate import Components, certify, suboptimality
from equipoise.spectral.gram import Gram
from equipoise.spectral.groups.families import ItemFamily
from equipoise.spectral.groups.minmax import EigenSolver, maximize
from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.lapack import Eigenpairs, fix_signs, rayleigh_ritz
from equipoise.spectral.matmul import Floats

# Errors below this share of ‖X‖² are rounding; the gap at which the search ends, relative to the
# sum of the leading eigenvalues.
_AGREE = 1e-10

# Residuals of the eigenproblems of PCA and of M, relative to the largest eigenvalue. Energies err
# by their squares, and eigenvalues of C closer than this are equal.
_TOL = 1e-7

# Passes over the data outside of eigenproblems: products with C of the solutions of PCA and of M,
# of the final vectors and, where these were turned, of their normals.
_OTHER_PASSES = 4

# The cosine of a smaller angle differs from 1 by less than 5e-15, the rounding of the product AᵀB,
# so arccos cannot resolve it.
_SMALLEST_ANGLE = 1e-7

# Bisections of the path between two subspaces: 2^-60 is below the rounding of float64.
_BISECTIONS = 60


class _Problem:
    """M and C in units of the largest weight and of the largest column."""

    def __init__(self, gram: Gram, weights: Floats, rank: int, solver: EigenSolver) -> None:
        self.gram, self.rank, self.solver = gram.in_own_units(), rank, solver
        self.unit, self.scale = float(weights.max()), gram.scale
        self.weights = weights / self.unit
        S = np.column_stack([self.weights, np.ones(gram.n_items)])
        self.family = ItemFamily(self.gram, S)

    def eigenpairs(self, y: tuple[float, float], count: int, tol: float) -> Eigenpairs:
        return self.solver(self.family.operator(np.array(y)), count, tol)

    def times(self, U: Floats) -> Floats:
        """CU."""
        return self.gram.product(np.ascontiguousarray(U))

    def objective(self, U: Floats, CU: Floats) -> float:
        """tr(MP) = Σ_j w_j (CU)_j · U_j."""
        return float(self.weights @ np.sum(U * CU, axis=1))

    def solution(
        self, pairs: Eigenpairs, CU: Floats, multiplier: float, bound: float | None = None
    ) -> Components:
        """In the units of the data; without a bound the solution is the only one."""
        unit, objective = self.unit, self.objective(pairs.vectors, CU)
        pairs = pairs.in_units(unit)
        certificate = certify(
            pairs,
            objective=objective * unit,
            bound=(objective if bound is None else bound) * unit,
            scale=self.scale,
            passes=self.solver.passes + _OTHER_PASSES,
        )
        return Components(pairs.in_units(self.scale), certificate, multiplier * unit)


def solve_within_budget(
    gram: Gram,
    weights: Floats,
    rank: int,
    error_budget: float,
    solver: EigenSolver,
    *,
    tol: float = _TOL,
    rounding: float = 0.0,
) -> Components:
    """Maximize tr(MP) subject to ‖X − XP‖² ≤ (1 + error_budget)·E_r.

    The eigenpairs are those of M + μC, or of C if the budget is zero. The bound of the certificate
    is the dual value h(μ) = Σ max(λ_i(M + μC), 0) − μb.

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
    solver : EigenSolver
        Solves the eigenproblems.
    tol : float
        Largest residual of a solution that meets the budget without a multiplier.
    rounding : float
        Machine epsilon of the dtype in which the vectors are stored. The budget holds after they
        are rounded to it.
    """
    problem = _Problem(gram, weights, rank, solver)
    pca = problem.eigenpairs((0.0, 1.0), rank, min(tol, _TOL))
    energy = float(problem.gram.squared_norms.sum())
    least_error = energy - float(np.sum(pca.vectors * problem.times(pca.vectors)))
    if least_error <= _AGREE * energy:  # PCA reconstructs X; the rest is rounding
        least_error = 0.0
    b = energy - (1 + error_budget) * least_error
    if error_budget * least_error <= _AGREE * energy:  # only PCA meets the budget
        best = _best_pca(problem, pca)
        return problem.solution(best, problem.times(best.vectors), np.inf)
    plain = problem.eigenpairs((1.0, 0.0), rank, min(tol, _TOL))
    CU = problem.times(plain.vectors)
    if float(np.sum(plain.vectors * CU)) - _rounding_loss(plain.vectors, CU, rounding) >= b:
        bound = float(plain.values.sum()) + suboptimality(plain, rank)
        return problem.solution(plain, CU, 0.0, bound)
    found = maximize(
        problem.family,
        rank,
        solver,
        offsets=np.array([0.0, -b]),
        welfare=Welfare(goals=1),
        tol=_AGREE,
        fractional="projector",
        start=np.hstack([pca.vectors, plain.vectors]),
    )
    multiplier = float(found.dual_weights[1])
    U = _met(problem, found.vectors, pca.vectors, b, rounding)
    shifted = problem.family.operator(found.dual_weights)
    pairs = rayleigh_ritz(shifted, U).in_units(shifted.scale)
    pairs = replace(
        pairs,
        vectors=fix_signs(pairs.vectors),
        next_value=found.next_value,
        method=found.method,
    )
    return problem.solution(pairs, problem.times(pairs.vectors), multiplier, found.upper)


def _rounding_loss(U: Floats, CU: Floats, epsilon: float) -> float:
    """Bound the increase of the error when U is rounded to a dtype with this machine epsilon.

    Rounding changes U by E with |E| ≤ ½ε|U|, and ‖X − XUUᵀ‖² by −2 tr(Eᵀ(CU − U UᵀCU)) to first
    order. This is 0 for PCA. Row norms make the bound independent of rotations of U.
    """
    residual = CU - U @ (U.T @ CU)
    return epsilon * float(np.linalg.norm(U, axis=1) @ np.linalg.norm(residual, axis=1))


def _best_pca(problem: _Problem, pca: Eigenpairs) -> Eigenpairs:
    """Return the solution of PCA with the largest objective.

    PCA has several solutions only if λ_r(C) = λ_{r+1}(C). They differ within the eigenspace of that
    value, where the leading eigenvectors of M are the best choice.
    """
    values = pca.values
    tie = _TOL * float(values[0])
    if len(values) < problem.rank or pca.next_value < values[-1] - tie:
        return pca
    wider, size = pca, problem.gram.n_items
    while wider.values[-1] >= values[-1] - tie:
        more = problem.eigenpairs((0.0, 1.0), min(2 * len(wider.values) + 1, size), _TOL)
        if len(more.values) == len(wider.values):  # there are no more
            break
        wider = more
    tied = np.flatnonzero(np.abs(wider.values - values[-1]) <= tie)
    T = wider.vectors[:, tied]
    H = T.T @ (problem.weights[:, None] * problem.times(T))
    S = sl.eigh((H + H.T) / 2, check_finite=False)[1][:, ::-1][:, : len(values) - tied[0]]
    return replace(pca, vectors=fix_signs(np.hstack([wider.vectors[:, : tied[0]], T @ S])))


def _met(problem: _Problem, U: Floats, pca: Floats, b: float, rounding: float) -> Floats:
    """Turn U towards the solution of PCA until it meets the budget exactly, also when stored.

    The solver meets constraints up to its tolerance, so the turn is as small as that and as the
    rounding of the stored vectors. Along the geodesic between the two subspaces tr(CP) is
    continuous, and PCA has more than enough.
    """
    CU = problem.times(U)
    if float(np.sum(U * CU)) - _rounding_loss(U, CU, rounding) >= b:
        return U
    if U.shape[1] < pca.shape[1]:  # fewer positive eigenvalues: complete U in the span of PCA
        U = np.linalg.qr(np.hstack([U, pca]))[0][:, : pca.shape[1]]
        CU = problem.times(U)
    Y, cosines, Zt = sl.svd(U.T @ pca, check_finite=False)
    start, toward = U @ Y, pca @ Zt.T
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    turning = angles > _SMALLEST_ANGLE
    sines = np.where(turning, np.sin(angles), 1.0)
    normal = np.where(turning, (toward - start * cosines) / sines, 0.0)
    C_start, C_normal = CU @ Y, problem.times(normal)
    low, high = 0.0, 1.0  # too little is captured at `low`, enough at `high`
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        c, s = np.cos(middle * angles), np.sin(middle * angles)
        V, CV = start * c + normal * s, C_start * c + C_normal * s
        enough = float(np.sum(V * CV)) - _rounding_loss(V, CV, rounding) >= b
        low, high = (low, middle) if enough else (middle, high)
    return start * np.cos(high * angles) + normal * np.sin(high * angles)

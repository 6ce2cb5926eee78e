"""The paper's semidefinite program, solved as published: an independent check of the fast solver.

It takes seconds where the eigenproblem takes milliseconds. `fit` never calls it.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from equipoise.checks import check_choice, check_user_items, check_whole_number
from equipoise.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    SolverError,
    require_extra,
)
from equipoise.models.pca.item_weighted_pca import ItemWeightedPCA, item_weights_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Eigenvalues of C closer than this share of the largest count as tied, and a budget smaller than
# it allows only PCA: well above the round-off of `eigh`, well below any real gap.
_TIED = 1e-12
# Tight enough that Clarabel stops where double precision ends, often short of it; then our own
# bound, not the solver's status, decides whether the result is accepted.
_TOLERANCES = {"CLARABEL": 1e-10, "SCS": 1e-8}
_ACCEPTED_GAP = 1e-6
# Eigenvalues of P this close to 0 or 1 are counted as such: a solver's accuracy, not round-off.
_NEARLY = 1e-4


@dataclass(frozen=True)
class SDPSolution:
    """The optimum of the semidefinite program.

    Attributes
    ----------
    projection : ndarray of shape (m, m)
        The optimal P, symmetric.
    objective : float
        tr(DCP) at `projection`.
    upper_bound : float
        Value of the dual at the solver's multiplier μ of the budget,
        Σ_{i≤r} max(λ_i(M + μC), 0) − μb, from a dense
        eigendecomposition: no feasible P exceeds it, whatever the solver's accuracy.
    status : str
        Status of the solver: ``"optimal"``, or ``"optimal_inaccurate"`` when it stopped short of
        `tol` but `objective` and `upper_bound` still agree to 1e-6.
    rank : int
        Eigenvalues of P above one half.
    is_projection : bool
        Whether every eigenvalue of P is 0 or 1, to 1e-4. Ties at the cut and an active
        error budget admit optima that are not.
    seconds : float
        Wall time of building and solving.
    """

    projection: NDArray[np.float64]
    objective: float
    upper_bound: float
    status: str
    rank: int
    is_projection: bool
    seconds: float


class _Optimum(NamedTuple):
    P: NDArray[np.float64]
    upper_bound: float
    status: str


def solve_sdp(
    X: Any,
    n_components: int,
    gamma: float = -1.0,
    error_budget: float | None = None,
    *,
    item_weights: NDArray[Any] | None = None,
    solver: Literal["CLARABEL", "SCS"] = "CLARABEL",
    tol: float | None = None,
) -> SDPSolution:
    """Solve Item-Weighted PCA as the semidefinite program of the paper.

        max_P tr(DCP)   subject to   0 ⪯ P ⪯ I,  tr P ≤ r,  tr C − tr(CP) ≤ (1 + ε) E_r

    where

    - C = XᵀX and D = diag(w), with weights w_j = p_j^γ, p_j = ‖X_·j‖₂, and w_j = 0 for an item
      without users;
    - E_r = tr C − Σ_{i≤r} λ_i(C) is the reconstruction error of PCA. For a projection the last
      constraint is ‖X − XP‖² ≤ (1 + ε) E_r; it is dropped without a budget.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Non-negative, users in rows.
    n_components : int
        r: rank of the projection, from 1 to m.
    gamma : float
        Exponent of the weights.
    error_budget : float, optional
        ε ≥ 0. At 0 only PCA (and what ties with it) is feasible: there the
        program has no interior, so it is solved on the face of P that is left.
    item_weights : array of shape (m,), optional
        Weights w ≥ 0 to use in place of p^γ.
    solver : {"CLARABEL", "SCS"}
        Clarabel, an interior-point method, is accurate to about 1e-8 relative for m ≤ 30. SCS is a
        first-order method, for an independent check.
    tol : float, optional
        Absolute and relative tolerance of the solver, for a program scaled to norm 1;
        1e-10 for Clarabel and 1e-8 for SCS unless given.

    References
    ----------
    David Liu, Jackie Baek, Tina Eliassi-Rad. "When Collaborative Filtering is not Collaborative:
    Unfairness of PCA for Recommendations."

    Examples
    --------
    Two users touched item 0 and one touched item 1, so C = diag(2, 1), w = (1/√2, 1) and the
    weighted popularities are √2 and 1: the best single component is item 0.

    >>> import numpy as np
    >>> solution = solve_sdp(np.array([[1, 0], [1, 0], [0, 1]]), n_components=1)
    >>> round(solution.objective, 6), solution.rank, np.abs(solution.projection.round(4)).tolist()
    (1.414214, 1, [[1.0, 0.0], [0.0, 0.0]])
    """
    cvxpy = require_extra("cvxpy", "sdp", "solving the paper's semidefinite program")
    started = time.perf_counter()
    C, r = _gram(X), n_components
    check_whole_number("n_components", n_components, 1, len(C))
    check_choice("solver", solver, _TOLERANCES)
    if tol is not None and not tol > 0:
        raise InvalidParameterError(f"tol must be positive, got {tol!r}.")
    options: dict[str, Any] = {"gamma": gamma, "error_budget": error_budget}
    ItemWeightedPCA(**options)._validate_params()
    w = item_weights_of(np.sqrt(np.diag(C)), gamma, item_weights)
    M = (w[:, None] * C + C * w) / 2
    solve = partial(_solve, cvxpy, solver, _TOLERANCES[solver] if tol is None else tol)
    if error_budget is None:
        best = solve(M, r)
    else:  # tr(C P) ≥ Σ_{i≤r} λ_i(C) − ε E_r
        values, V = (a[..., ::-1] for a in np.linalg.eigh(C))
        slack = error_budget * max(values[r:].sum(), 0.0)
        if slack <= _TIED * values.sum():
            best = _solve_on_face(solve, M, r, values, V)
        else:
            best = solve(M, r, C, values[:r].sum() - slack)
    eigenvalues = np.linalg.eigvalsh(best.P)
    return SDPSolution(
        projection=best.P,
        objective=float(np.sum(M * best.P)),
        upper_bound=best.upper_bound,
        status=best.status,
        rank=int(np.sum(eigenvalues > 0.5)),
        is_projection=bool(np.all(np.minimum(abs(eigenvalues), abs(1 - eigenvalues)) < _NEARLY)),
        seconds=time.perf_counter() - started,
    )


def _gram(X: Any) -> NDArray[np.float64]:
    """Return C = XᵀX, dense, of a matrix that is finite, non-negative and not all zero."""
    rows = check_user_items(X).astype(np.float64)
    if not rows.nnz:
        raise InvalidDataError("X must not be all zero: it has nothing to reconstruct.")
    return np.asarray((rows.T @ rows).toarray())


def _solve_on_face(
    solve: Callable[..., _Optimum],
    M: NDArray[np.float64],
    r: int,
    values: NDArray[np.float64],
    V: NDArray[np.float64],
) -> _Optimum:
    """Solve where tr(C P) is at its maximum: P = U Uᵀ + T Q Tᵀ, U above the cut and T tied at it.

    The program has no interior there, which interior-point methods need; in Q it has one.
    """
    cut, margin = values[r - 1], _TIED * values[0]
    U, T = V[:, values > cut + margin], V[:, abs(values - cut) <= margin]
    above, left = U @ U.T, r - U.shape[1]
    # If the cut is at 0 then T is the null space of C, where M vanishes too, and Q = 0 is optimal.
    # If all tied directions fit, Q = I.
    if cut <= margin or T.shape[1] == left:
        P = above + (0.0 if cut <= margin else T @ T.T)
        return _Optimum(P, float(np.sum(M * P)), "optimal")
    H = T.T @ M @ T
    shift = 2 * float(np.linalg.norm(H, 2))  # with it every direction gains, and tr Q = left
    tied = solve(H + shift * np.eye(len(H)), left)
    bound = float(np.sum(M * above)) + tied.upper_bound - shift * left
    return _Optimum(above + T @ tied.P @ T.T, bound, tied.status)


def _solve(
    cvxpy: Any,
    solver: str,
    tol: float,
    M: NDArray[np.float64],
    r: int,
    C: NDArray[np.float64] | None = None,
    b: float = 0.0,
) -> _Optimum:
    """Maximize tr(M P) over 0 ⪯ P ⪯ I, tr P ≤ r, and tr(C P) ≥ b if C is given, by CVXPY."""
    scale = float(np.linalg.norm(M, 2)) or 1.0  # M and C are scaled to norm 1
    P = cvxpy.Variable(M.shape, symmetric=True)
    constraints = [P >> 0, np.eye(len(M)) - P >> 0, cvxpy.trace(P) <= r]
    if C is not None:
        unit = float(np.linalg.norm(C, 2))
        constraints.append(cvxpy.sum(cvxpy.multiply(C / unit, P)) >= b / unit)
    goal = cvxpy.Maximize(cvxpy.sum(cvxpy.multiply(M / scale, P)))
    status = _run(cvxpy, cvxpy.Problem(goal, constraints), solver, tol)
    shifted, mu = M, 0.0
    if C is not None:
        mu = max(float(constraints[-1].dual_value), 0.0) * scale / unit
        shifted = M + mu * C
    bound = float(np.linalg.eigvalsh(shifted)[::-1][:r].clip(0).sum() - mu * b)
    best = _Optimum((P.value + P.value.T) / 2, bound, status)
    gap = abs(best.upper_bound - float(np.sum(M * best.P))) / max(abs(best.upper_bound), scale)
    if status != "optimal" and gap > _ACCEPTED_GAP:
        raise SolverError(
            f"{solver} stopped at a relative gap of {gap:.1e} between its objective and the dual "
            f"bound, above {_ACCEPTED_GAP:.0e}. Try the other solver, or a larger error_budget."
        )
    return best


def _run(cvxpy: Any, problem: Any, solver: str, tol: float) -> str:
    settings: dict[str, float] = {"eps_abs": tol, "eps_rel": tol, "max_iters": 200_000}
    if solver == "CLARABEL":
        settings = {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Solution may be inaccurate")
            problem.solve(solver=solver, **settings)
    except cvxpy.error.SolverError as error:
        raise SolverError(f"{solver} failed: {error}. Try a larger tol, or the other.") from error
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise SolverError(
            f"{solver} stopped as {problem.status!r}. Try a larger tol, or the other solver."
        )
    return str(problem.status)

"""The certificate of a solution: its objective, an upper bound from duality, and their gap.

Over {0 ⪯ P ⪯ I, tr P ≤ r} the maximum of tr(MP) is at most r·t + Σ_i max(λ_i(M) − t, 0) for any
t ≥ 0. For orthonormal U with Ritz values θ and residuals R = MU − UΘ, and μ the largest eigenvalue
of M on the complement of U, any t > max(μ, 0) gives

    optimum − Σθ_i  ≤  Σ_i (t − θ_i)₊ + (r − k)·t + ‖R‖²_F / (t − μ),

where k ≤ r is the number of components returned.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg as sl

from equipoise.exceptions import SolverError
from equipoise.parallel import one_blas_thread
from equipoise.spectral import matmul
from equipoise.spectral.lapack import BoundMethod, Eigenpairs
from equipoise.spectral.matmul import Floats

# The two are sums of the same eigenvalues, so they may differ by rounding only. A sum of thousands
# of terms errs by less than this share of their total.
_ROUNDING = 1e-9

# Doublings of t before `bound_by_cholesky` gives up: 2^60 rounding errors exceed any eigenvalue.
_ATTEMPTS = 60

_HOW: dict[BoundMethod, str] = {
    "lapack": "the next eigenvalue, by LAPACK on the whole matrix",
    "lanczos": "the next Ritz value plus its residual: an estimate, not a proof "
    "(model.certify(X) gives one)",
    "cholesky": "a Cholesky factorization of tI − M on the complement: rigorous up to rounding",
}


@dataclass(frozen=True)
class Certificate:
    """How close a fit is to the optimum, in the units of the data.

    Attributes
    ----------
    objective : float
        Σ_j w_j ⟨X_·j, X̂_·j⟩ = tr(MP) of the components returned.
    dual_bound : float
        No projection of rank ≤ r has a larger objective.
    gap : float
        (dual_bound − objective) / objective.
    max_residual : float
        Largest ‖M u − θ u‖ relative to the largest eigenvalue, measured in float64.
    orthogonality : float
        Largest entry of |UᵀU − I|.
    passes : int
        Passes over the data that the fit took.
    method : {"lapack", "lanczos", "cholesky"}
        How the bound was obtained; see `how`.
    """

    objective: float
    dual_bound: float
    gap: float
    max_residual: float
    orthogonality: float
    passes: int
    method: BoundMethod

    @property
    def how(self) -> str:
        """How the bound was obtained, in words."""
        return _HOW[self.method]

    def __str__(self) -> str:
        return (
            f"objective       {self.objective:.10g}\n"
            f"dual bound      {self.dual_bound:.10g}\n"
            f"relative gap    {self.gap:.1e}\n"
            f"max residual    {self.max_residual:.1e}\n"
            f"orthogonality   {self.orthogonality:.1e}\n"
            f"passes          {self.passes}\n"
            f"bound from      {self.how}"
        )


@dataclass(frozen=True)
class Components:
    """The leading components and their certificate.

    Attributes
    ----------
    pairs : Eigenpairs
        Of M (+ μC under a binding budget), in the units of the data.
    certificate : Certificate
        How close the solution is to the optimum.
    multiplier : float
        μ of the error budget: 0 without one, inf if only PCA meets it.
    """

    pairs: Eigenpairs
    certificate: Certificate
    multiplier: float = 0.0


def suboptimality(pairs: Eigenpairs, rank: int) -> float:
    """Largest amount by which the positive among the first r values fall short of S_r(M).

    S_r(M) is the sum of the positive among the r largest eigenvalues of M. With R = MU − UΘ, μ the
    largest eigenvalue on the complement of U, and any t > μ with t ≥ 0,
    S_r(M) ≤ r·t + Σ_i (θ_i − t)₊ + ‖R‖²_F / (t − μ): tI − M is then positive definite on the
    complement, and its Schur complement there changes Θ − tI by at most RᵀR / (t − μ).
    """
    unit = max(float(np.abs(pairs.values).max(initial=0.0)), abs(pairs.next_value))
    # there is no other eigenvalue, or none that is positive
    if unit in (0.0, np.inf) or (pairs.next_value <= 0 and not pairs.residuals.any()):
        return 0.0
    # squares below could overflow in other units
    theta, residuals, mu = pairs.values / unit, pairs.residuals / unit, pairs.next_value / unit
    # measured residuals are not more accurate than rounding
    squared = max(float(residuals @ residuals), np.finfo(np.float64).eps ** 2)
    # The minimum is where the number of θ below t balances the residual term, or at a kink (some θ,
    # or 0)
    t = np.concatenate([mu + np.sqrt(squared / np.arange(1, rank + 1)), theta, [0.0]])
    t = t[(t > mu) & (t >= 0)][:, None]
    counted, others = np.zeros(rank), theta[rank:]
    counted[: len(theta)] = np.maximum(theta[:rank], 0.0)
    shortfall = np.maximum(t - counted, 0.0).sum(axis=1)
    beyond = np.maximum(others - t, 0.0).sum(axis=1)
    return unit * float((shortfall + beyond + squared / (t[:, 0] - mu)).min())


def certify(
    pairs: Eigenpairs, *, objective: float, bound: float, scale: float, passes: int
) -> Certificate:
    """Certificate of a solution.

    Parameters
    ----------
    pairs : Eigenpairs
        The solution.
    objective, bound : float
        tr(MP) and its upper bound, in the operator's units.
    scale : float
        Values in the units of the data are `scale` times those of the operator.
    passes : int
        Passes over the data in total.
    """
    with one_blas_thread():  # idle BLAS threads would spin after the product
        overlap = matmul.inner(pairs.vectors, pairs.vectors)
    if bound < objective - _ROUNDING * float(np.abs(pairs.values).sum()):
        raise SolverError(
            f"the solution ({objective:.12g}) exceeds its own upper bound ({bound:.12g}): the "
            "eigensolver missed a component. Refit with another random_state or solver='dense'."
        )
    bound = max(bound, objective)
    return Certificate(
        objective=objective * scale,
        dual_bound=bound * scale,
        gap=(bound - objective) / abs(objective),
        max_residual=pairs.max_residual,
        orthogonality=float(np.abs(overlap - np.eye(len(overlap))).max()),
        passes=passes,
        method=pairs.method,
    )


def certify_pairs(pairs: Eigenpairs, rank: int, scale: float = 1.0) -> Certificate:
    """Certificate of leading eigenpairs, whose objective is the sum of their values."""
    objective = float(pairs.values.sum())
    bound = objective + suboptimality(pairs, rank)
    return certify(pairs, objective=objective, bound=bound, scale=scale, passes=pairs.passes)


def bound_by_cholesky(M: Floats, pairs: Eigenpairs) -> Eigenpairs:
    """Replace the estimate of the next eigenvalue by an upper bound that a factorization proves.

    tI − M on the complement of U is positive definite exactly if t exceeds the largest eigenvalue
    there. t starts at LAPACK's value for it and is raised until the factorization succeeds.
    """
    U = pairs.vectors
    outside = M - U @ (U.T @ M)
    outside -= (outside @ U) @ U.T
    outside = (outside + outside.T) / 2
    size = len(M)
    unit = float(pairs.values[0])
    step = max(pairs.max_residual, size * np.finfo(np.float64).eps) * unit
    start = float(sl.eigvalsh(outside, subset_by_index=[size - 1, size - 1])[0])
    for attempt in range(_ATTEMPTS):
        t = start + step * 2.0**attempt
        try:
            sl.cholesky(t * np.eye(size) - outside, overwrite_a=True, check_finite=False)
        except sl.LinAlgError:
            continue
        return replace(pairs, next_value=t, method="cholesky")
    raise SolverError(
        f"no Cholesky factorization of tI − M succeeded up to t = {t:.3g}: the components are too "
        "far from eigenvectors for a proof. Refit with a smaller tol."
    )

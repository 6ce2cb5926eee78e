"""From a matrix and weights to certified components: which path, which threads, which proof."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress
from equipoise.spectral.budget import solve_within_budget
from equipoise.spectral.certificate import (
    Certificate,
    bound_by_cholesky,
    certify,
    suboptimality,
)
from equipoise.spectral.eigen import Eigenpairs, dense_eigenpairs, rayleigh_ritz
from equipoise.spectral.gram import COMPILED_FROM, DenseGram, Gram, SparseGram
from equipoise.spectral.lanczos import block_width, lanczos_eigenpairs
from equipoise.spectral.tall import Floats
from equipoise.spectral.weighted import WeightedGram

Solver = Literal["auto", "matrix_free", "gram", "dense"]
SOLVERS: tuple[Solver, ...] = get_args(Solver)

# A dense Gram matrix and its working copies may take this much memory, no more.
_DENSE_BYTES = 2 * 2**30

# Residuals within which eigenproblems under an error budget are solved.
_BUDGET_TOL = 1e-9

# The iteration has threads of its own (`tall`, `kernels`), from which those of BLAS, spinning
# between small products, would take the cores. LAPACK's tridiagonal reduction gains little from
# threads and, where another process wants the cores too, loses a factor of twenty to their
# waiting for each other: only large ones are worth it.
_LAPACK_THREADS_FROM = 4_000

# Multiply-adds a second of a sweep, by block width, on two cores of 2023: what matters are ratios.
_COMPILED_RATES = {8: 4e9, 16: 6e9, 32: 8e9}
_SCIPY_RATE = 1e9


@dataclass(frozen=True)
class Components:
    """Certified leading components.

    Attributes
    ----------
    eigenvalues : ndarray of shape (k,)
        Of M (+ μC under a binding budget), in the units of the data, largest first.
    vectors : ndarray of shape (n_items, k)
        U, orthonormal.
    residuals : ndarray of shape (k,)
        ‖M u − θ u‖ of each, in the units of the data.
    multiplier : float
        μ of the error budget: 0 without one, inf where only PCA is left.
    certificate : Certificate
        How good the solution is.
    """

    eigenvalues: Floats
    vectors: Floats
    residuals: Floats
    multiplier: float
    certificate: Certificate


def choose_solver(X: sp.csr_array, rank: int, *, fits: int = 1) -> Solver:
    """The path with the smallest estimated time, within the memory a dense matrix may take."""
    seconds = estimate_seconds(X, rank, fits=fits)
    return min(seconds, key=seconds.__getitem__)


def estimate_seconds(X: sp.csr_array, rank: int, *, fits: int = 1) -> dict[Solver, float]:
    """About how long a fit takes on each path that memory allows.

    Matrix-free reads X for about five columns per component, and orthogonalises them; the dense
    path pays for the Gram matrix and for a tridiagonal reduction of m³, slower where the matrix
    no longer fits the caches, whatever the rank. Several fits on one X share its Gram matrix.
    """
    n_items, width = X.shape[1], block_width(rank)
    columns = min(5.0 * rank + 6 * width, 2.0 * n_items)
    looks = 6e-10 * min(2.0 * rank + 6 * width, n_items) ** 3
    iterate = n_items * columns**2 / 1.5e10 + looks
    sweep_rate = _COMPILED_RATES[width] if X.nnz >= COMPILED_FROM else _SCIPY_RATE
    matrix_free = 4 * X.nnz * columns / sweep_rate + iterate
    if 3 * 8 * n_items**2 > _DENSE_BYTES:
        return {"matrix_free": matrix_free}
    gram = DenseGram.seconds(X) / fits
    reduction = 5e-11 * n_items**3 * max(1.0, n_items / 1700)
    return {
        "matrix_free": matrix_free,
        "gram": gram + n_items**2 * columns / 1e10 + iterate,
        "dense": gram + reduction + 3e-10 * n_items**2 * rank,
    }


def build_gram(X: sp.csr_array, solver: Solver) -> Gram:
    """Who answers the solver's question: the sparse matrix itself, or its Gram matrix."""
    if solver == "matrix_free":
        return SparseGram(X)
    with one_blas_thread():
        return DenseGram.of(X)


def solve(
    gram: Gram,
    weights: Floats,
    rank: int,
    *,
    solver: Solver,
    error_budget: float | None = None,
    rounding: float = 0.0,
    tol: float = 1e-6,
    rng: np.random.Generator,
    block: int | None = None,
    progress: Progress | None = None,
) -> Components:
    """Maximise Σ_j w_j ⟨X_·j, X̂_·j⟩ over projections of rank ≤ r, exactly.

    Parameters
    ----------
    gram : Gram
        Who answers XᵀXV; see `build_gram`.
    weights : ndarray of shape (n_items,)
        w ≥ 0, not all zero.
    rank : int
        r.
    solver : {"matrix_free", "gram", "dense"}
        What `gram` was built for.
    error_budget : float, optional
        The paper's ε; None leaves the reconstruction error free.
    rounding : float
        Machine epsilon of the type in which the vectors will be stored; see `solve_within_budget`.
    tol : float
        Largest residual relative to the largest eigenvalue.
    rng : numpy.random.Generator
        Draws the first Krylov block.
    block : int, optional
        Vectors a sweep; `wide_block` where reading the data is what costs.
    progress : Progress, optional
        Gets notes on passes over the data and the residual.
    """

    def eigenpairs(w: Floats, near: Floats | None, components: int = rank) -> Eigenpairs:
        """Leading eigenpairs for weights w, in units of gram.scale."""
        operator = WeightedGram(gram, w)
        if solver == "dense":
            found = dense_eigenpairs(operator.dense(), components)
        else:
            found = lanczos_eigenpairs(
                operator, components, tol=tol, rng=rng, start=near, block=block, progress=progress
            )
        return _in_units(found, operator.scale / gram.scale)

    with _tamed_blas(gram, solver):
        if error_budget is not None:
            # what the budget weighs, tr(CP), errs by the residual itself and not by its square
            tol = min(tol, _BUDGET_TOL)
            budgeted = solve_within_budget(gram, weights, rank, error_budget, eigenpairs, rounding)
            pairs, multiplier = budgeted.pairs, budgeted.multiplier
            objective, bound, sweeps = budgeted.objective, budgeted.bound, budgeted.sweeps
        else:
            pairs, multiplier = eigenpairs(weights, None), 0.0
            objective = float(pairs.values.sum())
            bound, sweeps = objective + suboptimality(pairs, rank), pairs.sweeps
    certificate = certify(pairs, objective=objective, bound=bound, scale=gram.scale, sweeps=sweeps)
    return Components(
        pairs.values * gram.scale,
        pairs.vectors,
        pairs.residuals * gram.scale,
        multiplier,
        certificate,
    )


def certify_rigorously(gram: DenseGram, weights: Floats, vectors: Floats, rank: int) -> Certificate:
    """Certificate whose bound a Cholesky factorisation proves, for components from anywhere."""
    operator = WeightedGram(gram, weights)
    M = gram.weighted_matrix(operator.weights)
    pairs = bound_by_cholesky(M, rayleigh_ritz(operator, vectors))
    objective = float(pairs.values.sum())
    bound = objective + suboptimality(pairs, rank)
    return certify(pairs, objective=objective, bound=bound, scale=operator.scale, sweeps=1)


def _in_units(pairs: Eigenpairs, unit: float) -> Eigenpairs:
    return replace(
        pairs,
        values=pairs.values * unit,
        residuals=pairs.residuals * unit,
        next_value=pairs.next_value * unit,
    )


def _tamed_blas(gram: Gram, solver: Solver) -> AbstractContextManager[None]:
    """One BLAS thread, but for large dense problems; restored on the way out."""
    if solver == "dense" and gram.n_items >= _LAPACK_THREADS_FROM:
        return nullcontext()
    return one_blas_thread()

"""From a matrix and weights to certified components: which path, which threads, which proof."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import scipy.sparse as sp

from equipoise.compiled import one_blas_thread
from equipoise.spectral.budget import solve_within_budget
from equipoise.spectral.certificate import (
    Certificate,
    bound_by_cholesky,
    certify,
    suboptimality,
)
from equipoise.spectral.eigen import Eigenpairs, dense_eigenpairs, rayleigh_ritz
from equipoise.spectral.gram import COMPILED_FROM, DenseGram, Floats, Gram, SparseGram
from equipoise.spectral.lanczos import Monitor, block_width, lanczos_eigenpairs
from equipoise.spectral.weighted import WeightedGram

Solver = Literal["auto", "matrix_free", "gram", "dense"]
SOLVERS: tuple[Solver, ...] = get_args(Solver)

# A dense Gram matrix and its working copies may take this much memory, no more.
_DENSE_BYTES = 2 * 2**30

# Residuals within which eigenproblems under an error budget are solved.
_BUDGET_TOL = 1e-9

# BLAS threads that spin between small products take the cores from the compiled sweeps; from
# about this many entries of the Krylov basis on, its own products are worth more cores. LAPACK's
# tridiagonal reduction gains little from threads and, where another process wants the cores
# too, loses a factor of twenty to their waiting for each other: only large ones are worth it.
_BLAS_THREADS_FROM, _LAPACK_THREADS_FROM = 30_000_000, 4_000


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
    """The path with the smallest estimated time; measured rates in multiply-adds a second.

    Matrix-free reads X about five columns per component, and orthogonalises them; the dense path
    pays for the Gram matrix and for a tridiagonal reduction of m³ whatever the rank. Several fits
    on one X share its Gram matrix.
    """
    n_items = X.shape[1]
    if 3 * 8 * n_items**2 > _DENSE_BYTES:
        return "matrix_free"
    columns = min(5.0 * rank + 6 * block_width(rank), 2.0 * n_items)
    gram = DenseGram.seconds(X) / fits
    orthogonalize = n_items * columns**2 / 2e10
    sweep_rate = 1.5e9 if X.nnz >= COMPILED_FROM else 5e8
    seconds: dict[Solver, float] = {
        "matrix_free": 4 * X.nnz * columns / sweep_rate / 2 + orthogonalize,
        "gram": gram + n_items**2 * columns / 1e10 + orthogonalize,
        "dense": gram + n_items**3 * 6e-11,
    }
    return min(seconds, key=seconds.__getitem__)


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
    tol: float = 1e-6,
    rng: np.random.Generator,
    block: int | None = None,
    monitor: Monitor | None = None,
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
    tol : float
        Largest residual relative to the largest eigenvalue.
    rng : numpy.random.Generator
        Draws the first Krylov block.
    block : int, optional
        Vectors a sweep; `wide_block` where reading the data is what costs.
    monitor : callable, optional
        Called with (sweeps, residual) as the iteration goes on.
    """

    def eigenpairs(w: Floats, near: Floats | None, components: int = rank) -> Eigenpairs:
        """Leading eigenpairs for weights w, in units of gram.scale."""
        operator = WeightedGram(gram, w)
        if solver == "dense":
            found = dense_eigenpairs(operator.dense(), components)
        else:
            found = lanczos_eigenpairs(
                operator, components, tol=tol, rng=rng, start=near, block=block, monitor=monitor
            )
        return _in_units(found, operator.scale / gram.scale)

    with _tamed_blas(gram, rank, solver):
        if error_budget is not None:
            # what the budget weighs, tr(CP), errs by the residual itself and not by its square
            tol = min(tol, _BUDGET_TOL)
            budgeted = solve_within_budget(gram, weights, rank, error_budget, eigenpairs)
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


def _tamed_blas(gram: Gram, rank: int, solver: Solver) -> AbstractContextManager[None]:
    """One BLAS thread where the products are small; restored on the way out."""
    basis = gram.n_items * (2 * rank + 6 * block_width(rank))
    small = gram.n_items < _LAPACK_THREADS_FROM
    if small if solver == "dense" else basis < _BLAS_THREADS_FROM:
        return one_blas_thread()
    return nullcontext()

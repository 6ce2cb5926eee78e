"""From a Gram operator and weights to components with a certificate."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.parallel import lapack_threads, one_blas_thread
from equipoise.progress import Progress
from equipoise.spectral.budget import solve_within_budget
from equipoise.spectral.certificate import (
    Certificate,
    Components,
    bound_by_cholesky,
    certify_pairs,
)
from equipoise.spectral.gram import PARALLEL_FROM, DenseGram, Gram, SparseGram, WeightedGram
from equipoise.spectral.groups.minmax import EigenSolver
from equipoise.spectral.lanczos import block_width, lanczos_eigenpairs
from equipoise.spectral.lapack import dense_eigenpairs, rayleigh_ritz
from equipoise.spectral.matmul import Floats

Solver = Literal["auto", "matrix_free", "gram", "dense"]
SOLVERS: tuple[Solver, ...] = get_args(Solver)

# `solver="auto"` forms a dense Gram matrix only if it and its copies take at most this much memory,
# which any machine has.
_DENSE_BYTES = 2 * 2**30

# Multiply-adds per second of a pass over the data, on two cores of 2023: of the parallel loops by
# block width, and of SciPy. Only their ratios matter.
_PARALLEL_RATES = {8: 1.5e10, 16: 2e10, 32: 3e10}
_SCIPY_RATE = 1e9


def choose_solver(X: sp.csr_array, rank: int, *, fits: int = 1) -> Solver:
    """Return the solver with the smallest estimated time."""
    seconds = estimate_seconds(np.diff(X.indptr), X.shape[1], rank, fits=fits)
    return min(seconds, key=seconds.__getitem__)


def estimate_seconds(
    row_entries: NDArray[Any], n_items: int, rank: int, *, fits: int = 1
) -> dict[Solver, float]:
    """Estimate how long a fit takes with each solver whose memory is acceptable.

    The constants were fitted to timings on two cores; only their ratios matter. `matrix_free`
    multiplies X with about five columns per component and orthogonalizes them. `dense` needs the
    Gram matrix and, at any rank, a tridiagonal reduction of order m³, which is slower if the matrix
    exceeds the caches (1,700 items). Several fits on one X share its Gram matrix.
    """
    nnz, width = float(row_entries.sum(dtype=np.float64)), block_width(rank)
    columns = min(5.0 * rank + 6 * width, 2.0 * n_items)
    checks = 6e-10 * min(2.0 * rank + 6 * width, n_items) ** 3
    iterate = n_items * columns**2 / 1.5e10 + checks
    pass_rate = _PARALLEL_RATES[width] if nnz >= PARALLEL_FROM else _SCIPY_RATE
    matrix_free = 4 * nnz * columns / pass_rate + iterate
    if 3 * 8 * n_items**2 > _DENSE_BYTES:
        return {"matrix_free": matrix_free}
    gram = DenseGram.seconds(row_entries, n_items) / fits
    reduction = 5e-11 * n_items**3 * max(1.0, n_items / 1700)
    return {
        "matrix_free": matrix_free,
        "gram": gram + n_items**2 * columns / 1e10 + iterate,
        "dense": gram + reduction + 3e-10 * n_items**2 * rank,
    }


def build_gram(X: sp.csr_array, solver: Solver) -> Gram:
    """Build the Gram operator for a solver: the sparse matrix itself, or its Gram matrix."""
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
    """Maximize Σ_j w_j ⟨X_·j, X̂_·j⟩ over projections of rank ≤ r, exactly.

    Parameters
    ----------
    gram : Gram
        Products XᵀXV; see `build_gram`.
    weights : ndarray of shape (n_items,)
        w ≥ 0, not all zero.
    rank : int
        r.
    solver : {"matrix_free", "gram", "dense"}
        The solver that `gram` was built for.
    error_budget : float, optional
        The paper's ε; None does not bound the reconstruction error.
    rounding : float
        Machine epsilon of the dtype in which the vectors are stored; see `solve_within_budget`.
    tol : float
        Largest residual relative to the largest eigenvalue.
    rng : numpy.random.Generator
        Draws the first Krylov block.
    block : int, optional
        Vectors per pass; `wide_block` where reading the data dominates.
    progress : Progress, optional
        Gets notes on passes over the data and the residual.
    """
    with lapack_threads(gram.n_items if solver == "dense" else 0):
        if error_budget is not None:
            lapack = solver == "dense"
            eigensolver = EigenSolver(rng, block=block, progress=progress, lapack=lapack)
            return solve_within_budget(
                gram, weights, rank, error_budget, eigensolver, tol=tol, rounding=rounding
            )
        operator = WeightedGram(gram, weights)
        if solver == "dense":
            if not isinstance(gram, DenseGram):
                raise TypeError(f"solver='dense' needs a DenseGram, got {type(gram).__name__}")
            # M has no name here: it is freed when it is not needed
            pairs = dense_eigenpairs(gram.weighted_matrix(operator.weights), rank, overwrite=True)
        else:
            pairs = lanczos_eigenpairs(
                operator, rank, tol=tol, rng=rng, block=block, progress=progress
            )
    pairs = pairs.in_units(operator.scale / gram.scale)
    certificate = certify_pairs(pairs, rank, gram.scale)
    return Components(pairs.in_units(gram.scale), certificate)


def certify_rigorously(gram: DenseGram, weights: Floats, vectors: Floats, rank: int) -> Certificate:
    """Return a certificate for any components, its bound proved by a Cholesky factorization."""
    operator = WeightedGram(gram, weights)
    M = gram.weighted_matrix(operator.weights)
    pairs = bound_by_cholesky(M, rayleigh_ritz(operator, vectors))
    return certify_pairs(pairs, rank, operator.scale)

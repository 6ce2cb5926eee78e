from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse as sp

from equipoise import ItemWeightedPCA
from equipoise.spectral.certificate import Components
from equipoise.spectral.gram import DenseGram, SparseGram
from equipoise.spectral.solve import solve
from tests.spectral.budget_root_finder import solve_by_root_finding


def fit(X, w, r, budget, solver="dense") -> Components:
    gram = DenseGram.of(X) if solver != "matrix_free" else SparseGram(X)
    rng = np.random.default_rng(0)
    return solve(gram, w, r, solver=solver, error_budget=budget, rng=rng)


def dual_optimum(C: np.ndarray, w: np.ndarray, r: int, budget: float) -> float:
    """The dual by brute force: a one-dimensional convex function, minimized by another method."""
    M = (w[:, None] * C + C * w) / 2
    floor = np.trace(C) - np.linalg.eigvalsh(C)[::-1][:r].sum()
    b = np.trace(C) - (1 + budget) * floor

    def h(log_mu: float) -> float:
        mu = np.exp(log_mu)
        top = np.linalg.eigvalsh(M + mu * C)[::-1][:r]
        return float(np.maximum(top, 0).sum() - mu * b)

    grid = np.linspace(np.log(w.max()) - 25, np.log(w.max()) + 25, 400)
    best = int(np.argmin([h(x) for x in grid]))
    bracket = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    result = scipy.optimize.minimize_scalar(
        h, bounds=bracket, method="bounded", options={"xatol": 1e-12}
    )
    at_zero = np.maximum(np.linalg.eigvalsh(M)[::-1][:r], 0).sum()
    return min(float(result.fun), float(at_zero))


def problem(seed: int, n: int = 80, m: int = 25) -> tuple[sp.csr_array, np.ndarray]:
    rng = np.random.default_rng(seed)
    popularity = rng.pareto(1.0, m) + 0.1
    X = sp.csr_array(rng.poisson(np.minimum(popularity, 5), (n, m)).astype(float))
    norms = np.sqrt(X.multiply(X).sum(axis=0))
    return X, np.where(norms > 0, 1 / np.maximum(norms, 1e-9), 0)


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [1e-3, 0.02, 0.2])
def test_objective_equals_the_dual_found_by_brute_force(seed, budget):
    X, w = problem(seed)
    C = (X.T @ X).toarray()
    # the iterative path bounds the next eigenvalue by residuals, which a large μ magnifies
    for solver, gap in (("dense", 1e-8), ("matrix_free", 1e-4)):
        certificate = fit(X, w, 5, budget, solver).certificate
        assert certificate.objective == pytest.approx(dual_optimum(C, w, 5, budget), rel=1e-6)
        assert certificate.gap < gap


@pytest.mark.medium
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("budget", [1e-3, 0.02, 0.2])
def test_objective_and_multiplier_equal_those_of_a_root_finder(seed, budget):
    X, w = problem(seed)
    objective, multiplier = solve_by_root_finding((X.T @ X).toarray(), w, 5, budget)
    for solver in ("dense", "matrix_free"):
        found = fit(X, w, 5, budget, solver)
        assert found.certificate.objective == pytest.approx(objective, rel=1e-8)
        assert found.multiplier == pytest.approx(multiplier, rel=1e-3)


@pytest.mark.parametrize("solver", ["dense", "matrix_free"])
@pytest.mark.parametrize("budget", [1e-3, 0.02, 0.2])
def test_reconstruction_error_stays_within_the_budget(budget, solver):
    X, w = problem(11)
    dense = X.toarray()
    singular = np.linalg.svd(dense, compute_uv=False)
    least = (singular[5:] ** 2).sum()
    U = fit(X, w, 5, budget, solver).pairs.vectors
    error = np.linalg.norm(dense - dense @ U @ U.T) ** 2
    assert error <= (1 + budget) * least * (1 + 1e-9)


@pytest.mark.parametrize("budget", [1e-6, 1e-3, 0.02, 0.2])
def test_components_stored_in_float32_stay_within_the_budget(budget):
    for seed in range(6):
        X = problem(seed)[0]
        dense, rank = X.toarray(), 5
        squares = np.linalg.svd(dense, compute_uv=False) ** 2
        U = ItemWeightedPCA(rank, error_budget=budget).fit(X.astype(np.float32)).components_.T
        assert U.dtype == np.float32
        P = U.astype(float) @ U.T.astype(float)
        excess = np.linalg.norm(dense - dense @ P) ** 2 - (1 + budget) * squares[rank:].sum()
        assert excess <= 1e-12 * squares.sum()


def test_zero_budget_is_pca_exactly():
    X, w = problem(3)
    found = fit(X, w, 4, 0.0)
    V = np.linalg.svd(X.toarray())[2][:4].T
    np.testing.assert_allclose(found.pairs.vectors @ found.pairs.vectors.T, V @ V.T, atol=1e-10)
    assert found.multiplier == np.inf
    assert found.certificate.gap == 0


def test_budget_that_does_not_bind_changes_nothing():
    X, w = problem(4)
    gram = DenseGram.of(X)
    free = solve(gram, w, 4, solver="dense", rng=np.random.default_rng(0))
    loose = fit(X, w, 4, 100.0)
    assert loose.multiplier == 0
    np.testing.assert_allclose(loose.pairs.vectors, free.pairs.vectors, atol=1e-12)


def test_larger_budget_never_lowers_the_objective():
    X, w = problem(5)
    objectives = [fit(X, w, 4, e).certificate.objective for e in (0.0, 0.001, 0.01, 0.1, 1.0)]
    assert all(b >= a * (1 - 1e-9) for a, b in pairwise(objectives))


def test_budget_is_met_inside_a_tied_eigenspace():
    """Two orthogonal items: PCA takes the heavy one, the weights the light one.

    At rank 1 tr(CP_μ) jumps from 1 to 4 where the two swap, so a budget between the two can
    only be met by a mixture: error 5 − tr(CP) ≤ (1+ε)·1, hence cos² on the heavy item is
    (3 − ε + ... )/3 exactly, and both the objective and the error are known in closed form.
    """
    X = sp.csr_array(np.diag([2.0, 1.0]))
    w = np.array([1.0, 8.0])
    epsilon = 1.5
    found = fit(X, w, 1, epsilon)
    heavy = (5 - (1 + epsilon) - 1) / 3  # tr(CP) = 4h + (1 − h) = 5 − (1 + ε)
    np.testing.assert_allclose(found.pairs.vectors[:, 0] ** 2, [heavy, 1 - heavy], atol=1e-8)
    assert found.certificate.objective == pytest.approx(4 * heavy + 8 * (1 - heavy), rel=1e-8)
    assert found.certificate.gap < 1e-8
    assert found.multiplier == pytest.approx(4 / 3, rel=1e-8)  # 4 + 4μ = 8 + μ


def test_zero_budget_takes_the_best_of_all_solutions_of_pca():
    """C has the eigenvalue 2 twice: PCA may take (1,1,0)/√2 or (0,0,1), and M prefers the one."""
    X = sp.csr_array(np.array([[1.0, 1.0, 0.0], [0.0, 0.0, np.sqrt(2)]]))
    w = np.array([1.0, 1.0, np.sqrt(0.5)])
    for solver in ("dense", "matrix_free"):
        assert fit(X, w, 1, 0.0, solver).certificate.objective == pytest.approx(2.0)


@pytest.mark.parametrize("solver", ["dense", "matrix_free"])
@pytest.mark.parametrize("budget", [0.1, 10.0, 1e9])
@pytest.mark.parametrize(
    ("X", "r"),
    [
        (np.array([[1.0, 2.0, 3.0]]), 1),
        (np.ones((10, 7)), 1),
        (np.random.default_rng(3).integers(0, 5, (8, 5)).astype(float), 5),
    ],
)
def test_data_that_pca_reconstructs_leave_no_budget(X, r, budget, solver):
    """E_r = 0: every feasible projection reconstructs X, and the objective is tr(DC)."""
    matrix = sp.csr_array(X)
    w = 1 / np.linalg.norm(X, axis=0)
    found = fit(matrix, w, r, budget, solver)
    assert found.certificate.objective == pytest.approx(w @ (X**2).sum(axis=0), rel=1e-9)
    assert found.multiplier == np.inf


@pytest.mark.parametrize("solver", ["dense", "gram", "matrix_free"])
def test_dual_bound_is_no_lower_than_the_dual_by_brute_force(solver):
    X, w = problem(7)
    C = (X.T @ X).toarray()
    certificate = fit(X, w, 5, 0.01, solver).certificate
    truth = dual_optimum(C, w, 5, 0.01)
    assert certificate.objective <= truth * (1 + 1e-9)
    assert certificate.dual_bound >= truth * (1 - 1e-9)
    assert certificate.max_residual < 1e-5

"""The semidefinite program against dense eigenvalues and a one-dimensional dual."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.sparse import csr_array

from equipoise.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    SolverError,
)
from equipoise.models.pca import sdp
from equipoise.models.pca.sdp import SDPSolution, solve_sdp

pytest.importorskip("cvxpy")

RELATIVE = 1e-7


def preferences(n: int, m: int, seed: int = 0) -> NDArray[np.float64]:
    """Ratings with a heavy tail, from items hardly touched to items everyone touched."""
    rng = np.random.default_rng(seed)
    touched = rng.random((n, m)) < np.geomspace(0.03, 0.7, m)
    return np.where(touched, rng.integers(1, 6, (n, m)), 0).astype(float)


def weighted(X: NDArray[np.float64], gamma: float) -> tuple[NDArray[Any], NDArray[Any]]:
    """C and M by their definitions, element by element."""
    C = X.T @ X
    p = np.sqrt(np.diag(C))
    w = np.array([p_j**gamma if p_j > 0 else 0.0 for p_j in p])
    return C, (np.diag(w) @ C + C @ np.diag(w)) / 2


def largest(A: NDArray[Any], r: int) -> NDArray[Any]:
    return np.linalg.eigvalsh(A)[::-1][:r]


def dual_by_brute_force(M: NDArray[Any], C: NDArray[Any], r: int, b: float) -> float:
    """Least value of h(μ) = Σ max(λ_i(M + μC), 0) − μb, on ever finer grids: h is convex."""

    def h(mu: float) -> float:
        return float(largest(M + mu * C, r).clip(0).sum() - mu * b)

    low, high = 0.0, 1e4
    for _ in range(40):
        grid = np.linspace(low, high, 12)
        k = int(np.argmin([h(mu) for mu in grid]))
        low, high = grid[max(k - 1, 0)], grid[min(k + 1, 11)]
    return h((low + high) / 2)


def assert_feasible(solution: SDPSolution, r: int) -> None:
    P = solution.projection
    np.testing.assert_array_equal(P, P.T)
    eigenvalues = np.linalg.eigvalsh(P)
    assert eigenvalues.min() > -1e-6
    assert eigenvalues.max() < 1 + 1e-6
    assert np.trace(P) < r + 1e-6


@pytest.mark.medium
@pytest.mark.parametrize("gamma", [-2.0, -1.0, 0.0, 1.0])
@pytest.mark.parametrize(("n", "m", "r"), [(8, 5, 1), (40, 12, 3), (90, 30, 6)])
def test_the_optimum_is_the_sum_of_the_largest_eigenvalues(
    n: int, m: int, r: int, gamma: float
) -> None:
    X = preferences(n, m)
    _, M = weighted(X, gamma)
    values, V = np.linalg.eigh(M)
    solution = solve_sdp(X, r, gamma)
    expected = values[-r:].clip(0).sum()
    assert solution.objective == pytest.approx(expected, rel=RELATIVE)
    assert solution.upper_bound == pytest.approx(expected, rel=RELATIVE)
    np.testing.assert_allclose(solution.projection, V[:, -r:] @ V[:, -r:].T, atol=1e-4)
    assert (solution.rank, solution.is_projection) == (r, True)
    assert solution.status in ("optimal", "optimal_inaccurate")
    assert solution.seconds > 0
    assert_feasible(solution, r)


def test_negative_eigenvalues_are_left_out_when_the_rank_asks_for_them() -> None:
    # One user, x = (1, 3): M = (1xᵀ + x1ᵀ)/2 has the eigenvalues (4 ± √20)/2, one below zero.
    solution = solve_sdp([[1.0, 3.0]], 2)
    assert solution.objective == pytest.approx(2 + np.sqrt(5), rel=RELATIVE)
    assert solution.upper_bound == pytest.approx(2 + np.sqrt(5), rel=RELATIVE)
    assert (solution.rank, solution.is_projection) == (1, True)


@pytest.mark.parametrize("gamma", [-1.0, -0.5])
@pytest.mark.parametrize("budget", [1e-3, 0.05, 0.3, 50.0])
def test_the_budget_agrees_with_its_one_dimensional_dual(budget: float, gamma: float) -> None:
    X, r = preferences(40, 10, seed=3), 3
    C, M = weighted(X, gamma)
    error = np.trace(C) - largest(C, r).sum()
    b = np.trace(C) - (1 + budget) * error
    solution = solve_sdp(X, r, gamma, budget)
    assert solution.objective == pytest.approx(dual_by_brute_force(M, C, r, b), rel=RELATIVE)
    assert solution.upper_bound == pytest.approx(solution.objective, rel=RELATIVE)
    assert np.sum(C * solution.projection) > b - 1e-6 * np.trace(C)
    assert_feasible(solution, r)


def test_a_budget_that_binds_costs_objective_and_a_wide_one_costs_none() -> None:
    X = preferences(40, 10, seed=3)
    free = solve_sdp(X, 3).objective
    assert solve_sdp(X, 3, error_budget=1e-3).objective < free * 0.999
    assert solve_sdp(X, 3, error_budget=50.0).objective == pytest.approx(free, rel=RELATIVE)


def test_a_budget_of_zero_gives_pca() -> None:
    X, r = preferences(40, 10, seed=3), 3
    C, M = weighted(X, -1.0)
    V = np.linalg.eigh(C)[1][:, -r:]
    solution = solve_sdp(X, r, error_budget=0.0)
    np.testing.assert_allclose(solution.projection, V @ V.T, atol=1e-10)
    assert solution.objective == pytest.approx(np.sum(M * (V @ V.T)), rel=1e-12)
    assert solution.upper_bound == pytest.approx(solution.objective, rel=1e-12)


def test_a_budget_of_zero_leaves_the_choice_among_tied_components() -> None:
    # Item 0 is alone with C = 9; items 1 to 3 tie at 4, so PCA of rank 3 may take any two.
    X = np.diag([3.0, 2.0, 2.0, 2.0, 1.0])
    solution = solve_sdp(X, 3, error_budget=0.0, item_weights=[0.1, 1.0, 3.0, 2.0, 9.0])
    np.testing.assert_allclose(solution.projection, np.diag([1, 0, 1, 1, 0]), atol=1e-5)
    assert solution.objective == pytest.approx(0.9 + 12 + 8, rel=RELATIVE)
    assert solution.upper_bound == pytest.approx(0.9 + 12 + 8, rel=RELATIVE)


def test_a_budget_on_a_matrix_of_lower_rank_keeps_its_row_space() -> None:
    X = np.array([[1.0, 1, 0, 0], [1, 1, 0, 0], [0, 0, 2, 0]])
    C, M = weighted(X, -1.0)
    row_space = np.linalg.pinv(X) @ X
    solution = solve_sdp(X, 3, error_budget=0.5)
    np.testing.assert_allclose(solution.projection, row_space, atol=1e-10)
    assert solution.objective == pytest.approx(np.sum(M * row_space), rel=1e-12)
    assert np.sum(C * solution.projection) == pytest.approx(np.trace(C))


def test_scs_is_a_second_opinion() -> None:
    X = preferences(40, 8)
    for budget in (None, 0.1):
        first = solve_sdp(X, 2, error_budget=budget)
        second = solve_sdp(X, 2, error_budget=budget, solver="SCS")
        assert second.objective == pytest.approx(first.objective, rel=1e-6)


def test_sparse_equals_dense_and_given_weights_equal_gamma() -> None:
    X = preferences(30, 6)
    X[:, 2] = 0.0  # an item nobody touched has weight 0 even where 0^γ would be infinite
    expected = solve_sdp(X, 2).objective
    assert solve_sdp(csr_array(X), 2).objective == pytest.approx(expected, rel=1e-9)
    p = np.linalg.norm(X, axis=0)
    w = np.divide(1.0, p, out=np.zeros(6), where=p > 0)
    assert solve_sdp(X, 2, item_weights=w).objective == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_scaling_the_preferences_scales_the_optimum(scale: float) -> None:
    X = preferences(30, 6)
    plain, scaled = solve_sdp(X, 2, error_budget=0.1), solve_sdp(scale * X, 2, error_budget=0.1)
    assert scaled.objective == pytest.approx(scale * plain.objective, rel=RELATIVE)
    np.testing.assert_allclose(scaled.projection, plain.projection, atol=1e-5)


def test_one_item_is_its_own_projection() -> None:
    solution = solve_sdp([[3.0], [4.0]], 1)
    np.testing.assert_allclose(solution.projection, [[1.0]], atol=1e-7)
    assert solution.objective == pytest.approx(5.0, rel=RELATIVE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_components": 0}, r"n_components=0 must be a whole number, from 1 to 3"),
        ({"n_components": 4}, r"n_components=4 must be a whole number"),
        ({"n_components": 1.0}, r"n_components=1.0 must be a whole number"),
        ({"n_components": True}, r"n_components=True must be a whole number"),
        ({"gamma": np.nan}, r"'gamma' .* Got nan"),
        ({"error_budget": -0.1}, r"'error_budget' .* Got -0.1"),
        ({"error_budget": np.nan}, r"'error_budget' .* Got nan"),
        ({"solver": "MOSEK"}, r"solver must be one of"),
        ({"tol": 0.0}, r"tol must be positive, got 0.0"),
        ({"item_weights": [1.0, 2.0]}, r"item_weights .* each of the 3 items, got shape \(2,\)"),
        ({"item_weights": [1.0, 2.0, -1.0]}, r"item_weights must be finite and at least 0"),
    ],
)
def test_a_parameter_out_of_range_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises((InvalidParameterError, InvalidDataError), match=message):
        solve_sdp(np.eye(3), **{"n_components": 1, **options})


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -1.0])
def test_preferences_that_are_not_finite_or_negative_are_refused(bad: float, wrap: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"(NaN or infinite|not be negative)"):
        solve_sdp(wrap(np.array([[1.0, bad]])), 1)


def test_matrices_without_content_are_refused() -> None:
    with pytest.raises(InvalidDataError, match=r"all zero"):
        solve_sdp(np.zeros((2, 2)), 1)
    with pytest.raises(InvalidDataError, match=r"users × items matrix"):
        solve_sdp(np.ones(3), 1)


def test_without_cvxpy_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cvxpy", None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[sdp\]"'):
        solve_sdp(np.eye(2), 1)


def test_a_solver_that_fails_or_gives_up_is_an_error() -> None:
    import cvxpy

    def crash(**_: Any) -> None:
        raise cvxpy.error.SolverError("numerical trouble")

    with pytest.raises(SolverError, match=r"CLARABEL failed: numerical trouble"):
        sdp._run(cvxpy, SimpleNamespace(solve=crash), "CLARABEL", 1e-8)
    gave_up = SimpleNamespace(solve=lambda **_: None, status="infeasible")
    with pytest.raises(SolverError, match=r"SCS stopped as 'infeasible'"):
        sdp._run(cvxpy, gave_up, "SCS", 1e-8)


def test_an_inaccurate_answer_is_refused_by_its_own_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    import cvxpy

    monkeypatch.setattr(cvxpy.Problem, "status", "optimal_inaccurate")
    with pytest.raises(SolverError, match="relative gap"):
        solve_sdp(preferences(30, 8), 2, solver="SCS", tol=0.1)

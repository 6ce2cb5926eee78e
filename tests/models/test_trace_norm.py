"""Soft-thresholded SVD: optimality conditions, another solver, and no silent cap."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise.exceptions import InvalidParameterError, SolverWarning
from equipoise.models.peers import trace_norm
from equipoise.models.peers.trace_norm import TraceNormMF


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


def solution(model: TraceNormMF, X: np.ndarray) -> np.ndarray:
    return model._scores(sp.csr_array(X))


def objective(X: np.ndarray, Z: np.ndarray, threshold: float) -> float:
    return np.square(X - Z).sum() / 2 + threshold * np.linalg.norm(Z, "nuc")


def assert_optimal(X: np.ndarray, Z: np.ndarray, rank: int, threshold: float) -> None:
    """X − Z is τ times a subgradient of the trace norm at Z: τ(UVᵀ + W)."""
    scale = np.linalg.norm(X, 2)
    U, values, Vt = np.linalg.svd(Z)
    assert np.all(values[rank:] <= 1e-9 * scale)
    U, V = U[:, :rank], Vt[:rank].T
    rest = X - Z
    assert np.linalg.norm(rest, 2) <= threshold + 1e-8 * scale
    np.testing.assert_allclose(U.T @ rest @ V, threshold * np.eye(rank), atol=1e-7 * scale)
    W = rest - threshold * U @ V.T
    np.testing.assert_allclose(U.T @ W, 0, atol=1e-7 * scale)
    np.testing.assert_allclose(W @ V, 0, atol=1e-7 * scale)
    # complementarity: the penalty is attained by the subgradient
    assert np.sum(rest * Z) == pytest.approx(threshold * values.sum(), rel=1e-7)


@pytest.mark.parametrize("solver", ["auto", "matrix_free", "gram", "dense"])
@pytest.mark.parametrize("penalty", [0.02, 0.1, 0.3, 0.9])
def test_solution_meets_the_optimality_conditions(X, penalty, solver):
    model = TraceNormMF(penalty, solver=solver).fit(X)
    assert model.threshold_ == pytest.approx(penalty * np.linalg.norm(X, 2))
    assert_optimal(X, solution(model, X), model.n_components_, model.threshold_)


@given(seed=st.integers(0, 10_000), penalty=st.floats(0.01, 0.95))
def test_solution_of_any_small_table_meets_the_optimality_conditions(seed, penalty):
    rng = np.random.default_rng(seed)
    X = rng.random((6, 5)) * (rng.random((6, 5)) < 0.6)
    X[0, 0] = 1.0
    model = TraceNormMF(penalty).fit(X)
    gaps = np.abs(np.linalg.svd(X)[1] / np.linalg.norm(X, 2) - penalty)
    if gaps.min() > 1e-6:  # the rank of Z is defined with a margin
        assert_optimal(X, solution(model, X), model.n_components_, model.threshold_)


def test_no_near_by_matrix_has_a_smaller_objective(X):
    model = TraceNormMF(0.2).fit(X)
    Z = solution(model, X)
    best = objective(X, Z, model.threshold_)
    rng = np.random.default_rng(0)
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(20):
            assert best < objective(X, Z + size * rng.standard_normal(Z.shape), model.threshold_)


def test_alternating_ridge_regressions_on_the_factors_reach_the_same_minimum(X):
    """‖Z‖_* = min ½(‖A‖² + ‖B‖²) over Z = ABᵀ: no SVD, no threshold in this solver."""
    model = TraceNormMF(0.2).fit(X)
    tau, rng = model.threshold_, np.random.default_rng(0)
    B = rng.standard_normal((14, 14))
    for _ in range(3000):
        A = np.linalg.solve(B.T @ B + tau * np.eye(14), B.T @ X.T).T
        B = np.linalg.solve(A.T @ A + tau * np.eye(14), A.T @ X).T
    Z = solution(model, X)
    np.testing.assert_allclose(A @ B.T, Z, atol=1e-5 * np.linalg.norm(X, 2))
    other = np.square(X - A @ B.T).sum() / 2 + tau * (np.square(A).sum() + np.square(B).sum()) / 2
    assert other == pytest.approx(objective(X, Z, tau), rel=1e-8)


def test_interior_point_solver_agrees(X):
    cp = pytest.importorskip("cvxpy")
    small = X[:9, :7]
    model = TraceNormMF(0.2).fit(small)
    Z = cp.Variable(small.shape)
    loss = cp.sum_squares(small - Z) / 2 + model.threshold_ * cp.normNuc(Z)
    optimum = cp.Problem(cp.Minimize(loss)).solve(solver=cp.CLARABEL)
    found = solution(model, small)
    assert objective(small, found, model.threshold_) == pytest.approx(optimum, rel=1e-6)
    np.testing.assert_allclose(Z.value, found, atol=1e-3 * np.linalg.norm(small, 2))


def test_factors_are_balanced_and_their_norms_are_the_trace_norm(X):
    model = TraceNormMF(0.1).fit(X)
    A, B = model.user_factors(sp.csr_array(X)), model.item_factors_
    trace_norm_of_Z = np.linalg.norm(A @ B.T, "nuc")
    assert np.square(A).sum() == pytest.approx(trace_norm_of_Z)
    assert np.square(B).sum() == pytest.approx(trace_norm_of_Z)


def test_a_larger_penalty_leaves_fewer_components(X):
    sigma = np.linalg.svd(X)[1]
    ranks = [TraceNormMF(p).fit(X).n_components_ for p in (0.02, 0.1, 0.3, 0.9)]
    assert ranks == [int(np.sum(sigma > p * sigma[0])) for p in (0.02, 0.1, 0.3, 0.9)]
    assert ranks[0] > ranks[-1] == 1


@pytest.mark.parametrize("solver", ["matrix_free", "gram"])
def test_search_grows_until_a_component_falls_below_the_threshold(solver, monkeypatch):
    asked, solve = [], trace_norm.solve

    def watched(gram, weights, rank, **options):
        asked.append(rank)
        return solve(gram, weights, rank, **options)

    monkeypatch.setattr(trace_norm, "solve", watched)
    X = np.random.default_rng(7).poisson(1.0, (200, 150)).astype(float)
    sigma = np.linalg.svd(X)[1]
    for kept, expected in ((70, [32, 64, 128]), (1, [32])):
        penalty = float((sigma[kept - 1] + sigma[kept]) / 2 / sigma[0])
        assert TraceNormMF(penalty, solver=solver).fit(X).n_components_ == kept
        assert asked == expected
        asked.clear()


def test_users_fewer_than_components_sought_end_the_search(X):
    few = X[:3]
    model = TraceNormMF(0.001, solver="matrix_free").fit(few)
    assert model.n_components_ == 3
    assert_optimal(few, solution(model, few), 3, model.threshold_)


@pytest.mark.parametrize("solver", ["matrix_free", "gram", "dense"])
def test_a_cap_that_cuts_warns_and_gives_the_minimum_at_that_rank(X, solver):
    message = "more than max_components=2 singular values exceed the threshold .*Raise max_comp"
    with pytest.warns(SolverWarning, match=message):
        model = TraceNormMF(0.05, max_components=2, solver=solver).fit(X)
    assert model.n_components_ == 2
    U, sigma, Vt = np.linalg.svd(X, full_matrices=False)
    expected = (U[:, :2] * (sigma[:2] - model.threshold_)) @ Vt[:2]
    np.testing.assert_allclose(solution(model, X), expected, atol=1e-6)


def test_a_cap_that_is_just_reached_does_not_warn(X):
    sigma = np.linalg.svd(X)[1]
    penalty = float((sigma[2] + sigma[3]) / 2 / sigma[0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert TraceNormMF(penalty, max_components=3).fit(X).n_components_ == 3
        assert TraceNormMF(0.001, max_components=14).fit(X).n_components_ == 14


def test_units_do_not_matter(X):
    model, scaled = TraceNormMF(0.1).fit(X), TraceNormMF(0.1).fit(X * 1000)
    np.testing.assert_allclose(solution(scaled, X), solution(model, X), rtol=1e-6, atol=1e-9)


def test_new_users_are_scored_by_the_same_filter(X):
    model = TraceNormMF(0.1).fit(X)
    sigma, V = model.singular_values_, np.linalg.svd(X)[2][: model.n_components_].T
    new = np.eye(14)[:5] * 3
    expected = new @ (V * ((sigma - model.threshold_) / sigma)) @ V.T
    np.testing.assert_allclose(solution(model, new), expected, atol=1e-6)


def test_equal_items_are_each_others_nearest_and_untouched_ones_nobodys(X):
    X[:, 3], X[:, 6] = X[:, 8], 0
    model = TraceNormMF(0.05).fit(X)
    ids, scores = model.similar_items(3, k=1)
    assert ids[0] == 8
    assert scores[0] == pytest.approx(1.0)
    np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
    assert 6 not in model.similar_items(3, k=13).ids


def test_empty_rows_score_zero(X):
    ranking = TraceNormMF().fit(X).recommend(np.zeros(14), k=2, fallback=None)
    assert ranking.scores.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"penalty": 1.0}, r"'penalty' parameter of TraceNormMF must be .* \[0.001, 1\)"),
        ({"penalty": 0.0}, r"'penalty' parameter of TraceNormMF must be .* \[0.001, 1\)"),
        ({"max_components": 0}, "'max_components' parameter of TraceNormMF must be an int"),
        ({"solver": "guess"}, "'solver' parameter of TraceNormMF must be a str among"),
    ],
)
def test_bad_parameters_are_refused(X, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        TraceNormMF(**parameters).fit(X)

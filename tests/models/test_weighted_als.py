"""Weighted ALS against dense least squares and the truncated SVD."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise.exceptions import InvalidDataError, SolverError
from equipoise.models.peers import weighted_als
from equipoise.models.peers.weighted_als import Cells, contributions, factorize, solve_rows
from tests.recorded_progress import Recorded

RIDGE = 0.3


def random_cells(seed: int = 0, n: int = 13, m: int = 9, w0: float = 0.4) -> Cells:
    """Random values, some of them negative, with weights on both sides of w0."""
    rng = np.random.default_rng(seed)
    observed = rng.random((n, m)) < 0.4
    observed[2], observed[:, 3] = False, False  # a user without items, an item without users
    X = sp.csr_array(np.where(observed, rng.normal(1, 1, (n, m)), 0.0))
    return Cells.of(X, rng.uniform(0.0, 2.0, X.nnz), w0)


def dense(cells: Cells) -> tuple[np.ndarray, np.ndarray]:
    """Values and weights of every cell."""
    X = cells.targets
    W = np.full(X.shape, cells.unobserved_weight)
    W[np.repeat(np.arange(X.shape[0]), np.diff(X.indptr)), X.indices] = cells.weights
    return X.toarray(), W


def objective(cells: Cells, U: np.ndarray, V: np.ndarray, ridge: float = RIDGE) -> float:
    X, W = dense(cells)
    return float((W * (X - U @ V.T) ** 2).sum() + ridge * ((U**2).sum() + (V**2).sum()))


def dense_solution(cells: Cells, V: np.ndarray, ridge: float = RIDGE) -> np.ndarray:
    X, W = dense(cells)
    eye = ridge * np.eye(V.shape[1])
    return np.array(
        [np.linalg.solve((V.T * w) @ V + eye, V.T @ (w * x)) for x, w in zip(X, W, strict=True)]
    )


@pytest.mark.parametrize("w0", [0.0, 0.4, 3.0])
def test_a_half_step_equals_dense_weighted_least_squares(w0):
    cells = random_cells(w0=w0)
    V = np.random.default_rng(1).normal(size=(9, 4))
    found = solve_rows(cells, V, RIDGE)
    np.testing.assert_allclose(found.factors, dense_solution(cells, V), atol=1e-12)
    U = np.random.default_rng(2).normal(size=(13, 4))
    found = solve_rows(cells.transposed(), U, RIDGE)
    X, W = dense(cells)
    flipped = [
        np.linalg.solve((U.T * w) @ U + RIDGE * np.eye(4), U.T @ (w * x))
        for x, w in zip(X.T, W.T, strict=True)
    ]
    np.testing.assert_allclose(found.factors, flipped, atol=1e-12)


def test_what_a_half_step_explains_is_what_the_objective_loses():
    cells = random_cells()
    V = np.random.default_rng(1).normal(size=(9, 4))
    U, explained = solve_rows(cells, V, RIDGE)
    nothing = objective(cells, np.zeros_like(U), V)
    assert objective(cells, U, V) == pytest.approx(nothing - explained, rel=1e-12)


def test_rows_longer_than_a_gathered_block_are_summed_whole():
    m = 4 * weighted_als._GATHERED
    cells = random_cells(n=4, m=m)
    V = np.random.default_rng(1).normal(size=(m, 3))
    assert np.diff(cells.targets.indptr).max() > weighted_als._GATHERED
    found = solve_rows(cells, V, RIDGE)
    np.testing.assert_allclose(found.factors, dense_solution(cells, V), atol=1e-12)


@given(seed=st.integers(0, 50), w0=st.sampled_from([0.0, 0.1, 1.0, 5.0]), r=st.integers(1, 6))
def test_the_objective_never_rises_between_half_steps(seed, w0, r):
    cells, rng = random_cells(seed, w0=w0), np.random.default_rng(seed)
    found = factorize(cells, r, regularization=RIDGE, iterations=6, rng=rng)
    start = weighted_als.weighted_squares(cells)
    assert np.all(np.diff(found.objectives) <= 1e-12 * start)
    last = objective(cells, found.user_factors, found.item_factors)
    assert found.objectives[-1] == pytest.approx(last, rel=1e-9)


def test_with_equal_weights_and_hardly_any_ridge_the_optimum_is_the_truncated_svd():
    X = np.random.default_rng(0).random((15, 10))
    cells = Cells.of(sp.csr_array(X), np.ones(150), 1.0)
    rng = np.random.default_rng(0)
    found = factorize(cells, 3, regularization=1e-9, iterations=2000, tol=1e-14, rng=rng)
    left_out = np.linalg.svd(X, compute_uv=False)[3:]
    assert found.objectives[-1] == pytest.approx((left_out**2).sum(), rel=1e-6)


def test_with_equal_weights_the_ridge_thresholds_singular_values():
    # min over factors of λ(‖U‖² + ‖V‖²) is 2λ times the trace norm, so σ becomes (σ − λ)₊
    X = np.diag([4.0, 2.0, 0.5])
    cells = Cells.of(sp.csr_array(X), np.ones(3), 1.0)
    rng = np.random.default_rng(0)
    found = factorize(cells, 3, regularization=1.0, iterations=3000, rng=rng)
    fitted = found.user_factors @ found.item_factors.T
    np.testing.assert_allclose(fitted, np.diag([3.0, 1.0, 0.0]), atol=1e-3)


def test_scaling_weights_and_ridge_together_changes_nothing():
    cells, options = random_cells(), {"iterations": 4}
    scaled = cells._replace(weights=7 * cells.weights, unobserved_weight=7 * 0.4)
    one = factorize(cells, 3, regularization=RIDGE, rng=np.random.default_rng(0), **options)
    other = factorize(scaled, 3, regularization=7 * RIDGE, rng=np.random.default_rng(0), **options)
    np.testing.assert_allclose(one.item_factors, other.item_factors, atol=1e-10)


def test_the_fit_stops_when_the_objective_does():
    cells, seen = random_cells(), Recorded()
    found = factorize(
        cells,
        2,
        regularization=RIDGE,
        iterations=500,
        tol=1e-3,
        rng=np.random.default_rng(0),
        progress=seen,
    )
    iterations = len(found.objectives) // 2
    assert 2 <= iterations < 500
    assert seen.first["done"] == iterations
    assert seen.notes() == [f"objective {value:.6g}" for value in found.objectives[1::2]]
    drops = -np.diff(found.objectives[1::2]) / found.objectives[3::2]
    assert drops[-1] <= 1e-3
    assert np.all(drops[:-1] > 1e-3)


def test_same_seed_same_bits_and_another_seed_other_bits():
    options = {"regularization": 1.0, "iterations": 3}
    first, again, other = (
        factorize(random_cells(), 3, rng=np.random.default_rng(seed), **options).item_factors
        for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_number_of_threads_does_not_change_a_bit():
    cells, V = random_cells(n=60), np.random.default_rng(1).normal(size=(9, 4))
    first, *others = (
        solve_rows(cells, V, RIDGE, threads=threads, block_bytes=2_000) for threads in (1, 3, 64)
    )
    for other in others:
        np.testing.assert_array_equal(other.factors, first.factors)
        assert other.explained == first.explained


def test_contributions_sum_to_the_product_of_user_and_item():
    cells = random_cells()
    V = np.random.default_rng(1).normal(size=(9, 4))
    one = slice(cells.targets.indptr[5], cells.targets.indptr[6])
    row = cells._replace(targets=cells.targets[[5]], weights=cells.weights[one])
    [user] = solve_rows(row, V, RIDGE).factors
    for item in range(9):
        parts = contributions(row, V, RIDGE, item)
        assert parts.shape == (row.targets.nnz,)
        assert parts.sum() == pytest.approx(user @ V[item], abs=1e-12)


@pytest.mark.parametrize("values", [[[1.0, 0.0]], [[1.0, 1.0]], [[0.0, 3.0]]])
def test_singular_equations_are_said_to_be(values):
    V = np.array([[1.0, 1.0], [0.1, 0.1]])  # its Cholesky factor ends in 0, or in rounding
    cells = Cells.of(sp.csr_array(values), np.full(np.count_nonzero(values), 0.7), 0.0)
    with pytest.raises(SolverError, match=r"singular .* Raise regularization"):
        solve_rows(cells, V, 1e-300)


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_values_whose_squares_leave_floating_point_are_refused(scale):
    cells = random_cells()
    extreme = cells._replace(targets=cells.targets * scale)
    with pytest.raises(InvalidDataError, match=r"there is nothing to fit"):
        factorize(extreme, 2, regularization=1.0, iterations=2, rng=np.random.default_rng(0))


def test_read_only_arrays_are_taken():
    cells = random_cells()
    for part in (cells.targets.data, cells.targets.indices, cells.weights):
        part.flags.writeable = False
    V = np.random.default_rng(1).normal(size=(9, 4))
    V.flags.writeable = False
    found = solve_rows(cells, V, RIDGE)
    np.testing.assert_allclose(found.factors, dense_solution(cells, V), atol=1e-12)

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.spectral.gram import DenseGram, SparseGram
from equipoise.spectral.kernels import gram, user_ranges
from equipoise.spectral.weighted import WeightedGram


@pytest.fixture
def X() -> sp.csr_array:
    matrix = sp.random_array(
        (60, 25), density=0.2, random_state=np.random.default_rng(3), format="csr"
    )
    matrix.data *= 7
    return matrix


@pytest.fixture
def V() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((25, 5))


@pytest.fixture
def w() -> np.ndarray:
    return np.random.default_rng(5).random(25)


def grams(X: sp.csr_array) -> dict[str, SparseGram | DenseGram]:
    return {
        "scipy": SparseGram(X, compiled=False),
        "compiled": SparseGram(X, compiled=True),
        "dense": DenseGram.of(X),
    }


@pytest.mark.parametrize("kind", ["scipy", "compiled", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_equals_the_dense_gram_matrix_times_v(X, V, kind, dtype):
    answer = grams(X)[kind].product(V.astype(dtype))
    C = (X.T @ X).toarray()
    assert answer.dtype == dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(answer, C @ V / C.diagonal().max(), atol=tolerance)


@pytest.mark.parametrize("kind", ["scipy", "compiled", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_product_equals_half_dc_plus_cd(X, V, w, kind, dtype):
    answer = grams(X)[kind].weighted_product(w)(V.astype(dtype))
    C = (X.T @ X).toarray()
    M = (w[:, None] * C + C * w) / 2
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(answer, M @ V / C.diagonal().max(), atol=tolerance)


def test_weighted_operator_is_the_difference_of_two_gram_matrices(X, V, w):
    shifted, lowered = X.toarray() * (w + 1), X.toarray() * (w - 1)
    M = (shifted.T @ shifted - lowered.T @ lowered) / 4
    operator = WeightedGram(SparseGram(X, compiled=False), w)
    np.testing.assert_allclose(operator(V) * operator.scale, M @ V, atol=1e-11)


def test_equal_weights_take_the_one_product_form(X, V):
    operator = WeightedGram(SparseGram(X, compiled=True), np.full(25, 3.0))
    C = (X.T @ X).toarray()
    np.testing.assert_allclose(operator(V) * operator.scale, 3 * C @ V, rtol=1e-10, atol=1e-10)


def test_operator_counts_sweeps_and_columns(X, V, w):
    operator = WeightedGram(SparseGram(X), w)
    operator(V)
    operator(V[:, :2])
    assert (operator.sweeps, operator.columns) == (2, 7)


def test_compiled_gram_matrix_equals_scipys(X):
    np.testing.assert_allclose(gram(X), (X.T @ X).toarray(), rtol=1e-12)


@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_compiled_sweep_takes_both_index_widths(X, V, w, index):
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = X.indices.astype(index), X.indptr.astype(index)
    assert wide.indices.dtype == index
    expected = SparseGram(X, compiled=False).weighted_product(w)(V)
    np.testing.assert_allclose(SparseGram(wide, compiled=True).weighted_product(w)(V), expected)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_units_of_the_data_do_not_reach_the_products(X, V, w, factor):
    scaled = sp.csr_array((X.data * factor, X.indices, X.indptr), shape=X.shape)
    for kind in ("scipy", "compiled", "dense"):
        expected = grams(X)[kind].weighted_product(w)(V.astype(np.float32))
        answer = grams(scaled)[kind].weighted_product(w)(V.astype(np.float32))
        np.testing.assert_allclose(answer, expected, atol=1e-5)


def test_users_are_cut_into_ranges_that_cover_all_and_share_the_entries():
    indptr = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 50, 400))])
    ranges = user_ranges(indptr, 4)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 400
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    shares = [indptr[stop] - indptr[start] for start, stop in ranges]
    assert max(shares) - min(shares) <= 100


def test_fewer_users_than_threads_are_still_all_read():
    X = sp.csr_array(np.array([[1.0, 2.0]]))
    answer = SparseGram(X, compiled=True).product(np.eye(2))
    np.testing.assert_allclose(answer * 4, [[1, 2], [2, 4]])

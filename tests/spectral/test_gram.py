from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.spectral.gram import DenseGram, SparseGram, gram_matrix
from equipoise.spectral.kernels import user_ranges
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
        "scipy": SparseGram(X, parallel=False),
        "parallel": SparseGram(X, parallel=True),
        "dense": DenseGram.of(X),
    }


@pytest.mark.parametrize("kind", ["scipy", "parallel", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_product_equals_the_dense_gram_matrix_times_v(X, V, kind, dtype):
    answer = grams(X)[kind].product(V.astype(dtype))
    C = (X.T @ X).toarray()
    assert answer.dtype == dtype
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(answer, C @ V / C.diagonal().max(), atol=tolerance)


@pytest.mark.parametrize("kind", ["scipy", "parallel", "dense"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weighted_product_equals_half_dc_plus_cd(X, V, w, kind, dtype):
    answer = grams(X)[kind].weighted_product(w)(V.astype(dtype))
    C = (X.T @ X).toarray()
    M = (w[:, None] * C + C * w) / 2
    tolerance = 1e-5 if dtype == np.float32 else 1e-13
    np.testing.assert_allclose(answer, M @ V / C.diagonal().max(), atol=tolerance)


def test_equal_weights_give_a_multiple_of_the_gram_matrix(X, V):
    operator = WeightedGram(SparseGram(X, parallel=True), np.full(25, 3.0))
    C = (X.T @ X).toarray()
    np.testing.assert_allclose(operator(V) * operator.scale, 3 * C @ V, rtol=1e-10, atol=1e-10)


def test_operator_counts_passes_and_columns(X, V, w):
    operator = WeightedGram(SparseGram(X), w)
    operator(V)
    operator(V[:, :2])
    assert (operator.passes, operator.columns) == (2, 7)


@pytest.mark.parametrize("method", ["blas", "scipy", "parallel", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_gram_matrix_equals_the_dense_product(X, method, dtype):
    X = X.astype(dtype)
    dense = X.toarray().astype(np.float64)
    np.testing.assert_allclose(gram_matrix(X, method), dense.T @ dense, rtol=1e-12)


def test_users_are_cut_into_ranges_that_cover_all_and_share_the_entries():
    indptr = np.concatenate([[0], np.cumsum(np.random.default_rng(0).integers(0, 50, 400))])
    ranges = user_ranges(indptr, 4)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == 400
    assert all(a[1] == b[0] for a, b in pairwise(ranges))
    shares = [indptr[stop] - indptr[start] for start, stop in ranges]
    assert max(shares) - min(shares) <= 100


def test_ranges_of_users_are_even_beyond_two_to_the_31():
    """Eight users of 2^30 entries each: only the row pointers exist."""
    indptr = np.arange(9, dtype=np.int64) * 2**30
    assert user_ranges(indptr, 2) == [(0, 4), (4, 8)]
    assert user_ranges(indptr, 4) == [(0, 2), (2, 4), (4, 6), (6, 8)]

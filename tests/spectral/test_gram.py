from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.spectral.gram import DenseGram, SparseGram, WeightedGram, gram_matrix
from equipoise.spectral.kernels import gram_product, user_ranges
from equipoise.spectral.norms import column_sums


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


@pytest.mark.parametrize("width", [1, 2, 3, 7, 8, 16, 31, 32, 67])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_parallel_loop_is_exact_on_whole_numbers_for_any_width(width, weighted):
    """Sums of small whole numbers are exact in float32, in any order."""
    rng = np.random.default_rng(width)
    dense = rng.integers(0, 4, (40, 12)) * (rng.random((40, 12)) < 0.4)
    X = sp.csr_array(dense.astype(np.float64))
    V, w = rng.integers(-3, 4, (12, width)), rng.integers(0, 3, 12) * 2
    C = dense.T @ dense
    want = (w[:, None] * (C @ V) + C @ (w[:, None] * V)) / 2 if weighted else C @ V
    for dtype in (np.float32, np.float64):
        weights = w.astype(dtype) if weighted else None
        for threads in (1, 3):
            got = gram_product(X, V.astype(dtype), weights, threads=threads)
            assert got.dtype == dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_row_weights_of_the_parallel_loop_may_be_negative(X, V, dtype):
    d = np.random.default_rng(6).standard_normal(60)
    want = X.T @ (d[:, None] * (X @ V))
    got = gram_product(X, V.astype(dtype), row_weights=d)
    np.testing.assert_allclose(got, want, rtol=0, atol=(1e-3 if dtype == np.float32 else 1e-12))


@pytest.mark.parametrize("value", [1.0, 0.3, 1e-100, 3e100])
def test_equal_values_are_not_read_and_give_the_same_products(X, V, w, value):
    X.data[:] = value
    equal, other = SparseGram(X, parallel=True), SparseGram(X, parallel=False)
    other.rows = sp.csr_array((np.ones_like(X.data), X.indices, X.indptr), shape=X.shape)
    other._unit = float(np.bincount(X.indices).max())  # the same products, of X / value
    assert equal._equal_values
    for dtype, tolerance in ((np.float32, 1e-5), (np.float64, 1e-13)):
        got = equal.weighted_product(w)(V.astype(dtype))
        np.testing.assert_allclose(got, other.weighted_product(w)(V), atol=tolerance)


def test_arrays_in_another_order_of_bytes_or_memory_are_read_alike(X, V):
    swapped = sp.csr_array((X.data.astype(">f8"), X.indices, X.indptr), shape=X.shape)
    strided = np.asfortranarray(V)
    np.testing.assert_array_equal(gram_product(swapped, strided), gram_product(X, V))


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


@pytest.mark.parametrize("indices", ["int16", "int32", "int64", ">i4"])
@pytest.mark.parametrize("values", ["bool", "uint8", "int64", "float32", ">f8"])
def test_products_accept_all_types_of_indices_and_values(indices, values):
    X = sp.random_array((60, 20), density=0.3, format="csr", random_state=np.random.default_rng(0))
    X.data = np.ceil(4 * X.data)
    V = np.random.default_rng(1).standard_normal((20, 5))
    dense = X.toarray()
    if values == "bool":
        dense = (dense > 0) * 1.0
    X.data = X.data.astype(values)
    X.indices = X.indices.astype(indices)
    for columns in (V, V.astype(">f8"), np.asfortranarray(V)):
        found = gram_product(X, columns)
        np.testing.assert_allclose(found, dense.T @ dense @ V, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("n_items", [2**16, 2**16 + 1])
def test_the_largest_indices_of_two_bytes_are_read(n_items):
    items = np.array([0, n_items - 1, 2**15, n_items - 1], np.int64)
    X = sp.csr_array((np.ones(4), items, np.array([0, 2, 4])), shape=(2, n_items))
    V = np.random.default_rng(2).standard_normal((n_items, 3))
    gram = SparseGram(X, parallel=True)
    np.testing.assert_allclose(gram.product(V), X.T @ (X @ V) / 2)
    assert gram.X.indices.dtype == np.int64


@pytest.mark.parametrize("power", [0, 1, 2])
def test_sums_of_columns_in_pieces_are_those_of_the_dense_matrix(power):
    rng = np.random.default_rng(0)
    dense = rng.random((600, 1_000)) * (rng.random((600, 1_000)) < 0.5)
    X = sp.csr_array(dense)
    assert X.nnz > 2**18  # more than one piece
    expected = ((dense != 0) * dense**power).sum(axis=0)
    np.testing.assert_allclose(column_sums(X, power), expected, rtol=1e-13)

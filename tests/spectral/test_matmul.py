"""Matrix products in threads equal those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidParameterError
from equipoise.parallel import thread_count
from equipoise.spectral import kernels, matmul

# 2.4e7 multiply-adds per product: more than the number from which rows are divided among threads
ROWS, COLUMNS = 300_001, 9


@pytest.fixture(params=[1, 3], ids="threads={}".format)
def _threads(request, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(request.param))


@pytest.fixture(params=["C", "F"], scope="module")
def basis(request):
    rng = np.random.default_rng(3)
    return np.asarray(rng.standard_normal((ROWS, COLUMNS + 2)), order=request.param)[:, :COLUMNS]


@pytest.fixture(scope="module")
def other() -> np.ndarray:
    return np.random.default_rng(4).standard_normal((ROWS, COLUMNS))


@pytest.fixture
def square() -> np.ndarray:
    return np.random.default_rng(5).standard_normal((COLUMNS, COLUMNS))


@pytest.mark.usefixtures("_threads")
class TestProductsInThreads:
    def test_inner_is_the_transposed_product(self, basis, other):
        product = matmul.inner(basis, other)
        np.testing.assert_allclose(product, basis.T @ other, atol=1e-9)
        assert product.tobytes() == matmul.inner(basis, other).tobytes()

    def test_times_keeps_the_dtype_of_the_first_matrix(self, basis, square):
        product = matmul.times(basis.astype(np.float32), square)
        assert product.dtype == np.float32
        np.testing.assert_allclose(product, basis @ square, atol=1e-4)

    def test_subtract_works_in_place(self, basis, other, square):
        found = other.copy()
        matmul.subtract(found, basis, square)
        np.testing.assert_allclose(found, other - basis @ square, atol=1e-12)

    def test_ritz_vectors_replace_the_basis_and_have_its_residuals(self, basis, other, square):
        vectors, values = other.copy(), np.arange(float(COLUMNS))
        norms = matmul.ritz_vectors(vectors, basis, square, values)
        np.testing.assert_allclose(vectors, other @ square, atol=1e-12)
        expected = np.linalg.norm(basis @ square - other @ square * values, axis=0)
        np.testing.assert_allclose(norms, expected)


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("width", [8, 16, 32])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_with_narrow_blocks_are_those_of_numpy(width, dtype):
    """Sums of small whole numbers are exact in float32, in any order."""
    rng = np.random.default_rng(width)
    basis = np.asfortranarray(rng.integers(-2, 3, (40_003, 80)).astype(dtype))[:, :79]
    block, coefficients = (rng.integers(-2, 3, (n, width)).astype(dtype) for n in (40_003, 79))
    np.testing.assert_array_equal(matmul.inner(basis, block), basis.T @ block)
    expected = block - basis @ coefficients
    matmul.subtract(block, basis, coefficients)
    np.testing.assert_array_equal(block, expected)


def test_long_sums_in_float32_keep_their_digits():
    """One running sum would lose four of seven digits here."""
    basis, block = np.full((400_000, 10), 0.1, np.float32, order="F"), np.ones((400_000, 8))
    product = matmul.inner(basis, block.astype(np.float32))
    np.testing.assert_allclose(product, 40_000, rtol=1e-5)


def test_the_number_of_threads_is_that_of_numba(monkeypatch):
    import numba

    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert thread_count() == numba.config.NUMBA_DEFAULT_NUM_THREADS
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert thread_count() == 3


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5"])
def test_an_invalid_number_of_threads_is_refused(asked, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", asked)
    with pytest.raises(InvalidParameterError, match="NUMBA_NUM_THREADS"):
        thread_count()


@pytest.mark.parametrize("shape", [(1, 1), (7, 3), (1000, 16)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_arrays_that_the_loops_read_begin_at_a_cache_line(shape, dtype):
    assert matmul.aligned_empty(shape, dtype).ctypes.data % 64 == 0
    A = np.asfortranarray(np.arange(np.prod(shape), dtype=dtype).reshape(shape))
    moved = matmul.aligned(A)
    assert moved.ctypes.data % 64 == 0
    assert moved.flags.c_contiguous
    np.testing.assert_array_equal(moved, A)
    assert matmul.aligned(moved) is moved


def test_an_array_between_cache_lines_gives_the_same_product():
    X = sp.csr_array(np.maximum(np.random.default_rng(0).random((300, 200)) - 0.8, 0.0))
    room = np.zeros(200 * 16 + 1, np.float32)
    V = room[1:].reshape(200, 16)
    V[:] = np.random.default_rng(6).standard_normal((200, 16))
    np.testing.assert_array_equal(
        kernels.gram_product(X, V), kernels.gram_product(X, matmul.aligned(V.copy()))
    )


def test_columns_written_in_pieces_equal_a_plain_copy():
    block = np.random.default_rng(7).standard_normal((1_300, 5))
    Q, expected = (np.zeros((1_300, 9), order="F") for _ in range(2))
    matmul.write_columns(Q, 2, block)
    expected[:, 2:7] = block
    np.testing.assert_array_equal(Q, expected)

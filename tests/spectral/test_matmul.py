"""Matrix products in threads equal those of NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.exceptions import InvalidParameterError
from equipoise.parallel import thread_count
from equipoise.spectral import matmul

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

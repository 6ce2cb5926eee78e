"""Products of tall matrices are NumPy's, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.exceptions import InvalidParameterError
from equipoise.parallel import thread_count
from equipoise.spectral import tall


@pytest.fixture(params=[1, 2, 3], ids="threads={}".format)
def _threads(request, monkeypatch):
    monkeypatch.setattr(tall, "_THREADS_FROM", 0.0)
    monkeypatch.setenv("NUMBA_NUM_THREADS", str(request.param))


@pytest.fixture(params=["C", "F"])
def basis(request):
    rng = np.random.default_rng(3)
    return np.asarray(rng.standard_normal((103, 12)), order=request.param)[:, :7]


@pytest.mark.usefixtures("_threads")
class TestTallProducts:
    def test_inner_is_the_transposed_product(self, basis):
        other = np.random.default_rng(4).standard_normal((103, 5))
        np.testing.assert_allclose(tall.inner(basis, other), basis.T @ other, atol=1e-12)

    def test_times_keeps_the_precision_of_the_tall_matrix(self, basis):
        S = np.random.default_rng(5).standard_normal((7, 4))
        product = tall.times(basis.astype(np.float32), S)
        assert product.dtype == np.float32
        np.testing.assert_allclose(product, basis @ S, atol=1e-5)

    def test_subtract_works_in_place(self, basis):
        rng = np.random.default_rng(6)
        W, S = rng.standard_normal((103, 4)), rng.standard_normal((7, 4))
        expected = W - basis @ S
        tall.subtract(W, basis, S)
        np.testing.assert_allclose(W, expected, atol=1e-12)

    def test_residual_norms_are_those_of_the_columns(self, basis):
        rng = np.random.default_rng(7)
        Z, U, values = rng.standard_normal((7, 3)), rng.standard_normal((103, 3)), np.arange(3.0)
        expected = np.linalg.norm(basis @ Z - U * values, axis=0)
        np.testing.assert_allclose(tall.residual_norms(basis, Z, U, values), expected)

    def test_the_same_threads_give_the_same_bits(self, basis):
        assert tall.inner(basis, basis).tobytes() == tall.inner(basis, basis).tobytes()

    def test_fewer_rows_than_threads_are_no_problem(self):
        one = np.ones((1, 2))
        np.testing.assert_array_equal(tall.inner(one, one), np.ones((2, 2)))


def test_the_number_of_threads_is_numbas(monkeypatch):
    import numba

    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    assert thread_count() == numba.config.NUMBA_DEFAULT_NUM_THREADS
    monkeypatch.setenv("NUMBA_NUM_THREADS", "3")
    assert thread_count() == 3


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5"])
def test_a_number_of_threads_that_is_none_is_refused(asked, monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", asked)
    with pytest.raises(InvalidParameterError, match="NUMBA_NUM_THREADS must be a whole number"):
        thread_count()

"""Calls of LAPACK that let other threads run: the bits of SciPy's own functions."""

import numpy as np
import pytest
import scipy.linalg as sl

from equipoise.spectral.lapack import call_lapack, largest_eigenpairs


def symmetric(size):
    A = np.random.default_rng(size).standard_normal((size, size))
    return A + A.T


@pytest.mark.parametrize(("size", "count"), [(1, 1), (7, 2), (350, 300)])
def test_many_of_the_eigenpairs_have_the_bits_of_scipy(size, count):
    A = symmetric(size)
    values, vectors = largest_eigenpairs(A, count)
    expected, basis = sl.eigh(A, driver="evd")
    np.testing.assert_array_equal(values, expected[::-1][:count])
    np.testing.assert_array_equal(vectors, basis[:, ::-1][:, :count])


@pytest.mark.parametrize("overwrite", [False, True])
def test_few_of_the_eigenpairs_have_the_bits_of_scipy(overwrite):
    A, count = symmetric(350), 50
    expected, basis = sl.eigh(A.T, subset_by_index=[300, 349], driver="evr")
    given = A.copy()
    values, vectors = largest_eigenpairs(given, count, overwrite=overwrite)
    np.testing.assert_array_equal(values, expected[::-1])
    np.testing.assert_array_equal(vectors, basis[:, ::-1])
    np.testing.assert_array_equal(np.tril(given), np.tril(A))
    assert np.array_equal(given, A) is not overwrite


def test_a_failure_of_lapack_is_returned():
    not_positive = np.diag([1.0, 2.0, -1.0])
    assert call_lapack("dpotrf", b"L", 3, not_positive, 3) == 3


def test_eigenvectors_that_are_not_found_are_an_error():
    A = symmetric(8)
    A[3, 3] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="dsyevd"):
        largest_eigenpairs(A, 8)

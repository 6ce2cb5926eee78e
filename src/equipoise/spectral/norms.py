"""Norms of the columns of a sparse matrix, as data, models and metrics use them."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.spectral.matmul import Floats

# A sum of squares below this may contain subnormal numbers, which have fewer digits.
_FULL_PRECISION = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)


# Entries that are added up at once: `bincount` copies indices and values to eight bytes each, which
# for all entries would take more memory than the data.
_AT_ONCE = 2**18


def column_sums(X: sp.csr_array, power: int) -> Floats:
    """Σ_i X_ij^power of the stored entries, for every column j, in float64.

    Parameters
    ----------
    X : csr_array of shape (n, m)
        The data.
    power : {0, 1, 2}
        0 counts the entries.

    Examples
    --------
    >>> column_sums(sp.csr_array([[3.0, 0.0], [4.0, 0.0]]), 2).tolist()
    [25.0, 0.0]
    """
    sums = np.zeros(X.shape[1])
    step = max(_AT_ONCE, X.shape[1])  # each step also adds up m sums
    for start in range(0, X.nnz, step):
        some = slice(start, start + step)
        values = X.data[some]
        if power == 2:
            values = np.square(values, dtype=np.float64)
        sums += np.bincount(X.indices[some], values if power else None, X.shape[1])
    return sums


def squared_column_norms(X: sp.csr_array) -> Floats:
    """‖X_·j‖² for every column j, accumulated in float64; inf or 0 outside its range."""
    with np.errstate(over="ignore", under="ignore"):
        return column_sums(X, 2)


def column_norms(X: sp.csr_array) -> Floats:
    """‖X_·j‖₂ for every column j, also where the square is outside the range of float64.

    Examples
    --------
    >>> (column_norms(sp.csr_array([[3e200, 3e-200], [4e200, 4e-200]])) / [5e200, 5e-200]).round(12)
    array([1., 1.])
    """
    squares = squared_column_norms(X)
    norms: Floats = np.sqrt(squares)
    inexact = squares_are_inexact(squares)
    if inexact.any():
        norms[inexact] = _rescaled_norms(X, inexact)[inexact]
    return norms


def squares_are_inexact(squares: Floats) -> NDArray[np.bool_]:
    """Return where a sum of squares has overflowed or lost digits; also true for empty columns."""
    return ~(squares >= _FULL_PRECISION) | np.isinf(squares)


def _rescaled_norms(X: sp.csr_array, columns: NDArray[np.bool_]) -> Floats:
    """Norms of some columns, each computed in units of a power of two near its largest value."""
    there = columns[X.indices]
    indices, values = X.indices[there], np.abs(X.data[there].astype(np.float64))
    largest = np.zeros(X.shape[1])
    np.maximum.at(largest, indices, values)
    _, exponents = np.frexp(largest)
    with np.errstate(under="ignore"):  # a value that vanishes here does not change the norm
        squares = np.square(np.ldexp(values, -exponents[indices]))
    return np.ldexp(np.sqrt(np.bincount(indices, squares, X.shape[1])), exponents)

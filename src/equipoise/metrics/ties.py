"""When two scores are equal: one rule for AUC, precision and top-N lists.

A score is a sum of products. Where the exact sum is zero, or equals that of another user or
item, the computed one differs by rounding, and a comparison would rank that difference. So
every ranking compares settled scores:

    settle(s) = 0                          if |s| ≤ limit
                s to b significant bits    otherwise

where the limit is a share of the size of the terms of the sum: of ‖x_i‖ for the score x_i P_·j
of a user with the row x_i. Settling keeps the order of scores that differ by more. It does not
merge everything that rounding separates: equal sums that are near zero, but not zero, may still
differ in the bits that count, and so may two on both sides of a rounding boundary.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.metrics.results import FloatArray, IntArray

# Bits of a score that count, and the share 2^-bits of its terms below which it is zero.
#
# float64: the error of computed components and of the scores is 10 eps for well separated
# eigenvalues and grows with λ_1 / gap. 2^-39 (2e-12) leaves a factor of 8192 eps for it.
# float32: components are computed in float64 and rounded once, so errors stay below a few eps.
# 2^-19 (2e-6) leaves 16 eps; more would merge scores that differ.
_BITS = {np.dtype(np.float64): 39, np.dtype(np.float32): 19}


def significant_bits(dtype: Any) -> int:
    """Return the bits of a score that count, for the precision of the numbers it comes from."""
    return _BITS[np.dtype(np.float32 if np.dtype(dtype) in (np.float32, np.float16) else float)]


def smallest_share(dtype: Any) -> float:
    """Return the share of the size of its terms from which on a score is not zero."""
    return float(2.0 ** -significant_bits(dtype))


def splitter(bits: int, dtype: Any) -> Any:
    """Return the factor by which `settle` keeps so many bits of a number of this type."""
    return np.dtype(dtype).type(2.0 ** (np.finfo(dtype).nmant + 1 - bits) + 1)


def settle(score: Any, limit: Any, factor: Any) -> Any:
    """Return the score that is compared. Scalars only: this is what the compiled loops call.

    Dekker's splitting rounds to nearest and never changes the order of two numbers. A factor
    of 1 and a limit of -1 leave every score unchanged.
    """
    if abs(score) <= limit:
        return score - score  # 0 of the same type
    scaled = score * factor
    rounded = scaled - (scaled - score)
    return rounded if rounded - rounded == 0 else score  # too large to be scaled


def settled(scores: NDArray[Any], limits: Any, factor: Any) -> NDArray[Any]:
    """Return `settle` of every score; the limits are broadcast.

    Examples
    --------
    >>> scores = np.array([0.1 + 0.2, 0.3, 1e-17, -0.0])
    >>> found = settled(scores, 1e-12, splitter(39, float))
    >>> bool(found[0] == found[1]), found[2:].tolist()
    (True, [0.0, 0.0])
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = scores * factor
        rounded = scaled - (scaled - scores)
    rounded = np.where(np.isfinite(rounded), rounded, scores)
    return np.where(np.abs(scores) <= limits, scores.dtype.type(0), rounded)


# Squares of values within these powers of ten neither overflow nor vanish, even summed up.
_SMALLEST_SQUARED, _LARGEST_SQUARED = 1e-140, 1e140


def row_norms(X: sp.csr_array) -> FloatArray:
    """Return ‖x_i‖ of every row: the size of the terms of its scores, up to the model's."""
    norms = np.zeros(X.shape[0])
    if X.nnz == 0:
        return norms
    largest = float(max(X.data.max(), -X.data.min()))
    scale = 1.0 if _SMALLEST_SQUARED < largest < _LARGEST_SQUARED else largest or 1.0
    values = X.data if scale == 1.0 else X.data / scale
    filled = np.diff(X.indptr) > 0
    squares = np.add.reduceat(np.square(values, dtype=np.float64), X.indptr[:-1][filled])
    norms[filled] = scale * np.sqrt(squares)
    return norms


def factor_limits(right: FloatArray, ranks: IntArray, dtype: Any) -> FloatArray:
    """Return limit / ‖x_i‖ of every item at every rank, for P = U diag(f) Uᵀ.

    An entry of U that was stored as float32 is rounded relative to itself, so the error follows
    the length of the item's row. The error of the solver does not: it is relative to the
    largest f, whichever the item.
    """
    lengths = np.zeros((right.shape[1] + 1, len(right)))
    np.cumsum(np.square(right).T, axis=0, out=lengths[1:])
    largest = np.sqrt(np.square(right).sum(axis=0).max(initial=0.0))
    stored = smallest_share(dtype) * np.sqrt(lengths[ranks])
    return np.maximum(stored, smallest_share(np.float64) * largest)


def user_limits(norms: FloatArray, coordinates: NDArray[Any], weights: Any) -> NDArray[Any]:
    """Return the limit of every user, for scores E diag(f) Uᵀ computed in the precision of E.

    The two errors of `factor_limits`, seen from a user: one is relative to ‖E_i‖, the other to
    ‖x_i‖.
    """
    largest = float(np.abs(weights).max(initial=0.0))
    with np.errstate(over="ignore"):
        lengths = np.linalg.norm(coordinates, axis=1)
        dtype = coordinates.dtype
        limits = np.maximum(smallest_share(dtype) * lengths, smallest_share(float) * norms)
        limits = (limits * largest).astype(dtype)
    # scores beyond the largest number are refused when they are ranked
    return np.asarray(np.where(np.isfinite(limits), limits, dtype.type(0)))

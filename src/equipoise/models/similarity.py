"""Items that point the same way: cosines between their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.metrics._ties import smallest_share


def cosines_to(item: int, vectors: NDArray[Any]) -> NDArray[Any]:
    """Cosine of every item to one; −inf where either has no vector.

    Parameters
    ----------
    item : int
        Row of the item.
    vectors : ndarray of shape (n_items, r)
        One a row.

    Examples
    --------
    >>> cosines_to(0, np.array([[3.0, 4.0], [4.0, 3.0], [0.0, 0.0]])).tolist()
    [1.0, 0.96, -inf]
    """
    norms = np.linalg.norm(vectors, axis=1)
    present = is_present(norms)
    known = present & present[item]
    divisors = np.where(known, norms * norms[item], 1.0)
    cosines: NDArray[Any] = np.where(known, vectors @ vectors[item] / divisors, -np.inf)
    return cosines


def is_present(norms: NDArray[Any]) -> NDArray[np.bool_]:
    """Tell which items have a vector; a shorter one is rounding, of the solver or of storage.

    Examples
    --------
    >>> is_present(np.array([1.0, 1e-9, 5e-16])).tolist()
    [True, True, False]
    """
    least = max(float(np.finfo(norms.dtype).eps), smallest_share(np.float64))
    return np.asarray(norms > least * norms.max(initial=0))

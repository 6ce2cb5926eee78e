"""Items that point the same way: cosines between their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


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
    # a row this short is rounding: the item takes part in no component
    present = norms > np.finfo(norms.dtype).eps * norms.max(initial=0)
    known = present & present[item]
    divisors = np.where(known, norms * norms[item], 1.0)
    cosines: NDArray[Any] = np.where(known, vectors @ vectors[item] / divisors, -np.inf)
    return cosines

"""Scores at every size of a low-rank model, each from the one before.

Import this module before threads start: SciPy's BLAS must be loaded when its threads are limited.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_blas_funcs


def growing_scores(
    coordinates: NDArray[Any], components: NDArray[Any], sizes: Sequence[int]
) -> Iterator[NDArray[Any]]:
    """Yield E[:, :r] U[:r] for ascending sizes r, in one array that grows from each to the next.

    Where there are fewer components than r, all of them count.

    Examples
    --------
    >>> E, U = np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> [scores.tolist() for scores in growing_scores(E, U, [1, 2])]
    [[[1.0, 0.0]], [[1.0, 2.0]]]
    """
    scores = np.zeros((len(coordinates), components.shape[1]), coordinates.dtype)
    add_product = get_blas_funcs("gemm", dtype=scores.dtype)  # NumPy's has no sum
    for low, high in pairwise([0, *sizes]):
        # BLAS refuses an empty matrix
        if low < len(components) and high > low and scores.size:
            sides = components[low:high].T, coordinates[:, low:high].T
            scores = add_product(1.0, *sides, 1.0, scores.T, overwrite_c=True).T
        yield scores

"""Intervals of numbers that are not means over items: specialization, and how item vectors lie.

Items are drawn with replacement, and the number is computed again for each draw. An interval is the
number ± 1.96 standard deviations over the draws.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import Floats
from equipoise.metrics import specialization
from equipoise.metrics.intervals import Interval

# Of so many draws, the error of a standard deviation is about 7 %.
DRAWS = 100

# Entries drawn at a time: 32 MB.
_AT_ONCE = 2**22

# Shorter directions are rounding: squares of singular values, relative to the largest.
_NOTHING_BELOW = 1e-14


def specialization_interval(diagonal: Floats, seed: int) -> Interval:
    """Return the specialization of self-reconstructions with its interval.

    Examples
    --------
    >>> specialization_interval(np.full(50, 0.25), seed=0).high
    0.25
    """
    n, rng = len(diagonal), np.random.default_rng([seed, 7])
    rows = max(1, _AT_ONCE // n)
    found = [
        np.atleast_1d(specialization(diagonal[rng.integers(n, size=(min(rows, DRAWS - at), n))]))
        for at in range(0, DRAWS, rows)
    ]
    return _around(float(specialization(diagonal)), np.concatenate(found), n)


def vector_intervals(V: Floats, popularity: Floats, seed: int) -> dict[str, Interval]:
    """Return the four numbers of item vectors with their intervals; nothing without two items.

    A draw is a count of each item. All four numbers follow from VᵀV and sums, weighted by counts:
    see `equipoise.metrics.embeddings` for the definitions.

    Parameters
    ----------
    V : ndarray of shape (n_items, r)
        Item vectors.
    popularity : ndarray of shape (n_items,)
        Number of users of each item.
    seed : int
        Same seed, same intervals.
    """
    n, rng = len(V), np.random.default_rng([seed, 8])
    if n < 2:
        return {}
    counts = [np.bincount(rng.integers(n, size=n), minlength=n) for _ in range(DRAWS)]
    point, *drawn = (_numbers(V, popularity, count) for count in (np.ones(n, dtype=int), *counts))
    return {
        name: _around(value, np.array([each[name] for each in drawn]), n)
        for name, value in point.items()
    }


@np.errstate(divide="ignore", invalid="ignore")  # draws without any vector have no numbers
def _numbers(V: Floats, popularity: Floats, count: NDArray[np.int_]) -> dict[str, float]:
    squares, directions = np.linalg.eigh((V * count[:, None]).T @ V)
    along, lengths = V @ directions[:, -1], np.einsum("ij,ij->i", V, V)
    cosine = (count @ (along * popularity)) / np.sqrt((count @ along**2) * (count @ popularity**2))
    known = lengths > 0
    c, unit = count[known], V[known] / np.sqrt(lengths[known])[:, None]
    total, twice = c @ unit, c @ c
    sigma = np.sqrt(squares[squares > _NOTHING_BELOW * squares[-1]])
    q = sigma / sigma.sum()
    return {
        "popularity_cosine": float(abs(cosine)),
        "popularity_share": float(c @ (along[known] ** 2 / lengths[known]) / c.sum()),
        "effective_rank": float(np.exp(-(q @ np.log(q)))),
        # pairs of an item with itself, also if it is drawn twice, are left out
        "anisotropy": float((total @ total - twice) / (c.sum() ** 2 - twice)),
    }


def _around(value: float, drawn: Floats, n: int) -> Interval:
    spread = 1.96 * float(np.nanstd(drawn, ddof=1))
    return Interval(value, value - spread, value + spread, 0.95, n)

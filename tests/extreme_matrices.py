"""Matrices with extreme values or shapes, and their eigenvalues by LAPACK.

The oracle cannot overflow: X is divided by a power of two near its largest value, and weights by
their largest. The factors are kept as logarithms.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def counts(n_users: int = 60, n_items: int = 25, seed: int = 0) -> Floats:
    """Small counts; two of three cells are empty, and every item has a user."""
    rng = np.random.default_rng(seed)
    X = np.where(rng.random((n_users, n_items)) < 0.3, rng.integers(1, 6, (n_users, n_items)), 0)
    X[0] = 1
    return X.astype(np.float64)


def low_rank(rank: int) -> Floats:
    """40 users × 20 items of exactly that rank."""
    rng = np.random.default_rng(rank)
    return (rng.integers(1, 4, (40, rank)) @ rng.integers(0, 3, (rank, 20))).astype(np.float64)


def one_column_times(factor: float) -> Floats:
    X = counts()
    X[:, 3] *= factor
    return X


FITTED: dict[str, Floats] = {
    "times 1e-30": counts() * 1e-30,
    "times 1e30": counts() * 1e30,
    "times 1e-150": counts() * 1e-150,
    "times 1e150": counts() * 1e150,
    "subnormal entries among others": np.where(counts(seed=1) > 2, counts(), counts() * 1e-310),
    "counts up to 2^53": np.where(counts() > 3, 2.0**53 - counts(), counts()),
    "2^53 everywhere": np.where(counts() > 0, 2.0**53, 0.0),
    "squares beyond float32": counts() * 1e25,
    "one user": counts(1, 20),
    "one item": counts(20, 1),
    "one entry": np.array([[3.0]]),
    "equal columns": np.repeat(counts(40, 1), 12, axis=1),
    "ties at the cut": np.kron(np.eye(8), np.ones((3, 2))),
    "identity": np.eye(30),
    "rank 2": low_rank(2),
    "rank 5": low_rank(5),
    "popularity ratio 1e8": counts() * np.logspace(0, 8, 25),
    "one column times 1e-20": one_column_times(1e-20),
    "one column times 1e-100": one_column_times(1e-100),
    "one column times 1e100": one_column_times(1e100),
}
IN_FLOAT32: dict[str, Floats] = {
    "times 1e-30": counts() * 1e-30,
    "times 1e30": counts() * 1e30,
    "subnormal in float32": counts() * 1e-42,
    "near the largest float32": counts() * 5e37,
    "popularity ratio 1e8": counts() * np.logspace(0, 8, 25),
    "one column times 1e-30": one_column_times(1e-30),
}
REFUSED: dict[str, tuple[Floats, str]] = {
    "times 1e-160": (counts() * 1e-160, "5e-160 have squares beyond"),
    "subnormal": (counts() * 1e-320, "5e-320 have squares beyond"),
    "times 1e160": (counts() * 1e160, r"5e\+160 have squares beyond"),
    "one column times 1e-200": (
        one_column_times(1e-200),
        "column 3.* squares vanish",
    ),
}


class Answer(NamedTuple):
    """Eigenvalues of M in units of the largest weight and of `unit`², and M itself."""

    values: Floats
    M: Floats
    log_unit: float


def answer(X: Floats, gamma: float) -> Answer:
    """Eigenvalues of M = ½(DC + CD), w = p^γ, largest first, and the logarithm of their unit."""
    unit = 2.0 ** np.floor(np.log2(X.max()))
    scaled = X / unit
    touched = scaled.any(axis=0)
    lengths = np.zeros(X.shape[1])
    tops = scaled.max(axis=0)[touched]
    lengths[touched] = tops * np.linalg.norm(scaled[:, touched] / tops, axis=0)
    reference = lengths[touched].min() if gamma < 0 else lengths.max()
    weights = np.zeros_like(lengths)
    weights[touched] = (lengths[touched] / reference) ** gamma
    C = scaled.T @ scaled
    M = (weights[:, None] + weights[None, :]) / 2 * C
    log_unit = 2 * np.log(unit) + gamma * (np.log(reference) + np.log(unit))
    return Answer(sl.eigvalsh(M)[::-1], M, float(log_unit))

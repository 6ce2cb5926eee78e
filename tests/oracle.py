"""The same results by other means: LAPACK on a dense matrix, every score, one full sort.

Nothing here calls the package.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.linalg as sl
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Spectrum(NamedTuple):
    """All eigenpairs of M = ½(DC + CD), largest first."""

    values: Floats
    vectors: Floats


def spectrum(X: Floats, weights: Floats) -> Spectrum:
    """Eigenpairs of ½(DC + CD) by LAPACK, in float64."""
    C = X.T @ X
    M = (weights[:, None] * C + C * weights[None, :]) / 2
    values, vectors = sl.eigh(M)
    return Spectrum(values[::-1], vectors[:, ::-1])


def eigenvalue_error(found: Floats, exact: Spectrum) -> float:
    """Largest difference to the leading eigenvalues, relative to the first."""
    return float(np.abs(found - exact.values[: len(found)]).max() / exact.values[0])


def objective_shortfall(components: Floats, X: Floats, weights: Floats, exact: Spectrum) -> float:
    """How far tr(MP) of the components falls short of the best of their rank, relatively."""
    coordinates = X @ components.T
    reached = float(np.einsum("nr,rj,j,nj->", coordinates, components, weights, X, optimize=True))
    best = float(exact.values[: len(components)].sum())
    return abs(best - reached) / best


def scores(X: Floats, components: Floats) -> Floats:
    """X U Uᵀ, in float64."""
    U = components.astype(np.float64).T
    everything: Floats = (X @ U) @ U.T
    return everything


def list_error(ids: NDArray[Any], given: Floats, everything: Floats, seen: NDArray[Any]) -> float:
    """How far lists are from those of a full sort, relative to the largest score.

    A list is right if its k-th item has the k-th best score: near-ties may stand in either
    order. A seen or repeated item, or one left out for no reason, is an infinite error.
    """
    n, k = ids.shape
    allowed = np.where(seen, -np.inf, everything)
    best = -np.sort(-allowed, axis=1)[:, :k]
    there = np.isfinite(best)
    if not np.array_equal(ids >= 0, there):
        return np.inf
    rows = np.broadcast_to(np.arange(n)[:, None], ids.shape)
    chosen = allowed[rows[there], ids[there]]
    if _repeats(ids) or not np.isfinite(chosen).all():
        return np.inf
    unit = np.abs(everything).max()
    off = max(np.abs(chosen - best[there]).max(), np.abs(chosen - given[there]).max())
    return float(off / unit)


def _repeats(ids: NDArray[Any]) -> bool:
    ordered = np.sort(ids, axis=1)
    return bool(((np.diff(ordered, axis=1) == 0) & (ordered[:, 1:] >= 0)).any())


def cosines(components: Floats, item: int) -> Floats:
    """Cosine of every item's row of U to one of them."""
    U = components.astype(np.float64).T
    lengths = np.linalg.norm(U, axis=1)
    answer: Floats = (U @ U[item]) / (lengths * lengths[item])
    return answer

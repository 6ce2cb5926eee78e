"""Improve approximate components in a few passes over the data, with a bound of what is missing."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import scipy.linalg as sl

from equipoise.spectral import matmul
from equipoise.spectral.lanczos import LANCZOS_ZERO
from equipoise.spectral.lapack import Eigenpairs, Operator, keep_positive, orthonormalize
from equipoise.spectral.matmul import Floats

# A direction that loses this share of its length to the basis is rounding.
_DEPENDENT = 1e-8


def refine(
    operator: Operator,
    start: Floats,
    rank: int,
    *,
    extra: int,
    passes: int,
    rng: np.random.Generator,
) -> Iterator[Eigenpairs]:
    """Yield the best eigenpairs in the span of given vectors, random ones and their residuals.

    Pass 1 multiplies the given vectors and `extra` random ones, every further pass the residuals of
    the Ritz vectors so far. Rayleigh–Ritz on the whole basis follows. The given vectors improve,
    and the vectors beyond the rank estimate the largest eigenvalue that is left out: the largest of
    their Ritz values and of the last one kept, plus residuals. It is an estimate, not a proof.

    Parameters
    ----------
    operator : Operator
        Products with M.
    start : ndarray of shape (size, any)
        Vectors near the leading eigenvectors: the components of an earlier fit.
    rank : int
        How many eigenpairs.
    extra : int
        Random vectors; they find directions that `start` lacks.
    passes : int
        Passes over the data before the first result; each further result takes one more.
    rng : numpy.random.Generator
        Draws the random vectors.
    """
    first, size = operator.passes, operator.size
    fresh = rng.standard_normal((size, extra))
    block = np.hstack([start.astype(np.float64), fresh])[:, :size]
    width = block.shape[1]
    basis = images = np.empty((size, 0))
    block = _new_directions(block, basis)
    while block.shape[1]:
        basis = np.hstack([basis, block])
        product = operator(np.ascontiguousarray(block, dtype=operator.working_dtype))
        images = np.hstack([images, product.astype(np.float64)])
        values, Z = _ritz(basis, images)
        taken = operator.passes - first
        if taken >= passes:
            yield _leading(basis, images, values, Z, rank, taken)
        top = Z[:, :width]
        block = matmul.times(images, top) - matmul.times(basis, top) * values[:width]
        block = _new_directions(block, basis)
    if taken < passes:  # the basis contains all that the data span
        yield _leading(basis, images, values, Z, rank, taken)


def _leading(
    basis: Floats, images: Floats, values: Floats, Z: Floats, rank: int, passes: int
) -> Eigenpairs:
    """Return the first Ritz pairs, and an estimate of what they leave out."""
    vectors = matmul.times(basis, Z)
    residuals = np.linalg.norm(matmul.times(images, Z) - vectors * values, axis=0)
    left_out = slice(max(rank - 1, 0), None) if basis.shape[1] < len(basis) else slice(rank, None)
    beyond = (values + residuals)[left_out]
    next_value = float(beyond.max()) if len(beyond) else -np.inf
    found = Eigenpairs(
        values[:rank], vectors[:, :rank], residuals[:rank], next_value, passes, "lanczos"
    )
    return keep_positive(found, LANCZOS_ZERO)


def _ritz(basis: Floats, images: Floats) -> tuple[Floats, Floats]:
    H = matmul.inner(basis, images)
    values, Z = sl.eigh((H + H.T) / 2, check_finite=False)
    return values[::-1], np.ascontiguousarray(Z[:, ::-1])


def _new_directions(block: Floats, basis: Floats) -> Floats:
    """Return an orthonormal basis of what the block adds to an orthonormal basis."""
    lengths = np.linalg.norm(block, axis=0)
    block = block[:, lengths > 0] / lengths[lengths > 0]
    for _ in range(2):
        block = block - matmul.times(basis, matmul.inner(basis, block))
        kept = np.linalg.norm(block, axis=0) > _DEPENDENT
        block = block[:, kept]
        if block.shape[1]:
            block = orthonormalize(np.ascontiguousarray(block)).Q
    return np.ascontiguousarray(block)

"""Small dense factorisations, with the care that tied and nearly dependent vectors need."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sl

from equipoise.spectral import tall
from equipoise.spectral.tall import Block, Floats


def largest_eigenpairs(A: Floats, count: int) -> tuple[Floats, Floats]:
    """The `count` largest eigenvalues of a symmetric matrix, largest first, and their vectors."""
    size = len(A)
    count = min(count, size)
    if 3 * count < size:
        subset = [size - count, size - 1]
        values, vectors = sl.eigh(A, subset_by_index=subset, driver="evr", check_finite=False)
        # where nearly all eigenvalues are one, LAPACK may return fewer than it was asked for
        if len(values) == count:
            return values[::-1], vectors[:, ::-1]
    # for many pairs divide and conquer is faster than picking them
    values, vectors = sl.eigh(A, driver="evd", check_finite=False)
    return values[::-1][:count], vectors[:, ::-1][:, :count]


class Orthonormal(NamedTuple):
    """W = Q R with QᵀQ = I."""

    Q: Block
    R: Floats


def orthonormalize(W: Block) -> Orthonormal:
    """Orthonormal basis of W's columns: Cholesky QR twice, Householder where that is unsafe."""
    # a relative pivot below this squares to less than the Gram matrix can carry
    safe = 1e-3 if W.dtype == np.float32 else 1e-7
    Q, R = W, np.eye(W.shape[1])
    for _ in range(2):
        G = tall.inner(Q, Q).astype(np.float64)
        norms = np.sqrt(np.maximum(G.diagonal(), np.finfo(np.float64).tiny))
        try:
            L = np.linalg.cholesky(G / np.outer(norms, norms)).T * norms
        except np.linalg.LinAlgError:
            return _householder(W)
        if np.min(L.diagonal() / norms) < safe:
            return _householder(W)
        inverse = sl.solve_triangular(L, np.eye(len(L)), check_finite=False)
        Q = tall.times(Q, inverse)
        R = L @ R
    return Orthonormal(Q, R)


def _householder(W: Block) -> Orthonormal:
    Q, R = sl.qr(W, mode="economic", check_finite=False)
    return Orthonormal(Q, R.astype(np.float64))

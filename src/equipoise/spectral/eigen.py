"""Leading eigenpairs of a symmetric, indefinite matrix: the largest *algebraic* eigenvalues.

What eigenpairs are, how they are had from a dense matrix and within a subspace, and the rules that
all solvers share: positive ones only, and one choice of signs. The iteration is in `lanczos`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np
import scipy.linalg as sl

from equipoise.spectral import tall
from equipoise.spectral.lapack import largest_eigenpairs, orthonormalize
from equipoise.spectral.tall import Block, Floats

# Largest entry of VᵀV − I for which V is taken as it is: its condition is then harmless.
_NEARLY_ORTHONORMAL = 1e-3

BoundMethod = Literal["lapack", "lanczos", "cholesky"]


class Operator(Protocol):
    """A symmetric matrix known by its products."""

    size: int

    @property
    def sweeps(self) -> int:
        """Reads of the data so far."""

    @property
    def working_dtype(self) -> np.dtype[Any]:
        """The precision in which products are fast."""

    def __call__(self, V: Block) -> Block:
        """Return MV in V's dtype."""


@dataclass(frozen=True)
class Eigenpairs:
    """The leading eigenpairs of an operator, largest first.

    Attributes
    ----------
    values : ndarray of shape (k,)
        Positive eigenvalues θ; fewer than asked for if there are no more.
    vectors : ndarray of shape (size, k)
        Orthonormal U, float64.
    residuals : ndarray of shape (k,)
        ‖M u − θ u‖ of each pair, measured in float64.
    next_value : float
        An estimate of the largest eigenvalue left out (−inf if none is left), rather too large:
        the next Ritz value plus its residual.
    sweeps : int
        Reads of the data.
    method : {"lapack", "lanczos", "cholesky"}
        How `next_value` was had.
    """

    values: Floats
    vectors: Floats
    residuals: Floats
    next_value: float
    sweeps: int
    method: BoundMethod

    @property
    def max_residual(self) -> float:
        """The largest residual relative to the largest eigenvalue."""
        return float(self.residuals.max() / self.values[0]) if len(self.values) else 0.0


def dense_eigenpairs(M: Floats, rank: int) -> Eigenpairs:
    """Leading eigenpairs of a dense symmetric matrix by LAPACK."""
    size = M.shape[0]
    values, vectors = largest_eigenpairs(M, rank + 1)
    next_value = float(values[rank]) if rank < size else -np.inf
    values, vectors = values[:rank], vectors[:, :rank]
    residuals = np.linalg.norm(M @ vectors - vectors * values, axis=0)
    found = Eigenpairs(values, vectors, residuals, next_value, sweeps=1, method="lapack")
    return keep_positive(found, size * np.finfo(np.float64).eps)


def rayleigh_ritz(operator: Operator, V: Block, next_value: float = -np.inf) -> Eigenpairs:
    """The best eigenpairs within the column space of V, in float64, with true residuals.

    Columns that are nearly orthonormal, as those of an iteration in float32 are, need no second
    basis: the small eigenproblem VᵀMV z = θ VᵀV z takes what they lack into account.
    """
    V = V.astype(np.float64, copy=False)
    G = tall.inner(V, V)
    if np.abs(G - np.eye(len(G))).max() > _NEARLY_ORTHONORMAL:
        V = orthonormalize(V).Q
        G = tall.inner(V, V)
    W = operator(V).astype(np.float64, copy=False)
    H = tall.inner(V, W)
    values, Z = sl.eigh((H + H.T) / 2, (G + G.T) / 2, check_finite=False)
    values, Z = values[::-1], np.ascontiguousarray(Z[:, ::-1])
    U = tall.times(V, Z)
    residuals = tall.residual_norms(W, Z, U, values)
    return Eigenpairs(values, U, residuals, next_value, operator.sweeps, "lanczos")


def keep_positive(found: Eigenpairs, zero: float) -> Eigenpairs:
    """Drop what is not positive, and fix the signs."""
    largest = float(np.abs(found.values).max())
    count = int(np.count_nonzero(found.values > zero * largest))
    next_value = found.next_value
    if count < len(found.values):
        next_value = max(0.0, float(found.values[count] + found.residuals[count]))
    return replace(
        found,
        values=found.values[:count].copy(),
        vectors=fix_signs(found.vectors[:, :count]),
        residuals=found.residuals[:count].copy(),
        next_value=next_value,
    )


def fix_signs(U: Floats) -> Floats:
    """Make every column's sum positive, or its largest entry where the sum vanishes.

    On real data the sum decides with a wide margin; the largest entry alone has near-ties.
    """
    sums = U.sum(axis=0)
    negligible = np.abs(sums) <= 1e-6 * np.sqrt(U.shape[0])
    largest = np.take_along_axis(U, np.abs(U).argmax(axis=0)[None, :], axis=0)[0]
    signs = np.where(np.where(negligible, largest, sums) < 0, -1.0, 1.0)
    return np.ascontiguousarray(U * signs)

"""A block Krylov basis with thick restart: M Q = Q T + N B Eᵀ.

Q is orthonormal, T = QᵀMQ is the projected matrix (always float64), N is the next block and B its
coupling to the last block of Q (E selects the columns of that block).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.spectral import matmul
from equipoise.spectral.lapack import largest_eigenpairs, orthonormalize
from equipoise.spectral.matmul import Block, Floats

# Largest overlap of a new block with the basis: about 100 rounding errors of float32, and 5,000 of
# float64. The final Rayleigh–Ritz step accounts for what remains.
_OVERLAP_FLOAT32, _OVERLAP_FLOAT64 = 1e-5, 1e-12

# A direction shorter than this many rounding errors of the operator's scale is rounding, not
# signal.
_ALIVE = 10


class KrylovBasis:
    """The growing basis of one Lanczos run.

    Parameters
    ----------
    start : ndarray of shape (size, width)
        Spans the first block; all computations use its dtype.
    capacity : int
        Columns at which the basis is restarted.
    rng : numpy.random.Generator
        Draws new directions where the Krylov space is exhausted (low-rank data).
    """

    def __init__(self, start: Block, capacity: int, rng: np.random.Generator) -> None:
        self.size, self.width = int(start.shape[0]), int(start.shape[1])
        self.capacity = min(max(capacity, 2 * self.width), self.size)
        self.rng = rng
        room = self.capacity + self.width
        self.Q = np.empty((self.size, room), start.dtype, order="F")
        self.T = np.zeros((room, room))
        self.next = orthonormalize(start).Q
        self.coupling = np.zeros((self.width, self.width))
        self.k = 0
        self.last_width = 0
        self.scale = 0.0
        single = start.dtype == np.float32
        self._tolerated = _OVERLAP_FLOAT32 if single else _OVERLAP_FLOAT64

    @property
    def full(self) -> bool:
        """Whether the next block does not fit and a restart is due."""
        return self.k + int(self.next.shape[1]) > self.capacity

    @property
    def complete(self) -> bool:
        """Whether the basis spans the whole space."""
        return self.k >= self.size

    def expand(self, apply: Callable[[Block], Block]) -> None:
        """Add the next block: one product, one local and one full orthogonalization."""
        start, stop = self.k, self.k + self.next.shape[1]
        matmul.write_columns(self.Q, start, self.next)
        W = apply(self.next)
        Q = self.Q[:, :stop]
        H = np.zeros((stop, stop - start))
        local = max(0, start - self.last_width) if self.last_width else 0
        for low in (local, 0):
            h = matmul.inner(Q[:, low:], W)
            matmul.subtract(W, Q[:, low:], h)
            H[low:] += h
        self._project(H, start, stop)
        self.last_width, self.k = stop - start, stop
        if not self.complete:
            self._follow(W, float(np.abs(h).max()))

    def _project(self, H: Floats, start: int, stop: int) -> None:
        self.T[:stop, start:stop] = H
        self.T[start:stop, :stop] = H.T
        self.T[start:stop, start:stop] = (H[start:] + H[start:].T) / 2
        self.scale = max(self.scale, float(np.abs(H).max()))

    def _follow(self, W: Block, removed: float) -> None:
        """Compute the next block and its coupling from the orthogonalized product W.

        Subtracting parts of size `removed` leaves rounding errors in W. They grow when the
        shortest direction of W is scaled to unit length. Only where they could exceed the
        tolerated overlap is the next block orthogonalized once more.
        """
        Q = self.Q[:, : self.k]
        squares = matmul.inner(W, W).astype(np.float64)
        spread, Y = np.linalg.eigh(squares)
        norms = np.sqrt(np.maximum(spread, 0.0))
        alive = norms > _ALIVE * np.finfo(W.dtype).eps * self.scale
        if not alive.all():
            self._refill(W, Y[:, alive] / norms[alive])
            return
        N, B = orthonormalize(W, squares)
        rounding = np.finfo(W.dtype).eps * max(removed, float(norms.max()))
        if rounding > self._tolerated / 10 * norms.min():
            overlap = matmul.inner(Q, N)
            if np.abs(overlap).max() > self._tolerated:
                matmul.subtract(N, Q, overlap)
                N, R = orthonormalize(N)
                B = R @ B
        room = self.size - self.k
        if N.shape[1] > room:  # the last block of a small space is narrower
            self._refill(W, Y[:, -room:] / norms[-room:])
            return
        self.next, self.coupling = N, B

    def _refill(self, W: Block, alive: Floats) -> None:
        """Replace vanished directions of the next block by random ones (Krylov breakdown)."""
        Q = self.Q[:, : self.k]
        kept = W @ alive.astype(W.dtype)
        count = min(self.width, self.size - self.k)
        kept = kept[:, -count:]
        fresh = self.rng.standard_normal((self.size, count - kept.shape[1])).astype(W.dtype)
        N = np.hstack([kept, fresh])
        for _ in range(3):
            N = N - Q @ (Q.T @ N)
            N = np.linalg.qr(N)[0]
        coupling = np.zeros((count, W.shape[1]))
        coupling[: kept.shape[1]] = N[:, : kept.shape[1]].T @ W
        self.next, self.coupling = N, coupling

    def ritz(self, count: int) -> tuple[Floats, Floats]:
        """The `count` largest eigenpairs of T, largest first."""
        values, S = largest_eigenpairs(self.T[: self.k, : self.k], count)
        self.scale = max(self.scale, float(abs(values[0])))
        return values, S

    def residuals(self, S: Floats) -> Floats:
        """‖M v − θ v‖ of the Ritz vectors v = Q s, computed from the coupling."""
        if self.complete:
            return np.zeros(S.shape[1])
        return np.linalg.norm(self.coupling @ S[self.k - self.last_width :], axis=0)

    def vectors(self, S: Floats) -> Block:
        """The Ritz vectors Q S."""
        return matmul.times(self.Q[:, : self.k], S)

    def restart(self, values: Floats, S: Floats, keep: int) -> None:
        """Reduce the basis to its `keep` best Ritz vectors.

        The next block stays; `expand` computes its coupling to all of them.
        """
        keep = min(keep, S.shape[1], max(1, self.capacity - 2 * self.width))
        matmul.write_columns(self.Q, 0, self.vectors(S[:, :keep]))
        self.T[:] = 0.0
        self.T[np.arange(keep), np.arange(keep)] = values[:keep]
        self.k, self.last_width = keep, 0

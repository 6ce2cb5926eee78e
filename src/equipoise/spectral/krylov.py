"""A block Krylov basis with thick restart: M Q = Q T + N B Eᵀ.

Q is orthonormal, T = QᵀMQ the projected matrix (float64 whatever the precision of Q), N the block
that comes next and B its coupling to the last block of Q (E picks that block's columns).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from equipoise.spectral import tall
from equipoise.spectral.lapack import largest_eigenpairs, orthonormalize
from equipoise.spectral.tall import Block, Floats


class KrylovBasis:
    """The growing basis of one Lanczos run.

    Parameters
    ----------
    start : ndarray of shape (size, width)
        Spans the first block; its dtype is that of the run.
    capacity : int
        Columns at which the basis must be restarted.
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
        # how far from orthogonal a new block may be to the basis
        self._tolerated = 1e-5 if start.dtype == np.float32 else 1e-12

    @property
    def full(self) -> bool:
        """No room for another block: restart."""
        return self.k + int(self.next.shape[1]) > self.capacity

    @property
    def complete(self) -> bool:
        """The basis spans the whole space."""
        return self.k >= self.size

    def expand(self, apply: Callable[[Block], Block]) -> None:
        """Take the next block in: one product, one local and one full orthogonalisation."""
        start, stop = self.k, self.k + self.next.shape[1]
        self.Q[:, start:stop] = self.next
        W = apply(self.next)
        Q = self.Q[:, :stop]
        H = np.zeros((stop, stop - start))
        local = max(0, start - self.last_width) if self.last_width else 0
        for low in (local, 0):
            h = tall.inner(Q[:, low:], W)
            tall.subtract(W, Q[:, low:], h)
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
        """Make the next block and its coupling from what is left of the product.

        Taking parts of size `removed` out of W leaves rounding errors of their size and of W's own
        in it, which grow as W's shortest direction is stretched to unit length; only where they
        could matter is the next block compared with the whole basis once more.
        """
        Q = self.Q[:, : self.k]
        spread, Y = np.linalg.eigh(tall.inner(W, W).astype(np.float64))
        norms = np.sqrt(np.maximum(spread, 0.0))
        alive = norms > 10 * np.finfo(W.dtype).eps * self.scale
        if not alive.all():
            self._refill(W, Y[:, alive] / norms[alive])
            return
        N, B = orthonormalize(W)
        rounding = np.finfo(W.dtype).eps * max(removed, float(norms.max()))
        if rounding > self._tolerated / 10 * norms.min():
            overlap = tall.inner(Q, N)
            if np.abs(overlap).max() > self._tolerated:
                tall.subtract(N, Q, overlap)
                N, R = orthonormalize(N)
                B = R @ B
        room = self.size - self.k
        if N.shape[1] > room:  # the last block of a small space
            self._refill(W, Y[:, -room:] / norms[-room:])
            return
        self.next, self.coupling = N, B

    def _refill(self, W: Block, alive: Floats) -> None:
        """The Krylov space broke down: keep the living directions, go on with random ones."""
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
        """‖M v − θ v‖ of the Ritz vectors v = Q s, from the coupling alone."""
        if self.complete:
            return np.zeros(S.shape[1])
        last: Floats = np.linalg.norm(self.coupling @ S[self.k - self.last_width :], axis=0)
        return last

    def vectors(self, S: Floats) -> Block:
        """The Ritz vectors Q S."""
        return tall.times(self.Q[:, : self.k], S)

    def restart(self, values: Floats, S: Floats, keep: int) -> None:
        """Shrink the basis to its best `keep` Ritz vectors.

        The next block stays; its coupling to all of them comes from the projection in `expand`.
        """
        keep = min(keep, S.shape[1], max(1, self.capacity - 2 * self.width))
        self.Q[:, :keep] = self.vectors(S[:, :keep])
        self.T[:] = 0.0
        self.T[np.arange(keep), np.arange(keep)] = values[:keep]
        self.k, self.last_width = keep, 0

"""From an optimal W with fractional eigenvalues to few of them, and to a projector.

Over {0 ⪯ P ⪯ I, tr P ≤ r} with k functionals, some optimal P has s fractional eigenvalues with
s(s + 1)/2 ≤ k, and none for k = 2 with tr P = r. `purify` moves to such a point without lowering
any utility. `ascend` improves a projector where fractional eigenvalues are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg as sl

from equipoise.spectral.matmul import Floats

# An eigenvalue of W within this distance of 0 or 1 is 0 or 1: the last solution of the small
# problem is accurate to about 1e-13, and what moves between is of order one.
SNAP = 1e-6

# Directions of a linear system below this share of the largest are in its null space.
_NULL = 1e-9


class Face(NamedTuple):
    """An orthonormal basis in three parts; what is missing has eigenvalue 0.

    Attributes
    ----------
    whole : ndarray of shape (q, any)
        Eigenvectors of P with eigenvalue 1.
    fractional : ndarray of shape (q, s)
        Eigenvectors with eigenvalues between.
    weights : ndarray of shape (s,)
        Those eigenvalues.
    """

    whole: Floats
    fractional: Floats
    weights: Floats

    def matrix(self) -> Floats:
        """P."""
        P: Floats = self.whole @ self.whole.T
        return P + (self.fractional * self.weights) @ self.fractional.T

    def projectors(self, rank: int) -> list[Floats]:
        """Orthonormal bases of the projectors near P of rank ⌊tr P⌋ and, up to `rank`, ⌈tr P⌉."""
        order = np.argsort(-self.weights)
        total = float(self.weights.sum())
        counts = {int(np.floor(total + SNAP)), int(np.ceil(total - SNAP))}
        room = rank - self.whole.shape[1]
        return [
            np.hstack([self.whole, self.fractional[:, order[:count]]])
            for count in sorted(counts)
            if count <= room
        ]


def purify(B: Floats, W: Floats, y: Floats) -> Face:
    """Move from W to a point with few fractional eigenvalues; no utility falls.

    In the fractional eigenspace F the moves Δ have tr Δ = 0 and ⟨Σ_g c_g FᵀB_gF, Δ⟩ = 0 for every
    c orthogonal to y, with the sign for which ⟨B(y), Δ⟩ ≥ 0: then all ⟨B_g, Δ⟩ with y_g > 0 are
    equal multiples of y and at least 0. Every move ends with an eigenvalue at 0 or 1.

    Parameters
    ----------
    B : ndarray of shape (k, q, q)
        Symmetric matrices.
    W : ndarray of shape (q, q)
        Optimal.
    y : ndarray of shape (k,)
        Dual weights at W.
    """
    w, Z = np.linalg.eigh(W)
    face = _snapped(Face(Z[:, :0], Z, w))
    combinations = sl.null_space(y[None, :]).T
    while len(face.weights):
        w = face.weights
        # Σw differs from a whole number by the accuracy of W where tr P = r
        excess = round(float(w.sum())) - float(w.sum())
        if 0 < abs(excess) <= SNAP:
            slack = w * (1 - w)
            w = w + excess * slack / slack.sum()
        face = _snapped(face._replace(weights=w))
        move = _move(B, face, y, combinations)
        if move is None:
            break
        w, Q = np.linalg.eigh(np.diag(face.weights) + move)
        face = _snapped(Face(face.whole, face.fractional @ Q, w))
    return face


def _snapped(face: Face) -> Face:
    w = face.weights
    between = (w > SNAP) & (w < 1 - SNAP)
    whole = np.hstack([face.whole, face.fractional[:, w >= 1 - SNAP]])
    return Face(whole, face.fractional[:, between], w[between])


def _move(B: Floats, face: Face, y: Floats, combinations: Floats) -> Floats | None:
    """The largest allowed move in the fractional eigenspace; None if none is left."""
    s = len(face.weights)
    if s * (s + 1) / 2 <= len(y):
        return None
    i, j = np.triu_indices(s)
    T = face.fractional.T @ B @ face.fractional
    twice = np.where(i == j, 1.0, 2.0)
    rows = np.vstack([np.tensordot(combinations, T, 1)[:, i, j], np.eye(s)[i, j][None]]) * twice
    norms = np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    null = sl.null_space(rows / norms, rcond=_NULL)
    if not null.shape[1]:
        return None
    step = np.zeros((s, s))
    gain = np.tensordot(y, T, 1)[i, j] @ (twice * null[:, -1])
    step[i, j] = step[j, i] = null[:, -1] if gain >= 0 else -null[:, -1]
    w = face.weights
    reach = (
        np.linalg.eigvalsh(step / np.sqrt(np.outer(1 - w, 1 - w)))[-1],
        np.linalg.eigvalsh(-step / np.sqrt(np.outer(w, w)))[-1],
    )
    return step / max(reach)


def ascend(B: Floats, b: Floats, U: Floats, *, rounds: int = 300) -> Floats:
    """Raise min_g ⟨B_g, UUᵀ⟩ + b_g by steepest ascent over projectors; a local method.

    Parameters
    ----------
    B : ndarray of shape (k, q, q)
        Symmetric matrices.
    b : ndarray of shape (k,)
        Offsets.
    U : ndarray of shape (q, r)
        Orthonormal start.
    rounds : int
        Steps at most.
    """

    def worst(U: Floats) -> Floats:
        return np.einsum("ia,gij,ja->g", U, B, U, optimize=True) + b

    u = worst(U)
    t = 1 / max(float(np.linalg.norm(B, axis=(1, 2)).max()), np.finfo(np.float64).tiny)
    shortest = 1e-12 * t
    for _ in range(rounds):
        G = 2 * (B @ U - U @ (U.T @ B @ U))
        mixture = _steepest(u, t * np.einsum("gia,hia->gh", G, G))
        V = np.linalg.qr(U + t * np.tensordot(mixture, G, 1))[0]
        raised = worst(V)
        if raised.min() > u.min():
            U, u, t = V, raised, 2 * t
        else:
            t /= 4
            if t < shortest:
                break
    return U


def _steepest(u: Floats, N: Floats) -> Floats:
    """The μ on the simplex that minimizes u·μ + μᵀNμ/2, by exponentiated gradient steps."""
    mixture = np.full(len(u), 1 / len(u))
    unit = max(float(N.max()), float(np.ptp(u)), np.finfo(np.float64).tiny)
    for _ in range(200):
        mixture = mixture * np.exp(-(u - u.min() + N @ mixture) / unit)
        mixture /= mixture.sum()
    return mixture

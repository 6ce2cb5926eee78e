"""Maximize φ(⟨B_g, W⟩ + b_g) over {0 ⪯ W ⪯ I, tr W ≤ r} for small dense matrices B_g.

A log barrier for 0 ≺ W ≺ I, tr W < r and y > 0 makes the dual smooth in k + 1 variables: the
weights y and the multiplier τ of the trace. For parameter ν it is

    rτ + Σ_i h_ν(θ_i(B(y)) − τ) + b·y + ψ(y) − ν(Σ log y_g + log τ),

where h_ν(t) = max over 0 < w < 1 of tw + ν log w + ν log(1 − w). Damped Newton steps, ν → 0.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from equipoise.spectral.groups.welfare import Welfare
from equipoise.spectral.matmul import Floats

# Newton steps in all. Some 15–30 are usual; more than this means rounding.
_MAX_STEPS = 400

# Below this share of the problem's unit, ν changes nothing that float64 can represent.
_LEAST_BARRIER = 1e-14

# Newton decrements (squared, in units of ν) at which bounds are taken and ν is reduced.
_NEAR, _CENTERED = 0.1, 1e-2


class Reduced(NamedTuple):
    """A solution of the small problem.

    Attributes
    ----------
    y : ndarray of shape (k,)
        Dual weights.
    W : ndarray of shape (q, q)
        A feasible primal solution.
    lower, upper : float
        φ at W, and the dual value at y: the optimum lies between.
    """

    y: Floats
    W: Floats
    lower: float
    upper: float


class Occupation(NamedTuple):
    """w and 1 − w, both without cancellation."""

    w: Floats
    rest: Floats


class _Point(NamedTuple):
    """The barrier function at one (y, τ), and the eigenvalues that it was computed from."""

    value: float
    theta: Floats
    Q: Floats
    occupation: Occupation


def positive_sum(descending: Floats, rank: int) -> float:
    """S_r: the sum of the positive values among the first r."""
    return float(np.maximum(descending[:rank], 0.0).sum())


def occupation(x: Floats) -> Occupation:
    """Return the w in (0, 1) with x = 1/(1 − w) − 1/w, and 1 − w.

    Examples
    --------
    >>> occupation(np.array([0.0])).w.tolist()
    [0.5]
    """
    root = np.sqrt(4 + x * x)
    small = 0.5 * (2 + 4 / (root + np.abs(x))) / (2 + root)
    return Occupation(np.where(x > 0, 1 - small, small), np.where(x > 0, small, 1 - small))


def utilities(B: Floats, W: Floats, b: Floats) -> Floats:
    """u_g = ⟨B_g, W⟩ + b_g."""
    return np.einsum("gij,ij->g", B, W) + b


def solve_reduced(
    B: Floats,
    b: Floats,
    rank: int,
    welfare: Welfare,
    y: Floats,
    *,
    tol: float,
    barrier: float | None = None,
) -> Reduced:
    """Solve the small problem until upper − lower ≤ tol, or as far as rounding allows.

    Parameters
    ----------
    B : ndarray of shape (k, q, q)
        Symmetric matrices.
    b : ndarray of shape (k,)
        Offsets of the utilities.
    rank : int
        r.
    welfare : Welfare
        φ.
    y : ndarray of shape (k,)
        Dual weights to start from, positive.
    tol : float
        Absolute.
    barrier : float, optional
        ν to start with; by default a tenth of the unit of the problem.
    """
    if not B.any():  # W changes nothing
        W = np.zeros(B.shape[1:])
        bound = float(b @ y) + welfare.conjugate(y).value
        return Reduced(y, W, welfare.value(b), bound)
    newton = _Newton(B, b, rank, welfare)
    theta = np.linalg.eigvalsh(np.tensordot(y, B, 1))[::-1]
    norms = np.abs(y) * np.linalg.norm(B, axis=(1, 2))
    # with ±A among the matrices B(y) may vanish: the unit is that of its terms
    unit = max(float(np.abs(theta).max()), float(norms.max()), np.finfo(np.float64).tiny)
    nu = 0.1 * unit if barrier is None else min(barrier, 0.1 * unit)
    q = len(theta)
    tau = max(float(theta[min(rank, q) - 1] + theta[min(rank, q - 1)]) / 2, nu)
    best: Reduced | None = None
    point = newton.evaluate(y, tau, nu)
    for turn in range(_MAX_STEPS):
        step, decrement, primal = newton.step(point, y, tau, nu)
        if decrement < _NEAR or turn == _MAX_STEPS - 1:
            W = primal()
            upper = positive_sum(point.theta[::-1], rank) + float(b @ y)
            upper += welfare.conjugate(y).value
            lower = welfare.value(utilities(B, W, b), unit)
            if best is None or upper - lower < best.upper - best.lower:
                best = Reduced(y.copy(), W, lower, upper)
            if best.upper - best.lower <= tol or nu < _LEAST_BARRIER * unit:
                return best
            nu *= 0.1 if decrement < _CENTERED else 0.25
            point = newton.evaluate(y, tau, nu, (point.theta, point.Q))
        else:
            y, tau, point = newton.advance(point, y, tau, nu, step, decrement)
    if best is None:  # the last turn always records one
        raise AssertionError
    return best


class _Newton:
    """Damped Newton on the barrier function of one small problem."""

    def __init__(self, B: Floats, b: Floats, rank: int, welfare: Welfare) -> None:
        self.B, self.b, self.rank, self.welfare = B, b, rank, welfare
        self.k, self.q = B.shape[0], B.shape[1]
        self.normal = welfare.normal(self.k)
        # where everything fits, this keeps the interior of tr W < r, W ≺ I non-empty
        self.room = min(float(rank), self.q - 1e-9)

    def evaluate(
        self, y: Floats, tau: float, nu: float, known: tuple[Floats, Floats] | None = None
    ) -> _Point:
        """The barrier function; `known` holds the eigenpairs of B(y) if they were computed."""
        theta, Q = known or np.linalg.eigh(np.tensordot(y, self.B, 1))
        w = occupation((theta - tau) / nu)
        smooth = float((theta - tau) @ w.w) + nu * float((np.log(w.w) + np.log(w.rest)).sum())
        bars = nu * (float(np.log(y).sum()) + np.log(tau))
        dual = self.room * tau + float(self.b @ y) + self.welfare.conjugate(y).value
        return _Point(dual + smooth - bars, theta, Q, w)

    def step(
        self, point: _Point, y: Floats, tau: float, nu: float
    ) -> tuple[Floats, float, Callable[[], Floats]]:
        """The Newton step in (y, τ), its squared decrement in units of ν, and how to get W."""
        k, (w, rest) = self.k, point.occupation
        R = point.Q.T @ self.B @ point.Q
        # divided differences of w in closed form: exact where eigenvalues coincide
        D = 1 / (nu * (1 / np.outer(w, w) + 1 / np.outer(rest, rest)))
        psi = self.welfare.conjugate(y)
        gradient = np.append(
            np.einsum("gii,i->g", R, w) + self.b + psi.gradient - nu / y,
            self.room - w.sum() - nu / tau,
        )
        H = np.empty((k + 1, k + 1))
        H[:k, :k] = (R * D).reshape(k, -1) @ R.reshape(k, -1).T
        H[np.arange(k), np.arange(k)] += psi.curvature + nu / y**2
        H[:k, k] = H[k, :k] = -np.einsum("gii,ii->g", R, D)
        H[k, k] = D.trace() + nu / tau**2
        step = self._solve_scaled(H, -gradient)
        decrement = max(-float(gradient @ step), 0.0) / nu
        return step, decrement, partial(self._primal, point, R, D, step)

    def _solve_scaled(self, H: Floats, rhs: Floats) -> Floats:
        """Solve H s = rhs with c·s = 0, in units of the diagonal of H."""
        size = len(H)
        unit = 1 / np.sqrt(np.maximum(H.diagonal(), np.finfo(np.float64).tiny))
        K = np.zeros((size + 1, size + 1))
        K[:size, :size] = H * np.outer(unit, unit) + 1e-14 * np.eye(size)
        right = np.append(rhs * unit, 0.0)
        if self.normal is None:
            K[size, size] = 1.0
        else:
            K[size, : size - 1] = K[: size - 1, size] = self.normal * unit[: size - 1]
        return np.linalg.lstsq(K, right, rcond=None)[0][:size] * unit

    def _primal(self, point: _Point, R: Floats, D: Floats, step: Floats) -> Floats:
        """W as the Newton step predicts it.

        diag(w) misses the linear conditions where eigenvalues coincide; the prediction meets them.
        """
        w = point.occupation.w
        shift = np.tensordot(step[: self.k], R, 1) - step[self.k] * np.eye(self.q)
        occupied, Z = np.linalg.eigh(np.diag(w) + D * shift)
        occupied = np.clip(occupied, 0.0, 1.0)
        total = float(occupied.sum())
        if total > self.rank:
            occupied = occupied * (self.rank / total)
        QZ = point.Q @ Z
        return (QZ * occupied) @ QZ.T

    def advance(
        self, point: _Point, y: Floats, tau: float, nu: float, step: Floats, decrement: float
    ) -> tuple[Floats, float, _Point]:
        """Move along the step as far as the barrier function falls enough."""
        here = np.append(y, tau)
        shrinking = step < 0
        t = min(1.0, 0.95 * float((here[shrinking] / -step[shrinking]).min(initial=np.inf)))
        slack = 1e-13 * abs(point.value)
        while True:
            there = here + t * step
            reached = self.evaluate(there[:-1], float(there[-1]), nu)
            enough = reached.value <= point.value - 1e-4 * t * decrement * nu + slack
            if enough or t <= 1e-12:
                return there[:-1], float(there[-1]), reached
            t /= 2

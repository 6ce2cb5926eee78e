"""The re-weighted loss on tiny matrices in exact arithmetic: a counterexample is a proof.

Matrices are NumPy arrays of `Fraction`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Matrix = NDArray[Any]

_HALF = Fraction(1, 2)


def exact(values: ArrayLike) -> Matrix:
    """Convert whole numbers or fractions to an array of `Fraction`."""
    array = np.asarray(values, dtype=object)
    return np.array([Fraction(value) for value in array.flat], dtype=object).reshape(array.shape)


def line_projection(direction: ArrayLike) -> Matrix:
    """ddᵀ / dᵀd: the projection onto a line.

    Examples
    --------
    >>> line_projection([1, 2])[0]
    array([Fraction(1, 5), Fraction(2, 5)], dtype=object)
    """
    d = exact(direction)
    return np.outer(d, d) / (d @ d)


def is_positive_semidefinite(A: Matrix) -> bool:
    """Decide xᵀAx ≥ 0 for all x, by exact elimination of a symmetric A.

    A negative pivot is a direction of negative curvature. So is a pivot of zero in a nonzero row,
    since its 2 × 2 minor is negative.

    Examples
    --------
    >>> is_positive_semidefinite(exact([[1, 1], [1, 1]]))
    True
    >>> is_positive_semidefinite(exact([[0, 1], [1, 5]]))
    False
    """
    if not len(A):
        return True
    pivot, first, rest = A[0, 0], A[0, 1:], A[1:, 1:]
    if pivot < 0 or (pivot == 0 and any(first)):
        return False
    return is_positive_semidefinite(rest - np.outer(first, first) / pivot if pivot else rest)


def hessian(q: Callable[[Matrix], Fraction], m: int) -> Matrix:
    """Second derivatives of a quadratic q over the symmetric m × m matrices.

    Entry (a, b) is q(A + B) − q(A) − q(B) + q(0) for basis matrices A and B. q is convex if and
    only if this is positive semidefinite: the set {0 ⪯ P ⪯ I, tr P ≤ r} has inner points, so
    convexity on it is equivalent.
    """
    basis = []
    for i, j in combinations_with_replacement(range(m), 2):
        A = exact(np.zeros((m, m), int))
        A[i, j] = A[j, i] = Fraction(1)
        basis.append(A)
    at_zero = q(0 * basis[0])
    return np.array([[q(A + B) - q(A) - q(B) + at_zero for B in basis] for A in basis])


class Problem(NamedTuple):
    """A matrix X and the roots √w of its items' weights."""

    X: Matrix
    roots: tuple[int, ...]

    def loss(self, P: Matrix) -> Fraction:
        """Σ_j w_j ‖X_·j − (XP)_·j‖², by its definition."""
        squares = ((self.X - self.X @ P) ** 2).sum(axis=0)
        return squares @ exact(self.roots) ** 2

    def expansion(self, P: Matrix) -> Fraction:
        """tr(DCD) − 2 tr(DCDP) + tr(DCPDP), as printed."""
        D, C = np.diag(exact(self.roots)), self.X.T @ self.X
        DCD = D @ C @ D
        return np.trace(DCD) - 2 * np.trace(DCD @ P) + np.trace(D @ C @ P @ D @ P)

    def is_convex(self) -> bool:
        """Decide whether the loss is a convex function of P."""
        return is_positive_semidefinite(hessian(self.loss, len(self.roots)))


class AxisLosses(NamedTuple):
    """Losses of a problem with a diagonal 2 × 2 matrix X.

    Attributes
    ----------
    axes : tuple of Fraction
        Losses of the projections onto the two axes.
    diagonals : tuple of Fraction
        Losses of the projections onto the lines at ±45°, one on each path between the axes.
    zero : Fraction
        Loss of P = 0.
    relaxed : Fraction
        Least loss of the diagonal P with trace one, which are not projections in general.
    """

    axes: tuple[Fraction, ...]
    diagonals: tuple[Fraction, ...]
    zero: Fraction
    relaxed: Fraction

    @property
    def least_is_proved(self) -> bool:
        """Whether the better axis is proved to be the best projection of rank at most one.

        At the angle t the loss is (x₁² s + x₂² (1 − s)) (w₁ s + w₂ (1 − s)) with s = sin² t: a
        quadratic of s in [0, 1]. If it is concave, it is least at an end, which is an axis. It is
        concave if its value at s = 1/2 (±45°) is at least the mean of its values at the ends.
        """
        return sum(self.axes) <= sum(self.diagonals) and self.zero >= min(self.axes)


def measure_axis_losses(problem: Problem) -> AxisLosses:
    """Compute the losses of a problem with a diagonal 2 × 2 matrix.

    On diag(p, 1 − p) the loss is w₁x₁²(1 − p)² + w₂x₂²p², least at
    p = w₁x₁² / (w₁x₁² + w₂x₂²).
    """
    sizes = (exact(problem.roots) * np.diag(problem.X)) ** 2
    p = sizes[0] / sum(sizes)
    axes, diagonals = (
        tuple(problem.loss(line_projection(d)) for d in directions)
        for directions in (([1, 0], [0, 1]), ([1, 1], [1, -1]))
    )
    zero, relaxed = (problem.loss(np.diag(exact(d))) for d in ([0, 0], [p, 1 - p]))
    return AxisLosses(axes, diagonals, zero, relaxed)


class Counterexample(NamedTuple):
    """A problem and two directions between whose projections the printed quadratic bulges."""

    problem: Problem
    directions: tuple[tuple[int, ...], ...]

    @property
    def ends(self) -> tuple[Matrix, Matrix]:
        """The two projections."""
        first, second = map(line_projection, self.directions)
        return first, second

    @property
    def excess(self) -> Fraction:
        """Value at the midpoint minus the mean of both ends; positive proves non-convexity."""
        (first, second), q = self.ends, self.problem.expansion
        return q((first + second) * _HALF) - (q(first) + q(second)) / 2


def search_counterexample(draws: int = 20_000, seed: int = 8) -> Counterexample:
    """Search small whole numbers for the two projections with the largest relative excess.

    The excess of a quadratic with form Q at the middle of P₁ and P₂ is −¼ Q(P₁ − P₂).
    """
    rng = np.random.default_rng(seed)
    X, roots = rng.integers(0, 4, (draws, 2, 2)), rng.integers(1, 13, (draws, 2))
    directions = rng.integers(-4, 5, (draws, 2, 2))
    directions[..., 0] += 5 * ~directions.any(axis=2)  # (0, 0) is not a direction
    squares = (directions**2).sum(axis=2)[..., None, None]
    P = directions[..., :, None] * directions[..., None, :] / squares
    step, C = P[:, 0] - P[:, 1], np.swapaxes(X, 1, 2) @ X
    curvature = np.einsum("ka,kab,kbc,kc,kca->k", roots, C, step, roots, step, optimize=True)
    scale = np.einsum("ka,kaa,ka->k", roots, C, roots) + 1e-9
    has_idle_user = (X.sum(axis=2) == 0).any(axis=1)
    best = int(np.argmin(np.where(has_idle_user, 0.0, curvature / scale)))
    problem = Problem(exact(X[best]), tuple(roots[best].tolist()))
    lines = (tuple(d // gcd(*line) for d in line) for line in directions[best].tolist())
    return Counterexample(problem, tuple(lines))


def small_problems(count: int, seed: int = 9) -> Iterator[Problem]:
    """Random problems of two or three items, in whole numbers."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        m = 2 + k % 2
        X = exact(rng.integers(0, 5, (3, m)))
        yield Problem(X, tuple(rng.integers(0, 10, m).tolist()))

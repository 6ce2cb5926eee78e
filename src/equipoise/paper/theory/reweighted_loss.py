"""The re-weighted loss on matrices so small that every statement about it can be proved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import gcd
from typing import NamedTuple

import numpy as np

from equipoise.paper.theory import rational
from equipoise.paper.theory.rational import CircleForm, Matrix

_HALF = Fraction(1, 2)


class Problem(NamedTuple):
    """A matrix X and the roots √w of its items' weights."""

    X: Matrix
    roots: tuple[int, ...]

    def loss(self, P: Matrix) -> Fraction:
        """Σ_j w_j ‖X_·j − (XP)_·j‖², by its definition."""
        residual = rational.combine((1, self.X), (-1, rational.product(self.X, P)))
        columns = rational.transpose(residual)
        return rational.dot([root**2 for root in self.roots], [rational.dot(c, c) for c in columns])

    def expansion(self, P: Matrix) -> Fraction:
        """tr(DCD) − 2 tr(DCDP) + tr(DCPDP), as printed."""
        D, C = rational.diagonal(self.roots), rational.product(rational.transpose(self.X), self.X)
        DCD = rational.product(D, C, D)
        quadratic = rational.trace(rational.product(D, C, P, D, P))
        return rational.trace(DCD) - 2 * rational.trace(rational.product(DCD, P)) + quadratic


@dataclass(frozen=True)
class Valleys:
    """Losses on the way from a worse projection to the best one.

    Attributes
    ----------
    best, worse : Fraction
        Losses of two projections.
    barriers : tuple of Fraction
        A loss on either arc between them; the projections onto lines of the plane are a circle.
    """

    best: Fraction
    worse: Fraction
    barriers: tuple[Fraction, Fraction]


@dataclass(frozen=True)
class Relaxation:
    """The loss of a plane problem on projections and beyond.

    Attributes
    ----------
    pair_sums : tuple of Fraction
        Sums of the losses of two pairs of projections with the same midpoint ½I: equal for every
        linear function of P.
    least : Fraction
        Loss of a projection.
    is_least : bool
        Whether that is proved to be the least of all projections of rank at most one.
    relaxed : Fraction
        Loss at a matrix of {0 ⪯ P ⪯ I, tr P ≤ 1} that is no projection.
    """

    pair_sums: tuple[Fraction, Fraction]
    least: Fraction
    is_least: bool
    relaxed: Fraction


@dataclass(frozen=True)
class Midpoint:
    """Values of a function at two projections and half-way between them."""

    first: Fraction
    second: Fraction
    middle: Fraction

    @property
    def excess(self) -> Fraction:
        """By how much the middle exceeds the mean; positive proves non-convexity."""
        return self.middle - (self.first + self.second) / 2


def measure_valleys(problem: Problem) -> Valleys:
    """Compare the two axes, and a line on either arc between them."""
    best, worse = sorted(problem.loss(rational.line_projection(d)) for d in ([1, 0], [0, 1]))
    arcs = [problem.loss(rational.line_projection(d)) for d in ([1, 1], [1, -1])]
    return Valleys(best, worse, (arcs[0], arcs[1]))


def measure_relaxation(problem: Problem) -> Relaxation:
    """Compare the projections with the best diagonal P of trace one.

    On diag(p, 1 − p) and a diagonal X the loss is w₁x₁²(1 − p)² + w₂x₂²p², least at
    p = w₁x₁² / (w₁x₁² + w₂x₂²).
    """
    axes, lines = (
        [problem.loss(rational.line_projection(d)) for d in directions]
        for directions in (([1, 0], [0, 1]), ([1, 1], [1, -1]))
    )
    sizes = [(root * problem.X[j][j]) ** 2 for j, root in enumerate(problem.roots)]
    p = sizes[0] / sum(sizes)
    least = min(axes)
    u = (1, 0) if axes[0] == least else (-1, 0)
    nothing = problem.loss(rational.diagonal([0, 0]))
    return Relaxation(
        pair_sums=(sum(axes, Fraction(0)), sum(lines, Fraction(0))),
        least=least,
        is_least=nothing >= least and CircleForm.of(problem.loss).is_least_at(u),
        relaxed=problem.loss(rational.diagonal([p, 1 - p])),
    )


class Found(NamedTuple):
    """A problem and two projections between which the printed quadratic bulges."""

    problem: Problem
    directions: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def ends(self) -> tuple[Matrix, Matrix]:
        """The two projections."""
        first, second = map(rational.line_projection, self.directions)
        return first, second

    def midpoint(self) -> Midpoint:
        """Exact values of the printed quadratic."""
        first, second = self.ends
        middle = rational.combine((_HALF, first), (_HALF, second))
        return Midpoint(*map(self.problem.expansion, (first, second, middle)))

    def describe(self) -> str:
        """The example in words."""
        X = [[int(value) for value in row] for row in self.problem.X]
        a, b = self.directions
        return (
            f"X = {X}, √w = {list(self.problem.roots)}, projections onto {list(a)} and {list(b)}; "
            "half-way between them the expression exceeds the mean of its two values by so much."
        )


def search_midpoint(draws: int = 20_000, seed: int = 8) -> Found:
    """Look among small whole numbers for the two projections with the largest relative excess.

    The excess of a quadratic with form Q at the middle of P₁ and P₂ is −¼ Q(P₁ − P₂).
    """
    rng = np.random.default_rng(seed)
    X, roots = rng.integers(0, 4, (draws, 2, 2)), rng.integers(1, 13, (draws, 2))
    directions = rng.integers(-4, 5, (draws, 2, 2))
    directions[..., 0] += 5 * ~directions.any(axis=2)  # no line goes along (0, 0)
    squares = (directions**2).sum(axis=2)[..., None, None]
    P = directions[..., :, None] * directions[..., None, :] / squares
    step, C = P[:, 0] - P[:, 1], np.swapaxes(X, 1, 2) @ X
    curvature = np.einsum("ka,kab,kbc,kc,kca->k", roots, C, step, roots, step, optimize=True)
    scale = np.einsum("ka,kaa,ka->k", roots, C, roots) + 1e-9
    has_idle_user = (X.sum(axis=2) == 0).any(axis=1)
    best = int(np.argmin(np.where(has_idle_user, 0.0, curvature / scale)))
    problem = Problem(rational.matrix(X[best].tolist()), tuple(roots[best].tolist()))
    a, b = directions[best].tolist()
    return Found(problem, (_shortest(a), _shortest(b)))


def _shortest(direction: list[int]) -> tuple[int, ...]:
    """The same line in the smallest whole numbers."""
    divisor = gcd(*direction)
    return tuple(d // divisor for d in direction)


def small_problems(count: int, seed: int = 9) -> Iterator[Problem]:
    """Random problems of two or three items, in whole numbers."""
    rng = np.random.default_rng(seed)
    for k in range(count):
        m = 2 + k % 2
        X = rng.integers(0, 5, (3, m)).tolist()
        yield Problem(rational.matrix(X), tuple(rng.integers(0, 10, m).tolist()))


def loss_is_convex(problem: Problem) -> bool:
    """Decide exactly whether the loss is a convex function of P."""
    curvature = rational.hessian(problem.loss, len(problem.roots))
    return rational.is_positive_semidefinite(curvature)

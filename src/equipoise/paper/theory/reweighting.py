"""The re-weighted PCA loss: what is convex, what is not, and why it cannot be relaxed.

The loss is L(P) = Σ_j w_j ‖X_·j − (XP)_·j‖² = ‖X(I − P)D‖² with D = diag(√w), over projections P.

- L is a squared norm of an affine map, so it is convex in P. The paper states that it is not.
- The paper expands L to tr(DCD) − 2 tr(DCDP) + tr(DCPDP), C = XᵀX. That quadratic is non-convex,
  as the paper states, but it is not L: the derivation exchanges P and D. The expansion of L is
  tr(CD²) − 2 tr(D²CP) + tr(CPD²P), and its last term is ‖XPD‖² ≥ 0.
- The conclusion that the paper needs is true. PCA is easy because its loss on the projections is
  tr C − tr(CP): linear, so the relaxation {0 ⪯ P ⪯ I, tr P ≤ r} has a projection as optimum. No
  linear function equals L on the projections, the relaxed optimum of L itself is not a
  projection, and over the projections L has local minima.

Each statement is decided on a 2 × 2 matrix. Entries are whole numbers and halves, so sums and
products of them have no rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations_with_replacement
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.paper.theory.experiment import Experiment, Floats, finding
from equipoise.paper.verdicts import Finding

# Of the largest eigenvalue: smaller negative ones are rounding.
_ROUNDING = 1e-9


class Problem(NamedTuple):
    """A matrix X and the roots √w of its items' weights."""

    X: Floats
    roots: Floats

    def loss(self, P: Floats) -> float:
        """Σ_j w_j ‖X_·j − (XP)_·j‖², by its definition."""
        return float(((self.X - self.X @ P) ** 2).sum(axis=0) @ self.roots**2)

    def expansion(self, P: Floats) -> float:
        """tr(DCD) − 2 tr(DCDP) + tr(DCPDP), as printed."""
        D, C = np.diag(self.roots), self.X.T @ self.X
        DCD = D @ C @ D
        return float(np.trace(DCD) - 2 * np.trace(DCD @ P) + np.trace(D @ C @ P @ D @ P))


def line_projection(direction: ArrayLike) -> Floats:
    """ddᵀ / dᵀd: the projection onto a line."""
    d = np.asarray(direction, dtype=np.float64)
    return np.outer(d, d) / (d @ d)


#: Losses by hand, for the projections onto the two axes: w₂x₂² = 9 and w₁x₁² = 16.
TWO_MINIMA = Problem(np.diag([1.0, 3.0]), np.array([4.0, 1.0]))

#: A problem and two lines between whose projections the printed quadratic bulges.
BULGE, LINES = Problem(np.array([[1.0, 3.0], [1.0, 2.0]]), np.array([12.0, 1.0])), ((1, 1), (1, 0))


def reweighted_loss(quick: bool = False) -> Experiment:
    """Decide which formulation of the re-weighted problem is convex."""
    losses = measure_axis_losses(TWO_MINIMA)
    first, second = ends = [line_projection(direction) for direction in LINES]
    at_ends, printed = ([q(P) for P in ends] for q in (BULGE.loss, BULGE.expansion))
    findings = (
        judge_minima(losses),
        judge_relaxation(losses),
        judge_expansion(BULGE.expansion((first + second) / 2) - sum(printed) / 2),
        judge_identity(at_ends, printed),
        judge_loss([is_convex(p.loss, p.X.shape[1]) for p in _problems(15 if quick else 60)]),
    )
    return Experiment("reweighting", "Non-convexity of the re-weighted loss", findings)


class AxisLosses(NamedTuple):
    """Losses of a problem with a diagonal 2 × 2 matrix X.

    Attributes
    ----------
    axes : tuple of float
        Losses of the projections onto the two axes.
    diagonals : tuple of float
        Losses of the projections onto the lines at ±45°, one on each path between the axes.
    zero : float
        Loss of P = 0.
    relaxed : float
        Least loss of the diagonal P with trace one, which are not projections in general.
    """

    axes: tuple[float, ...]
    diagonals: tuple[float, ...]
    zero: float
    relaxed: float

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
    sizes = (problem.roots * np.diag(problem.X)) ** 2
    p = sizes[0] / sum(sizes)
    axes, diagonals = (
        tuple(problem.loss(line_projection(d)) for d in directions)
        for directions in (([1, 0], [0, 1]), ([1, 1], [1, -1]))
    )
    zero, relaxed = (problem.loss(np.diag(d)) for d in ([0.0, 0.0], [p, 1 - p]))
    return AxisLosses(axes, diagonals, zero, relaxed)


def is_convex(q: Callable[[Floats], float], m: int) -> bool:
    """Whether a quadratic of symmetric m × m matrices has no negative second derivative.

    The set {0 ⪯ P ⪯ I, tr P ≤ r} has inner points, so convexity on it is equivalent.
    """
    basis = []
    for i, j in combinations_with_replacement(range(m), 2):
        A = np.zeros((m, m))
        A[i, j] = A[j, i] = 1
        basis.append(A)
    at_zero = q(0 * basis[0])
    hessian = np.array([[q(A + B) - q(A) - q(B) + at_zero for B in basis] for A in basis])
    values = np.linalg.eigvalsh(hessian)
    return bool(values[0] >= -_ROUNDING * abs(values[-1]))


def _problems(count: int) -> list[Problem]:
    """Random problems of two or three items, in whole numbers."""
    rng = np.random.default_rng(9)
    items = [2 + k % 2 for k in range(count)]
    draws = [(rng.integers(0, 5, (3, m)), rng.integers(0, 10, m)) for m in items]
    return [Problem(X.astype(float), roots.astype(float)) for X, roots in draws]


def judge_minima(losses: AxisLosses) -> Finding:
    """Whether every path from the worse axis to the better one passes a higher loss."""
    best, worse, barrier = min(losses.axes), max(losses.axes), min(losses.diagonals)
    measured = f"losses {worse:g} and {best:g}, {barrier:g} between them"
    note = (
        "True of the problem over projections, where descent can end in the worse minimum; PCA has "
        "no such minima. The paper's own argument does not show it: see reweighting-identity and "
        "reweighting-loss."
    )
    return finding("reweighting", best < worse < barrier, measured, note)


def judge_relaxation(losses: AxisLosses) -> Finding:
    """Whether the loss is not linear on projections and the relaxed optimum is not a projection."""
    best, sums = min(losses.axes), (sum(losses.axes), sum(losses.diagonals))
    # Both pairs have the midpoint ½I: a linear function has the same sum on both.
    holds = sums[0] != sums[1] and losses.least_is_proved and losses.relaxed < best
    measured = f"relaxed {losses.relaxed:.4g}, every projection at least {best:g}"
    pairs = f"{sums[0]:g} and {sums[1]:g}"
    note = f"Two pairs of projections with the same midpoint have losses that sum to {pairs}."
    return finding("reweighting-relaxation", holds, measured, note)


def judge_expansion(excess: float) -> Finding:
    """Whether the printed quadratic exceeds its chord."""
    note = (
        f"X = {BULGE.X.astype(int).tolist()}, √w = {BULGE.roots.astype(int).tolist()}, projections "
        f"onto {LINES[0]} and {LINES[1]}; the excess is the value at their midpoint minus the mean "
        "of their values."
    )
    return finding("reweighting-expansion", excess > 0, f"excess {excess:g}", note)


def judge_identity(losses: Sequence[float], expansions: Sequence[float]) -> Finding:
    """Whether the printed quadratic equals the loss at each of some projections."""
    note = (
        "The derivation exchanges P and D, which do not commute. The loss is "
        "tr(CD²) − 2 tr(D²CP) + tr(CPD²P)."
    )
    printed, actual = (", ".join(f"{v:g}" for v in values) for values in (expansions, losses))
    equal = list(expansions) == list(losses)
    return finding("reweighting-identity", equal, f"{printed} against {actual}", note)


def judge_loss(convex: Sequence[bool]) -> Finding:
    """Whether the loss has negative curvature on any matrix."""
    measured = f"convex on {sum(convex)} of {len(convex)} matrices"
    note = (
        "‖X(I − P)D‖² is a squared norm of an affine map of P: always convex. Its relaxation is "
        "a convex problem, but its optimum need not be a projection: see reweighting-relaxation."
    )
    return finding("reweighting-loss", not all(convex), measured, note)

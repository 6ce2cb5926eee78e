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

Each statement is decided on a 2 × 2 matrix in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from equipoise.paper.theory.exact import (
    AxisLosses,
    Counterexample,
    Problem,
    exact,
    measure_axis_losses,
    search_counterexample,
    small_problems,
)
from equipoise.paper.theory.experiment import Experiment, finding
from equipoise.paper.verdicts import Finding

#: Losses by hand, for the projections onto the two axes: w₂x₂² = 9 and w₁x₁² = 16.
TWO_MINIMA = Problem(exact([[1, 0], [0, 3]]), roots=(4, 1))


def reweighted_loss(quick: bool = False) -> Experiment:
    """Decide exactly which formulation of the re-weighted problem is convex."""
    example = search_counterexample()
    losses = measure_axis_losses(TWO_MINIMA)
    convex = [problem.is_convex() for problem in small_problems(15 if quick else 60)]
    problem, ends = example.problem, example.ends
    findings = (
        judge_minima(losses),
        judge_relaxation(losses),
        judge_expansion(example.excess, _describe(example)),
        judge_identity([problem.loss(P) for P in ends], [problem.expansion(P) for P in ends]),
        judge_loss(convex),
    )
    return Experiment("reweighting", "Non-convexity of the re-weighted loss", findings)


def judge_minima(losses: AxisLosses) -> Finding:
    """Whether every path from the worse axis to the better one passes a higher loss."""
    best, worse, barrier = min(losses.axes), max(losses.axes), min(losses.diagonals)
    measured = f"losses {float(worse):g} and {float(best):g}, {float(barrier):g} between them"
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
    measured = f"relaxed {float(losses.relaxed):.4g}, every projection at least {float(best):g}"
    pairs = f"{float(sums[0]):g} and {float(sums[1]):g}"
    note = f"Two pairs of projections with the same midpoint have losses that sum to {pairs}."
    return finding("reweighting-relaxation", holds, measured, note)


def judge_expansion(excess: Fraction, example: str = "") -> Finding:
    """Whether the printed quadratic exceeds its chord."""
    return finding("reweighting-expansion", excess > 0, f"excess {excess}", example)


def judge_identity(losses: Sequence[Fraction], expansions: Sequence[Fraction]) -> Finding:
    """Whether the printed quadratic equals the loss at each of some projections."""
    note = (
        "The derivation exchanges P and D, which do not commute. The loss is "
        "tr(CD²) − 2 tr(D²CP) + tr(CPD²P)."
    )
    printed, actual = (", ".join(map(str, values)) for values in (expansions, losses))
    equal = list(expansions) == list(losses)
    return finding("reweighting-identity", equal, f"{printed} against {actual}", note)


def judge_loss(is_convex: Sequence[bool]) -> Finding:
    """Whether the loss has negative curvature on any matrix."""
    measured = f"convex on {sum(is_convex)} of {len(is_convex)} matrices"
    note = (
        "‖X(I − P)D‖² is a squared norm of an affine map of P: always convex. Its relaxation is "
        "a convex problem, but its optimum need not be a projection: see reweighting-relaxation."
    )
    return finding("reweighting-loss", not all(is_convex), measured, note)


def _describe(example: Counterexample) -> str:
    X = example.problem.X.astype(int).tolist()
    first, second = map(list, example.directions)
    return (
        f"X = {X}, √w = {list(example.problem.roots)}, projections onto {first} and {second}; the "
        "excess is the value at their midpoint minus the mean of their values."
    )

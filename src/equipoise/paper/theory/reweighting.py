"""Re-weighting PCA's loss: what is convex about it, what is not, and why it cannot be relaxed.

The loss is L(P) = Σ_j w_j ‖X_·j − (XP)_·j‖² = ‖X(I − P)D‖² with D = diag(√w), over projections P.

- L is a squared norm of an affine map, so it is convex in P. The paper says it is not.
- The paper expands L to tr(DCD) − 2 tr(DCDP) + tr(DCPDP), C = XᵀX. That quadratic is non-convex,
  as the paper says, but it is not L: P and D are exchanged on the way. The expansion of L is
  tr(CD²) − 2 tr(D²CP) + tr(CPD²P), and its last term is ‖XPD‖² ≥ 0.
- What the paper needs is true all the same. PCA is easy because tr C − tr(CP) is its loss on the
  projections: linear, so that the relaxation {0 ⪯ P ⪯ I, tr P ≤ r} has a projection as optimum.
  No linear function equals L on the projections, the relaxed optimum of L itself is no projection,
  and over the projections L has hills between its valleys.

Each statement is decided on a 2 × 2 matrix in exact arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

import numpy as np

from equipoise.paper.theory import rational
from equipoise.paper.theory.experiment import Experiment, Panel, Series, Table, judge
from equipoise.paper.theory.reweighted_loss import (
    Found,
    Midpoint,
    Problem,
    Relaxation,
    Valleys,
    loss_is_convex,
    measure_relaxation,
    measure_valleys,
    search_midpoint,
    small_problems,
)
from equipoise.paper.verdicts import Claim, Finding, Verdict

_WHERE = "Appendix A.4.2"
# Losses by hand, for the projections onto the two axes: w₂x₂² = 9 and w₁x₁² = 16.
_HILLS = Problem(rational.matrix([[1, 0], [0, 3]]), roots=(4, 1))

Row = tuple[str, float, float]  # curve, x, value

TITLE = "Non-convexity of the re-weighted loss"
CLAIM = Claim(
    id="reweighting",
    what="Replacing PCA's objective by Σ w_j ‖X_j − X̂_j‖² gives a non-convex problem",
    where=_WHERE,
    published=True,
    how=(
        "exact example, rank one: two projections, of which the better cannot be reached from the "
        "other without passing a higher loss"
    ),
)
RELAXATION_CLAIM = Claim(
    id="reweighting-relaxation",
    what="The convex relaxation used for PCA no longer applies when the error is re-weighted",
    where=_WHERE,
    published=True,
    how=(
        "exact example: no linear function of P equals the loss on the projections, and a feasible "
        "P of the relaxation has a smaller loss than every projection"
    ),
)
EXPANSION_CLAIM = Claim(
    id="reweighting-expansion",
    what="tr(DCD) − 2 tr(DCDP) + tr(DCPDP) is a non-convex function of P",
    where=_WHERE,
    published=True,
    how="exact example: two projections whose midpoint has more than the mean of their values",
)
IDENTITY_CLAIM = Claim(
    id="reweighting-identity",
    what="That expression is the re-weighted loss",
    where=_WHERE,
    published="equal",
    how="exact values of both at the two projections of the example above",
    expected=Verdict.NOT_REPRODUCED,
)
LOSS_CLAIM = Claim(
    id="reweighting-loss",
    what="The re-weighted loss, as a function of P, violates convexity",
    where="§4.1.2",
    published=True,
    how="exact second derivatives on every matrix of the search: indefinite on at least one",
    expected=Verdict.NOT_REPRODUCED,
)


def reweighting(quick: bool = False) -> Experiment:
    """Decide, exactly, which formulation of the re-weighted problem is convex."""
    found = search_midpoint()
    curvatures = [loss_is_convex(problem) for problem in small_problems(15 if quick else 60)]
    findings = (
        judge_valleys(measure_valleys(_HILLS)),
        judge_relaxation(measure_relaxation(_HILLS)),
        judge_expansion(found.midpoint(), found.describe()),
        judge_identity(*_both_at(found)),
        judge_loss(curvatures),
    )
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(found), _panels())


def judge_valleys(valleys: Valleys) -> Finding:
    """Whether the better projection lies beyond a hill."""
    holds = valleys.best < valleys.worse < min(valleys.barriers)
    measured = (
        f"losses {float(valleys.worse):g} and {float(valleys.best):g}, "
        f"{float(min(valleys.barriers)):g} on the way"
    )
    note = (
        "True of the problem over projections, where descent can end in the worse valley; PCA has "
        "no such valleys. The paper's own argument does not show it: see reweighting-identity and "
        "reweighting-loss."
    )
    return judge(CLAIM, holds, measured, note)


def judge_relaxation(relaxation: Relaxation) -> Finding:
    """Whether no linear function will do and the relaxed optimum is no projection."""
    not_linear = relaxation.pair_sums[0] != relaxation.pair_sums[1]
    holds = not_linear and relaxation.is_least and relaxation.relaxed < relaxation.least
    measured = (
        f"relaxed {float(relaxation.relaxed):.4g}, every projection at least "
        f"{float(relaxation.least):g}"
    )
    sums = f"{float(relaxation.pair_sums[0]):g} and {float(relaxation.pair_sums[1]):g}"
    note = f"Two pairs of projections with the same midpoint have losses that sum to {sums}."
    return judge(RELAXATION_CLAIM, holds, measured, note)


def judge_expansion(midpoint: Midpoint, example: str = "") -> Finding:
    """Whether the printed quadratic exceeds its chord."""
    return judge(EXPANSION_CLAIM, midpoint.excess > 0, f"excess {midpoint.excess}", example)


def judge_identity(losses: Sequence[Fraction], expansions: Sequence[Fraction]) -> Finding:
    """Whether the printed quadratic is the loss, at each of some projections."""
    note = (
        "The derivation exchanges P and D, which do not commute. The loss is "
        "tr(CD²) − 2 tr(D²CP) + tr(CPD²P)."
    )
    printed, actual = (", ".join(map(str, values)) for values in (expansions, losses))
    return judge(
        IDENTITY_CLAIM, list(expansions) == list(losses), f"{printed} against {actual}", note
    )


def judge_loss(is_convex: Sequence[bool]) -> Finding:
    """Whether the loss has negative curvature anywhere."""
    measured = f"convex on {sum(is_convex)} of {len(is_convex)} matrices"
    note = (
        "‖X(I − P)D‖² is a squared norm of an affine map of P: convex always. Its relaxation is "
        "a convex problem, but its optimum need not be a projection: see reweighting-relaxation."
    )
    return judge(LOSS_CLAIM, not all(is_convex), measured, note)


def _both_at(found: Found) -> tuple[list[Fraction], list[Fraction]]:
    problem = found.problem
    return [problem.loss(P) for P in found.ends], [problem.expansion(P) for P in found.ends]


def _table(found: Found) -> Table:
    rows = [*_along_the_segment(found), *_around_the_circle(_HILLS)]
    curve, x, value = zip(*rows, strict=True)
    return {"curve": np.array(curve), "x": np.array(x), "value": np.array(value)}


def _along_the_segment(found: Found) -> Iterator[Row]:
    (first, second), problem = found.ends, found.problem
    for step in range(41):
        s = Fraction(step, 40)
        P = rational.combine((1 - s, first), (s, second))
        chord = (1 - s) * problem.expansion(first) + s * problem.expansion(second)
        yield "printed", float(s), float(problem.expansion(P))
        yield "chord", float(s), float(chord)
        yield "loss", float(s), float(problem.loss(P))


def _around_the_circle(problem: Problem) -> Iterator[Row]:
    relaxed = float(measure_relaxation(problem).relaxed)
    for degrees in range(0, 181, 3):
        yield "projections", float(degrees), _loss_at(problem, degrees)
        yield "relaxed", float(degrees), relaxed


def _loss_at(problem: Problem, degrees: float) -> float:
    """The loss of the projection onto the line at an angle, in floating point, for the picture."""
    d = np.array([np.cos(np.radians(degrees)), np.sin(np.radians(degrees))])
    X = np.array(problem.X, float)
    residual = (X - np.outer(X @ d, d)) * np.array(problem.roots)
    return float((residual**2).sum())


def _panels() -> tuple[Panel, ...]:
    segment = (
        Series("expression as printed", "x", "value", "printed"),
        Series("its chord", "x", "value", "chord", "reference"),
        Series("the re-weighted loss", "x", "value", "loss"),
    )
    circle = (
        Series("projections of rank one", "x", "value", "projections"),
        Series("optimum of the relaxation", "x", "value", "relaxed", "reference"),
    )
    return (
        Panel("Between two projections", "position from P₁ to P₂", "value", segment),
        Panel("Over all lines of the plane", "angle of the line in degrees", "loss", circle),
    )

"""Theorem 4: PCA takes the popular items, Normalized PCA the others, γ = −1 half and half.

With γ = −1 each eigenvalue of the popular items equals one of the unpopular items, so between the
two of a pair the subspace is not unique: any mixture is optimal. The shares are therefore taken
after whole pairs, at even numbers of components.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from equipoise.data import synthetic
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.paper.theory.experiment import Experiment, Panel, Series, Table, judge
from equipoise.paper.verdicts import Claim, Finding

_TOLERANCE = 1e-8  # shares are sums of squares of eigenvectors, exact to rounding

TITLE = "Theorem 4: the baselines take sides"
CLAIM = Claim(
    id="theorem-4",
    what=(
        "Of the leading components, PCA's are all on popular items, Normalized PCA's all on "
        "unpopular ones, and with γ = −1 half are on each"
    ),
    where="Appendix A.3.2",
    published="1, 0, ½",
    how=(
        "share of the projector's trace on popular items: at every rank up to r for the baselines, "
        f"after every pair of tied eigenvalues up to 2r for γ = −1; within {_TOLERANCE:g}"
    ),
)

_EXPECTED = {"PCA": 1.0, "Normalized PCA": 0.0, "Item-Weighted PCA, γ = −1": 0.5}


class Share(NamedTuple):
    """How much of a model's leading components lies on the popular items of one matrix."""

    curve: str  # the model
    matrix: str
    components: int
    share: float


def half_and_half(quick: bool = False) -> Experiment:
    """Measure where the components go on data with exclusive tastes."""
    worlds = [(4, 2)] if quick else [(4, 2), (3, 3), (5, 2), (2, 4)]
    shares = [share for rank, beta in worlds for share in _shares(rank, beta)]
    findings = (judge_shares(shares),)
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(shares), _panels(shares))


def judge_shares(shares: Sequence[Share]) -> Finding:
    """Whether every share is what the theorem says."""
    measured = {curve: [s.share for s in shares if s.curve == curve] for curve in _EXPECTED}
    holds = all(
        bool(values) and max(abs(value - _EXPECTED[curve]) for value in values) <= _TOLERANCE
        for curve, values in measured.items()
    )
    text = "; ".join(f"{curve}: {_span(values)}" for curve, values in measured.items())
    note = (
        "With γ = −1 eigenvalues tie in pairs: at an odd number of components the subspace is not "
        "unique, so shares are read after whole pairs."
    )
    return judge(CLAIM, holds, text, note)


def _span(values: Sequence[float]) -> str:
    low, high = f"{abs(min(values)):.3f}", f"{abs(max(values)):.3f}"
    return low if low == high else f"{low} to {high}"


def _shares(rank: int, beta: int) -> Iterator[Share]:
    world = synthetic.exclusive_tastes(rank, beta)
    models = (
        VanillaPCA(rank, solver="dense"),
        NormalizedPCA(rank, solver="dense"),
        ItemWeightedPCA(2 * rank, gamma=-1.0, solver="dense"),
    )
    for (curve, expected), model in zip(_EXPECTED.items(), models, strict=True):
        components = model.fit(world.interactions).components_
        on_popular = np.cumsum((components[:, : world.n_popular] ** 2).sum(axis=1))
        step = 2 if expected == 0.5 else 1
        for k in range(step, len(components) + 1, step):
            yield Share(curve, f"r = {rank}, β = {beta}", k, float(on_popular[k - 1] / k))


def _table(shares: Sequence[Share]) -> Table:
    return dict(zip(Share._fields, map(np.array, zip(*shares, strict=True)), strict=True))


def _panels(shares: Sequence[Share]) -> tuple[Panel, ...]:
    series = tuple(Series(curve, "components", "share", curve, "points") for curve in _EXPECTED)
    title = f"Exclusive tastes, {len({s.matrix for s in shares})} matrices"
    return (Panel(title, "components", "share on popular items", series),)

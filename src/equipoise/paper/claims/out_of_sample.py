"""§5.3 and appendix, out of sample: users (Figures 4 and 6) and γ (Figure 8)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from equipoise.paper.claims.building import change, claim, declines, of, tallied
from equipoise.paper.judging import Check, Outcome, number_check, tally
from equipoise.paper.measurements import Evaluation, Measurements
from equipoise.paper.protocol import (
    DATASETS,
    ITEM_WEIGHTED,
    MODELS,
    NORMALIZED,
    PCA,
    USER_METRICS,
    USER_RANK,
)

_LOW_RANKS = (4, 8, 16, USER_RANK)
_FIGURE_4 = ("recall@20", "ndcg@20")
# what the text prints, and half a unit of its last digit
_RECALL = {"lastfm": (51.7, 0.05), "movielens": (16.0, 0.5)}
# Recalls are means over thousands of users: what lies below this is one user's tie.
_EQUAL_WITHIN = 5e-5


def out_of_sample_checks() -> Iterator[Check]:
    """Figures 4, 6 and 8."""
    yield from _recalls()
    yield Check(
        claim("peaks", "both", "all four user metrics on both data sets peak highest with item "
              "weights", "appendix, Figure 6", True, "peak over r = 4, 8, …, 1024"),
        lambda m: tally((name, outcome.holds) for name, outcome in _peaks(m)),
    )  # fmt: skip
    for dataset in DATASETS:
        yield from _orders(dataset)
    yield Check(
        claim("peak-rank", "both", "r = 32 is the peak of most curves", "§5.3, Figure 4", True,
              "curves of Recall@20 and NDCG@20 with their maximum at r = 32, more than half"),
        _peak_ranks,
    )  # fmt: skip
    yield from _gamma()


def _recalls() -> Iterator[Check]:
    how = "mean over users on the held-out fifth at r = 32, Item-Weighted against PCA"
    for dataset, (published, tolerance) in _RECALL.items():
        what = f"Recall@20 on {DATASETS[dataset].title}, change from PCA in %"
        yield number_check(
            claim(f"recall-{dataset}", dataset, what, "§5.3, Figure 4", published, how),
            tolerance,
            of(dataset, lambda e: change(e, "recall@20", USER_RANK)),
        )


def _orders(dataset: str) -> Iterator[Check]:
    title = DATASETS[dataset].title
    for metric, shown in USER_METRICS.items():
        yield _peak_check(dataset, metric, f"{title}: {shown} peaks highest with item weights")
    yield Check(
        claim(f"low-rank-{dataset}", dataset,
              f"{title}: item weights beat both baselines at low rank", "§5.3, Figure 4", True,
              "Recall@20 and NDCG@20 at r = 4, 8, 16, 32"),
        tallied(dataset, _beats_at_low_rank),
    )  # fmt: skip
    yield Check(
        claim(f"decline-users-{dataset}", dataset, f"{title}: user metrics fall at high rank",
              "§5.3, Figure 4", True, "four metrics, three models: r = 1024 below the peak"),
        tallied(dataset, lambda e: declines(e, USER_METRICS, e.user_ranks)),
    )  # fmt: skip


def _peak_check(dataset: str, metric: str, what: str) -> Check:
    where = "§5.3, Figure 4" if metric in _FIGURE_4 else "appendix, Figure 6"
    how = "peak over r = 4, 8, …, 1024 against the better baseline"
    name = f"peak-{metric.partition('@')[0]}-{dataset}"
    stated = claim(name, dataset, what, where, True, how)
    return Check(stated, lambda m: _peak(getattr(m, dataset), metric))


def _peak(evaluation: Evaluation, metric: str) -> Outcome:
    best = {m: max(evaluation.curve(metric, m, evaluation.user_ranks)) for m in MODELS}
    rival = max((PCA, NORMALIZED), key=lambda m: best[m])
    shown = f"{best[ITEM_WEIGHTED]:.4f} against {best[rival]:.4f} of {rival}"
    return Outcome(shown, best[ITEM_WEIGHTED] > best[rival])


def _peaks(measurements: Measurements) -> Iterator[tuple[str, Outcome]]:
    for evaluation in measurements.evaluations:
        for metric, shown in USER_METRICS.items():
            yield f"{shown} on {evaluation.title}", _peak(evaluation, metric)


def _beats_at_low_rank(evaluation: Evaluation) -> Iterator[tuple[str, bool]]:
    for metric in _FIGURE_4:
        for rank in _LOW_RANKS:
            ours = evaluation.value(metric, ITEM_WEIGHTED, rank)
            others = [evaluation.value(metric, m, rank) for m in (PCA, NORMALIZED)]
            yield f"{USER_METRICS[metric]} at r = {rank}", ours > max(others)


def _peak_ranks(measurements: Measurements) -> Outcome:
    tops = [
        e.user_ranks[int(np.argmax(e.curve(metric, model, e.user_ranks)))]
        for e in measurements.evaluations
        for metric in _FIGURE_4
        for model in MODELS
    ]
    at_32 = tops.count(USER_RANK)
    return Outcome(f"{at_32} of {len(tops)} curves", at_32 > len(tops) / 2)


def _gamma() -> Iterator[Check]:
    where = "appendix, Figure 8"
    yield number_check(
        claim("gamma-movielens", "movielens", "best γ for Recall@20 on MovieLens", where, -1.0,
              "argmax over γ = -2, -1.9, …, 0 at r = 32"),
        0.05,
        lambda m: _best(m.sweep["recall@20"]),
        lambda m: _best(m.sweep["recall@10"]),
        lambda _: "the text counts twenty items, the sweep of the published code ten",
    )  # fmt: skip
    yield Check(
        claim("gamma-shape", "movielens", "Recall@20 rises as γ falls from 0, then falls", where,
              True, "rises from step to step down to the best γ, falls from there on"),
        lambda m: tally(_unimodal(m.sweep["recall@20"])),
    )  # fmt: skip
    yield Check(
        claim("gamma-zero", "movielens", "γ = 0 is PCA", f"{where}, Theorem 3", True,
              "Recall@20 at r = 32 differs by less than 5e-5"),
        lambda m: _differs(m, 0.0, PCA, expected=False),
    )  # fmt: skip
    yield Check(
        claim("gamma-two", "movielens", "γ = -2 is not Normalized PCA on real data", where, True,
              "Recall@20 at r = 32 differs by more than 5e-5"),
        lambda m: _differs(m, -2.0, NORMALIZED, expected=True),
    )  # fmt: skip


def _best(sweep: dict[float, float]) -> float:
    return max(sweep, key=sweep.__getitem__)


def _unimodal(sweep: dict[float, float]) -> Iterator[tuple[str, bool]]:
    best = _best(sweep)
    for low, high in pairwise(sorted(sweep)):
        yield f"γ = {low:g} to {high:g}", (sweep[low] < sweep[high]) == (high <= best)


def _differs(measurements: Measurements, gamma: float, model: str, *, expected: bool) -> Outcome:
    ours = measurements.sweep["recall@20"][gamma]
    other = measurements.movielens.value("recall@20", model, USER_RANK)
    apart = abs(ours - other) > _EQUAL_WITHIN
    return Outcome(f"{ours:.4f} and {other:.4f}", apart is expected)

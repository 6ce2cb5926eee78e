"""§5.3, in-sample: specialization (Figure 2) and collaboration (Figure 3)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise

from equipoise.paper.claims.building import (
    change,
    claim,
    declines,
    has_sign,
    of,
    tallied,
    text_change,
)
from equipoise.paper.judging import Check, Outcome, number_check
from equipoise.paper.measurements import Evaluation
from equipoise.paper.protocol import DATASETS, GROUPS, ITEM_RANK, ITEM_WEIGHTED, NORMALIZED, PCA

# The low-rank regime, where the text says that these metrics matter.
_LOW_RANKS = (10, ITEM_RANK, 100)
_NEARLY_IDENTICAL = 0.05
_METRICS = {"item_auc": "item AUC", "item_precision@20": "item Precision@20"}
_SPECIALIZATION = {"lastfm": -24.3, "movielens": -52.1}
# data set, metric, and the published changes in percent: over all items, over unpopular ones
_COLLABORATION = (
    ("auc-{}lastfm", "lastfm", "item_auc", 6.2, 6.1),
    ("prec-{}movielens", "movielens", "item_precision@20", 11.7, 23.1),
)


def in_sample_checks() -> Iterator[Check]:
    """Figures 2 and 3."""
    for dataset, published in _SPECIALIZATION.items():
        yield from _specialization(dataset, published)
    for row in _COLLABORATION:
        yield from _published_changes(*row)
    for dataset in DATASETS:
        for metric in _METRICS:
            yield from _orders(dataset, metric)


def _specialization(dataset: str, published: float) -> Iterator[Check]:
    where, title = "§5.3, Figure 2", DATASETS[dataset].title
    yield number_check(
        claim(f"spec-{dataset}", dataset, f"specialization on {title}, change from PCA in %",
              where, published, "mean of the largest tenth of diag(P) at r = 30"),
        0.05,
        of(dataset, lambda e: change(e, "specialization", ITEM_RANK)),
    )  # fmt: skip
    yield Check(
        claim(f"spec-order-{dataset}", dataset,
              f"specialization on {title}: Normalized < Item-Weighted < PCA", where, True,
              "at r = 10, 30, 100"),
        tallied(dataset, lambda e: _rising(e, "specialization", NORMALIZED, ITEM_WEIGHTED, PCA)),
    )  # fmt: skip
    yield Check(
        claim(f"spec-popular-{dataset}", dataset,
              f"{title}: PCA's diagonal is largest for popular items", where, True,
              "mean P_jj at r = 30, high > medium > low"),
        tallied(dataset, lambda e: _falling(e.text_value("diagonal", PCA, g) for g in GROUPS)),
        tallied(
            dataset, lambda e: _falling(e.value("diagonal", PCA, ITEM_RANK, g) for g in GROUPS)
        ),
    )  # fmt: skip
    yield Check(
        claim(f"spec-high-{dataset}", dataset,
              f"{title}: item weights lower the diagonal of popular items", where, True,
              "mean P_jj of the high group at r = 30, change in %"),
        lambda m: has_sign(text_change(getattr(m, dataset), "diagonal", "high"), -1),
        lambda m: has_sign(change(getattr(m, dataset), "diagonal", ITEM_RANK, "high"), -1),
    )  # fmt: skip


def _published_changes(
    name: str, dataset: str, metric: str, overall: float, low: float
) -> Iterator[Check]:
    where = "§5.3, Figure 3"
    what = f"in-sample {_METRICS[metric]} on {DATASETS[dataset].title}, change from PCA in %"
    yield number_check(
        claim(name.format(""), dataset, f"{what}, all items", where, overall,
              "Item-Weighted against PCA at r = 30, diagonal of P set to 0"),
        0.05,
        of(dataset, lambda e: change(e, metric, ITEM_RANK)),
    )  # fmt: skip
    yield number_check(
        claim(name.format("low-"), dataset, f"{what}, low popularity", where, low,
              "the same over the low group: the last tenth of the items (text), or those after "
              "90 % of the mass (code)"),
        0.05,
        of(dataset, lambda e: text_change(e, metric, "low")),
        of(dataset, lambda e: change(e, metric, ITEM_RANK, "low")),
    )  # fmt: skip


def _orders(dataset: str, metric: str) -> Iterator[Check]:
    where, short = "§5.3, Figure 3", metric.partition("@")[0].removeprefix("item_")
    name, named = f"{short}-{dataset}", f"{DATASETS[dataset].title}, {_METRICS[metric]}"
    yield Check(
        claim(f"collaboration-{name}", dataset, f"{named}: higher with item weights than PCA",
              where, True, "all items at r = 30, change in %"),
        lambda m: has_sign(change(getattr(m, dataset), metric, ITEM_RANK), 1),
    )  # fmt: skip
    yield Check(
        claim(f"collaboration-low-{name}", dataset,
              f"{named}: higher with item weights than PCA for unpopular items", where, True,
              "low group at r = 30, change in %"),
        lambda m: has_sign(text_change(getattr(m, dataset), metric, "low"), 1),
        lambda m: has_sign(change(getattr(m, dataset), metric, ITEM_RANK, "low"), 1),
    )  # fmt: skip
    yield Check(
        claim(f"sandwich-{name}", dataset,
              f"{named}: sandwiched, PCA < Item-Weighted < Normalized", where, True,
              "all items at r = 10, 30, 100"),
        tallied(dataset, lambda e: _rising(e, metric, PCA, ITEM_WEIGHTED, NORMALIZED)),
    )  # fmt: skip
    yield Check(
        claim(f"decline-{name}", dataset, f"{named}: falls at high rank for all models", where,
              True, "value at r = m at least 1 % below the peak over all ranks"),
        tallied(dataset, lambda e: declines(e, [metric], e.item_ranks)),
    )  # fmt: skip
    if dataset == "movielens":
        yield Check(
            claim(f"identical-{name}", dataset, f"{named}: Item-Weighted ≈ Normalized", where, True,
                  "all items at r = 30, relative difference below 5 %"),
            lambda m: _alike(m.movielens, metric),
        )  # fmt: skip


def _rising(evaluation: Evaluation, metric: str, *models: str) -> Iterator[tuple[str, bool]]:
    for rank in _LOW_RANKS:
        values = [evaluation.value(metric, model, rank) for model in models]
        yield f"r = {rank}", all(a < b for a, b in pairwise(values))


def _falling(values: Iterable[float]) -> Iterator[tuple[str, bool]]:
    steps = zip(pairwise(GROUPS), pairwise(values), strict=True)
    return ((f"{a} > {b}", x > y) for (a, b), (x, y) in steps)


def _alike(evaluation: Evaluation, metric: str) -> Outcome:
    ours, other = (evaluation.value(metric, m, ITEM_RANK) for m in (ITEM_WEIGHTED, NORMALIZED))
    apart = ours / other - 1
    return Outcome(f"{100 * apart:+.1f} %", abs(apart) < _NEARLY_IDENTICAL)

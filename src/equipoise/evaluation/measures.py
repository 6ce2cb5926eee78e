"""From lists and components to rows of the table: which function answers which metric."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise import metrics as m
from equipoise.evaluation.case import Case
from equipoise.evaluation.catalogue import MetricSpec
from equipoise.evaluation.prefixes import Prefixes
from equipoise.evaluation.selection import Lists
from equipoise.metrics.results import FloatArray, GroupResult, MetricResult

ALL = "all"


class Measure(NamedTuple):
    """One number, without the model it belongs to; n users or items are behind it."""

    group: str
    metric: str
    k: int | None
    convention: str
    value: float
    n: int
    per_user: FloatArray | None = None


def measure_lists(
    lists: Lists, case: Case, specs: Sequence[MetricSpec], *, empty: str
) -> list[Measure]:
    """Every list metric of one model at one rank; `lists` are as long as the largest k."""
    found = _ranking_results([spec for spec in specs if spec.is_ranking], lists, case, empty)
    measures: list[Measure] = []
    for spec in specs:
        if spec.is_ranking:
            measures.append(_ranking_measure(spec, found[spec], empty))
        elif not spec.is_item_side:
            result = _LIST_METRICS[spec.name](lists[:, : spec.k], case, spec.convention)
            measures += _list_measures(spec, result, case)
    return measures


def _ranking_results(
    specs: Sequence[MetricSpec], lists: Lists, case: Case, empty: str
) -> dict[MetricSpec, MetricResult]:
    """One pass over the lists for each convention that a metric is asked for in."""
    found: dict[MetricSpec, MetricResult] = {}
    left = list(specs)
    while left:
        chosen: dict[str, str] = {}
        for spec in left:
            chosen.setdefault(spec.name, spec.convention)
        now = [spec for spec in left if chosen[spec.name] == spec.convention]
        ks = sorted({spec.k for spec in now if spec.k is not None})
        table = m.ranking_metrics(
            lists, case.held_out, ks, list(chosen), conventions=chosen, empty=empty
        )
        found |= {spec: table[f"{spec.name}@{spec.k}"] for spec in now}
        left = [spec for spec in left if spec not in found]
    return found


def _ranking_measure(spec: MetricSpec, result: MetricResult, empty: str) -> Measure:
    suffix = ", users without held-out items count 0" if empty == "zero" else ""
    n = 0 if result.per_user is None else int(np.sum(~np.isnan(result.per_user)))
    return Measure(
        ALL, spec.name, spec.k, result.convention + suffix, result.value, n, result.per_user
    )


def _list_measures(
    spec: MetricSpec, result: MetricResult | GroupResult[Any], case: Case
) -> Iterable[Measure]:
    if isinstance(result, GroupResult):
        sizes = {ALL: case.n_items, **case.groups.sizes}
        for group, value in {ALL: result.overall, **result.by_group}.items():
            yield Measure(group, spec.name, spec.k, result.convention, float(value), sizes[group])
        return
    users = result.per_user
    n = case.n_items if users is None else int(np.sum(~np.isnan(users)))
    yield Measure(ALL, spec.name, spec.k, result.convention, result.value, n, users)


_LIST_METRICS: dict[str, Callable[[Lists, Case, str], MetricResult | GroupResult[Any]]] = {
    "arp": lambda lists, case, c: m.average_popularity(lists, case.user_counts, convention=c),
    "aplt": lambda lists, case, _: m.average_tail_share(lists, case.tail),
    "aclt": lambda lists, case, _: m.average_tail_count(lists, case.tail),
    "popreo": lambda lists, case, _: m.popreo(lists, case.held_out, case.tail),
    "poprsp": lambda lists, case, _: m.poprsp(lists, case.tail, case.seen),
    "gini": lambda lists, case, c: m.gini(_counts(lists, case), convention=c),
    "coverage": lambda lists, case, _: m.catalogue_coverage(_counts(lists, case)),
    "entropy": lambda lists, case, c: m.entropy(_counts(lists, case), convention=c),
    "epc": lambda lists, case, c: m.epc(lists, case.seen, case.held_out, convention=c),
    "efd": lambda lists, case, c: m.efd(lists, case.seen, case.held_out, convention=c),
    "popularity_rank": lambda lists, case, c: m.mean_popularity_rank(
        lists, case.user_counts, convention=c
    ),
    "popularity_lift": lambda lists, case, _: m.popularity_lift(lists, case.seen, case.user_counts),
    "popularity_opportunity_bias": lambda lists, case, c: m.popularity_opportunity_bias(
        lists, case.held_out, case.user_counts, convention=c
    ),
    "popularity_miscalibration": lambda lists, case, _: m.popularity_miscalibration(
        lists, case.seen, case.groups
    ),
    "group_recall": lambda lists, case, c: m.recall_by_group(
        lists, case.held_out, case.groups, convention=c
    ),
    "group_exposure": lambda lists, case, c: m.exposure_by_group(lists, case.groups, convention=c),
}


def _counts(lists: Lists, case: Case) -> NDArray[np.intp]:
    return m.recommendation_counts(lists, case.n_items)


def measure_items(
    prefixes: Prefixes,
    case: Case,
    ranks: Sequence[int],
    specs: Sequence[MetricSpec],
    items: NDArray[np.intp] | None = None,
) -> list[list[Measure]]:
    """Every item-side metric at every rank, in-sample on what the model was fitted on.

    Parameters
    ----------
    prefixes : Prefixes
        The model.
    case : Case
        For the training data and the groups.
    ranks : sequence of int
        In rising order.
    specs : sequence of MetricSpec
        Those that are not item-side are left out.
    items : ndarray of int, optional
        Take item AUC and item precision of these only; all by default.
    """
    wanted = [spec for spec in specs if spec.is_item_side]
    by_rank: list[list[Measure]] = [[] for _ in ranks]
    if not wanted:
        return by_rank
    sample = np.arange(case.n_items) if items is None else items
    groups = m.ItemGroups(case.groups.names, case.groups.codes[sample], case.groups.rule)
    cutoffs = [spec.k for spec in wanted if spec.k is not None]
    table = _ItemTable(prefixes, case, ranks, sample, cutoffs)
    for spec in wanted:
        values = table.values(spec)
        if spec.name == "specialization":
            rows = [[Measure(ALL, spec.name, None, "top 10 %", v, case.n_items)] for v in values]
        else:
            among = groups if values.shape[1] == len(sample) else case.groups
            rows = [_item_measures(spec, row, among) for row in values]
        for done, new in zip(by_rank, rows, strict=True):
            done += new
    return by_rank


def _item_measures(spec: MetricSpec, values: FloatArray, groups: m.ItemGroups) -> list[Measure]:
    result = m.mean_by_group(values, groups, metric=spec.name)
    known = ~np.isnan(values)
    members = {ALL: known, **{name: known[groups.items(name)] for name in groups.names}}
    n = {name: int(among.sum()) for name, among in members.items()}
    return [
        Measure(group, spec.name, spec.k, result.convention, float(value), n[group])
        for group, value in {ALL: result.overall, **result.by_group}.items()
    ]


class _ItemTable:
    """Per-item values at every rank, computed when a metric first needs them."""

    def __init__(
        self,
        prefixes: Prefixes,
        case: Case,
        ranks: Sequence[int],
        sample: NDArray[np.intp],
        cutoffs: Sequence[int],
    ) -> None:
        self.U = prefixes.components.T
        self.spectrum = None if np.all(prefixes.strengths == 1) else prefixes.strengths
        self.ranks = np.minimum(ranks, self.U.shape[1])
        self.labels = case.fitted.matrix
        self.signal = prefixes.signal(self.labels)
        self.sample = sample
        self._any_k = next(iter(cutoffs), 1)  # AUC comes along with precision at any k
        self._collaboration: dict[int, m.ItemCollaboration] = {}

    def values(self, spec: MetricSpec) -> FloatArray:
        """Ranks × items, or one number a rank for specialization."""
        if spec.name == "item_auc":
            return self._collaborate(self._any_k).auc
        if spec.name == "item_precision":
            return self._collaborate(spec.k or self._any_k).precision
        if spec.name == "item_error":
            return m.item_error(self.signal, self.U, self.ranks, spectrum=self.spectrum)
        diagonal = m.projection_diagonal(self.U, self.ranks, spectrum=self.spectrum)
        return np.asarray(m.specialization(diagonal)) if spec.name == "specialization" else diagonal

    def _collaborate(self, k: int) -> m.ItemCollaboration:
        if k not in self._collaboration:
            self._collaboration[k] = m.item_collaboration(
                self.labels,
                self.U,
                k=k,
                inputs=self.signal,
                spectrum=self.spectrum,
                ranks=self.ranks,
                items=self.sample,
            )
        return self._collaboration[k]

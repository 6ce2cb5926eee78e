"""From a model to numbers: every item, every size, every group."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.audited_model import AuditedModel, ItemNumbers, Owner
from equipoise.audit.findings import Floats, OwnedComponent, Variant
from equipoise.audit.plan import Study
from equipoise.evaluation.scoring import measure_lists
from equipoise.metrics import ItemGroups, Result, Results, mean_by_group, specialization
from equipoise.metrics.groups import nan_mean
from equipoise.metrics.registry import parse_metrics
from equipoise.metrics.results import ALL

LIST_METRICS = ("recall", "ndcg", "precision", "mrr", "arp", "aplt", "coverage", "gini")

_N_NEIGHBORS = 10


@dataclass(frozen=True, eq=False)
class Measured:
    """One variant, measured on all items; `Variant` keeps the items of the report.

    Attributes
    ----------
    model : AuditedModel
        The variant.
    sizes : tuple of int
        The sizes.
    at : int
        Position of the audited size, or of the largest below it.
    items : ItemNumbers
        Of all items.
    rows : tuple of Result
        Means of every metric at every size.
    owners : tuple of Owner
        Components that one item owns, at the audited size.
    """

    model: AuditedModel
    sizes: tuple[int, ...]
    at: int
    items: ItemNumbers
    rows: tuple[Result, ...]
    owners: tuple[Owner, ...]


def measure(
    model: AuditedModel, study: Study, common: tuple[int, ...], audited: tuple[str, int], k: int
) -> Measured:
    """Measure a model.

    Parameters
    ----------
    model : AuditedModel
        The variant.
    study : Study
        The data.
    common : tuple of int
        The sizes of our own models.
    audited : (str, int)
        The parameter for the number of components, and the audited number.
    k : int
        Length of the lists, and of an item's list of users.
    """
    parameter, size = audited
    sizes = model.sizes(common)
    users = min(k, study.fitted.n_users)
    items = model.measure_items(study.fitted, sizes, study.auc_items, users)
    found = [*_item_rows(items, study, users), *_list_rows(model, study, sizes, k)]
    rows = tuple(
        replace(row, model=model.label, settings={**model.settings, parameter: sizes[place]})
        for place, row in found
    )
    at = max(0, int(np.searchsorted(sizes, size, side="right")) - 1)
    return Measured(model, sizes, at, items, rows, tuple(model.owners(min(size, model.depth))))


def _list_rows(
    model: AuditedModel, study: Study, sizes: tuple[int, ...], k: int
) -> list[tuple[int, Result]]:
    """Return the metrics of the lists on the hold-out with the positions of their sizes."""
    requests = parse_metrics(LIST_METRICS, [k])
    if study.test is None:
        nothing = [Result(r.metric.name, float("nan"), r.convention, r.k) for r in requests]
        return [(place, row) for place in range(len(sizes)) for row in nothing]
    context = study.test.context(np.nan)
    by_size = measure_lists(study.test, model.lister(sizes), requests, context)
    return [(place, row) for place, rows in enumerate(by_size) for row in rows]


def _item_rows(items: ItemNumbers, study: Study, k: int) -> Iterator[tuple[int, Result]]:
    """Yield the means of the metrics of items with the positions of their sizes."""
    groups, sample = study.groups, study.auc_items
    every = np.arange(len(groups))
    tables = (
        ("self_reconstruction", None, items.self_reconstruction, every),
        ("item_error", None, items.error, every),
        ("item_auc", None, items.auc, sample),
        ("item_precision", k, items.precision, sample),
    )
    for place, diagonal in enumerate(items.self_reconstruction):
        known = not np.isnan(diagonal).any()
        value = float(specialization(diagonal)) if known else float("nan")
        yield place, Result("specialization", value, "standard", n=len(groups))
    for metric, cutoff, values, chosen in tables:
        members = {
            ALL: chosen >= 0,
            **{g: groups.codes[chosen] == i for i, g in enumerate(groups.names)},
        }
        for group, means in means_by_group(values, groups, chosen).items():
            for place, value in enumerate(means):
                n = int((~np.isnan(values[place, members[group]])).sum())
                yield place, Result(metric, float(value), "standard", cutoff, group, n)


def means_by_group(
    values: Floats, groups: ItemGroups, sample: NDArray[np.intp]
) -> dict[str, Floats]:
    """Return means over all items and by group from a sample, at every size.

    The sample may contain a different share of each group. A group's mean is that of its sampled
    items. The mean of all weighs each group by how many of its items have a value, as far as the
    sample shows; if every item is sampled, it is the plain mean.
    """
    drawn = ItemGroups(groups.names, groups.codes[sample], groups.rule)
    if len(sample) == len(groups):
        plain = mean_by_group(values, drawn)
        return {ALL: plain.overall, **plain.by_group}
    total, count = np.zeros(len(values)), np.zeros(len(values))
    means: dict[str, Floats] = {}
    for name in groups.names:
        members = values[:, drawn.items(name)]
        means[name] = nan_mean(members)
        if members.shape[1]:
            expansion = groups.sizes[name] / members.shape[1]
            total += expansion * np.nansum(members, axis=1)
            count += expansion * np.sum(~np.isnan(members), axis=1)
    overall = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return {ALL: overall, **means}


def to_variant(measured: Measured, study: Study, columns: NDArray[np.int64], size: int) -> Variant:
    """Keep the items of the report.

    Parameters
    ----------
    measured : Measured
        All items.
    study : Study
        For the groups.
    columns : ndarray of int
        The items of the report.
    size : int
        The audited size.
    """
    model, items, groups = measured.model, measured.items, study.groups
    auc = np.full(len(groups), np.nan)
    auc[study.auc_items] = items.auc[measured.at]
    position = {int(column): place for place, column in enumerate(columns)}
    never = np.isinf(items.components_to_half)
    counted = np.where(never, float(model.depth), items.components_to_half)[None]
    halved = mean_by_group(counted, groups)
    owners = sorted(
        measured.owners, key=lambda owner: (-study.popularity[owner.column], owner.component)
    )
    return Variant(
        key=model.key,
        label=model.label,
        kind=model.kind,
        settings=model.settings,
        sizes=measured.sizes,
        results=Results(measured.rows),
        components_to_half={
            ALL: float(halved.overall[0]),
            **{name: float(mean[0]) for name, mean in halved.by_group.items()},
        },
        not_halved={
            ALL: int(never.sum()),
            **{name: int(never[groups.items(name)].sum()) for name in groups.names},
        },
        depth=model.depth,
        owned=tuple(OwnedComponent(o.component, position[o.column], o.weight) for o in owners),
        self_reconstruction_by_item=items.self_reconstruction[:, columns],
        error_by_item=items.error[:, columns],
        auc_by_item=auc[columns],
        components_to_half_by_item=items.components_to_half[columns],
        neighbors=model.similar(columns, size, _N_NEIGHBORS),
    )

"""From a model to numbers: every item, every rank, every group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import Floats, OwnedComponent, Variant
from equipoise.audit.plan import Study
from equipoise.audit.subjects import Owner, Subject
from equipoise.metrics import ItemGroups, UserBlock, mean_by_group, specialization
from equipoise.metrics.groups import nan_mean
from equipoise.metrics.registry import parse_metrics

ALL = "all"
ACCURACY = ("recall", "ndcg", "precision", "mrr", "arp", "aplt", "coverage", "gini")


@dataclass(frozen=True, eq=False)
class Measured:
    """One model, measured on all items; `Variant` keeps those that are shown.

    Attributes
    ----------
    subject : Subject
        The model.
    ranks : tuple of int
        What the rows of the arrays are.
    at : int
        Row of the rank that the headline speaks of, or of the largest below it.
    diagonal, error : ndarray of shape (ranks, items)
        Of every item.
    halving : ndarray of shape (items,)
        inf where all components do not halve the error, NaN where that is not defined.
    auc, precision : ndarray of shape (ranks, sampled items)
        Of the items of the sample.
    accuracy : dict of metric to ndarray of shape (ranks,)
        On the hold-out.
    owners : tuple of Owner
        Components that one item has for itself at the headline's rank.
    """

    subject: Subject
    ranks: tuple[int, ...]
    at: int
    diagonal: Floats
    error: Floats
    halving: Floats
    auc: Floats
    precision: Floats
    accuracy: Mapping[str, Floats]
    owners: tuple[Owner, ...]


def measure(subject: Subject, study: Study, common: tuple[int, ...], rank: int, k: int) -> Measured:
    """Ask a model everything.

    Parameters
    ----------
    subject : Subject
        The model.
    study : Study
        The data.
    common : tuple of int
        The ranks that all models have in common.
    rank : int
        The rank of the headline.
    k : int
        Length of the lists, and of an item's list of users.
    """
    X = study.fitted.matrix
    ranks = subject.ranks(common)
    errors = subject.errors(X, ranks)
    together = subject.collaboration(X, ranks, study.auc_items, min(k, X.shape[0]))
    return Measured(
        subject=subject,
        ranks=ranks,
        at=position_of(rank, ranks),
        diagonal=subject.diagonal(ranks),
        error=errors.by_rank,
        halving=errors.halving,
        auc=together.auc,
        precision=together.precision,
        accuracy=_accuracy(subject, study, ranks, k),
        owners=tuple(subject.owners(min(rank, subject.depth))),
    )


def position_of(rank: int, ranks: tuple[int, ...]) -> int:
    """Where a rank is, or the largest below it; the first where there is none.

    Examples
    --------
    >>> position_of(16, (1, 2, 4, 16, 32)), position_of(32, (1, 2, 20)), position_of(8, (50,))
    (3, 2, 0)
    """
    return max(0, int(np.searchsorted(ranks, rank, side="right")) - 1)


def _accuracy(subject: Subject, study: Study, ranks: tuple[int, ...], k: int) -> dict[str, Floats]:
    if study.test is None:
        return {name: np.full(len(ranks), np.nan) for name in ACCURACY}
    seen, held_out = study.test.seen.matrix, study.test.held_out.matrix
    context = study.test.context(np.nan)
    blocks = [UserBlock(each, seen, held_out) for each in subject.lists(seen, ranks, k)]
    return {
        request.metric.name: np.array([request.of_block(each, context).value for each in blocks])
        for request in parse_metrics(ACCURACY, [k])
    }


def by_group(values: Floats, groups: ItemGroups) -> dict[str, Floats]:
    """Means over the items of each group, and of all, at every rank."""
    means = mean_by_group(values, groups)
    return {ALL: means.overall, **means.by_group}


def by_group_of_sample(
    values: Floats, groups: ItemGroups, sample: NDArray[np.intp]
) -> dict[str, Floats]:
    """The same from a sample that holds a different share of each group.

    A group's mean is that of its sampled items. The mean of all weighs each group by how many
    of its items have a value, as far as the sample tells; with every item sampled it is the
    plain mean.
    """
    drawn = ItemGroups(groups.names, groups.codes[sample], groups.rule)
    sizes = groups.sizes
    total, count = np.zeros(len(values)), np.zeros(len(values))
    means: dict[str, Floats] = {}
    for name in groups.names:
        members = values[:, drawn.items(name)]
        means[name] = nan_mean(members)
        if members.shape[1]:
            expansion = sizes[name] / members.shape[1]
            total += expansion * np.nansum(members, axis=1)
            count += expansion * np.sum(~np.isnan(members), axis=1)
    overall = np.divide(total, count, out=np.full(len(values), np.nan), where=count > 0)
    return {ALL: overall, **means}


def to_variant(
    measured: Measured, study: Study, columns: NDArray[np.int64], rank: int, neighbours: int
) -> Variant:
    """Keep the items that are shown one by one.

    Parameters
    ----------
    measured : Measured
        All items.
    study : Study
        For the groups.
    columns : ndarray of int
        The items that are shown.
    rank : int
        The rank of the headline.
    neighbours : int
        How many to list.
    """
    subject, groups = measured.subject, study.groups
    auc = np.full(len(groups), np.nan)
    auc[study.auc_items] = measured.auc[measured.at]
    position = {int(column): place for place, column in enumerate(columns)}
    depth = float(subject.depth)
    halving = np.where(np.isinf(measured.halving), depth, measured.halving)
    missed = {ALL: np.isinf(measured.halving)}
    missed |= {name: missed[ALL][groups.items(name)] for name in groups.names}
    popularity = study.fitted.popularity("norm")
    owners = sorted(measured.owners, key=lambda owner: (-popularity[owner.column], owner.component))
    return Variant(
        key=subject.key,
        label=subject.label,
        kind=subject.kind,
        gamma=subject.gamma,
        ranks=measured.ranks,
        specialization=np.asarray(specialization(measured.diagonal)),
        diagonal=by_group(measured.diagonal, groups),
        error=by_group(measured.error, groups),
        auc=by_group_of_sample(measured.auc, groups, study.auc_items),
        precision=by_group_of_sample(measured.precision, groups, study.auc_items),
        halving={name: float(mean[0]) for name, mean in by_group(halving[None], groups).items()},
        accuracy=measured.accuracy,
        owned=tuple(OwnedComponent(o.component, position[o.column], o.weight) for o in owners),
        diagonal_by_item=measured.diagonal[:, columns],
        error_by_item=measured.error[:, columns],
        auc_by_item=auc[columns],
        halving_by_item=measured.halving[columns],
        neighbours=subject.similar(columns, rank, neighbours),
        depth=subject.depth,
        not_halved={name: int(items.sum()) for name, items in missed.items()},
    )

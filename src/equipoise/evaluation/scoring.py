"""From lists and components to results: every metric, block by block of users."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.evaluation.nested import Lists
from equipoise.evaluation.task import Task, scored_rows
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import (
    Context,
    GroupResult,
    ItemGroups,
    ItemView,
    Partial,
    Request,
    Result,
    UserBlock,
    mean_by_group,
)
from equipoise.metrics.groups import nan_mean
from equipoise.metrics.results import ALL, FloatArray
from equipoise.models import Recommender
from equipoise.models.item_vectors import LowRank
from equipoise.models.user_rows import by_column


class Lister(Protocol):
    """Recommends items to the users of a block; several lists per user for several variants."""

    @property
    def n_variants(self) -> int:
        """How many lists each user gets."""

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterable[Lists]:
        """Yield the lists of all users, variant by variant."""


class ModelLists(NamedTuple):
    """Lists of any fitted model."""

    model: Recommender
    n_variants: int = 1

    def lists(self, seen: sp.csr_array, k: int, _: Any = None) -> Iterator[Lists]:
        """Yield the model's recommendations as column numbers."""
        yield np.asarray(by_column(self.model).recommend(seen, k=k).ids, dtype=np.int32)


class GivenLists(NamedTuple):
    """Lists that were computed elsewhere, (users, variants, k); each block gets its own."""

    n_variants: int = 1

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists]:  # noqa: ARG002
        """Yield the block's lists."""
        for variant in range(self.n_variants):
            yield np.asarray(own[:, variant, :k], dtype=np.int32)


class _Work(NamedTuple):
    """What every block does."""

    lister: Lister
    requests: tuple[Request, ...]
    context: Context
    everyone: bool
    longest: int
    per_user: bool


def measure_lists(
    task: Task,
    lister: Lister,
    requests: Sequence[Request],
    context: Context,
    *,
    per_user: bool = False,
    given: Lists | None = None,
) -> list[list[Result]]:
    """Return the results of every metric of lists, for each variant of the lister.

    Parameters
    ----------
    task : Task
        The users.
    lister : Lister
        Recommends.
    requests : sequence of Request
        Metrics of items are left out.
    context : Context
        ``task.context(zero_division)``.
    per_user : bool
        Keep the values per user, in the order of the data.
    given : ndarray of shape (users, variants, k), optional
        For `GivenLists`: the lists of all users in the order of the data.
    """
    wanted = tuple(request for request in requests if not request.metric.is_item_side)
    if not wanted:
        return [[] for _ in range(lister.n_variants)]
    longest = max(request.k or 1 for request in wanted)
    users = task.user_groups
    work = _Work(lister, wanted, context, task.everyone, longest, per_user or users is not None)
    each = task.seen.blocks_of(task.held_out)
    if given is not None:
        pairs = zip(each, _rows_by_block(task.seen, given), strict=True)
        each = [held_out + own for held_out, own in pairs]
    blocks = task.seen.map(_measure_block, work, each=each)
    ranks = np.concatenate([ranks for ranks, _ in blocks])
    order = np.argsort(ranks, kind="stable")
    groups = None if users is None else users.take(ranks[order])
    results = []
    for variant in range(lister.n_variants):
        rows: list[Result] = []
        for number, request in enumerate(wanted):
            partials = [found[variant][number] for _, found in blocks]
            found = _rows(request, partials, context, order if work.per_user else None)
            if groups is not None and found[0].per_user is not None:
                found += _user_group_rows(found[0], groups)
            rows += found if per_user else [replace(row, per_user=None) for row in found]
        results.append(rows)
    return results


def _measure_block(
    seen: RowBlock, work: _Work, held_out: RowBlock, own: Any = None
) -> tuple[NDArray[np.int64], list[list[Partial]]]:
    """Return the ranks of the users in the data, and what they contribute to every metric."""
    rows = scored_rows(held_out, work.everyone)
    X = seen.matrix[rows]
    users = UserBlock(np.zeros((X.shape[0], 0), np.int32), X, held_out.matrix[rows])
    if X.shape[0]:
        lists: Iterable[Lists] = work.lister.lists(
            X, work.longest, None if own is None else own[rows]
        )
    else:
        lists = [np.zeros((0, work.longest), np.int32)] * work.lister.n_variants
    found = []
    for one in lists:
        block = users.with_lists(one)
        partials = [request.measure(block, work.context) for request in work.requests]
        found.append([p if work.per_user else p._replace(per_user=None) for p in partials])
    return seen.order[rows], found


def _rows_by_block(data: Interactions, values: NDArray[Any]) -> list[tuple[NDArray[Any]]]:
    """Divide values of all users, in the order of the data, among the blocks."""
    ordered = np.empty_like(values)
    ordered[data.user_order] = values
    ends = np.cumsum([size.users for size in data.rows.sizes()])
    return [(part,) for part in np.split(ordered, ends[:-1])]


def _rows(
    request: Request,
    partials: Sequence[Partial],
    context: Context,
    order: NDArray[np.intp] | None,
) -> list[Result]:
    found = request.finish(partials, context)
    if isinstance(found, GroupResult):
        sizes = {} if context.groups is None else context.groups.sizes
        return _group_rows(request, found, {ALL: context.n_items, **sizes})
    values = None
    if order is not None and partials[0].per_user is not None:
        values = np.concatenate([np.asarray(p.per_user) for p in partials])[order]
    return [replace(found, metric=request.metric.name, k=request.k, per_user=values)]


def _user_group_rows(row: Result, groups: ItemGroups) -> list[Result]:
    """Return the mean of a metric over each group of users."""
    values = np.asarray(row.per_user)
    rows = []
    for name in groups.names:
        known = values[groups.items(name)]
        n = int(np.count_nonzero(~np.isnan(known)))
        mean = nan_mean(known)
        rows.append(replace(row, value=mean, group=f"users: {name}", n=n, per_user=known))
    return rows


def _group_rows(
    request: Request, found: GroupResult[Any], counts: Mapping[str, int]
) -> list[Result]:
    name, k = request.metric.name, request.k
    return [
        Result(name, float(value), found.convention, k, group, counts.get(group, 0))
        for group, value in {ALL: found.overall, **found.by_group}.items()
    ]


def measure_items(
    task: Task,
    model: LowRank,
    sizes: Sequence[int],
    requests: Sequence[Request],
    context: Context,
    items: NDArray[np.intp] | None = None,
) -> list[list[Result]]:
    """Return the results of every metric of items at every size, in-sample on the fitted data.

    Parameters
    ----------
    task : Task
        For the training data and the groups.
    model : LowRank
        At its largest size.
    sizes : sequence of int
        Ascending.
    requests : sequence of Request
        Metrics of lists are left out.
    context : Context
        ``task.context(zero_division)``.
    items : ndarray of int, optional
        Compute item AUC and item precision of these only; of all by default.
    """
    by_size: list[list[Result]] = [[] for _ in sizes]
    wanted = [request for request in requests if request.metric.is_item_side]
    if not wanted:
        return by_size
    sample = np.arange(task.n_items) if items is None else items
    cutoffs = [one.k or 0 for one in wanted if one.metric.name == "item_precision"]
    longest, n_users = max(cutoffs, default=0), task.fitted.n_users
    if longest > n_users:
        raise InvalidParameterError(
            f"item_precision@{longest} lists {longest:,} users per item, and the data have "
            f"{n_users:,}. Use item_precision@{n_users} (-k {n_users}), or other metrics "
            "(--metrics)."
        )
    view = ItemView(
        task.fitted,
        model.prepare,
        model.components.T,
        model.component_weights,
        np.minimum(sizes, len(model.components)),
        sample,
        longest,
    )
    sampled = task.groups.take(sample)
    for request in wanted:
        values = np.asarray(request.metric.measure(view, context, request.k, request.convention))
        for rows, each in zip(by_size, values, strict=True):
            among = task.groups if each.ndim and len(each) == task.n_items else sampled
            rows += _item_rows(request, each, among, task.n_items)
    return by_size


def _item_rows(
    request: Request, values: FloatArray, groups: ItemGroups, n_items: int
) -> list[Result]:
    name = request.metric.name
    if not values.ndim:  # one number for all items
        return [Result(name, float(values), request.convention, request.k, n=n_items)]
    known = ~np.isnan(values)
    counts = {group: int(known[groups.items(group)].sum()) for group in groups.names}
    means = mean_by_group(values, groups, metric=name)
    return _group_rows(request, means, {ALL: int(known.sum()), **counts})

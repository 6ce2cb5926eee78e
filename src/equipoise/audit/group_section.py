"""Every measure by group of items and by group of users, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy.sparse as sp

from equipoise.audit.formatting import MEASURES
from equipoise.audit.jobs import side_by_side
from equipoise.audit.means import Floats, Intervals, bootstrap, named, weighted_means
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import ItemGroups, UserBlock, find_metric
from equipoise.metrics.fairness import (
    catalog_shares,
    exposure_by_user,
    hits_by_user,
    target_exposure,
)
from equipoise.metrics.groups import ratio
from equipoise.metrics.intervals import Interval
from equipoise.metrics.metric import Context, Request
from equipoise.metrics.results import ALL
from equipoise.models.fair.floor_prices import FloorPrice, price_of_floors

if TYPE_CHECKING:
    from equipoise.audit.measure import Measured
    from equipoise.audit.plan import Study

# Numbers of smaller groups would be noise, and could be about few people.
SMALLEST = 10

# The largest groups that are reported: more rows are not read, and take time.
_MOST = 100

# Floors are priced for so many groups, those with the smallest shares, at so many points each. A
# group takes about as long as six fits, so hundreds of groups would take longer than the audit.
_PRICED_GROUPS, _PRICED_FLOORS = 20, 4


@dataclass(frozen=True)
class GroupSize:
    """One group: its members, its share of all members and of the interactions.

    `reported` is false for a group that is too small to say anything about.
    """

    name: str
    size: int
    share: float
    interactions: float
    reported: bool


@dataclass(frozen=True, eq=False)
class GroupSection:
    """Groups of items or of users, and what each model does for them.

    Attributes
    ----------
    of : {"items", "users"}
        What is grouped.
    rule : str
        How, e.g. "label in artists.csv".
    groups : tuple of GroupSize
        Largest first.
    numbers : mapping of model key to mapping of measure to mapping of group to Interval
        `MEASURES` has titles and meanings; the group "all" is that of all members.
    members : csr_array of shape (items, groups) or None
        Which items are in which group; None for users.
    note : str
        What was matched, and what was left out.
    prices : tuple of FloorPrice
        What a floor for the retained share of a group costs, for the groups with the smallest
        shares; empty for users, and for groups that were not given.
    """

    of: Literal["items", "users"]
    rule: str
    groups: tuple[GroupSize, ...]
    numbers: Mapping[str, Mapping[str, Mapping[str, Interval]]]
    members: sp.csr_array | None
    note: str
    prices: tuple[FloorPrice, ...] = ()

    @property
    def measures(self) -> list[str]:
        """The measures by group that some model has, in the order of `MEASURES`."""
        return self._known(lambda by_group: bool(set(by_group) - {ALL}))

    @property
    def whole(self) -> list[str]:
        """The measures that have one number for all groups together."""
        return self._known(lambda by_group: set(by_group) == {ALL})

    @property
    def is_own(self) -> bool:
        """Whether the groups were given, instead of popularity and activity."""
        return self.rule not in ("popularity", "activity")

    @property
    def main(self) -> str:
        """The measure that all models are compared by."""
        wanted = "exposure_relative" if self.of == "items" else "ndcg"
        return wanted if wanted in self.measures else next(iter(self.measures), wanted)

    def number(self, key: str, measure: str, group: str) -> Interval | None:
        """Return a number of a model; None where it is not known."""
        found = self.numbers.get(key, {}).get(measure, {}).get(group)
        return None if found is None or np.isnan(found.mean) else found

    def _known(self, wanted: Callable[[Mapping[str, Interval]], bool]) -> list[str]:
        found = {
            name
            for by_measure in self.numbers.values()
            for name, by_group in by_measure.items()
            if wanted(by_group) and not all(np.isnan(v.mean) for v in by_group.values())
        }
        return [name for name in MEASURES if name in found]

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the members, for JSON."""
        numbers = {
            key: {
                measure: {group: [v.mean, v.low, v.high] for group, v in by_group.items()}
                for measure, by_group in by_measure.items()
            }
            for key, by_measure in self.numbers.items()
        }
        return {
            "of": self.of,
            "rule": self.rule,
            "note": self.note,
            "groups": self.groups,
            "measures": {name: MEASURES[name]._asdict() for name in self.measures},
            "whole": {name: MEASURES[name]._asdict() for name in self.whole},
            "numbers": numbers,
            "prices": self.prices,
        }


def measure(
    study: Study,
    models: Sequence[Measured],
    item_groups: Groups | None = None,
    user_groups: Groups | None = None,
    seed: int = 0,
    smallest: int = SMALLEST,
) -> tuple[GroupSection, GroupSection]:
    """Measure all models by group of items and by group of users.

    Parameters
    ----------
    study : Study
        The data.
    models : sequence of Measured
        The compared models.
    item_groups, user_groups : Groups, optional
        By default the popularity groups of the study, and users by activity.
    seed : int
        Of the bootstrap: over items for measures of items, over users for measures of lists.
    smallest : int
        Groups with fewer members are listed without numbers.
    """
    _check(item_groups, "items")
    _check(user_groups, "users")
    data = study.data
    items = _selected(study.groups if item_groups is None else item_groups.align(data))
    users = _selected(Groups.by_activity(data) if user_groups is None else user_groups)
    item_sizes = _sizes(items, study.fitted.popularity("count"), smallest)
    user_sizes = _sizes(users.align(data), data.items_per_user(), smallest)
    jobs: list[Callable[[], Intervals]] = [
        *(partial(_item_numbers, each, items, item_sizes, study, seed) for each in models),
        *(partial(_user_numbers, each, users, user_sizes, seed) for each in models),
    ]
    numbers = list(side_by_side(jobs, study.fitted))
    keys, notes = [each.model.key for each in models], partial(_note, data, smallest)
    return (
        GroupSection(
            "items",
            "popularity" if item_groups is None else items.rule,
            item_sizes,
            dict(zip(keys, numbers, strict=False)),
            items.membership,
            notes(item_groups, item_sizes),
        ),
        GroupSection(
            "users",
            "activity" if user_groups is None else users.rule,
            user_sizes,
            dict(zip(keys, numbers[len(keys) :], strict=True)),
            None,
            notes(user_groups, user_sizes),
        ),
    )


def with_prices(
    section: GroupSection,
    groups: Groups,
    study: Study,
    audited: Mapping[str, Any],
    preparation: Mapping[str, Any],
) -> GroupSection:
    """Add the prices of floors for the groups with the smallest retained shares.

    Parameters
    ----------
    section : GroupSection
        Of items.
    groups : Groups
        Those of the section.
    study : Study
        The data.
    audited, preparation : mapping of str to value
        Rank and γ of the audited Item-Weighted PCA, and parameters of its preparation.
    """
    known = [each.name for each in section.groups if each.reported and each.interactions > 0]
    if not known:
        return section
    rank = min(audited["n_components"], study.fitted.n_items)
    prices = price_of_floors(
        study.fitted,
        groups.select(known),
        rank,
        gamma=audited["gamma"],
        points=_PRICED_FLOORS,
        worst=_PRICED_GROUPS,
        settings=preparation,
    )
    return replace(section, prices=prices)


def _check(groups: Any, of: str) -> None:
    if groups is not None and not (isinstance(groups, Groups) and groups.of == of):
        raise InvalidParameterError(
            f"{of[:-1]}_groups must be Groups of {of}: Groups.read('file.csv:column', of={of!r})."
        )


def _selected(groups: Any) -> Any:
    """Return the largest groups, most members first; popularity and activity keep their order."""
    sizes = list(groups.sizes.values())
    ordered = groups.rule in ("popularity", "activity") or not isinstance(groups, Groups)
    order = range(len(sizes)) if ordered else np.argsort(-np.array(sizes), kind="stable")
    kept = list(order)[:_MOST]
    if kept == list(range(len(sizes))):
        return groups
    return groups.select([groups.names[place] for place in kept])


def _sizes(groups: ItemGroups, counts: Any, smallest: int) -> tuple[GroupSize, ...]:
    shares = ratio(counts @ groups.membership, counts.sum())
    return tuple(
        GroupSize(name, size, size / max(1, len(groups)), float(share), size >= smallest)
        for (name, size), share in zip(groups.sizes.items(), shares, strict=True)
    )


def _note(
    data: Interactions, smallest: int, groups: Groups | None, sizes: Sequence[GroupSize]
) -> str:
    notes = [] if groups is None else [groups.describe(data)]
    small = sum(not each.reported for each in sizes)
    if small:
        whose = "1 group has" if small == 1 else f"{small:,} groups have"
        notes.append(f"{whose} fewer than {smallest} members and no numbers.")
    if groups is not None and len(groups.names) > len(sizes):
        notes.append(f"Only the {len(sizes)} largest of {len(groups.names):,} groups are shown.")
    return " ".join(notes)


def _with_all(membership: sp.csr_array) -> sp.csr_array:
    """Add a group of everything."""
    everything = sp.csr_array(np.ones((membership.shape[0], 1)))
    return sp.csr_array(sp.hstack([membership, everything]))


def _named(
    values: Sequence[Interval], names: Sequence[str], sizes: Sequence[GroupSize]
) -> Intervals:
    """Divide a flat list among measures and groups; leave out groups that are too small."""
    return named(values, names, [*(each.name if each.reported else None for each in sizes), ALL])


def _item_numbers(
    one: Measured, groups: ItemGroups, sizes: tuple[GroupSize, ...], study: Study, seed: int
) -> Intervals:
    """Return weighted means over the items of each group, and the numbers of the lists."""
    items, at = one.items, one.at
    auc = np.full(len(groups), np.nan)
    auc[study.auc_items] = items.auc[at]
    ones = np.ones(len(groups))
    listed = np.bincount(one.lists[one.lists >= 0], minlength=len(groups)) > 0
    columns = {
        "retained_share": (1 - items.error[at], study.fitted.popularity("norm") ** 2),
        "self_reconstruction": (items.self_reconstruction[at], ones),
        "item_auc": (auc, ones),
        "coverage": (listed * 1.0, ones),
    }
    found = weighted_means(list(columns.values()), _with_all(groups.membership), seed)
    return _named(found, list(columns), sizes) | _list_numbers(_block(one), groups, sizes, seed)


def _block(one: Measured) -> UserBlock:
    return UserBlock(
        one.lists, *(part.collect().matrix for part in (one.task.seen, one.task.held_out))
    )


def _list_numbers(
    block: UserBlock, groups: ItemGroups, sizes: tuple[GroupSize, ...], seed: int
) -> Intervals:
    """Recall and exposure of each group, two numbers for all; users are drawn in the bootstrap."""
    every = ItemGroups((*groups.names, ""), _with_all(groups.membership), groups.rule)
    catalog = catalog_shares(every)
    reported = np.array([*(each.reported for each in sizes), False])
    asked = (block.relevant > 0) * 1.0
    k, context = block.lists.shape[1], Context(len(groups), groups=groups)
    fairness = Request(find_metric("awrf"), k, "geometric").of_block(block, context).per_user
    given = exposure_by_user(block, groups, None, "geometric")
    excess = given - target_exposure(block, groups, None, "geometric")
    parts = [
        *hits_by_user(block, every, None),
        exposure_by_user(block, every, None, "log"),
        excess * asked[:, None],
        np.column_stack([np.nan_to_num(fairness), ~np.isnan(fairness), asked]),
    ]
    ends = np.cumsum([part.shape[1] for part in parts])[:-1]

    def ratios(sums: Floats) -> Floats:
        found, wanted, given, excess, whole = np.split(sums, ends, axis=1)
        exposure = ratio(given, given[:, -1:])
        relative = ratio(exposure, catalog)
        best = np.max(np.nan_to_num(relative), axis=1, where=reported, initial=0.0)[:, None]
        relevance = ratio(exposure, ratio(wanted, wanted[:, -1:]))
        impact = ratio(relative, best)
        impact[:, -1] = np.nan
        awrf = ratio(whole[:, :1], whole[:, 1:2])
        loss = np.sum(ratio(excess, whole[:, 2:]) ** 2, axis=1, keepdims=True)
        return np.hstack([ratio(found, wanted), exposure, relative, relevance, impact, awrf, loss])

    *by_group, awrf, loss = bootstrap(sp.csr_array(np.hstack(parts)), ratios, seed=seed)
    names = ("recall", "exposure", "exposure_relative", "exposure_to_relevance", "impact_ratio")
    whole = {"awrf": {ALL: awrf}, "expected_exposure_loss": {ALL: loss}}
    return _named(by_group, names, sizes) | whole


def _user_numbers(
    one: Measured, groups: Groups, sizes: tuple[GroupSize, ...], seed: int
) -> Intervals:
    """NDCG and recall of each group of users; users are drawn in the bootstrap."""
    if not one.task.held_out.nnz:
        return {}
    block, context = _block(one), Context(one.task.n_items)
    requests = [
        Request(find_metric(name), block.lists.shape[1], "standard") for name in ("ndcg", "recall")
    ]
    ones = np.ones(len(block.lists))
    columns = [(request.of_block(block, context).per_user, ones) for request in requests]

    def with_difference(means: Floats) -> Floats:
        difference = means[:, :1] - means[:, :1, -1:]
        difference[:, :, -1] = np.nan
        return np.concatenate([means, difference], axis=1)

    members = _with_all(groups.align(one.task.seen).membership)
    found = weighted_means(columns, members, seed, with_difference)
    return _named(found, ("ndcg", "recall", "ndcg_difference"), sizes)

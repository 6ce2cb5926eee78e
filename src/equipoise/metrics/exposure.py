"""What groups of items get from lists: recall, exposure, coverage, and how far from a target."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.metric import Context, Partial, Request, Totals, UserBlock, declared
from equipoise.metrics.popularity import js_bits
from equipoise.metrics.ranking import log2_discount
from equipoise.metrics.results import FloatArray, GroupResult, Result

_ByGroup = GroupResult[float]


def attention(k: int, convention: str = "log") -> FloatArray:
    """Attention that each of the first k places of a list gets.

    Examples
    --------
    >>> attention(3, "geometric")
    array([1.  , 0.5 , 0.25])
    """
    return np.exp2(-np.arange(k)) if convention == "geometric" else log2_discount(k)


def exposure_by_user(
    block: UserBlock, groups: ItemGroups, k: int | None, convention: str | None
) -> FloatArray:
    """Attention that each group gets in each list, users × groups; None counts places as 1."""
    pairs = block.pairs(k)
    length = block.lists.shape[1]
    weights = None if convention is None else attention(length, convention)[pairs.places]
    return groups.sums(pairs.users, pairs.items, pairs.n_users, weights)


def hits_by_user(
    block: UserBlock, groups: ItemGroups, k: int | None
) -> tuple[FloatArray, FloatArray]:
    """Return users × groups: hits, and held-out items."""
    n_users = len(block.lists)
    users, places = np.nonzero(block.hits[:, :k])
    found = groups.sums(users, block.lists[users, places], n_users)
    return found, held_out_by_user(block, groups)


def held_out_by_user(block: UserBlock, groups: ItemGroups) -> FloatArray:
    """Held-out items, users × groups."""
    holders = np.repeat(np.arange(len(block.lists)), block.relevant)
    return groups.sums(holders, block.held_out.indices, len(block.lists))


def recall_by_group(
    top_items: ArrayLike, test: Any, groups: ItemGroups, *, convention: str = "pooled"
) -> GroupResult[float]:
    """Recall of each group of items: the chance that a held-out item is recommended.

        Recall(g) = Σ_u |L_u ∩ R_u ∩ g| / Σ_u |R_u ∩ g|

    where L_u is the list and R_u the held-out items of user u.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives.
    groups : ItemGroups
        E.g. from `popularity_groups`, or `Groups.align(data)`.
    convention : str
        One of ``find_metric("group_recall").conventions``.

    Returns
    -------
    GroupResult
        nan for a group without held-out items.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> result = recall_by_group([[0, 1]], [[1, 1, 1]], groups)
    >>> dict(result.by_group), result.difference
    ({'head': 1.0, 'tail': 0.5}, 0.5)
    """
    return METRICS["group_recall"].of_arrays(
        top_items, test=test, groups=groups, convention=convention
    )


def _measure_group_recall(block: UserBlock, context: Context, k: int, convention: str) -> Partial:
    found, held_out = hits_by_user(block, context.groups, k)
    hits = block.hits[:, :k].sum(axis=1)
    if convention == "pooled":
        return Partial((found.sum(axis=0), held_out.sum(axis=0), hits.sum(), block.relevant.sum()))
    by_group, overall = ratio(found, held_out), ratio(hits, block.relevant)
    sums = [np.nansum(by_group, axis=0), np.sum(~np.isnan(by_group), axis=0)]
    return Partial((*sums, np.nansum(overall), np.sum(~np.isnan(overall))))


def _finish_group_recall(totals: Totals, context: Context, request: Request) -> _ByGroup:
    overall, by_group = float(ratio(totals[2], totals[3])), ratio(totals[0], totals[1])
    return request.by_group(overall, by_group, context)


def exposure_by_group(
    top_items: ArrayLike, groups: ItemGroups, *, convention: str = "share"
) -> GroupResult[float]:
    """Share of the recommended places, or of the attention, that each group gets.

        ε(g) = Σ_u Σ_r v(r) [L_u(r) ∈ g] / Σ_u Σ_r v(r)

    where L_u(r) is the item at place r, and v(r) is 1, or 1/log2(r + 1) if "discounted". Overall
    it is 1; groups that overlap add up to more.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    groups : ItemGroups
        E.g. from `popularity_groups`, or `Groups.align(data)`.
    convention : str
        One of ``find_metric("group_exposure").conventions``.

    Examples
    --------
    Three of four places for a third of the items.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> lists = [[0, 1], [0, -1], [0, -1]]
    >>> dict(exposure_by_group(lists, groups).by_group)
    {'head': 0.75, 'tail': 0.25}
    >>> relative = exposure_by_group(lists, groups, convention="relative")
    >>> relative.by_group["head"], round(relative.impact_ratios["tail"], 4)
    (2.25, 0.1667)
    """
    return METRICS["group_exposure"].of_arrays(top_items, groups=groups, convention=convention)


def _measure_exposure(block: UserBlock, context: Context, k: int, convention: str) -> Partial:
    discount = "log" if convention.startswith("discounted") else None
    return _exposure_sums(block, context.groups, k, discount)


def _exposure_sums(
    block: UserBlock, groups: ItemGroups, k: int | None, discount: str | None
) -> Partial:
    places = block.pairs(k).places
    total = len(places) if discount is None else attention(block.lists.shape[1])[places].sum()
    return Partial((exposure_by_user(block, groups, k, discount).sum(axis=0), float(total)))


def _finish_exposure(totals: Totals, context: Context, request: Request) -> _ByGroup:
    given, total = totals
    share = ratio(given, total)
    if request.convention.endswith("relative"):
        share = ratio(share, catalog_shares(context.groups))
    return request.by_group(1.0 if total else np.nan, share, context)


def catalog_shares(groups: ItemGroups) -> FloatArray:
    """Share of the items that each group has."""
    return np.asarray(groups.membership.sum(axis=0)).ravel() / max(1, len(groups))


def exposure_to_relevance(
    top_items: ArrayLike, test: Any, groups: ItemGroups
) -> GroupResult[float]:
    """Attention that each group gets, relative to what users wanted from it.

        (ε(g) / ε) / (Σ_u |R_u ∩ g| / Σ_u |R_u|)

    where ε(g) is the group's sum of 1/log2(rank + 1) over all lists, ε that of all items, and R_u
    are the held-out items of user u. At 1, the group's share of the attention equals its share
    of the held-out interactions (Singh & Joachims 2018 call this disparate treatment).

    Examples
    --------
    Half of the wanted items are jazz, and only rock is shown.

    >>> groups = ItemGroups(("rock", "jazz"), [0, 1])
    >>> dict(exposure_to_relevance([[0]], [[1, 1]], groups).by_group)
    {'rock': 2.0, 'jazz': 0.0}
    """
    return METRICS["exposure_to_relevance"].of_arrays(top_items, test=test, groups=groups)


def _measure_to_relevance(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    groups = context.groups
    wanted = held_out_by_user(block, groups).sum(axis=0)
    given, total = _exposure_sums(block, groups, k, "log").totals
    return Partial((given, total, wanted, float(block.relevant.sum())))


def _finish_to_relevance(totals: Totals, context: Context, request: Request) -> _ByGroup:
    given, total, wanted, all_wanted = totals
    by_group = ratio(ratio(given, total), ratio(wanted, all_wanted))
    overall = 1.0 if total and all_wanted else np.nan
    return request.by_group(overall, by_group, context)


def awrf(top_items: ArrayLike, groups: ItemGroups, *, convention: str = "geometric") -> Result:
    """Attention-weighted rank fairness (Sapiezynski et al. 2019; Raj & Ekstrand 2022).

        (1/n) Σ_u 1 − JS(ε_u, p)

    where ε_u are the groups' shares of the attention in the list of user u, p their shares of the
    catalog, and JS the Jensen–Shannon divergence (base 2, not its root). 1: every list divides
    attention like the catalog. Users without an item of a group in their list are left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    groups : ItemGroups
        The groups.
    convention : str
        One of ``find_metric("awrf").conventions``.

    Examples
    --------
    Attention 1 and ½, for half of the items each: shares ⅔ and ⅓.

    >>> round(awrf([[0, 1]], ItemGroups(("a", "b"), [0, 1])).value, 4)
    0.9793
    """
    return METRICS["awrf"].of_arrays(top_items, groups=groups, convention=convention)


def _measure_awrf(block: UserBlock, context: Context, k: int, convention: str) -> FloatArray:
    groups = context.groups
    given = exposure_by_user(block, groups, k, convention)
    target = catalog_shares(groups)
    shares = ratio(given, given.sum(axis=1, keepdims=True))
    return 1 - js_bits(shares, np.broadcast_to(target / target.sum(), shares.shape))


def expected_exposure_loss(
    top_items: ArrayLike,
    train: Any,
    test: Any,
    groups: ItemGroups,
    *,
    convention: str = "geometric",
) -> Result:
    """Expected exposure loss of groups (Diaz et al. 2020; Raj & Ekstrand 2022).

        Σ_g (ε(g) − ε*(g))²

    where ε(g) is the mean over users of the attention that the group's items get in their list,
    and ε*(g) that of the ideal ranking: first the user's held-out items in random order, then
    all items that are neither seen nor held out, in random order. 0: every group gets the
    exposure that relevance alone would give. Users without held-out items are left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    train, test : sparse matrix (n, m)
        Seen items, which are not recommended, and held-out positives.
    groups : ItemGroups
        The groups.
    convention : str
        One of ``find_metric("awrf").conventions``.

    Examples
    --------
    One place, two items; the list has the first, the user wanted the second: 1² + 1².

    >>> groups = ItemGroups(("a", "b"), [0, 1])
    >>> expected_exposure_loss([[0]], [[0, 0]], [[0, 1]], groups).value
    2.0
    """
    return METRICS["expected_exposure_loss"].of_arrays(
        top_items, train=train, test=test, groups=groups, convention=convention
    )


def target_exposure(
    block: UserBlock, groups: ItemGroups, k: int | None, convention: str
) -> FloatArray:
    """Exposure of each group in each user's ideal ranking, users × groups."""
    n_users, n_items = block.held_out.shape
    reached = np.append(0.0, np.cumsum(attention(block.lists[:, :k].shape[1], convention)))
    relevant = block.relevant
    wanted = held_out_by_user(block, groups)
    history = block.history
    seen = groups.sums(history.users, history.items, n_users)
    others = np.asarray(groups.membership.sum(axis=0)) - wanted - seen
    n_others = n_items - relevant - np.diff(block.seen.indptr)
    top = reached[np.minimum(relevant, len(reached) - 1)]
    each_wanted = np.nan_to_num(ratio(top, relevant))
    each_other = np.nan_to_num(ratio(reached[-1] - top, n_others))
    return each_wanted[:, None] * wanted + each_other[:, None] * others


def _measure_loss(block: UserBlock, context: Context, k: int, convention: str) -> Partial:
    groups, asked = context.groups, block.relevant > 0
    given = exposure_by_user(block, groups, k, convention)[asked]
    wanted = target_exposure(block, groups, k, convention)[asked]
    return Partial((given.sum(axis=0), wanted.sum(axis=0), int(asked.sum())))


def _finish_loss(totals: Totals, context: Context, request: Request) -> Result:
    given, wanted, n = totals
    value = float(np.sum(((given - wanted) / n) ** 2)) if n else np.nan
    return request.result(value, n, context)


def coverage_by_group(top_items: ArrayLike, groups: ItemGroups) -> GroupResult[float]:
    """Share of the items of each group that are in the list of at least one user.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> dict(coverage_by_group([[0, 1], [0, -1]], groups).by_group)
    {'head': 1.0, 'tail': 0.5}
    """
    return METRICS["group_coverage"].of_arrays(top_items, groups=groups)


def _measure_coverage(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    return Partial((np.bincount(block.pairs(k).items, minlength=context.n_items),))


def _finish_coverage(totals: Totals, context: Context, request: Request) -> _ByGroup:
    members, shown = context.groups.membership, (totals[0] > 0).astype(np.float64)
    by_group = ratio(shown @ members, members.sum(axis=0))
    return request.by_group(float(shown.mean()), by_group, context)


METRICS = declared(
    group_recall=(_measure_group_recall, _finish_group_recall),
    group_exposure=(_measure_exposure, _finish_exposure),
    exposure_to_relevance=(_measure_to_relevance, _finish_to_relevance),
    group_coverage=(_measure_coverage, _finish_coverage),
    awrf=_measure_awrf,
    expected_exposure_loss=(_measure_loss, _finish_loss),
)

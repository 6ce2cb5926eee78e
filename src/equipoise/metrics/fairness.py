"""Fairness to items: how unequally they are recommended and found, and what groups of them get."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.checks import check_choice, check_item_vector, check_top_items
from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.metric import Context, Pairs, Partial, Request, Totals, UserBlock, declared
from equipoise.metrics.popularity import average_ranks, js_bits
from equipoise.metrics.ranking import log2_discount
from equipoise.metrics.results import FloatArray, GroupResult, IntArray, Result

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


def _finish_group_coverage(totals: Totals, context: Context, request: Request) -> _ByGroup:
    members, shown = context.groups.membership, (totals[0] > 0).astype(np.float64)
    by_group = ratio(shown @ members, members.sum(axis=0))
    return request.by_group(float(shown.mean()), by_group, context)


def recommendation_counts(top_items: ArrayLike, n_items: int) -> IntArray:
    """How often each item is recommended.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    n_items : int
        Number of items in the catalog.

    Examples
    --------
    >>> recommendation_counts([[0, 1], [0, -1]], n_items=4).tolist()
    [2, 1, 0, 0]
    """
    pairs = Pairs.of_lists(check_top_items(top_items, (None, n_items)))
    return np.bincount(pairs.items, minlength=n_items)


def gini(counts: ArrayLike, *, convention: str = "standard") -> Result:
    """Gini coefficient of the exposure of items.

        G = Σ_j (2j − n − 1) c_(j) / (n Σ_j c_j)

    where c_(j) are the n counts in ascending order. 0: every item equally often; near 1:
    one item gets everything. ``find_metric("gini").conventions`` describes the others in use.

    Parameters
    ----------
    counts : array-like of shape (m,)
        As from `recommendation_counts`; any non-negative amounts.
    convention : str
        One of ``find_metric("gini").conventions``.

    Returns
    -------
    Result
        nan if nothing was recommended.

    Examples
    --------
    Counts 1 and 3: ((2·1 − 3)·1 + (2·2 − 3)·3) / (2·4) = 2/8.

    >>> gini([3, 1]).value
    0.25
    """
    check_choice("convention of gini", convention, METRICS["gini"].conventions)
    c = np.sort(check_item_vector(counts, None, "counts"))
    n_items = len(c)
    if convention == "recbole":
        c = np.concatenate([[0.0], c])
    elif convention == "evidently":
        c = c[c > 0]
    n = len(c)
    divisor = (n if convention in ("standard", "recbole") else n - 1) * c.sum()
    value = _signed_sum(c) / divisor if divisor else np.nan
    fair = 1 - value if convention == "elliot" else value
    return Result("gini", float(fair), convention, n=n_items)


def _signed_sum(ascending: FloatArray) -> float:
    n = len(ascending)
    return float((2 * np.arange(1, n + 1) - n - 1) @ ascending)


def entropy(counts: ArrayLike, *, convention: str = "bits") -> Result:
    """Shannon entropy of the exposure of items.

        H = −Σ_{j : c_j > 0} q_j log q_j,   q_j = c_j / Σ c

    Parameters
    ----------
    counts : array-like of shape (m,)
        As from `recommendation_counts`.
    convention : str
        One of ``find_metric("entropy").conventions``.

    Examples
    --------
    >>> entropy([2, 2, 0, 4]).value
    1.5
    """
    check_choice("convention of entropy", convention, METRICS["entropy"].conventions)
    c = check_item_vector(counts, None, "counts")
    q = c[c > 0] / c.sum() if c.any() else np.array([np.nan])
    value = -float(q @ (np.log2(q) if convention == "bits" else np.log(q)))
    per_item = value / len(q) if convention == "recbole" else value
    return Result("entropy", per_item, convention, n=len(c))


def catalog_coverage(counts: ArrayLike) -> Result:
    """Share of the items that are recommended to at least one user.

    Examples
    --------
    >>> catalog_coverage([2, 1, 0, 0]).value
    0.5
    """
    c = check_item_vector(counts, None, "counts")
    value = float(np.count_nonzero(c) / len(c)) if len(c) else float("nan")
    return Result("coverage", value, "share of the items", n=len(c))


def popreo(top_items: ArrayLike, test: Any, groups: ItemGroups) -> Result:
    """Popularity-based ranking equal opportunity (Zhu et al. 2020).

        std_g P(R@k | g, y = 1) / mean_g P(R@k | g, y = 1)

    where P(R@k | g, y = 1) is the pooled recall of group g and std the population one.
    0: all groups have the same recall. Groups without held-out items are left out.

    Examples
    --------
    Recall 1 and 1/2: deviation 1/4, mean 3/4.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> round(popreo([[0, 1]], [[1, 1, 1]], groups).value, 4)
    0.3333
    """
    return METRICS["popreo"].of_arrays(top_items, test=test, groups=groups)


def _measure_popreo(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    found, held_out = hits_by_user(block, context.tail, k)
    return Partial((found.sum(axis=0), held_out.sum(axis=0)))


def poprsp(top_items: ArrayLike, groups: ItemGroups, train: Any = None) -> Result:
    """Popularity-based ranking statistical parity (Zhu et al. 2020).

        std_g P(R@k | g) / mean_g P(R@k | g),   P(R@k | g) = Σ_u |L_u ∩ g| / Σ_u |g ∖ S_u|

    where S_u are the training items of user u, which could not be recommended; none if
    ``train`` is left out. 0: items of all groups are recommended equally often.

    Examples
    --------
    One of one head item recommended, one of two tail items: 1 and 1/2.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> round(poprsp([[0, 1]], groups).value, 4)
    0.3333
    """
    seen = sp.csr_array((len(np.asarray(top_items)), len(groups))) if train is None else train
    return METRICS["poprsp"].of_arrays(top_items, train=seen, groups=groups)


def _measure_poprsp(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    groups = context.tail
    possible = len(block.lists) * np.array(list(groups.sizes.values()), dtype=np.float64)
    possible -= np.bincount(groups.codes[block.seen.indices], minlength=len(groups.names))
    return Partial((exposure_by_user(block, groups, k, None).sum(axis=0), possible))


def _deviation(totals: Totals, context: Context, request: Request) -> Result:
    """Return std / mean of the ratios of the groups; nan groups are left out."""
    ratios = ratio(*totals)
    values = ratios[~np.isnan(ratios)]
    mean = values.mean() if len(values) else 0.0
    return request.result(values.std() / mean if mean else np.nan, context.n_items, context)


def popularity_opportunity_bias(
    top_items: ArrayLike, test: Any, popularity: ArrayLike, *, convention: str = "spearman"
) -> Result:
    """Popularity-opportunity bias (Zhu et al. 2021).

    Are popular items recommended more often to the users who want them?

        corr_j(φ_j, TPR_j),   TPR_j = #{u : j ∈ L_u ∩ R_u} / #{u : j ∈ R_u}

    where φ is popularity. 0: no bias; near 1: the more popular, the higher the rate. Items
    that are held out for no user have no rate and are left out; nan if all rates are equal (or,
    under ``"gini"``, all zero).

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives.
    popularity : array-like of shape (m,)
        φ, usually the number of training users of each item.
    convention : str
        One of ``find_metric("popularity_opportunity_bias").conventions``.

    Examples
    --------
    The popular item is found, the other is not.

    >>> round(popularity_opportunity_bias([[0], [0]], [[1, 1], [1, 0]], [9, 1]).value, 6)
    1.0
    """
    return METRICS["popularity_opportunity_bias"].of_arrays(
        top_items, test=test, popularity=popularity, convention=convention
    )


def _measure_opportunity(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    hits = block.lists[:, :k][block.hits[:, :k]]
    found = np.bincount(hits, minlength=context.n_items).astype(np.float64)
    held_out = np.bincount(block.held_out.indices, minlength=context.n_items)
    return Partial((found, held_out.astype(np.float64)))


def _finish_opportunity(totals: Totals, context: Context, request: Request) -> Result:
    found, held_out = totals
    rated = held_out > 0
    rate = found[rated] / held_out[rated]
    phi = context.popularity[rated]
    if request.convention == "gini":
        ordered = rate[np.argsort(phi, kind="stable")]
        total = len(ordered) * ordered.sum()
        value = _signed_sum(ordered) / float(total) if total else float("nan")
    elif request.convention == "spearman":
        value = correlation(average_ranks(phi), average_ranks(rate))
    else:
        value = correlation(phi, rate)
    return request.result(value, context.n_items, context)


def correlation(a: FloatArray, b: FloatArray) -> float:
    """Return Pearson's correlation; nan where one of them is constant."""
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else float("nan")


def _measure_counts(block: UserBlock, context: Context, k: int, _: str) -> Partial:
    counts = np.bincount(block.pairs(k).items, minlength=context.n_items)
    return Partial((counts.astype(np.float64),))


def _finish_counts(
    totals: Totals, context: Context, request: Request, *, of: Callable[..., Result]
) -> Result:
    return request.result(of(*totals, convention=request.convention).value, len(*totals), context)


def _finish_coverage(totals: Totals, context: Context, request: Request) -> Result:
    return request.result(catalog_coverage(*totals).value, len(*totals), context)


METRICS = declared(
    popreo=(_measure_popreo, _deviation),
    poprsp=(_measure_poprsp, _deviation),
    gini=(_measure_counts, partial(_finish_counts, of=gini)),
    coverage=(_measure_counts, _finish_coverage),
    entropy=(_measure_counts, partial(_finish_counts, of=entropy)),
    popularity_opportunity_bias=(_measure_opportunity, _finish_opportunity),
    group_recall=(_measure_group_recall, _finish_group_recall),
    group_exposure=(_measure_exposure, _finish_exposure),
    exposure_to_relevance=(_measure_to_relevance, _finish_to_relevance),
    group_coverage=(_measure_counts, _finish_group_coverage),
    awrf=_measure_awrf,
    expected_exposure_loss=(_measure_loss, _finish_loss),
)

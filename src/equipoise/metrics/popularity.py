"""How popular the recommended items are, absolutely and against what a user used to like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidDataError
from equipoise.metrics._checks import check_choice, check_item_vector, check_user_items
from equipoise.metrics._pairs import Pairs, pairs_of, pairs_of_lists, pairs_of_matrix, user_mean
from equipoise.metrics.groups import ItemGroups, nan_mean
from equipoise.metrics.results import FloatArray, MetricResult

#: convention of `average_popularity` -> what it computes
ARP_CONVENTIONS: Mapping[str, str] = {
    "raw": "mean popularity as given",
    "rectools": "over the popularity of all items together",
    "evidently": "over the popularity of the most popular item",
}

#: convention of `mean_popularity_rank` -> what it computes
POPULARITY_RANK_CONVENTIONS: Mapping[str, str] = {
    "rank": "1 is the most popular item, m the least",
    "percentile": "(rank - 1) / (m - 1): 0 is the most popular item, 1 the least",
}


def average_popularity(
    top_items: ArrayLike, popularity: ArrayLike, *, convention: str = "raw"
) -> MetricResult:
    """Average recommendation popularity (ARP).

        (1/n) Σ_u (1/|L_u|) Σ_{j∈L_u} φ_j

    where L_u is the list of user u and φ_j the popularity of item j.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    popularity : array-like of shape (m,)
        φ, usually the number of training users of each item.
    convention : str
        A key of ``ARP_CONVENTIONS``.

    Returns
    -------
    MetricResult
        A user with an empty list is nan and left out.

    Examples
    --------
    >>> average_popularity([[0, 1], [0, 2]], [50, 20, 10]).value
    32.5
    """
    check_choice(convention, ARP_CONVENTIONS, "convention of average_popularity")
    phi = check_item_vector(popularity, None, "popularity")
    pairs = pairs_of_lists(top_items, len(phi))
    scale = {"raw": 1.0, "rectools": phi.sum(), "evidently": phi.max(initial=0.0)}[convention]
    if scale == 0:
        raise InvalidDataError("popularity is zero for every item: it cannot be normalized.")
    return user_mean("arp", pairs.mean_by_user(phi[pairs.items] / scale), convention)


def average_tail_share(
    top_items: ArrayLike, groups: ItemGroups, group: str = "tail"
) -> MetricResult:
    """Average percentage of long-tail items (APLT).

        (1/n) Σ_u |L_u ∩ Γ| / |L_u|

    where Γ are the items of one group, the tail. A user with an empty list is left out.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> average_tail_share([[0, 1], [0, -1]], groups).value
    0.25
    """
    pairs, in_tail = _tail(top_items, groups, group)
    return user_mean("aplt", pairs.mean_by_user(in_tail), f"share of {group}, {groups.rule}")


def average_tail_count(
    top_items: ArrayLike, groups: ItemGroups, group: str = "tail"
) -> MetricResult:
    """Average coverage of long-tail items (ACLT): how many of them a list holds.

        (1/n) Σ_u |L_u ∩ Γ|

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> average_tail_count([[0, 1], [2, 1]], groups).value
    1.5
    """
    pairs, in_tail = _tail(top_items, groups, group)
    per_user = np.bincount(pairs.users, weights=in_tail, minlength=pairs.n_users)
    return user_mean("aclt", per_user.astype(np.float64), f"number of {group}, {groups.rule}")


def _tail(top_items: ArrayLike, groups: ItemGroups, group: str) -> tuple[Pairs, FloatArray]:
    check_choice(group, groups.names, "group")
    pairs = pairs_of_lists(top_items, len(groups))
    return pairs, (groups.codes[pairs.items] == groups.names.index(group)).astype(np.float64)


def mean_popularity_rank(
    items: Any, popularity: ArrayLike, *, convention: str = "rank"
) -> MetricResult:
    """Mean popularity rank of the recommended, or of the relevant items.

        (1/n) Σ_u (1/|L_u|) Σ_{j∈L_u} rank(φ_j)

    where rank 1 is the most popular item and ties share their mean rank. Low: popular items.
    Compare the lists with the held-out items: a fair model has both alike.

    Parameters
    ----------
    items : array-like of int (n, k) or sparse matrix (n, m)
        Recommended lists, or a matrix of relevant items.
    popularity : array-like of shape (m,)
        φ.
    convention : str
        A key of ``POPULARITY_RANK_CONVENTIONS``.

    Examples
    --------
    >>> mean_popularity_rank([[0, 1], [0, 2]], [50, 20, 10]).value
    1.75
    """
    check_choice(convention, POPULARITY_RANK_CONVENTIONS, "convention of mean_popularity_rank")
    phi = check_item_vector(popularity, None, "popularity")
    pairs = pairs_of(items, len(phi))
    rank = average_ranks(-phi)
    if convention == "percentile":
        rank = (rank - 1) / max(1, len(phi) - 1)
    return user_mean("popularity rank", pairs.mean_by_user(rank[pairs.items]), convention)


def average_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, ascending; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def popularity_lift(top_items: ArrayLike, profiles: Any, popularity: ArrayLike) -> MetricResult:
    """Popularity lift (ΔGAP; Abdollahpouri et al. 2019).

        (GAP(L) − GAP(H)) / GAP(H),   GAP(A) = (1/n) Σ_u (1/|A_u|) Σ_{j∈A_u} φ_j

    where L_u is what user u is shown and H_u what they had touched. 0: as popular as before;
    1: twice as popular. Users without list or history are left out of both.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items.
    profiles : sparse matrix (n, m)
        The users' histories.
    popularity : array-like of shape (m,)
        φ. For a group of users give the rows of that group.

    Examples
    --------
    >>> popularity_lift([[0]], [[0, 1, 1]], [30, 20, 10]).value
    1.0
    """
    history, shown = _history_and_lists(profiles, top_items)
    phi = check_item_vector(popularity, np.shape(profiles)[1], "popularity")
    before, after = (pairs.mean_by_user(phi[pairs.items]) for pairs in (history, shown))
    both = ~np.isnan(before) & ~np.isnan(after)
    per_user = np.full(len(before), np.nan)
    np.divide(after - before, before, out=per_user, where=both & (before > 0))
    base = nan_mean(before[both])
    value = (nan_mean(after[both]) - base) / base if base else float("nan")
    return MetricResult("popularity lift", value, "delta GAP of all users", per_user=per_user)


def popularity_miscalibration(
    top_items: ArrayLike, profiles: Any, groups: ItemGroups
) -> MetricResult:
    """User popularity deviation (Abdollahpouri et al. 2021).

        (1/n) Σ_u JS(h_u, l_u),   JS(h, l) = ½ KL(h ‖ m̄) + ½ KL(l ‖ m̄)

    where h_u and l_u are the shares of the item groups in the history and in the list of user
    u, and m̄ their mean. The divergence (not its root), base 2: 0 is calibrated, 1 nothing in
    common. Users without list or history are nan and left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items.
    profiles : sparse matrix (n, m)
        The users' histories.
    groups : ItemGroups
        Usually from `popularity_groups`.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1])
    >>> popularity_miscalibration([[0]], [[0, 1]], groups).value
    1.0
    """
    history, shown = _history_and_lists(profiles, top_items)
    if np.shape(profiles)[1] != len(groups):
        raise InvalidDataError(
            f"profiles has {np.shape(profiles)[1]} items, groups has {len(groups)}."
        )
    h, listed = (_group_shares(pairs, groups) for pairs in (history, shown))
    middle = (h + listed) / 2
    per_user = (_kl_bits(h, middle) + _kl_bits(listed, middle)) / 2
    return user_mean("popularity miscalibration", per_user, f"Jensen-Shannon, {groups.rule}")


def _history_and_lists(profiles: Any, top_items: ArrayLike) -> tuple[Pairs, Pairs]:
    csr = check_user_items(profiles, "profiles")
    n_users, n_items = csr.shape
    return pairs_of_matrix(csr, "profiles"), pairs_of_lists(top_items, n_items, n_users)


def _group_shares(pairs: Pairs, groups: ItemGroups) -> FloatArray:
    cell = pairs.users * len(groups.names) + groups.codes[pairs.items]
    counts = np.bincount(cell, minlength=pairs.n_users * len(groups.names))
    counts = counts.reshape(pairs.n_users, len(groups.names))
    total = counts.sum(axis=1, keepdims=True)
    shares = np.full(counts.shape, np.nan)
    np.divide(counts, total, out=shares, where=total > 0)
    return shares


def _kl_bits(share: FloatArray, reference: FloatArray) -> FloatArray:
    # 0 · log 0 is 0; nan shares (nothing to compare) stay nan
    quotient = np.divide(share, reference, out=np.ones_like(share), where=share > 0)
    return np.asarray((share * np.log2(quotient)).sum(axis=1))

"""How popular and how novel recommended items are, also relative to a user's history."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.checks import (
    check_choice,
    check_item_vector,
    check_top_items,
    check_user_items,
)
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.metric import (
    Context,
    Pairs,
    Partial,
    Request,
    Totals,
    UserBlock,
    declared,
    user_mean,
)
from equipoise.metrics.results import FloatArray, Result


def average_popularity(
    top_items: ArrayLike, popularity: ArrayLike, *, convention: str = "raw"
) -> Result:
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
        One of ``find_metric("arp").conventions``.

    Returns
    -------
    Result
        A user with an empty list is nan and left out.

    Examples
    --------
    >>> average_popularity([[0, 1], [0, 2]], [50, 20, 10]).value
    32.5
    """
    return METRICS["arp"].of_arrays(top_items, popularity=popularity, convention=convention)


def _mean_popularity(pairs: Pairs, phi: FloatArray, convention: str = "raw") -> FloatArray:
    scale = {"raw": 1.0, "rectools": phi.sum(), "evidently": phi.max(initial=0.0)}[convention]
    if scale == 0:
        raise InvalidDataError("popularity is zero for every item: it cannot be normalized.")
    return pairs.mean_by_user(phi[pairs.items] / scale)


def average_tail_share(top_items: ArrayLike, groups: ItemGroups) -> Result:
    """Average percentage of long-tail items (APLT).

        (1/n) Σ_u |L_u ∩ Γ| / |L_u|

    where Γ are the items of the group "tail". A user with an empty list is left out.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> average_tail_share([[0, 1], [0, -1]], groups).value
    0.25
    """
    return METRICS["aplt"].of_arrays(top_items, groups=groups)


def average_tail_count(top_items: ArrayLike, groups: ItemGroups) -> Result:
    """Average coverage of long-tail items (ACLT): how many of them a list contains.

        (1/n) Σ_u |L_u ∩ Γ|

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> average_tail_count([[0, 1], [2, 1]], groups).value
    1.5
    """
    return METRICS["aclt"].of_arrays(top_items, groups=groups)


def _in_tail(pairs: Pairs, groups: ItemGroups) -> FloatArray:
    inside = np.zeros(len(groups))
    inside[groups.items("tail")] = 1.0
    return inside[pairs.items]


def mean_popularity_rank(items: Any, popularity: ArrayLike, *, convention: str = "rank") -> Result:
    """Mean popularity rank of recommended items, or of relevant ones.

        (1/n) Σ_u (1/|L_u|) Σ_{j∈L_u} rank(φ_j)

    where rank 1 is the most popular item and ties share their mean rank. Low: popular items.
    Compare the lists with the held-out items: for a fair model both have the same rank.

    Parameters
    ----------
    items : array-like of int (n, k) or sparse matrix (n, m)
        Recommended lists, or a matrix of relevant items.
    popularity : array-like of shape (m,)
        φ.
    convention : str
        One of ``find_metric("popularity_rank").conventions``.

    Examples
    --------
    >>> mean_popularity_rank([[0, 1], [0, 2]], [50, 20, 10]).value
    1.75
    """
    check_choice(
        "convention of mean_popularity_rank", convention, METRICS["popularity_rank"].conventions
    )
    phi = check_item_vector(popularity, None, "popularity")
    is_matrix = sp.issparse(items)
    pairs = Pairs.of_matrix(check_user_items(items)) if is_matrix else _listed(items, len(phi))
    return user_mean("popularity_rank", _mean_rank(pairs, phi, convention), convention)


def _mean_rank(pairs: Pairs, phi: FloatArray, convention: str) -> FloatArray:
    rank = average_ranks(-phi)
    if convention == "percentile":
        rank = (rank - 1) / max(1, len(phi) - 1)
    return pairs.mean_by_user(rank[pairs.items])


def average_ranks(values: FloatArray) -> FloatArray:
    """Ranks from 1, ascending; equal values share the mean of their ranks."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def popularity_lift(top_items: ArrayLike, train: Any, popularity: ArrayLike) -> Result:
    """Popularity lift (ΔGAP; Abdollahpouri et al. 2019).

        (GAP(L) − GAP(H)) / GAP(H),   GAP(A) = (1/n) Σ_u (1/|A_u|) Σ_{j∈A_u} φ_j

    where L_u are the recommended items of user u and H_u the items of their history. 0: as popular
    as before; 1: twice as popular. Users without list or history are left out of both.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items.
    train : sparse matrix (n, m)
        The users' histories.
    popularity : array-like of shape (m,)
        φ. For a group of users pass the rows of that group.

    Examples
    --------
    >>> popularity_lift([[0]], [[0, 1, 1]], [30, 20, 10]).value
    1.0
    """
    return METRICS["popularity_lift"].of_arrays(top_items, train=train, popularity=popularity)


def _measure_lift(block: UserBlock, context: Context, k: int | None, _: str) -> Partial:
    phi = context.popularity
    before, after = (_mean_popularity(pairs, phi) for pairs in (block.history, block.pairs(k)))
    both = ~np.isnan(before) & ~np.isnan(after)
    per_user = ratio(after - before, before)  # nan where one of them is
    totals = (before[both].sum(), after[both].sum(), both.sum(), np.sum(~np.isnan(per_user)))
    return Partial(totals, per_user)


def _finish_lift(totals: Totals, context: Context, request: Request) -> Result:
    before, after, both, n = totals
    value = (after / both - before / both) / (before / both) if before else np.nan
    return request.result(value, n, context)


def popularity_miscalibration(top_items: ArrayLike, train: Any, groups: ItemGroups) -> Result:
    """User popularity deviation (Abdollahpouri et al. 2021).

        (1/n) Σ_u JS(h_u, l_u),   JS(h, l) = ½ KL(h ‖ m̄) + ½ KL(l ‖ m̄)

    where h_u and l_u are the shares of the item groups in the history and in the list of user
    u, and m̄ their mean. The divergence (not its root), base 2: 0 is calibrated, 1 nothing in
    common. Users without list or history are nan and left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items.
    train : sparse matrix (n, m)
        The users' histories.
    groups : ItemGroups
        Usually from `popularity_groups`.

    Examples
    --------
    >>> groups = ItemGroups(("head", "tail"), [0, 1])
    >>> popularity_miscalibration([[0]], [[0, 1]], groups).value
    1.0
    """
    return METRICS["popularity_miscalibration"].of_arrays(top_items, train=train, groups=groups)


def _measure_miscalibration(
    block: UserBlock, context: Context, k: int | None, _: str
) -> FloatArray:
    return js_bits(*(group_shares(one, context.groups) for one in (block.history, block.pairs(k))))


def group_shares(pairs: Pairs, groups: ItemGroups) -> FloatArray:
    """Return the share of each group in the items of each user; nan for users without any."""
    counts = groups.sums(pairs.users, pairs.items, pairs.n_users)
    return ratio(counts, counts.sum(axis=1, keepdims=True))


def js_bits(one: FloatArray, other: FloatArray) -> FloatArray:
    """Jensen–Shannon divergence of each row, base 2."""
    middle = (one + other) / 2
    return (kl_divergence(one, middle, np.log2) + kl_divergence(other, middle, np.log2)) / 2


def kl_divergence(share: FloatArray, reference: FloatArray, log: np.ufunc) -> FloatArray:
    """Kullback–Leibler divergence of each row, in the unit of the logarithm."""
    # 0 · log 0 is 0; nan shares (nothing to compare) stay nan
    quotient = np.divide(share, reference, out=np.ones_like(share), where=share > 0)
    return np.asarray((share * log(quotient)).sum(axis=1))


def epc(
    top_items: ArrayLike, train: Any, test: Any = None, *, convention: str = "standard"
) -> Result:
    """Expected popularity complement (Vargas & Castells 2011).

        (1/n) Σ_u [ Σ_t d(t) · ρ_{u,j_t} · (1 − n_{j_t}/n) / Σ_t d(t) ]

    where

    - j_t is the item at rank t, n_j the number of the n training users who touched item j;
    - d(t) = 1 / log2(t + 1), and ρ is 1 for a held-out item of the user, else 0. Under
      ``"flat"`` both are 1.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    train : sparse matrix (n, m)
        What users had touched.
    test : sparse matrix (n, m)
        Held-out positives; needed by ``"standard"``, not used by ``"flat"``.
    convention : str
        One of ``find_metric("epc").conventions``.

    Returns
    -------
    Result
        A user without a list is nan and left out; so is, under ``"standard"``, a user
        without held-out items.

    Examples
    --------
    >>> epc([[1, 2], [2, -1]], [[1, 1, 0], [1, 0, 0]], convention="flat").value
    0.875
    """
    return METRICS["epc"].of_arrays(top_items, train=train, test=test, convention=convention)


def efd(
    top_items: ArrayLike, train: Any, test: Any = None, *, convention: str = "standard"
) -> Result:
    """Expected free discovery: mean self-information of the recommended items, in bits.

    As `epc`, with the novelty −log2(n_j / Σ n) of an item. An item without users counts as the
    rarest item with users: its own novelty would be infinite.

    Examples
    --------
    Item 0 has half of the four interactions, items 1 and 2 a quarter each.

    >>> efd([[1], [0]], [[1, 1, 0], [1, 0, 1]], convention="flat").value
    1.5
    """
    return METRICS["efd"].of_arrays(top_items, train=train, test=test, convention=convention)


def _measure_novelty(
    block: UserBlock, context: Context, k: int | None, convention: str, *, metric: str
) -> FloatArray:
    pairs = block.pairs(k)
    values = _item_novelty(metric, context)[pairs.items]
    if convention == "flat":
        return pairs.mean_by_user(values)
    weights = 1 / np.log2(pairs.places + 2.0)
    per_user = pairs.mean_by_user(values * block.hits[pairs.users, pairs.places], weights)
    per_user[block.relevant == 0] = np.nan
    return per_user


def _item_novelty(metric: str, context: Context) -> FloatArray:
    counts = context.seen_counts
    if metric == "epc":
        return 1 - counts / max(1, context.n_users)
    seen = counts > 0
    if not seen.any():
        raise InvalidDataError("train has no positive entry: novelty needs what users know.")
    known = np.where(seen, counts, counts[seen].min())
    return np.asarray(-np.log2(known / counts.sum()))


def _listed(top_items: ArrayLike, n_items: int) -> Pairs:
    return Pairs.of_lists(check_top_items(top_items, (None, n_items)))


def _measure_arp(block: UserBlock, context: Context, k: int, convention: str) -> FloatArray:
    return _mean_popularity(block.pairs(k), context.popularity, convention)


def _measure_rank(block: UserBlock, context: Context, k: int, convention: str) -> FloatArray:
    return _mean_rank(block.pairs(k), context.popularity, convention)


def _measure_tail_share(block: UserBlock, context: Context, k: int, _: str) -> FloatArray:
    pairs = block.pairs(k)
    return pairs.mean_by_user(_in_tail(pairs, context.tail))


def _measure_tail_count(block: UserBlock, context: Context, k: int, _: str) -> FloatArray:
    pairs = block.pairs(k)
    inside = _in_tail(pairs, context.tail)
    return np.bincount(pairs.users, inside, pairs.n_users).astype(np.float64)


METRICS = declared(
    arp=_measure_arp,
    aplt=_measure_tail_share,
    aclt=_measure_tail_count,
    epc=partial(_measure_novelty, metric="epc"),
    efd=partial(_measure_novelty, metric="efd"),
    popularity_rank=_measure_rank,
    popularity_lift=(_measure_lift, _finish_lift),
    popularity_miscalibration=_measure_miscalibration,
)

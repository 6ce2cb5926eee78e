"""How unequally items are recommended and found: Gini, entropy, parity of head and tail."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.checks import check_choice, check_item_vector, check_top_items
from equipoise.metrics.exposure import exposure_by_user, hits_by_user
from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.metric import Context, Pairs, Partial, Request, Totals, UserBlock, declared
from equipoise.metrics.popularity import average_ranks
from equipoise.metrics.results import FloatArray, IntArray, Result


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
)

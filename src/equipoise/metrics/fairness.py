"""What each popularity group gets: exposure, recall, and how far apart the groups are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidDataError
from equipoise.metrics._checks import check_choice, check_item_vector, check_user_items
from equipoise.metrics._hits import Hits
from equipoise.metrics._pairs import pairs_of_lists
from equipoise.metrics.exposure import ordered_gini
from equipoise.metrics.groups import ItemGroups, nan_mean
from equipoise.metrics.popularity import average_ranks
from equipoise.metrics.results import FloatArray, GroupResult, MetricResult

#: convention of `recall_by_group` -> what it computes
GROUP_RECALL_CONVENTIONS: Mapping[str, str] = {
    "pooled": "hits of the group over its held-out items, all users together",
    "user_mean": "that for each user who has held-out items of the group, then the mean",
}

#: convention of `exposure_by_group` -> what it computes
GROUP_EXPOSURE_CONVENTIONS: Mapping[str, str] = {
    "share": "share of all recommended places",
    "relative": "share of places over share of the catalogue: 1 is as many as items",
}

#: convention of `popularity_opportunity_bias` -> what it computes
OPPORTUNITY_CONVENTIONS: Mapping[str, str] = {
    "spearman": "rank correlation of popularity and true-positive rate",
    "pearson": "linear correlation of popularity and true-positive rate",
    "gini": "Gini coefficient of true-positive rates, items in order of popularity",
}


def recall_by_group(
    top_items: ArrayLike, test: Any, groups: ItemGroups, *, convention: str = "pooled"
) -> GroupResult[float]:
    """Recall of each group of items: the chance of a held-out item to be recommended.

        Recall(g) = Σ_u |L_u ∩ R_u ∩ g| / Σ_u |R_u ∩ g|

    where L_u is the list and R_u the held-out items of user u.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives.
    groups : ItemGroups
        Usually from `popularity_groups`.
    convention : str
        A key of ``GROUP_RECALL_CONVENTIONS``.

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
    check_choice(convention, GROUP_RECALL_CONVENTIONS, "convention of recall_by_group")
    found, held_out = _hits_by_user_and_group(Hits(top_items, test), groups)
    if convention == "pooled":
        found, held_out = found.sum(axis=0, keepdims=True), held_out.sum(axis=0, keepdims=True)
    by_group = nan_mean(_ratio(found, held_out).T)
    overall = nan_mean(_ratio(found.sum(axis=1), held_out.sum(axis=1)))
    return _grouped(overall, by_group, groups, "recall", convention)


def _hits_by_user_and_group(hits: Hits, groups: ItemGroups) -> tuple[FloatArray, FloatArray]:
    """Return users × groups: hits, and held-out items."""
    n_users, n_items = hits.test.shape
    if n_items != len(groups):
        raise InvalidDataError(f"test has {n_items} items, groups has {len(groups)}.")
    users, places = np.nonzero(hits.matrix)
    holders = np.repeat(np.arange(n_users), hits.relevant)
    width = len(groups.names)

    def table(rows: Any, items: Any) -> FloatArray:
        cells = np.bincount(rows * width + groups.codes[items], minlength=n_users * width)
        return cells.reshape(n_users, width).astype(np.float64)

    return table(users, hits.lists[users, places]), table(holders, hits.test.indices)


def exposure_by_group(
    top_items: ArrayLike, groups: ItemGroups, *, convention: str = "share"
) -> GroupResult[float]:
    """Share of the recommended places that each group gets; overall it is 1.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    groups : ItemGroups
        Usually from `popularity_groups`.
    convention : str
        A key of ``GROUP_EXPOSURE_CONVENTIONS``.

    Examples
    --------
    Three of four places for a third of the catalogue.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> dict(exposure_by_group([[0, 1], [0, -1], [0, -1]], groups).by_group)
    {'head': 0.75, 'tail': 0.25}
    >>> lists = [[0, 1], [0, -1], [0, -1]]
    >>> exposure_by_group(lists, groups, convention="relative").by_group["head"]
    2.25
    """
    check_choice(convention, GROUP_EXPOSURE_CONVENTIONS, "convention of exposure_by_group")
    places = groups.codes[pairs_of_lists(top_items, len(groups)).items]
    counts = np.bincount(places, minlength=len(groups.names)).astype(np.float64)
    share = _ratio(counts, np.full(len(counts), counts.sum()))
    if convention == "relative":
        sizes = np.array(list(groups.sizes.values()), dtype=np.float64)
        share = _ratio(share * len(groups), sizes)
    overall = 1.0 if counts.any() else float("nan")
    return _grouped(overall, share, groups, "exposure", convention)


def popreo(top_items: ArrayLike, test: Any, groups: ItemGroups) -> MetricResult:
    """Popularity-based ranking equal opportunity (Zhu et al. 2020).

        std_g P(R@k | g, y = 1) / mean_g P(R@k | g, y = 1)

    where P(R@k | g, y = 1) is the pooled recall of group g and std the population one.
    0: held-out items are found alike in all groups. Groups without held-out items are left out.

    Examples
    --------
    Recall 1 and 1/2: deviation 1/4, mean 3/4.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> round(popreo([[0, 1]], [[1, 1, 1]], groups).value, 4)
    0.3333
    """
    recall = recall_by_group(top_items, test, groups)
    return MetricResult("popreo", _relative_deviation(recall), f"std / mean, {groups.rule}")


def poprsp(top_items: ArrayLike, groups: ItemGroups, train: Any = None) -> MetricResult:
    """Popularity-based ranking statistical parity (Zhu et al. 2020).

        std_g P(R@k | g) / mean_g P(R@k | g),   P(R@k | g) = Σ_u |L_u ∩ g| / Σ_u |g ∖ S_u|

    where S_u are the training items of user u, which could not be recommended; none if
    ``train`` is left out. 0: items are shown alike in all groups.

    Examples
    --------
    One of one head item shown, one of two tail items: 1 and 1/2.

    >>> groups = ItemGroups(("head", "tail"), [0, 1, 1])
    >>> round(poprsp([[0, 1]], groups).value, 4)
    0.3333
    """
    pairs = pairs_of_lists(top_items, len(groups))
    width = len(groups.names)
    possible = pairs.n_users * np.array(list(groups.sizes.values()), dtype=np.float64)
    if train is not None:
        X = check_user_items(train, "train")
        if X.shape != (pairs.n_users, len(groups)):
            raise InvalidDataError(
                f"train must be {pairs.n_users} users × {len(groups)} items, got {X.shape}."
            )
        possible -= np.bincount(groups.codes[X.indices], minlength=width)
    shown = np.bincount(groups.codes[pairs.items], minlength=width).astype(np.float64)
    overall = float(shown.sum() / possible.sum()) if possible.sum() else float("nan")
    chance = _grouped(overall, _ratio(shown, possible), groups, "exposure", "per open place")
    return MetricResult("poprsp", _relative_deviation(chance), f"std / mean, {groups.rule}")


def popularity_opportunity_bias(
    top_items: ArrayLike, test: Any, popularity: ArrayLike, *, convention: str = "spearman"
) -> MetricResult:
    """Popularity-opportunity bias (Zhu et al. 2021).

    Are popular items found more often by those who want them?

        corr_j(φ_j, TPR_j),   TPR_j = #{u : j ∈ L_u ∩ R_u} / #{u : j ∈ R_u}

    where φ is popularity. 0: no bias; towards 1: the more popular, the better served. Items
    that nobody holds out have no rate and are left out; nan if all rates are equal (or, under
    ``"gini"``, all zero).

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives.
    popularity : array-like of shape (m,)
        φ, usually the number of training users of each item.
    convention : str
        A key of ``OPPORTUNITY_CONVENTIONS``.

    Examples
    --------
    The popular item is found, the other is not.

    >>> round(popularity_opportunity_bias([[0], [0]], [[1, 1], [1, 0]], [9, 1]).value, 6)
    1.0
    """
    check_choice(convention, OPPORTUNITY_CONVENTIONS, "convention of popularity_opportunity_bias")
    hits = Hits(top_items, test)
    n_items = hits.test.shape[1]
    phi = check_item_vector(popularity, n_items, "popularity")
    found = np.bincount(hits.lists[hits.matrix], minlength=n_items).astype(np.float64)
    held_out = np.bincount(hits.test.indices, minlength=n_items)
    rated = held_out > 0
    rate, phi = found[rated] / held_out[rated], phi[rated]
    if convention == "gini":
        value = ordered_gini(rate[np.argsort(phi, kind="stable")])
    elif convention == "spearman":
        value = _correlation(average_ranks(phi), average_ranks(rate))
    else:
        value = _correlation(phi, rate)
    return MetricResult("popularity-opportunity bias", value, convention)


def _correlation(a: FloatArray, b: FloatArray) -> float:
    a, b = a - a.mean() if len(a) else a, b - b.mean() if len(b) else b
    scale = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / scale) if scale > 0 else float("nan")


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    ratio = np.full(np.shape(part), np.nan)
    np.divide(part, whole, out=ratio, where=whole > 0)
    return ratio


def _grouped(
    overall: float, by_group: FloatArray, groups: ItemGroups, metric: str, convention: str
) -> GroupResult[float]:
    values = dict(zip(groups.names, by_group.tolist(), strict=True))
    return GroupResult(overall, values, metric, f"{convention}, groups: {groups.rule}")


def _relative_deviation(result: GroupResult[float]) -> float:
    values = np.array([value for value in result.by_group.values() if not np.isnan(value)])
    mean = values.mean() if len(values) else 0.0
    return float(values.std() / mean) if mean else float("nan")

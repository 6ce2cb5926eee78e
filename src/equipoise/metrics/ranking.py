"""User ranking metrics at k: recall, precision, NDCG, MRR, MAP and hit rate.

Libraries agree on the names and differ on the definitions. Each metric here has a
``convention``; the default is what most libraries compute, and every result names its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidParameterError
from equipoise.metrics._checks import check_choice, check_k
from equipoise.metrics._hits import BoolArray, Hits
from equipoise.metrics._ranking_definitions import (
    DEFINITIONS,
    RANKING_CONVENTIONS,
    RANKING_METRICS,
    Definition,
)
from equipoise.metrics.results import FloatArray, IntArray, MetricResult, MetricTable

DEFAULT_K = 20
EMPTY_POLICIES = ("nan", "zero")

# 2²⁰ places of lists become 8 MB of floats
_PLACES_AT_ONCE = 2**20


def ranking_metrics(
    top_items: ArrayLike,
    test: Any,
    ks: Iterable[int] = (DEFAULT_K,),
    metrics: Sequence[str] = RANKING_METRICS,
    *,
    conventions: Mapping[str, str] | None = None,
    empty: str = "nan",
) -> MetricTable:
    """Every ranking metric at every k from one pass over the lists.

    Parameters
    ----------
    top_items : array-like of int, shape (n, K)
        Recommended items of each user, best first, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives R of each user (entries > 0).
    ks : iterable of int, default (20,)
        Cut-offs, at most K each.
    metrics : sequence of str
        Of ``RANKING_METRICS``.
    conventions : mapping of str to str, optional
        Metric to convention, where the default is not wanted; see ``RANKING_CONVENTIONS``.
    empty : {"nan", "zero"}
        A user without held-out items is left out of the mean (default), or counts 0 (the
        paper).

    Returns
    -------
    MetricTable
        One `MetricResult` per metric and k, with its value for each user.

    Examples
    --------
    Two of two held-out items for the first user, at ranks 1 and 3; none for the second.

    >>> table = ranking_metrics([[4, 0, 2], [1, 3, 0]], [[0, 0, 1, 0, 1], [0, 0, 1, 0, 0]], ks=[3])
    >>> table["recall@3"].value, round(table["precision@3"].value, 4)
    (0.5, 0.3333)
    >>> table["recall@3"].per_user.tolist()
    [1.0, 0.0]
    """
    hits = Hits(top_items, test)
    cutoffs = [check_k(k, hits.lists.shape[1], "k", "the length of the lists") for k in ks]
    chosen = _choose(metrics, conventions or {})
    check_choice(empty, EMPTY_POLICIES, "empty")
    has_items = hits.relevant > 0
    whole = bool(has_items.all())
    found = hits.matrix if whole else hits.matrix[has_items]
    relevant = hits.relevant if whole else hits.relevant[has_items]
    results = []
    for metric, convention in chosen.items():
        definition = DEFINITIONS[metric][convention]
        for k in cutoffs:
            per_user = np.full(len(hits.lists), 0.0 if empty == "zero" else np.nan)
            per_user[has_items] = _by_user(definition, found, relevant, k)
            value = _mean(per_user, definition, hits.relevant, k)
            results.append(MetricResult(metric, value, convention, k, per_user))
    return MetricTable(tuple(results))


def _choose(metrics: Sequence[str], conventions: Mapping[str, str]) -> dict[str, str]:
    """Pair each metric asked for with its convention, the first one by default."""
    if isinstance(metrics, str):
        raise InvalidParameterError(f"metrics must be a list of names, got the text {metrics!r}.")
    for metric in conventions:
        check_choice(metric, metrics, "conventions: metric")
    chosen = {}
    for metric in metrics:
        check_choice(metric, RANKING_METRICS, "metric")
        known = RANKING_CONVENTIONS[metric]
        chosen[metric] = check_choice(
            conventions.get(metric, next(iter(known))), known, f"convention of {metric}"
        )
    return chosen


def _by_user(definition: Definition, hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    # some formulas turn the hits into floats: a block of users at a time keeps that small
    step = max(1, _PLACES_AT_ONCE // k)
    values = np.empty(len(hits))
    for start in range(0, len(hits), step):
        rows = slice(start, start + step)
        values[rows] = definition.per_user(hits[rows], relevant[rows], k)
    return values


def _mean(per_user: FloatArray, definition: Definition, relevant: IntArray, k: int) -> float:
    known = ~np.isnan(per_user)
    weights = (
        np.ones(len(per_user)) if definition.weight is None else definition.weight(relevant, k)
    )
    total = weights[known].sum()
    return float(per_user[known] @ weights[known] / total) if total else float("nan")


def _single(
    metric: str, top_items: ArrayLike, test: Any, k: int, convention: str, empty: str
) -> MetricResult:
    table = ranking_metrics(
        top_items, test, (k,), (metric,), conventions={metric: convention}, empty=empty
    )
    return table.results[0]


def recall_at_k(
    top_items: ArrayLike,
    test: Any,
    k: int = DEFAULT_K,
    *,
    convention: str = "standard",
    empty: str = "nan",
) -> MetricResult:
    """Recall at k: hits / ``|R|``, or hits / ``min(|R|, k)`` under ``"capped"``.

    Arguments as in `ranking_metrics`.

    Examples
    --------
    >>> round(recall_at_k([[0, 1]], [[0, 1, 1, 1]], k=2).value, 4)
    0.3333
    >>> recall_at_k([[0, 1]], [[0, 1, 1, 1]], k=2, convention="capped").value
    0.5
    """
    return _single("recall", top_items, test, k, convention, empty)


def precision_at_k(
    top_items: ArrayLike,
    test: Any,
    k: int = DEFAULT_K,
    *,
    convention: str = "standard",
    empty: str = "nan",
) -> MetricResult:
    """Precision at k: hits / k; ``"implicit"`` pools Σ hits / Σ ``min(k, |R|)``.

    Examples
    --------
    >>> precision_at_k([[0, 1]], [[0, 1, 1, 1]], k=2).value
    0.5
    """
    return _single("precision", top_items, test, k, convention, empty)


def ndcg_at_k(
    top_items: ArrayLike,
    test: Any,
    k: int = DEFAULT_K,
    *,
    convention: str = "standard",
    empty: str = "nan",
) -> MetricResult:
    """Normalized discounted cumulative gain at k.

        Σ_{hits} d(rank) / Σ_{t≤L} d(t)

    where d(t) = 1 / log2(t + 1) and L = ``min(k, |R|)``. ``"rectools"`` takes L = k,
    ``"lenskit"`` takes d(t) = 1 / log2(max(t, 2)).

    Examples
    --------
    One hit of one, at rank 3: 1 / log2(4).

    >>> ndcg_at_k([[0, 1, 2]], [[0, 0, 1]], k=3).value
    0.5
    """
    return _single("ndcg", top_items, test, k, convention, empty)


def mrr_at_k(
    top_items: ArrayLike,
    test: Any,
    k: int = DEFAULT_K,
    *,
    convention: str = "standard",
    empty: str = "nan",
) -> MetricResult:
    """Mean reciprocal rank at k: of the first hit; ``"lightgcn"`` sums over all hits.

    Examples
    --------
    >>> mrr_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4).value
    0.5
    >>> mrr_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4, convention="lightgcn").value
    0.75
    """
    return _single("mrr", top_items, test, k, convention, empty)


def map_at_k(
    top_items: ArrayLike,
    test: Any,
    k: int = DEFAULT_K,
    *,
    convention: str = "standard",
    empty: str = "nan",
) -> MetricResult:
    """Mean average precision at k: over ``|R|``, or ``min(|R|, k)`` under ``"capped"``.

    Examples
    --------
    Hits at ranks 2 and 4, where precision is 1/2 and 2/4.

    >>> map_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4).value
    0.5
    """
    return _single("map", top_items, test, k, convention, empty)


def hit_rate_at_k(
    top_items: ArrayLike, test: Any, k: int = DEFAULT_K, *, empty: str = "nan"
) -> MetricResult:
    """Share of users with at least one hit.

    Examples
    --------
    >>> hit_rate_at_k([[0, 1], [0, 1]], [[1, 0, 0], [0, 0, 1]], k=2).value
    0.5
    """
    return _single("hit_rate", top_items, test, k, "standard", empty)

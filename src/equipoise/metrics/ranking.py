"""User ranking metrics at k: recall, precision, NDCG, MRR, MAP and hit rate.

Libraries agree on the names and differ on the definitions. Each metric here has a
``convention``; the default is what most libraries compute, and every result names its own.

Each formula takes hits (users × k or more), the number of held-out items |R| (at least 1) of each
user, and k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from equipoise.checks import check_choice, check_top_items, check_user_items, check_whole_number
from equipoise.defaults import MEASURED_K
from equipoise.exceptions import InvalidParameterError
from equipoise.memory import slices
from equipoise.metrics.metric import (
    BoolArray,
    Context,
    Partial,
    Request,
    Totals,
    UserBlock,
    declared,
)
from equipoise.metrics.results import FloatArray, IntArray, Result, Results

# 2²⁰ places of lists become 8 MB of floats
_PLACES_AT_ONCE = 2**20


def _hit_count(hits: BoolArray, k: int) -> FloatArray:
    return np.asarray(hits[:, :k].sum(axis=1), dtype=np.float64)


def _recall(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _hit_count(hits, k) / relevant


def _share_of_possible(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _hit_count(hits, k) / np.minimum(relevant, k)


def _precision(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:  # noqa: ARG001
    return _hit_count(hits, k) / k


def _ndcg_with(discount: FloatArray, hits: BoolArray, ideal_length: IntArray) -> FloatArray:
    gain = hits[:, : len(discount)] @ discount
    return np.asarray(gain / np.cumsum(discount)[ideal_length - 1])


def log2_discount(k: int) -> FloatArray:
    """Return 1 / log2(rank + 1) of the first k places."""
    return 1 / np.log2(np.arange(2, k + 2))


def _ndcg(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _ndcg_with(log2_discount(k), hits, np.minimum(relevant, k))


def _ndcg_rectools(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _ndcg_with(log2_discount(k), hits, np.full_like(relevant, k))


def _ndcg_lenskit(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    discount = 1 / np.log2(np.maximum(np.arange(1, k + 1), 2))
    return _ndcg_with(discount, hits, np.minimum(relevant, k))


def _mrr(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:  # noqa: ARG001
    first = np.argmax(hits[:, :k], axis=1)
    return np.where(hits[np.arange(len(hits)), first], 1 / (first + 1), 0.0)


def _mrr_lightgcn(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:  # noqa: ARG001
    return np.asarray(hits[:, :k] @ (1 / np.arange(1, k + 1)))


def _precision_sum(hits: BoolArray, k: int) -> FloatArray:
    running = np.cumsum(hits[:, :k], axis=1, dtype=np.float64)
    running *= hits[:, :k]
    return np.asarray(running @ (1 / np.arange(1, k + 1)))


def _map(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _precision_sum(hits, k) / relevant


def _map_capped(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _precision_sum(hits, k) / np.minimum(relevant, k)


def _hit_rate(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:  # noqa: ARG001
    return np.asarray(hits[:, :k].any(axis=1), dtype=np.float64)


_DEFINITIONS: Mapping[str, Mapping[str, Callable[[BoolArray, IntArray, int], FloatArray]]] = {
    "recall": {"standard": _recall, "capped": _share_of_possible},
    "precision": {"standard": _precision, "implicit": _share_of_possible},
    "ndcg": {"standard": _ndcg, "rectools": _ndcg_rectools, "lenskit": _ndcg_lenskit},
    "mrr": {"standard": _mrr, "lightgcn": _mrr_lightgcn},
    "map": {"standard": _map, "capped": _map_capped},
    "hit_rate": {"standard": _hit_rate},
}
RANKING_METRICS = tuple(_DEFINITIONS)
# Users are weighed by the hits that are possible, min(k, |R|); elsewhere all count the same.
_BY_POSSIBLE_HITS = ("precision", "implicit")


def _measure(
    block: UserBlock, context: Context, k: int | None, convention: str, *, metric: str
) -> Partial:
    k = block.lists.shape[1] if k is None else k
    formula = _DEFINITIONS[metric][convention]
    with_items = np.flatnonzero(block.relevant)
    per_user = np.full(len(block.lists), float(context.zero_division))
    # some formulas turn the hits into floats: a slice of users at a time keeps that small
    step = max(1, _PLACES_AT_ONCE // k)
    for part in slices(len(with_items), step):
        rows = with_items[part]
        per_user[rows] = formula(block.hits[rows], block.relevant[rows], k)
    known = ~np.isnan(per_user)
    n = int(known.sum())
    pooled = (metric, convention) == _BY_POSSIBLE_HITS
    weight = np.minimum(block.relevant[known], k) if pooled else np.ones(n)
    return Partial((per_user[known] @ weight, weight.sum(), n), per_user)


def _finish(totals: Totals, context: Context, request: Request) -> Result:
    total, weight, n = totals
    found = request.result(total / weight if weight else np.nan, n, context)
    if context.zero_division != 0:
        return found
    return replace(found, convention=f"{found.convention}, users without held-out items count 0")


METRICS = declared(**{name: (partial(_measure, metric=name), _finish) for name in RANKING_METRICS})


def ranking_metrics(
    top_items: ArrayLike,
    test: Any,
    k: int | Sequence[int] = MEASURED_K,
    metrics: Sequence[str] = RANKING_METRICS,
    *,
    conventions: Mapping[str, str] | None = None,
    zero_division: float = np.nan,
) -> Results:
    """Every ranking metric at every k from one pass over the lists.

    Parameters
    ----------
    top_items : array-like of int, shape (n, K)
        Recommended items of each user, best first, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives R of each user (entries > 0).
    k : int or sequence of int
        Cut-offs, at most K each.
    metrics : sequence of str
        Of ``RANKING_METRICS``.
    conventions : mapping of str to str, optional
        Metric to convention, where the default is not wanted; see
        ``find_metric(name).conventions``.
    zero_division : {nan, 0}
        Value for a user without held-out items: nan leaves the user out of the mean; the paper
        counts 0.

    Returns
    -------
    Results
        One `Result` per metric and k, with its value for each user.

    Examples
    --------
    Two of two held-out items for the first user, at ranks 1 and 3; none for the second.

    >>> table = ranking_metrics([[4, 0, 2], [1, 3, 0]], [[0, 0, 1, 0, 1], [0, 0, 1, 0, 0]], k=3)
    >>> table["recall@3"].value, round(table["precision@3"].value, 4)
    (0.5, 0.3333)
    >>> table["recall@3"].per_user.tolist()
    [1.0, 0.0]
    """
    held_out = check_user_items(test, "test")
    block = UserBlock(check_top_items(top_items, held_out.shape), held_out=held_out)
    context = Context(held_out.shape[1], zero_division=check_zero_division(zero_division))
    cutoffs: Sequence[Any] = [k] if np.ndim(k) == 0 else list(k)  # type: ignore[arg-type]
    for cutoff in cutoffs:
        check_whole_number("k", cutoff, 1, block.lists.shape[1])
    chosen = conventions or {}
    for metric in metrics:
        check_choice("metric", metric, RANKING_METRICS)
    for metric in chosen:
        check_choice("conventions: metric", metric, metrics)
    requests = [
        METRICS[name].request(int(cutoff), chosen.get(name))
        for name in metrics
        for cutoff in cutoffs
    ]
    return Results(tuple(request.of_block(block, context) for request in requests))


def check_zero_division(value: float) -> float:
    """Refuse what is neither nan nor 0."""
    if not (isinstance(value, int | float | np.number) and (np.isnan(value) or value == 0)):
        raise InvalidParameterError(f"zero_division must be nan or 0, got {value!r}.")
    return float(value)


class How(TypedDict, total=False):
    """Options of the metrics at k: `convention` and `zero_division`, as in `ranking_metrics`."""

    convention: str
    zero_division: float


def _single(
    metric: str,
    top_items: ArrayLike,
    test: Any,
    k: int,
    convention: str | None = None,
    zero_division: float = np.nan,
) -> Result:
    chosen = {} if convention is None else {metric: convention}
    return ranking_metrics(
        top_items, test, (k,), (metric,), conventions=chosen, zero_division=zero_division
    ).rows[0]


def recall_at_k(top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]) -> Result:
    """Recall at k: hits / ``|R|``, or hits / ``min(|R|, k)`` under ``"capped"``.

    Arguments as in `ranking_metrics`.

    Examples
    --------
    >>> round(recall_at_k([[0, 1]], [[0, 1, 1, 1]], k=2).value, 4)
    0.3333
    >>> recall_at_k([[0, 1]], [[0, 1, 1, 1]], k=2, convention="capped").value
    0.5
    """
    return _single("recall", top_items, test, k, **how)


def precision_at_k(
    top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]
) -> Result:
    """Precision at k: hits / k; ``"implicit"`` pools Σ hits / Σ ``min(k, |R|)``.

    Examples
    --------
    >>> precision_at_k([[0, 1]], [[0, 1, 1, 1]], k=2).value
    0.5
    """
    return _single("precision", top_items, test, k, **how)


def ndcg_at_k(top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]) -> Result:
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
    return _single("ndcg", top_items, test, k, **how)


def mrr_at_k(top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]) -> Result:
    """Mean reciprocal rank at k: of the first hit; ``"lightgcn"`` sums over all hits.

    Examples
    --------
    >>> mrr_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4).value
    0.5
    >>> mrr_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4, convention="lightgcn").value
    0.75
    """
    return _single("mrr", top_items, test, k, **how)


def map_at_k(top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]) -> Result:
    """Mean average precision at k: over ``|R|``, or ``min(|R|, k)`` under ``"capped"``.

    Examples
    --------
    Hits at ranks 2 and 4, where precision is 1/2 and 2/4.

    >>> map_at_k([[0, 1, 2, 3]], [[0, 1, 0, 1]], k=4).value
    0.5
    """
    return _single("map", top_items, test, k, **how)


def hit_rate_at_k(
    top_items: ArrayLike, test: Any, k: int = MEASURED_K, **how: Unpack[How]
) -> Result:
    """Share of users with at least one hit.

    Examples
    --------
    >>> hit_rate_at_k([[0, 1], [0, 1]], [[1, 0, 0], [0, 0, 1]], k=2).value
    0.5
    """
    return _single("hit_rate", top_items, test, k, **how)

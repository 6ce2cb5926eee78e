"""User metrics of data in blocks, by the formulas of the metrics in memory."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.ranking import DEFAULT_K, ranking_metrics
from equipoise.metrics.results import MetricResult, MetricTable
from equipoise.models.lists import Recommends

_METRICS = ("recall", "precision", "ndcg", "mrr", "map", "hit_rate")


def user_metrics(
    seen: Interactions,
    test: Interactions,
    model: Recommends,
    *,
    ks: Iterable[int] = (DEFAULT_K,),
    metrics: Sequence[str] = _METRICS,
    conventions: Mapping[str, str] | None = None,
) -> MetricTable:
    """Rank the items of every user and compare with the held-out ones, block by block.

    Parameters
    ----------
    seen, test : Interactions
        Parts of one `holdout`: their blocks belong together.
    model : Recommender
        Fitted on these items.
    ks, metrics, conventions
        As in `equipoise.metrics.ranking_metrics`; users without held-out items are left out.

    Returns
    -------
    MetricTable
        Means over users, without values per user.
    """
    if model.item_ids_ is not None and not np.array_equal(model.item_ids_, seen.item_ids):
        raise InvalidDataError(
            "the model has other items than the data, or in another order. Fit it on these data."
        )
    cutoffs = tuple(ks)
    wanted = (cutoffs, tuple(metrics), dict(conventions or {}))
    anonymous = copy.copy(model)
    anonymous.item_ids_ = None  # lists then contain columns, which the metrics compare
    anonymous.__dict__.pop("_item_lookup", None)
    totals = seen.total(_block_metrics, anonymous, wanted, beside=(test,))
    names = _named(*wanted)
    return MetricTable(
        tuple(
            MetricResult(name.metric, float(total / users) if users else np.nan, name.convention, k)
            for (name, k), (total, users) in zip(names, totals, strict=True)
        )
    )


def _named(
    ks: tuple[int, ...], metrics: tuple[str, ...], conventions: Mapping[str, str]
) -> list[tuple[MetricResult, int]]:
    """The metric of each position, from an example."""
    longest = max(ks)
    lists, test = [list(range(longest))], [[1] * longest]
    blank = ranking_metrics(lists, test, ks, metrics, conventions=conventions)
    for result in blank:
        if result.convention == "implicit":
            raise InvalidParameterError(
                "convention 'implicit' pools over all users, which blocks do not. Use another."
            )
    return [(result, int(result.k or 0)) for result in blank]


def _block_metrics(
    block: RowBlock, test: RowBlock, model: Recommends, wanted: tuple[Any, ...]
) -> NDArray[np.float64]:
    """Sum over users and number of users, for every metric."""
    ks, metrics, conventions = wanted
    if not block.matrix.shape[0]:
        return np.zeros((len(ks) * len(metrics), 2))
    lists = model.recommend(block.matrix, max(ks)).ids
    table = ranking_metrics(lists, test.matrix, ks, metrics, conventions=conventions)
    values = [np.asarray(result.per_user) for result in table]
    return np.array([[np.nansum(each), np.count_nonzero(~np.isnan(each))] for each in values])

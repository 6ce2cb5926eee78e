"""Metrics of data in blocks: user metrics and item error, by the formulas of the local ones."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from equipoise.distributed.blocks import Prepare, RowBlock
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.ranking import DEFAULT_K, ranking_metrics
from equipoise.metrics.reconstruction import item_error_from_products
from equipoise.metrics.results import FloatArray, MetricResult, MetricTable

if TYPE_CHECKING:
    from equipoise.distributed.blocked import BlockedInteractions
    from equipoise.distributed.recommending import Recommends

_METRICS = ("recall", "precision", "ndcg", "mrr", "map", "hit_rate")


def user_metrics(
    seen: BlockedInteractions,
    test: BlockedInteractions,
    model: Recommends,
    *,
    ks: Iterable[int] = (DEFAULT_K,),
    metrics: Sequence[str] = _METRICS,
    conventions: Mapping[str, str] | None = None,
) -> MetricTable:
    """Rank the items of every user and compare with the held-out ones, where the blocks are.

    Parameters
    ----------
    seen, test : BlockedInteractions
        Parts of one `holdout`: their blocks belong together.
    model : Recommender
        Fitted on these items.
    ks, metrics, conventions
        As in `equipoise.metrics.ranking_metrics`; users without held-out items are left out.

    Returns
    -------
    MetricTable
        Means over users; no values per user, which stay where they are.
    """
    _check_pair(seen, test, model)
    cutoffs = tuple(ks)
    wanted = (cutoffs, tuple(metrics), dict(conventions or {}))
    anonymous = copy.copy(model)
    anonymous.item_ids_ = None  # speaks of columns: what the metrics compare
    anonymous.__dict__.pop("_item_lookup", None)
    totals = seen.blocks.total(
        _block_metrics, anonymous, wanted, each=[(other,) for other in test.blocks.handles()]
    )
    names = _named(*wanted)
    return MetricTable(
        tuple(
            MetricResult(name.metric, float(total / users) if users else np.nan, name.convention, k)
            for (name, k), (total, users) in zip(names, totals, strict=True)
        )
    )


def _check_pair(seen: BlockedInteractions, test: BlockedInteractions, model: Recommends) -> None:
    if len(seen.blocks) != len(test.blocks) or seen.shape != test.shape:
        raise InvalidDataError(
            f"seen {seen.shape} in {len(seen.blocks)} blocks and test {test.shape} in "
            f"{len(test.blocks)} do not belong together. Use the parts of one holdout."
        )
    if model.item_ids_ is not None and not np.array_equal(model.item_ids_, seen.item_ids):
        raise InvalidDataError(
            "the model knows other items than the data, or in another order. Fit it on these data."
        )


def _named(
    ks: tuple[int, ...], metrics: tuple[str, ...], conventions: Mapping[str, str]
) -> list[tuple[MetricResult, int]]:
    """Which metric stands where: asked of a user who does not count."""
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
    block: RowBlock, model: Recommends, wanted: tuple[Any, ...], test: RowBlock
) -> NDArray[np.float64]:
    """Sum over users and number of users, for every metric."""
    ks, metrics, conventions = wanted
    if not block.matrix.shape[0]:
        return np.zeros((len(ks) * len(metrics), 2))
    lists = model.recommend(block.matrix, max(ks)).ids
    table = ranking_metrics(lists, test.matrix, ks, metrics, conventions=conventions)
    values = [np.asarray(result.per_user) for result in table]
    return np.array([[np.nansum(each), np.count_nonzero(~np.isnan(each))] for each in values])


def item_error(
    data: BlockedInteractions,
    item_factors: Any,
    ranks: Sequence[int] | None = None,
    *,
    spectrum: Any = None,
    prepare: Prepare | None = None,
) -> FloatArray:
    """Normalized item error at every rank, from one pass; as `equipoise.metrics.item_error`.

    Parameters
    ----------
    data : BlockedInteractions
        The users.
    item_factors : array-like of shape (n_items, R)
        Orthonormal: ``model.components_.T``.
    ranks, spectrum
        As there.
    prepare : callable, optional
        From rows as they are stored to those that were projected.
    """
    U = np.asarray(item_factors, dtype=np.float64)
    if U.ndim != 2 or len(U) != data.n_items:
        raise InvalidDataError(
            f"item_factors must be {data.n_items} items × components, got shape {U.shape}."
        )
    gram = data.gram(prepare)
    products = gram.product(U) * gram.scale
    return item_error_from_products(products, gram.squared_norms, U, ranks, spectrum=spectrum)

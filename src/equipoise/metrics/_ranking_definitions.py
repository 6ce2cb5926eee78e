"""The formulas behind the ranking metrics, one per convention.

Each takes hits (users × k), the number of held-out items |R| (at least 1) of each user, and k.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from equipoise.metrics._hits import BoolArray
from equipoise.metrics.results import FloatArray, IntArray


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


def _log2_discount(k: int) -> FloatArray:
    return 1 / np.log2(np.arange(2, k + 2))


def _ndcg(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _ndcg_with(_log2_discount(k), hits, np.minimum(relevant, k))


def _ndcg_rectools(hits: BoolArray, relevant: IntArray, k: int) -> FloatArray:
    return _ndcg_with(_log2_discount(k), hits, np.full_like(relevant, k))


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


def _possible(relevant: IntArray, k: int) -> IntArray:
    return np.minimum(relevant, k)


class Definition(NamedTuple):
    """How a metric is computed for each user, and how the users are put together."""

    per_user: Callable[[BoolArray, IntArray, int], FloatArray]
    meaning: str
    # How much each user counts; equally where nothing is said.
    weight: Callable[[IntArray, int], IntArray] | None = None


DEFINITIONS: dict[str, dict[str, Definition]] = {
    "recall": {
        "standard": Definition(_recall, "hits / |R|"),
        "capped": Definition(_share_of_possible, "hits / min(|R|, k)"),
    },
    "precision": {
        "standard": Definition(_precision, "hits / k"),
        "implicit": Definition(
            _share_of_possible, "sum of hits / sum of min(k, |R|), over all users", _possible
        ),
    },
    "ndcg": {
        "standard": Definition(_ndcg, "1 / log2(rank + 1), ideal over min(k, |R|)"),
        "rectools": Definition(_ndcg_rectools, "1 / log2(rank + 1), ideal over k"),
        "lenskit": Definition(_ndcg_lenskit, "1 / log2(max(rank, 2)), ideal over min(k, |R|)"),
    },
    "mrr": {
        "standard": Definition(_mrr, "1 / rank of the first hit"),
        "lightgcn": Definition(_mrr_lightgcn, "sum over hits of 1 / rank; may pass 1"),
    },
    "map": {
        "standard": Definition(_map, "sum over hits of precision at their rank / |R|"),
        "capped": Definition(_map_capped, "the same / min(|R|, k)"),
    },
    "hit_rate": {"standard": Definition(_hit_rate, "1 if any hit")},
}

RANKING_METRICS = tuple(DEFINITIONS)
#: metric -> convention -> what it computes; the first of each metric is the default
RANKING_CONVENTIONS: Mapping[str, Mapping[str, str]] = {
    metric: {name: definition.meaning for name, definition in by_name.items()}
    for metric, by_name in DEFINITIONS.items()
}

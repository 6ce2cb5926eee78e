"""The metrics by name: ``"ndcg"``, ``"ndcg@10"``, ``"mrr@20:lightgcn"``, ``"item_auc"``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import (
    ARP_CONVENTIONS,
    ENTROPY_CONVENTIONS,
    GINI_CONVENTIONS,
    GROUP_EXPOSURE_CONVENTIONS,
    GROUP_RECALL_CONVENTIONS,
    NOVELTY_CONVENTIONS,
    OPPORTUNITY_CONVENTIONS,
    POPULARITY_RANK_CONVENTIONS,
    RANKING_CONVENTIONS,
)

_ONE: Mapping[str, str] = {"standard": "the only one"}

# Metrics of the lists beyond the ranking metrics: name -> conventions, the default first.
_LIST_METRICS: dict[str, Mapping[str, str]] = {
    "arp": ARP_CONVENTIONS,
    "aplt": _ONE,
    "aclt": _ONE,
    "popreo": _ONE,
    "poprsp": _ONE,
    "gini": GINI_CONVENTIONS,
    "coverage": _ONE,
    "entropy": ENTROPY_CONVENTIONS,
    "epc": NOVELTY_CONVENTIONS,
    "efd": NOVELTY_CONVENTIONS,
    "popularity_rank": POPULARITY_RANK_CONVENTIONS,
    "popularity_lift": _ONE,
    "popularity_opportunity_bias": OPPORTUNITY_CONVENTIONS,
    "popularity_miscalibration": _ONE,
    "group_recall": GROUP_RECALL_CONVENTIONS,
    "group_exposure": GROUP_EXPOSURE_CONVENTIONS,
}
# Metrics of the model itself, in-sample.
_ITEM_METRICS: dict[str, Mapping[str, str]] = {
    "specialization": _ONE,
    "diagonal": _ONE,
    "item_auc": _ONE,
    "item_precision": _ONE,
    "item_error": _ONE,
}
_WITHOUT_K = frozenset(_ITEM_METRICS) - {"item_precision"}

#: every metric that `evaluate` knows -> its conventions, the default first
METRICS: Mapping[str, Mapping[str, str]] = {
    **RANKING_CONVENTIONS,
    **_LIST_METRICS,
    **_ITEM_METRICS,
}
DEFAULT_METRICS = (
    "recall",
    "precision",
    "ndcg",
    "mrr",
    "aplt",
    "coverage",
    "item_auc",
    "item_precision",
    "specialization",
)


class MetricSpec(NamedTuple):
    """One metric at one cut-off under one convention.

    Examples
    --------
    >>> MetricSpec("mrr", 20, "lightgcn").label
    'mrr@20:lightgcn'
    >>> MetricSpec("ndcg", 20, "standard").label
    'ndcg@20'
    """

    name: str
    k: int | None
    convention: str

    @property
    def label(self) -> str:
        """The text that `parse_metrics` reads; the default convention goes without saying."""
        cutoff = "" if self.k is None else f"@{self.k}"
        default = next(iter(METRICS[self.name]))
        return self.name + cutoff + ("" if self.convention == default else f":{self.convention}")

    @property
    def is_ranking(self) -> bool:
        """Whether it compares lists with held-out items, user by user."""
        return self.name in RANKING_CONVENTIONS

    @property
    def is_item_side(self) -> bool:
        """Whether it is about the model and its training data, not about lists."""
        return self.name in _ITEM_METRICS


def parse_metrics(metrics: Sequence[str] | str, ks: Sequence[int]) -> tuple[MetricSpec, ...]:
    """Read ``name[@k][:convention]``; a metric without its own k is taken at each of `ks`.

    Examples
    --------
    >>> [spec.label for spec in parse_metrics(["recall", "mrr@5:lightgcn", "item_auc"], [10, 20])]
    ['recall@10', 'recall@20', 'mrr@5:lightgcn', 'item_auc']
    """
    texts = [metrics] if isinstance(metrics, str) else list(metrics)
    if not texts:
        raise InvalidParameterError(f"metrics is empty. Name some of: {', '.join(METRICS)}.")
    specs = [spec for text in texts for spec in _parse(text, ks)]
    return tuple(dict.fromkeys(specs))


def _parse(text: str, ks: Sequence[int]) -> list[MetricSpec]:
    head, _, convention = text.partition(":")
    name, at, cutoff = head.partition("@")
    if name not in METRICS:
        raise InvalidParameterError(
            f"unknown metric {name!r} in {text!r}. Known: {', '.join(METRICS)}."
        )
    known = METRICS[name]
    if convention and convention not in known:
        raise InvalidParameterError(
            f"unknown convention {convention!r} in {text!r}. {name} has: {', '.join(known)}."
        )
    chosen = convention or next(iter(known))
    if name in _WITHOUT_K:
        if at:
            raise InvalidParameterError(f"{name} has no cut-off: write {name!r}, not {text!r}.")
        return [MetricSpec(name, None, chosen)]
    return [MetricSpec(name, _cutoff(k, text), chosen) for k in ([cutoff] if at else ks)]


def _cutoff(k: str | int, text: str) -> int:
    try:
        number = int(k)
    except ValueError:
        number = 0
    if number < 1 or number != (k if isinstance(k, int) else number):
        raise InvalidParameterError(
            f"the cut-off of {text!r} must be a whole number of at least 1, got {k!r}."
        )
    return number

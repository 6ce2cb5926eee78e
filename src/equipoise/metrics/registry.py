"""All metrics by name: those of this package, and those of others through entry points.

A package registers a `Metric` under the entry point group ``equipoise.metrics``::

    [project.entry-points."equipoise.metrics"]
    my_metric = "my_package.metrics:my_metric"
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np

from equipoise.checks import check_whole_number
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import (
    collaboration,
    fairness,
    lists,
    popularity,
    projection,
    ranking,
)
from equipoise.metrics.metric import Metric, Request
from equipoise.plugins import registered

ENTRY_POINTS = "equipoise.metrics"

_MODULES = (ranking, popularity, fairness, lists, projection, collaboration)
_BUILT_IN: Mapping[str, Metric] = {
    name: metric for module in _MODULES for name, metric in module.METRICS.items()
}


def available() -> dict[str, Metric]:
    """Return every metric by name, built in first, then those of other packages.

    Examples
    --------
    >>> available()["ndcg"].title, available()["gini"].direction
    ('NDCG', 'lower')
    """
    return {**_BUILT_IN, **_of_other_packages()}


@cache
def _of_other_packages() -> dict[str, Metric]:
    found = registered(ENTRY_POINTS, _BUILT_IN, "a Metric", lambda one: isinstance(one, Metric))
    return {name: metric for name, (_, metric) in found.items()}


def find_metric(name: str) -> Metric:
    """Return the metric of this name."""
    metric = _BUILT_IN.get(name) or _of_other_packages().get(name)
    if metric is None:
        similar = difflib.get_close_matches(name, available())
        meant = f" Did you mean {similar[0]!r}?" if similar else ""
        raise InvalidParameterError(
            f"unknown metric {name!r}.{meant} Known: {', '.join(available())}."
        )
    return metric


def parse_metrics(
    metrics: Sequence[str | Metric] | str | Metric, k: int | Sequence[int]
) -> tuple[Request, ...]:
    """Read ``name[@k][:convention]``; a metric without its own k is taken at each `k`.

    Examples
    --------
    >>> [one.label for one in parse_metrics(["recall", "mrr@5:lightgcn", "item_auc"], [10, 20])]
    ['recall@10', 'recall@20', 'mrr@5:lightgcn', 'item_auc']
    """
    given = [metrics] if isinstance(metrics, str | Metric) else list(metrics)
    if not given:
        raise InvalidParameterError(f"metrics is empty. Name some of: {', '.join(available())}.")
    cutoffs = [k] if np.ndim(k) == 0 else list(k)  # type: ignore[arg-type]
    requests = {one.label: one for each in given for one in _parse(each, cutoffs)}
    return tuple(requests.values())


def _parse(given: str | Metric, cutoffs: Sequence[Any]) -> list[Request]:
    text = given.name if isinstance(given, Metric) else given
    head, _, convention = text.partition(":")
    name, at, cutoff = head.partition("@")
    metric = given if isinstance(given, Metric) else find_metric(name)
    if not metric.has_k:
        if at:
            raise InvalidParameterError(f"{name} has no cut-off: write {name!r}, not {text!r}.")
        return [metric.request(None, convention or None)]
    if at:
        cutoffs = [int(cutoff) if cutoff.isdecimal() else cutoff]
    for k in cutoffs:
        check_whole_number(f"{text}: k", k, least=1)
    return [metric.request(int(k), convention or None) for k in cutoffs]

"""The noise of fitting again: audits of random halves of the users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from equipoise.audit.dossier.compare import as_report, item_table, numbers
from equipoise.audit.findings import Findings
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError

_ITEM_METRICS = ("item_error", "self_reconstruction")


def noise(
    data: Interactions, audit: Callable[[Interactions], Findings], n: int, seed: int = 0
) -> dict[str, Any]:
    """Audit n random halvings of the users; return the standard error of every number.

    Two halves of n users differ with four times the variance of a number of all n users, if the
    number is a mean; that is taken for all numbers. Fits of both halves are new, so the noise of
    fitting is part of it.

    Parameters
    ----------
    data : Interactions
        The audited data.
    audit : callable
        Audits a half like the whole.
    n : int
        Number of halvings; 2 n audits.
    seed : int
        Draws the halves.
    """
    if not isinstance(data, Interactions):
        raise InvalidParameterError("halves are drawn from one table, not from parts of a split.")
    generator = np.random.default_rng(seed)
    squares: dict[str, list[float]] = {}
    by_item: dict[str, dict[str, list[float]]] = {}
    largest = dict.fromkeys(_ITEM_METRICS, 0.0)
    for _ in range(n):
        users = generator.permutation(data.n_users)
        half = data.n_users // 2
        sides = [
            as_report(audit(data.select_users(data.user_ids[np.sort(part)])))
            for part in (users[:half], users[half:])
        ]
        first, second = (numbers(side) for side in sides)
        for name in set(first) & set(second):
            move = second[name].mean - first[name].mean
            squares.setdefault(name, []).append((move / 2) ** 2)
        tables = [item_table(side, side["subject"]) for side in sides]
        for item in set(tables[0]) & set(tables[1]):
            for metric in _ITEM_METRICS:
                values = [table[item][metric] for table in tables]
                if None not in values:
                    own = by_item.setdefault(item, {}).setdefault(metric, [])
                    own.append(((values[1] - values[0]) / 2) ** 2)
                    largest[metric] = max(largest[metric], abs(values[1] - values[0]))
    return {
        "halvings": n,
        "largest move of an item": largest,
        "numbers": {name: _root(found) for name, found in sorted(squares.items())},
        "items": {
            item: {metric: _root(found) for metric, found in metrics.items()}
            for item, metrics in sorted(by_item.items())
        },
    }


def _root(squares: list[float]) -> float:
    return float(np.sqrt(np.mean(squares)))

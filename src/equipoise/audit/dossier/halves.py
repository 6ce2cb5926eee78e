"""The noise of fitting again: audits of random halves of the users."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl

from equipoise.audit.dossier.compare import ITEM_METRICS, as_report, item_table, numbers
from equipoise.audit.findings import Findings
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidParameterError


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
    of_numbers, of_items = [], []
    for _ in range(n):
        users = generator.permutation(data.n_users)
        half = data.n_users // 2
        sides = [
            as_report(audit(data.select_users(data.user_ids[np.sort(part)])))
            for part in (users[:half], users[half:])
        ]
        first, second = (numbers(side) for side in sides)
        common = sorted(set(first) & set(second))
        moves = [second[name].mean - first[name].mean for name in common]
        of_numbers.append(pl.DataFrame({"name": common, "move": moves}))
        tables = [item_table(side, side["subject"]) for side in sides]
        both = tables[0].join(tables[1], on="item", suffix="_after")
        of_items.append(
            both.select("item", *(pl.col(name) - pl.col(f"{name}_after") for name in ITEM_METRICS))
        )
    items = pl.concat(of_items)
    return {
        "halvings": n,
        "largest move of an item": {name: items[name].abs().max() or 0.0 for name in ITEM_METRICS},
        "numbers": dict(_errors(pl.concat(of_numbers)).rows()),
        "items": {
            item: {name: value for name, value in values.items() if value is not None}
            for item, values in _errors(items).rows_by_key("item", named=True, unique=True).items()
        },
    }


def _errors(moves: pl.DataFrame) -> pl.DataFrame:
    """Return the root of the mean square of half of each move, by the first column."""
    by, *values = moves.columns
    grouped = moves.group_by(by, maintain_order=True)
    return grouped.agg((pl.col(values) / 2).pow(2).mean().sqrt()).sort(by)

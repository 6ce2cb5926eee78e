"""Claim: an update in two passes loses little, and its certificate bounds how much.

Half of the data are fitted; the other half arrives in twelve steps. At each step the model of the
step before is updated (`update`, two passes), and, for comparison, fitted from the start. "True
loss" is what the full fit gains in the objective, relative to it; "certified loss" is the bound
that the update states without it. "To 0.1 %" is an update with ``refit_above=0.001``, which takes
passes until its certified loss is below, at most six, and refits otherwise. "Same items" is the
share of the ten items per user that both list.

"24 months, synthetic" are generated data with dates: the first twelve months are fitted, and each
step is one month of the second year. Users join and items are released in every month; items lose
popularity with age, and users move from one taste to another. No public data with dates are used
here. On MovieLens, users arrive in the order of their ids, from the last; on Gowalla, each user's
interactions arrive in the order of the user's list. implicit's `partial_fit_users` keeps the item
factors and computes vectors of new users.

Run ``python benchmarks/bench_update.py --quick`` or ``--full`` with EQUIPOISE_DATA set.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares

from equipoise import Interactions, ItemWeightedPCA
from harness import Report, Table, machine, progress

_STEPS = 12
_STRICT = 0.001  # passes are added until the certified loss is below this, or the model is fitted
_SYNTHETIC = "24 months, synthetic"


class Plan(NamedTuple):
    """Name of the result, data sets, and the rank."""

    name: str
    datasets: tuple[str, ...]
    rank: int


class Arriving(NamedTuple):
    """Interactions, and when they arrive, from 0 to 1."""

    users: Any
    items: Any
    when: Any

    def until(self, share: float) -> Interactions:
        """What has arrived."""
        there = self.when <= share
        return Interactions.from_pairs(self.users[there], self.items[there])


def read(name: str) -> Arriving:
    """A data set with an order of arrival."""
    if name == _SYNTHETIC:
        return synthetic_months()
    folder = Path(os.environ["EQUIPOISE_DATA"])
    if name == "MovieLens":
        pairs = pl.read_csv(folder / "ml-1m" / "interactions.csv").to_numpy()
        return Arriving(pairs[:, 0], pairs[:, 1], 1 - pairs[:, 0] / pairs[:, 0].max())
    lists: dict[str, list[str]] = {}
    for part in ("train", "valid", "test"):
        for line in (folder / "sparse" / "gowalla" / f"{part}.txt").read_text().splitlines():
            user, *items = line.split()
            lists.setdefault(user, []).extend(items)
    users = np.repeat([int(user) for user in lists], [len(items) for items in lists.values()])
    items = np.array([int(item) for items in lists.values() for item in items])
    when = [(np.arange(len(items)) + 0.5) / len(items) for items in lists.values()]
    return Arriving(users, items, np.concatenate(when))


def synthetic_months(
    n_users: int = 8_000, n_items: int = 4_000, n_plays: int = 1_500_000, tastes: int = 24
) -> Arriving:
    """Generated interactions of 24 months.

    A third of the users and items is there from the start, the others come at any time. A play is
    of a user who has joined, at a random time since then. The item is of the taste that the user
    has at that time, or (one of five plays) of any; of the items released by then, one of Zipf
    popularity, which halves every eight months.
    """
    rng = np.random.default_rng(0)
    joined = np.where(rng.random(n_users) < 1 / 3, 0, rng.random(n_users))
    released = np.where(rng.random(n_items) < 1 / 3, 0, rng.random(n_items))
    popularity = 1 / (1 + rng.permutation(n_items)) ** 0.8
    kind = rng.integers(tastes, size=n_items)
    users = rng.choice(n_users, n_plays, p=_shares(rng.pareto(2, n_users) + 0.2))
    when = joined[users] + rng.random(n_plays) * (1 - joined[users])
    first, later = rng.integers(tastes, size=(2, n_users))
    moved = rng.random(n_users)
    taste = np.where(when < moved[users], first[users], later[users])
    items = np.empty(n_plays, dtype=np.int64)
    month, anything = (24 * when).astype(int), rng.random(n_plays) < 0.2
    for now in range(24):
        age = 24 * (now / 24 - released)
        there = (age >= 0) * popularity * 0.5 ** (np.maximum(age, 0) / 8)
        for own in range(tastes):
            some = np.flatnonzero((month == now) & (taste == own) & ~anything)
            items[some] = rng.choice(n_items, len(some), p=_shares(there * (kind == own)))
        some = np.flatnonzero((month == now) & anything)
        items[some] = rng.choice(n_items, len(some), p=_shares(there))
    return Arriving(users, items, when)


def _shares(weights: Any) -> Any:
    return weights / weights.sum()


def run(plan: Plan) -> Report:
    """Update and refit at every step."""
    cells: dict[str, Any] = {}
    rows = []
    with progress(len(plan.datasets) * _STEPS) as step:
        for name in plan.datasets:
            data, found = read(name), []
            model = ItemWeightedPCA(plan.rank).fit(data.until(0.5))
            first = data.until(0.5)
            als = AlternatingLeastSquares(factors=plan.rank, random_state=0)
            als.fit(sp.csr_matrix(first.matrix.astype(np.float32)), show_progress=False)
            for number in range(1, _STEPS + 1):
                now = data.until(0.5 + number / (2 * _STEPS))
                cell, model = compare(model, now, plan.rank)
                cell["partial_fit_users, CPU s"] = partial_fit(als, first, now)
                found.append(cell)
                step(
                    f"{name}, step {number}: {cell['true loss']:.1e} ≤ {cell['certified loss']:.1e}"
                )
            cells[name] = found
            rows.append(_row(name, found))
    headers = (
        "data",
        "update, CPU s",
        "full fit, CPU s",
        "partial_fit_users, CPU s",
        "passes, full fit",
        "passes to 0.1 %",
        "CPU s to 0.1 %",
        "refits for 0.1 %",
        "true loss, last step",
        "largest true loss",
        "largest certified loss",
        "same items, last step",
    )
    held = all(c["true loss"] <= c["certified loss"] for found in cells.values() for c in found)
    verdicts = [
        f"{'holds' if held else 'FAILED'}: the certified loss bounds the true loss in all "
        f"{sum(map(len, cells.values()))} steps. The model of a step is the update of the step "
        "before: losses add up."
    ]
    note = (
        "CPU time of all threads, in memory; medians over the steps. An update takes two passes. "
        "partial_fit_users keeps the old item factors: it neither learns new items nor bounds "
        "what it loses."
    )
    table = Table(f"Twelve updates, rank {plan.rank}", headers, rows, note)
    months = cells.get(_SYNTHETIC, [])
    monthly = Table(
        f"Month by month, rank {plan.rank}: {_SYNTHETIC}",
        ("month", "users", "items", "interactions", "true loss", "certified loss", "same items"),
        [
            (
                str(12 + number),
                *(f"{cell[key]:,}" for key in ("users", "items", "interactions")),
                f"{cell['true loss']:.1e}",
                f"{cell['certified loss']:.1e}",
                f"{cell['same items']:.2f}",
            )
            for number, cell in enumerate(months, start=1)
        ],
    )
    claim = (__doc__ or "").split("\n\nRun ")[0]
    return Report(plan.name, claim, machine(), cells, [table, monthly], verdicts)


def compare(model: ItemWeightedPCA, now: Interactions, rank: int) -> tuple[dict[str, Any], Any]:
    """Update and refit; return what was measured, and the updated model."""
    started = time.process_time()
    update = model.update(now, all_data=True)
    updated = time.process_time()
    strict = model.update(now, all_data=True, refit_above=_STRICT)
    certified = time.process_time()
    full = ItemWeightedPCA(rank).fit(now)
    fitted = time.process_time()
    best = full.certificate_.objective
    some = now.select_users(now.user_ids[:: max(1, now.n_users // 2000)])
    lists = [each.recommend(some, k=10).ids for each in (update.model, full)]
    same = [len(set(a) & set(b)) / 10 for a, b in zip(*lists, strict=True)]
    return {
        "users": now.n_users,
        "items": now.n_items,
        "interactions": now.nnz,
        "update, CPU s": updated - started,
        "strict, CPU s": certified - updated,
        "strict passes": strict.passes,
        "strict refit": strict.refitted,
        "fit, CPU s": fitted - certified,
        "fit passes": full.certificate_.passes,
        "true loss": 1 - update.model.certificate_.objective / best,
        "certified loss": update.loss,
        "same items": float(np.mean(same)),
    }, update.model


def partial_fit(als: Any, first: Interactions, now: Interactions) -> float:
    """CPU seconds of implicit's `partial_fit_users` for all users, with the old items."""
    rows = sp.csr_matrix(now.align_items(first.item_ids, unknown="drop").matrix.astype(np.float32))
    started = time.process_time()
    als.partial_fit_users(np.arange(rows.shape[0]), rows)
    return time.process_time() - started


def _row(name: str, found: list[dict[str, Any]]) -> tuple[str, ...]:
    def middle(key: str) -> float:
        return median(cell[key] for cell in found)

    return (
        name,
        f"{middle('update, CPU s'):.2f}",
        f"{middle('fit, CPU s'):.2f}",
        f"{middle('partial_fit_users, CPU s'):.2f}",
        f"{middle('fit passes'):.0f}",
        f"{middle('strict passes'):.0f}",
        f"{middle('strict, CPU s'):.2f}",
        f"{sum(cell['strict refit'] for cell in found)} of {len(found)}",
        f"{found[-1]['true loss']:.1e}",
        f"{max(cell['true loss'] for cell in found):.1e}",
        f"{max(cell['certified loss'] for cell in found):.1e}",
        f"{found[-1]['same items']:.2f}",
    )


if __name__ == "__main__":
    harness.main(
        __doc__,
        run,
        Plan("bench_update-quick", (_SYNTHETIC,), 16),
        Plan("bench_update", (_SYNTHETIC, "MovieLens", "Gowalla"), 32),
    )

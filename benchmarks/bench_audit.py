"""Claim: an audit takes minutes and a few gigabytes, from thousands of interactions to 20 million.

The audit runs with its default settings and writes the page, on the paper's Last.fm matrix, on
MovieLens 1M (movies with at least five users), on CiteULike, on Amazon Beauty, and on 20 million
synthetic interactions of 138,000 users with 27,000 items. The page stays under 8 MB.

Each audit runs once, in a process that has already loaded the data. Memory is what the audit adds.
CPU time is that of all threads. Run ``python benchmarks/bench_audit.py --quick`` (Last.fm and
MovieLens) or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from datasets import (
    AMAZON_BEAUTY,
    CITEULIKE,
    LAST_FM,
    ML20M_SHAPE,
    MOVIE_LENS_FULL,
    DataSet,
    available,
)
from harness import Report, Table, machine, progress
from isolated import Isolated
from plots import Plot

if TYPE_CHECKING:
    from equipoise import Interactions

Cell = dict[str, Any]

_MOST_SECONDS, _MOST_MB, _MOST_PAGE_MB = 600, 4_000, 8.0


class Plan(NamedTuple):
    """What one form of the benchmark runs."""

    name: str
    sets: tuple[DataSet, ...]


QUICK = Plan("bench_audit-quick", (LAST_FM, MOVIE_LENS_FULL))
FULL = Plan("bench_audit", (*QUICK.sets, CITEULIKE, AMAZON_BEAUTY, ML20M_SHAPE))


def examine(data: Interactions) -> Cell:
    """Audit, draw the page, and say what both took."""
    from equipoise.audit import audit
    from equipoise.audit.report import render

    before, cpu_before = time.perf_counter(), time.process_time()
    page = render(audit(data)).encode()
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.nnz,
        "seconds": time.perf_counter() - before,
        "cpu_s": time.process_time() - cpu_before,
        "page_mb": len(page) / 1e6,
    }


def measure(data: DataSet) -> Cell:
    """One data set, in a process of its own."""
    with Isolated(data.load) as process:
        outcome = process.run(examine)
    if outcome.failure:
        raise RuntimeError(f"{data.name}: {outcome.failure}")
    return {"set": data.name, **outcome.value, "peak_mb": outcome.peak_mb}


def table_of(cells: list[Cell]) -> Table:
    """One row per data set."""
    rows = [
        [
            f"{cell['set']} ({cell['users']:,} × {cell['items']:,}, {cell['interactions']:,})",
            f"{cell['seconds']:.1f}",
            f"{cell['cpu_s']:.1f}",
            f"{cell['peak_mb']:,.0f}",
            f"{cell['page_mb']:.1f}",
        ]
        for cell in cells
    ]
    return Table(
        "Audit and page, rank 32", ("set", "s", "CPU s", "MB above the data", "page MB"), rows
    )


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    worst = {name: max(cell[name] for cell in cells) for name in ("seconds", "peak_mb", "page_mb")}
    within = (
        worst["seconds"] <= _MOST_SECONDS
        and worst["peak_mb"] <= _MOST_MB
        and worst["page_mb"] <= _MOST_PAGE_MB
    )
    return [
        f"{'holds' if within else 'DOES NOT HOLD'}: at most {worst['seconds']:.0f} s, "
        f"{worst['peak_mb']:,.0f} MB above the data and a page of {worst['page_mb']:.1f} MB."
    ]


def run(plan: Plan) -> Report:
    """Measure every set of the plan."""
    facts, sets = machine(), available(plan.sets)
    cells: list[Cell] = []
    with progress(len(sets)) as step:
        for data in sets:
            cells.append(measure(data))
            step(data.name)
    claim = (__doc__ or "").split("\n\nEach audit")[0]
    named = [cell | {"way": "audit and page"} for cell in cells]
    plot = Plot.of("Audit", named, by="way", x="set", y="seconds", unit="seconds")
    tables, found = [table_of(cells)], {"sets": cells}
    return Report(plan.name, claim, facts, found, tables, verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("The audit, from small to large.", run, QUICK, FULL)

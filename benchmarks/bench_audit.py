"""Claim: an audit takes minutes and a few gigabytes, from thousands of interactions to 20 million.

Its time grows no faster than the number of interactions, and is close to the estimate that is shown
at once.

The audit runs with its default settings and writes the page, on the paper's Last.fm matrix, on
MovieLens 1M (movies with at least five users), on CiteULike, on Amazon Beauty, and on 20 million
synthetic interactions of 138,000 users with 27,000 items. The page stays under 8 MB.

Each audit runs in a fresh process that has already loaded the data: once with an empty cache of
compiled code, as the first audit on a machine, then three times. Shown are the first, and of the
others the one with the median time; memory is the largest of the three. Memory is what the audit
adds. CPU time is that of all threads. Run ``python benchmarks/bench_audit.py --quick`` (Last.fm and
MovieLens) or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import time
from functools import partial
from tempfile import TemporaryDirectory
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
# How far the time may be from the estimate that a user sees at once.
_WITHIN = 1.5
# Audits of each set, after the first one.
_RUNS = 3


class Plan(NamedTuple):
    """What one form of the benchmark runs."""

    name: str
    sets: tuple[DataSet, ...]


QUICK = Plan("bench_audit-quick", (LAST_FM, MOVIE_LENS_FULL))
FULL = Plan("bench_audit", (*QUICK.sets, CITEULIKE, AMAZON_BEAUTY, ML20M_SHAPE))


class StepTimes:
    """CPU seconds of each step of an audit: a `Progress` that keeps the notes of the outer task."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self._level, self._name, self._since = 0, "Loading code", time.process_time()

    def start(self, name: str, total: float | None = None) -> None:  # noqa: ARG002
        """Begin a task."""
        self._level += 1

    def advance(self, amount: float = 1) -> None:
        """Ignore the amount."""

    def note(self, text: str) -> None:
        """Begin a step, if it is one of the audit itself."""
        if self._level == 1:
            self.begin(text)

    def end(self) -> None:
        """End a task."""
        self._level -= 1

    def begin(self, name: str) -> None:
        """Add the time since the last step to that step."""
        now = time.process_time()
        self.cpu_s[self._name] = self.cpu_s.get(self._name, 0.0) + now - self._since
        self._name, self._since = name, now


def examine(data: Interactions) -> Cell:
    """Audit, draw the page, and say what both took, and what was estimated."""
    before, cpu_before = time.perf_counter(), time.process_time()
    steps = StepTimes()
    from equipoise.audit import audit
    from equipoise.audit.plan import estimate_audit
    from equipoise.audit.report import render

    estimate = estimate_audit(data, "standard", None, 0)
    found = audit(data, progress=steps)
    steps.begin("Drawing the page")
    page = render(found).encode()
    steps.begin("")
    return {
        "users": data.n_users,
        "items": data.n_items,
        "interactions": data.nnz,
        "seconds": time.perf_counter() - before,
        "cpu_s": time.process_time() - cpu_before,
        "estimate_s": estimate,
        "steps_cpu_s": steps.cpu_s,
        "page_mb": len(page) / 1e6,
    }


def examine_first(cache: str, data: Interactions) -> Cell:
    """Audit with an empty cache of compiled code."""
    os.environ["NUMBA_CACHE_DIR"] = cache  # numba reads it when it is imported
    return examine(data)


def measure(data: DataSet) -> Cell:
    """One data set: the first audit on a machine, and the median of the next ones."""
    with Isolated(data.load) as process, TemporaryDirectory() as cache:
        outcomes = [process.run(partial(examine_first, cache))]
        outcomes += [process.run(examine) for _ in range(_RUNS)]
    for each in outcomes:
        if each.failure:
            raise RuntimeError(f"{data.name}: {each.failure}")
    first, *others = [each.value for each in outcomes]
    by_time = sorted(others, key=lambda cell: cell["seconds"])
    return {
        "set": data.name,
        **by_time[len(others) // 2],
        "first_s": first["seconds"],
        "peak_mb": max(each.peak_mb for each in outcomes[1:]),
    }


def table_of(cells: list[Cell]) -> Table:
    """One row per data set."""
    rows = [
        [
            f"{cell['set']} ({cell['users']:,} × {cell['items']:,}, {cell['interactions']:,})",
            f"{cell['seconds']:.1f}",
            f"{cell['cpu_s']:.1f}",
            f"{cell['first_s']:.1f}",
            f"{cell['estimate_s']:.0f}",
            f"{cell['peak_mb']:,.0f}",
            f"{cell['page_mb']:.1f}",
        ]
        for cell in cells
    ]
    heads = (
        "set",
        "s",
        "CPU s",
        "first on a machine, s",
        "estimate, s",
        "MB above the data",
        "page MB",
    )
    return Table("Audit and page", heads, rows)


def steps_of(cells: list[Cell]) -> Table:
    """One row per step, one column per data set."""
    names = dict.fromkeys(name for cell in cells for name in cell["steps_cpu_s"])
    rows = [
        [name, *(f"{cell['steps_cpu_s'].get(name, 0.0):.1f}" for cell in cells)] for name in names
    ]
    return Table("CPU seconds of each step", ("step", *(cell["set"] for cell in cells)), rows)


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    worst = {name: max(cell[name] for cell in cells) for name in ("seconds", "peak_mb", "page_mb")}
    within = (
        worst["seconds"] <= _MOST_SECONDS
        and worst["peak_mb"] <= _MOST_MB
        and worst["page_mb"] <= _MOST_PAGE_MB
    )
    ratios = [cell["seconds"] / cell["estimate_s"] for cell in cells]
    near = all(1 / _WITHIN <= ratio <= _WITHIN for ratio in ratios)
    small, large = (pick(cells, key=lambda cell: cell["interactions"]) for pick in (min, max))
    more, longer = (large[name] / small[name] for name in ("interactions", "seconds"))
    return [
        f"{'holds' if within else 'DOES NOT HOLD'}: at most {worst['seconds']:.0f} s, "
        f"{worst['peak_mb']:,.0f} MB above the data and a page of {worst['page_mb']:.1f} MB.",
        f"{'holds' if near else 'DOES NOT HOLD'}: time is {min(ratios):.1f} to {max(ratios):.1f} "
        f"times the estimate, which is for two idle cores (goal: within a factor of {_WITHIN:g}).",
        f"{'holds' if longer <= more else 'DOES NOT HOLD'}: {large['set']} has {more:,.0f} times "
        f"the interactions of {small['set']} and takes {longer:.1f} times as long (goal: no more).",
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
    tables, found = [table_of(cells), steps_of(cells)], {"sets": cells}
    return Report(plan.name, claim, facts, found, tables, verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("The audit, from small to large.", run, QUICK, FULL)

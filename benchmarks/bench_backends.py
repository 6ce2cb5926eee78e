"""Claim: one set of commands serves data in memory, data on disk and data on a cluster.

`evaluate`, `tune` and `audit` give the same numbers for a table in memory, for the same table in
blocks on disk under ``--memory 1GB``, and on a Dask cluster of two workers. On disk the process
stays below its memory limit. Sums in another order change the last digits of scores and so the
order of scores that are nearly equal: numbers may differ by 1e-3 of their size (by 1e-3 below 1),
and of the items that an audit names as neighbors, 99.9% are the same.

Every command runs once, in a process of its own, on one thread; a worker has one thread too. Run
``python benchmarks/bench_backends.py --quick`` (500,000 synthetic interactions) or ``--full`` (20
million, which takes about half an hour).
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import distributed_runs as runs
from distributed_runs import ONE_THREAD, Size, in_process
from harness import Report, Table, machine, progress

_SAME, _SAME_NEIGHBORS = 1e-3, 0.999
_IN_MEMORY = "in memory"
COMMANDS = {
    "evaluate": "--models pca,item-weighted --ranks 8,32 --metrics recall,ndcg,aplt,item_auc",
    "tune": "--ranks 8,32 --gammas -1,-0.5 --grid value_transform=binary --grid user_scaling=0 "
    "--grid spectral_filter=hard",
    "audit": "",
}
# What a command prints of its own course, not of the data: times, places, memory
_COURSE = ("seconds", "estimate", "memory", "path", "source", "version", "created", "backend")
_NEIGHBORS = "neighbors"  # positions of items, not numbers that were measured


class Plan(NamedTuple):
    """What one form of the benchmark runs."""

    name: str
    size: Size


QUICK = Plan("bench_backends-quick", Size("500 k", 8_000, 4_000, 500_000, "500MB", "2GB"))
FULL = Plan("bench_backends", Size("20 M", 138_000, 26_700, 20_000_000, "1GB", "4GB"))


class Run(NamedTuple):
    """What one command took, and the numbers that it printed."""

    command: str
    way: str
    seconds: float
    cpu_s: float
    peak_mb: float
    limit_mb: float
    numbers: dict[str, float]

    def difference(self, reference: Run) -> float:
        """Largest difference to the numbers of another run, relative to numbers above 1.

        Infinite if the two have other numbers.
        """
        if self.numbers.keys() != reference.numbers.keys():
            return float("inf")
        return max(
            abs(self.numbers[name] - value) / max(1.0, abs(value))
            for name, value in reference.numbers.items()
            if _NEIGHBORS not in name
        )

    def same_neighbors(self, reference: Run) -> float:
        """Share of the neighbors that another run has as well; 1 if it has none."""
        same = [
            self.numbers.get(name) == value
            for name, value in reference.numbers.items()
            if _NEIGHBORS in name
        ]
        return sum(same) / len(same) if same else 1.0


def numbers_of(printed: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a JSON document, with its place in it."""
    if isinstance(printed, dict):
        for key, value in printed.items():
            if not any(word in key for word in _COURSE):
                yield from numbers_of(value, f"{name}/{key}")
    elif isinstance(printed, list):
        for position, value in enumerate(printed):
            yield from numbers_of(value, f"{name}/{position}")
    elif isinstance(printed, (int, float)) and not isinstance(printed, bool):
        yield name, float(printed)


def run_command(command: str, way: str, options: list[str], folder: Path, limit: float) -> Run:
    """Run a command of the package and read what it prints."""
    arguments = [command, str(folder / "table"), *COMMANDS[command].split(), *options, "--json"]
    if command == "audit":
        arguments += ["--out", str(folder / "report.json")]
    out, started = folder / f"{command}, {way}.json", time.perf_counter()
    with out.open("wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "equipoise", *arguments], stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"equipoise {' '.join(arguments)} failed: see above")
    return Run(
        command,
        way,
        time.perf_counter() - started,
        usage.ru_utime + usage.ru_stime,
        usage.ru_maxrss * 1024 / 1e6,
        limit,
        dict(numbers_of(json.loads(out.read_text()))),
    )


def measure(plan: Plan, folder: Path, step: Any) -> list[Run]:
    """Every command in every way."""
    from distributed import LocalCluster

    from equipoise.memory import parse_bytes

    (folder / "table").mkdir()
    in_process(partial(runs.write_table, plan.size, folder / "table"))
    memory, found = plan.size.memory, []
    ways = {_IN_MEMORY: ([], 0.0)}
    ways[f"on disk, --memory {memory}"] = (["--memory", memory], parse_bytes(memory) / 1e6)
    with LocalCluster(n_workers=2, memory_limit=plan.size.worker, **ONE_THREAD) as cluster:
        ways["two Dask workers"] = (["--scheduler", cluster.scheduler_address], 0.0)
        for command in COMMANDS:
            for way, (options, limit) in ways.items():
                found.append(run_command(command, way, options, folder, limit))
                step(f"{command}, {way}")
    return found


def references(found: list[Run]) -> dict[str, Run]:
    """The run in memory of every command."""
    return {run.command: run for run in found if run.way == _IN_MEMORY}


def table_of(found: list[Run], size: Size) -> Table:
    """One row per run."""
    reference = references(found)
    rows = [
        [
            run.command,
            run.way,
            f"{run.seconds:.0f}",
            f"{run.cpu_s:.0f}",
            f"{run.peak_mb:,.0f}",
            "" if run.way == _IN_MEMORY else f"{run.difference(reference[run.command]):.0e}",
        ]
        for run in found
    ]
    title = f"{size.name} synthetic interactions, {size.users:,} × {size.items:,}"
    heads = ("command", "way", "s", "CPU s", "peak MB", "largest difference")
    note = "Time and memory of the workers are not included: they are those of the command."
    return Table(title, heads, rows, note)


def verdicts(found: list[Run]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    reference, lines = references(found), []
    for command, first in reference.items():
        others = [run for run in found if run.command == command and run is not first]
        worst = max(run.difference(first) for run in others)
        neighbors = min(run.same_neighbors(first) for run in others)
        held = worst <= _SAME and neighbors >= _SAME_NEIGHBORS
        said = f"{command}: {len(first.numbers):,} numbers, at most {worst:.0e} off"
        if neighbors < 1:
            said += f"; {neighbors:.2%} of the neighbors are the same"
        lines.append(f"{'holds' if held else 'DOES NOT HOLD'}: {said}.")
    limited = [run for run in found if run.limit_mb]
    most = max(limited, key=lambda run: run.peak_mb)
    kept = "holds" if most.peak_mb <= most.limit_mb else "DOES NOT HOLD"
    return [*lines, f"{kept}: on disk {most.peak_mb:,.0f} of {most.limit_mb:,.0f} MB at most."]


def run(plan: Plan) -> Report:
    """Measure and judge."""
    facts = machine()
    with tempfile.TemporaryDirectory() as place, progress(3 * len(COMMANDS)) as step:
        found = measure(plan, Path(place), step)
    cells = {"runs": [each._asdict() | {"numbers": len(each.numbers)} for each in found]}
    claim = (__doc__ or "").split("\n\nEvery command")[0]
    return Report(plan.name, claim, facts, cells, [table_of(found, plan.size)], verdicts(found), [])


if __name__ == "__main__":
    harness.main("The same commands in memory, on disk and on a cluster.", run, QUICK, FULL)

"""What the benchmarks share: pinned threads, interleaved timing, peak memory, tables, results.

Import this module before NumPy: BLAS, OpenMP and numba read their thread counts when they are
loaded, so ``--threads`` is read from the command line and put into the environment right here.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

from machine_load import DISTURBED, OtherLoad, QuietWait

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.table import Table as RichTable

    from plots import Plot

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_THREAD_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS")
_PACKAGES = ("equipoise", "numpy", "scipy", "scikit-learn", "numba", "implicit", "cvxpy")

# BLAS workers spin for about 100 ms after a call, which would slow the next run. All threads sleep
# when the process uses less than this share of a core over this many seconds.
_IDLE, _GLANCE = 0.2, 0.01


def _cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def arguments(description: str | None = None) -> argparse.ArgumentParser:
    """The flags that every benchmark has."""
    parser = argparse.ArgumentParser(description=description, allow_abbrev=False)
    parser.add_argument("--threads", type=int, default=_cores(), help="of BLAS, OpenMP and numba")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", action="store_true", help="two minutes at most (the default)")
    size.add_argument("--full", action="store_true", help="every cell; writes the results")
    parser.add_argument(
        "--wait", type=float, default=0.0, help="seconds to wait, in all, for a quiet machine"
    )
    parser.add_argument(
        "--out", type=Path, nargs="?", const=RESULTS, help="write the results, into this folder"
    )
    return parser


def _pin_threads(count: int) -> int:
    """Put the thread count into the environment before a library reads it."""
    threads = str(count)
    pinned = all(os.environ.get(variable) == threads for variable in _THREAD_VARIABLES)
    if "numpy" in sys.modules and not pinned:
        raise RuntimeError(
            "harness must be imported before NumPy, whose BLAS has read its thread count already. "
            f"Move the import up, or set {', '.join(_THREAD_VARIABLES)} to {threads} yourself."
        )
    os.environ.update(dict.fromkeys(_THREAD_VARIABLES, threads))
    return count


_given = arguments().parse_known_args([a for a in sys.argv[1:] if a not in ("-h", "--help")])[0]
THREADS = _pin_threads(_given.threads)
QUIET_WAIT = QuietWait(_given.wait)


class Timing(NamedTuple):
    """Wall seconds of several runs of one callable, and what its warm-up run returned.

    `others` is the largest number of cores that other processes kept busy in one of its rounds.
    """

    seconds: list[float]
    value: Any
    others: float = 0.0

    @property
    def median(self) -> float:
        """The middle of the runs."""
        return median(self.seconds)

    def as_json(self) -> dict[str, Any]:
        """Median and spread, with every single run."""
        return {
            "median_s": self.median,
            "min_s": min(self.seconds),
            "max_s": max(self.seconds),
            "runs_s": self.seconds,
            "cores_busy_for_others": round(self.others, 2),
        }


def timed(run: Callable[[], Any]) -> Timing:
    """Run once, after a garbage collection and when no BLAS thread spins."""
    gc.collect()
    _settle()
    load = OtherLoad()
    started = time.perf_counter()
    value = run()
    return Timing([time.perf_counter() - started], value, load.cores())


def _settle() -> None:
    busy = True
    while busy:
        before = time.process_time()
        time.sleep(_GLANCE)
        busy = time.process_time() - before > _IDLE * _GLANCE


def interleave(
    runs: Mapping[str, Callable[[], Any]],
    repeats: int,
    *,
    fast_seconds: float = 0.3,
    slow_seconds: float = 2.0,
    slow_repeats: int = 3,
    once_seconds: float = 20.0,
) -> dict[str, Timing]:
    """Time callables side by side: a warm-up of each, then round after round of all of them.

    What slows the machine down for a while slows all of them. Every round begins with another
    one, so none always follows the same one. Rounds that other processes disturb are
    repeated, as many as were asked for; of all runs the least disturbed are kept. With ``--wait``
    a round begins in a quiet moment.

    Parameters
    ----------
    runs : mapping of str to callable
        What to time.
    repeats : int
        Timed runs of each.
    fast_seconds : float
        A callable whose warm-up takes less is timed twice as often: short runs scatter more.
    slow_seconds, slow_repeats : float, int
        A callable whose warm-up takes longer is timed only so often.
    once_seconds : float
        A callable whose warm-up takes longer than this is not run again: that run is its time.
    """

    def count(first: float) -> int:
        if first > once_seconds:
            return 0
        if first > slow_seconds:
            return min(repeats, slow_repeats)
        return 2 * repeats if first < fast_seconds else repeats

    warm = {name: timed(run) for name, run in runs.items()}
    gc.freeze()  # what is here to stay need not be searched for garbage before every run
    names = list(runs)
    wanted = {name: count(warm[name].median) for name in names}
    kept: dict[str, list[tuple[float, float]]] = {name: [] for name in names}  # (others, seconds)
    for name in (name for name in names if not wanted[name]):
        kept[name].append((warm[name].others, warm[name].median))
    for turn in range(2 * max(wanted.values())):
        first = turn % len(names)
        turns = names[first:] + names[:first]
        due = [name for name in turns if _is_due(kept[name], wanted[name])]
        QUIET_WAIT.wait()
        load = OtherLoad()
        seconds = {name: timed(runs[name]).median for name in due}
        for name in due:
            kept[name].append((load.cores(), seconds[name]))
    return {
        name: _least_disturbed(kept[name], max(1, wanted[name]), warm[name].value) for name in names
    }


def _is_due(runs: Sequence[tuple[float, float]], wanted: int) -> bool:
    quiet = sum(others <= DISTURBED for others, _ in runs)
    return quiet < wanted and len(runs) < 2 * wanted


def _least_disturbed(runs: list[tuple[float, float]], count: int, value: Any) -> Timing:
    best = sorted(runs, key=lambda run: max(run[0], DISTURBED))[:count]
    return Timing([seconds for _, seconds in best], value, max(others for others, _ in best))


def machine() -> dict[str, Any]:
    """Facts that a time depends on: processor, memory, threads, load, versions."""
    return {
        "cpu": _cpu_model(),
        "cores": _cores(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "threads": THREADS,
        "load_1min_at_start": round(os.getloadavg()[0], 2),
        "system": f"{platform.system()} {platform.machine()}",
        "date": datetime.now(UTC).date().isoformat(),
        "versions": {"python": platform.python_version()} | _versions(),
    }


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _versions() -> dict[str, str]:
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


@dataclass(frozen=True)
class Table:
    """A table that goes to the terminal and into Markdown alike.

    Attributes
    ----------
    title : str
        Its heading.
    columns : sequence of str
        Names of the columns.
    rows : sequence of sequences of str
        Ready to print.
    note : str
        A sentence below it.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def markdown(self) -> str:
        """The table as GitHub-flavored Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        return f"### {self.title}\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")

    def rich(self) -> RichTable:
        """The table for the terminal."""
        from rich.table import Table as RichTable

        table = RichTable(*self.columns, title=self.title, caption=self.note or None)
        for row in self.rows:
            table.add_row(*row)
        return table


@dataclass(frozen=True)
class Report:
    """What a benchmark found: raw cells for machines, tables and verdicts for people."""

    name: str
    claim: str
    machine: Mapping[str, Any]
    cells: Mapping[str, Any]
    tables: Sequence[Table]
    verdicts: Sequence[str]
    plots: Sequence[Plot] = ()

    def as_json(self) -> str:
        """Everything that was measured, and the verdicts drawn from it."""
        fields = ("name", "claim", "machine", "cells", "verdicts")
        return json.dumps({field: getattr(self, field) for field in fields}, indent=1) + "\n"

    def markdown(self) -> str:
        """Claim, verdicts, machine and tables."""
        facts = dict(self.machine)
        versions = ", ".join(f"{name} {number}" for name, number in facts.pop("versions").items())
        described = ", ".join(f"{name.replace('_', ' ')} {fact}" for name, fact in facts.items())
        verdicts = "\n".join(f"- {verdict}" for verdict in self.verdicts)
        tables = "\n".join(table.markdown() for table in self.tables)
        return (
            f"{self.claim}\n\n**Verdict**\n\n{verdicts}\n\n"
            f"Measured with: {described}; {versions}.\n\n{tables}"
        )

    def show(self) -> None:
        """Print tables and verdicts."""
        console = _console()
        for table in self.tables:
            console.print(table.rich())
        for verdict in self.verdicts:
            console.print(f"• {verdict}", markup=False, highlight=False)

    def write(self, folder: Path) -> None:
        """Write ``<name>.json``, ``<name>.md`` and pictures, each replaced only when complete."""
        from equipoise.files import write_whole

        folder.mkdir(parents=True, exist_ok=True)
        for picture, plot in self._pictures():
            write_whole(folder / picture, plot.png())
        write_whole(folder / f"{self.name}.json", self.as_json().encode())
        write_whole(folder / f"{self.name}.md", f"# {self.name}\n\n{self.markdown()}".encode())

    def publish(self, page: Path = PAGE) -> None:
        """Put the report between its two marks in the documentation, if they are there."""
        from equipoise.files import write_whole

        begin, end = f"<!-- begin {self.name} -->", f"<!-- end {self.name} -->"
        text = page.read_text() if page.exists() else ""
        before, found, rest = text.partition(begin)
        _, closed, after = rest.partition(end)
        if found and closed:
            shown = [self.markdown()]
            for picture, plot in self._pictures():
                write_whole(page.parent / "images" / picture, plot.png())
                shown.append(f"![{plot.title}](images/{picture})\n")
            body = "\n".join(shown)
            write_whole(page, f"{before}{begin}\n{body}\n{end}{after}".encode())

    def _pictures(self) -> Iterator[tuple[str, Plot]]:
        """File names and what they show."""
        for number, plot in enumerate(self.plots, start=1):
            yield f"{self.name}-{number}.png" if len(self.plots) > 1 else f"{self.name}.png", plot


def print_table(table: Table) -> None:
    """Print one table."""
    _console().print(table.rich())


def _console() -> Console:
    """For people: as wide as their terminal; a pipe has no width and gets what tables need."""
    from rich.console import Console

    return Console() if sys.stdout.isatty() else Console(width=180)


def conduct(report: Report, options: argparse.Namespace) -> None:
    """Print what a benchmark found, and write it where the flags ask for that."""
    report.show()
    folder = options.out or (RESULTS if options.full else None)
    if folder is not None:
        report.write(folder)
    if folder == RESULTS:
        report.publish()


def main(description: str, run: Callable[[Any], Report], quick: Any, full: Any) -> None:
    """The command line of a benchmark with two plans."""
    options = arguments(description).parse_args()
    conduct(run(full if options.full else quick), options)


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """Yield a function to call after each step with what was done: a bar, or lines in a log."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task, started = bar.add_task("measuring", total=total), time.perf_counter()

        def step(done: str) -> None:
            bar.update(task, advance=1)
            seconds = time.perf_counter() - started
            console.print(f"[dim]{seconds:5.0f} s  {done}[/dim]", highlight=False)

        yield step

"""Claim: in one process, for hours, results stay correct and memory does not grow.

Cycles of reading, fitting, recommending, finding similar items, explaining, saving and loading,
refusing bad input and auditing, on data that change from cycle to cycle. Each answer is compared
with an independent one (`tests/oracle.py`); memory, open files and threads are counted after
each cycle. Run ``python -m tests.soak.run --minutes 60 --out tests/soak/results.json``.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import theilslopes

from tests.soak import operations as ops

WARM_UP = 1 / 6  # of the time: caches fill, the allocator finds its size


class Sample(NamedTuple):
    """The process after a cycle."""

    minutes: float
    megabytes: float
    files: int
    threads: int


@dataclass
class Record:
    """Counts, errors and samples of a soak."""

    cycles: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    worst: dict[str, float] = field(default_factory=dict)
    samples: list[Sample] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def note(self, name: str, error: float) -> None:
        """Record one operation and its error."""
        self.calls[name] += 1
        self.worst[name] = max(self.worst.get(name, 0.0), error)


def resident() -> float:
    """Memory of this process that is in RAM, in MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def sample(began: float) -> Sample:
    """Count memory, files and threads after a garbage collection."""
    gc.collect()
    minutes = (time.monotonic() - began) / 60
    files = len(os.listdir("/proc/self/fd"))
    return Sample(minutes, resident(), files, threading.active_count())


def soak(
    more: Callable[[Record], bool],
    *,
    seed: int = 0,
    begin: Callable[..., ops.Cycle] = ops.begin,
    operations: Callable[..., Iterable[tuple[str, ops.Operation]]] = ops.operations,
    say: Callable[[Record], None] | None = None,
) -> Record:
    """Run cycles while `more` returns true, and record what is wrong."""
    record, began = Record(), time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        while more(record):
            folder = Path(name)
            cycle = begin(record.cycles, seed, folder)
            _run(record, cycle, operations(cycle))
            if left := sorted(path.name for path in folder.iterdir()):
                record.wrong.append(f"cycle {record.cycles} left files behind: {left}")
            record.cycles += 1
            record.samples.append(sample(began))
            if say is not None:
                say(record)
    return record


def _run(record: Record, cycle: ops.Cycle, operations: Iterable[tuple[str, ops.Operation]]) -> None:
    single = cycle.data.matrix.dtype == np.float32
    limits = ops.LIMITS_FLOAT32 if single else ops.LIMITS
    for name, operation in operations:
        error = operation(cycle)
        if not error <= limits[name]:
            record.wrong.append(
                f"cycle {record.cycles}, {name}: off by {error:.2e}, the limit is "
                f"{limits[name]:.0e} ({type(cycle.model).__name__}, {cycle.data})"
            )
        record.note(f"{name}, float32" if single and limits[name] else name, error)


def summary(record: Record) -> dict[str, Any]:
    """The record in numbers: the slope of memory by Theil and Sen, after the warm-up."""
    everything = np.array(record.samples)
    minutes, megabytes = everything[:, 0], everything[:, 1]
    warm = minutes >= WARM_UP * minutes[-1]
    slope, _, low, high = theilslopes(megabytes[warm], minutes[warm] / 60)
    settled = everything[warm]
    return {
        "minutes": round(float(minutes[-1]), 1),
        "cycles": record.cycles,
        "operations": sum(record.calls.values()),
        "wrong": record.wrong,
        "calls": dict(record.calls),
        "largest_error": record.worst,
        "rss_mb_after_warm_up": round(float(settled[0, 1]), 1),
        "rss_mb_at_end": round(float(settled[-1, 1]), 1),
        "rss_mb_highest": round(float(megabytes.max()), 1),
        "rss_slope_mb_per_hour": round(float(slope), 2),
        "rss_slope_95_percent": [round(float(low), 2), round(float(high), 2)],
        "files": [int(settled[:, 2].min()), int(settled[:, 2].max())],
        "threads": [int(settled[:, 3].min()), int(settled[:, 3].max())],
        "curve": [[round(m, 2), round(mb, 1)] for m, mb in _thinned(record.samples)],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "machine": platform.machine(),
    }


def _thinned(samples: list[Sample], points: int = 61) -> list[tuple[float, float]]:
    places = np.unique(np.linspace(0, len(samples) - 1, points).round().astype(int))
    return [(samples[place].minutes, samples[place].megabytes) for place in places]


def table(found: dict[str, Any]) -> str:
    """The summary as a table."""
    lines = [f"{'operation':24}{'times':>8}{'largest error':>16}"]
    for name, times in found["calls"].items():
        lines.append(f"{name:24}{times:8,}{found['largest_error'][name]:16.1e}")
    low, high = found["rss_slope_95_percent"]
    wrong = len(found["wrong"])
    lines.append(
        f"\n{found['cycles']:,} cycles, {found['operations']:,} operations, {wrong} wrong, in "
        f"{found['minutes']:g} minutes\nmemory {found['rss_mb_after_warm_up']:g} MB after the "
        f"warm-up, {found['rss_mb_at_end']:g} MB at the end: {found['rss_slope_mb_per_hour']:+g} "
        f"MB per hour ({low:+g} to {high:+g})\nopen files {found['files']}, threads "
        f"{found['threads']}, lowest and highest after the warm-up"
    )
    return "\n".join(lines)


def main() -> int:
    """Soak for some minutes; print the table, update the JSON; return 1 if a result was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes

    def keep(found: dict[str, Any]) -> None:
        if options.out is not None:
            options.out.write_text(json.dumps(found, indent=1) + "\n")

    def say(record: Record) -> None:
        if record.cycles % 50 == 0:
            now = record.samples[-1]
            line = f"{now.minutes:5.1f} min  {record.cycles:6} cycles  {now.megabytes:.0f} MB"
            print(line, flush=True)
            keep(summary(record))

    record = soak(lambda _: time.monotonic() < end, seed=options.seed, say=say)
    keep(summary(record))
    print(table(summary(record)), *record.wrong, sep="\n")
    return 1 if record.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""Claim: past one memory, a fit costs its passes over the data, and they can be told in advance.

`ItemWeightedPCA.fit` gives the same objective (to 1e-8) in memory, streamed from disk under a
memory limit, and on Dask worker processes; the memory of a worker stays under its limit; and the
seconds of a pass are within 30 % of what the cost model says that was calibrated, in turns with
it, on one worker and a fifth of the data.

Run ``python benchmarks/bench_distributed.py`` (2 M interactions), ``--millions 20`` or ``100``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import multiprocessing
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import distributed_runs as runs
from cost_model import Comparison
from distributed_runs import Run, Size
from harness import Report, Table, machine

SIZES = {
    2: Size("2 M", 30_000, 8_000, 2_000_000),
    20: Size("20 M", 138_000, 26_700, 20_000_000),
    100: Size("100 M", 480_000, 17_800, 100_000_000),
}
_SHARES_TO_CALIBRATE = (20, 5)
_WITHIN = 0.30
_MEMORY = {2: "500MB", 20: "2GB", 100: "4GB"}
_WORKER = {2: "2GB", 20: "4GB", 100: "8GB"}


def apart(run: Callable[[], Any]) -> Any:
    """Run in a fresh process, whose memory is the run's alone."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run).result()


def measure(size: Size, rank: int, millions: int) -> tuple[list[Run], str]:
    """Every way to fit the table, and why dask-ml has none, if so."""
    little = [
        Size(f"1 of {share}", size.users // share, size.items, size.nnz // share)
        for share in _SHARES_TO_CALIBRATE
    ]
    blocks = max(8, size.nnz // 4_000_000)
    with tempfile.TemporaryDirectory() as place:
        folders = {each.name: Path(place) / each.name for each in (*little, size)}
        for each in (*little, size):
            folders[each.name].mkdir()
            apart(partial(runs.write_table, each, folders[each.name]))
        folder, limit = folders[size.name], _WORKER[millions]
        found = [
            apart(partial(runs.local, folder, rank)),
            apart(partial(runs.streamed, folder, rank, _MEMORY[millions])),
        ]
        for workers in (1, 2):
            places = [folders[each.name] for each in little]
            task = partial(runs.on_cluster, folder, places, rank, workers, limit, blocks)
            found.append(apart(task))
        other = apart(partial(runs.dask_ml, folder, rank, size))
    if isinstance(other, Run):
        found.append(other)
        other = ""
    return found, other


def row(run: Run) -> list[str]:
    """A line of the table."""
    return [
        run.way,
        f"{run.load_s:.1f}",
        f"{run.fit_s:.1f}",
        str(run.sweeps),
        f"{run.sweep_s:.3f}",
        "" if run.foretold is None else _beside(run.foretold),
        f"{run.peak_mb:,.0f}",
        "" if run.moved_mb is None else f"{run.moved_mb:.1f}",
    ]


def _off(foretold: Comparison) -> float:
    return foretold.measured / foretold.predicted - 1


def _beside(foretold: Comparison) -> str:
    """A pass in the rounds of the comparison, what was foretold, and how far off it was."""
    return f"{foretold.measured:.3f} / {foretold.predicted:.3f} ({_off(foretold):+.0%})"


def as_json(run: Run) -> dict[str, Any]:
    """All that is known of a run."""
    known = run._asdict()
    if run.foretold is not None:
        model = run.foretold.model.as_json()
        known["foretold"] = run.foretold._asdict() | {"model": model}
    return known


def verdicts(found: list[Run], size: Size, millions: int, load: float) -> list[str]:
    """What the claim comes to."""
    from equipoise.distributed.sizes import parse_bytes

    ours = [run for run in found if "dask-ml" not in run.way]
    apart_by = max(abs(run.objective / ours[0].objective - 1) for run in ours)
    off = {run.way: _off(run.foretold) for run in ours if run.foretold}
    missed = [f"{way} {by:+.0%}" for way, by in off.items() if abs(by) > _WITHIN]
    limit = parse_bytes(_WORKER[millions]) / 1e6
    over = [run.way for run in ours if "Dask" in run.way and run.peak_mb > limit]
    stream = parse_bytes(_MEMORY[millions]) / 1e6
    streamed = next(run for run in ours if "streamed" in run.way)
    return [
        f"{size.name}: objectives agree to {apart_by:.1e} (claimed 1e-8): "
        f"{'held' if apart_by <= 1e-8 else 'LOST'}.",
        f"Seconds a pass within {_WITHIN:.0%} of the cost model, on a machine with a load of "
        f"{load:g}: {'held.' if not missed else f'LOST for {missed}.'}",
        f"Workers under their limit of {limit:,.0f} MB: "
        + ("held." if not over else f"LOST for {', '.join(over)}."),
        f"Streaming peaked at {streamed.peak_mb:,.0f} MB, interpreter and libraries included, "
        f"with {stream:,.0f} MB allowed: {'held' if streamed.peak_mb <= stream else 'LOST'}.",
    ]


def main() -> None:
    """Measure, judge, print."""
    parser = harness.arguments(__doc__)
    parser.add_argument("--millions", type=int, choices=SIZES, default=2)
    parser.add_argument("--rank", type=int, default=32)
    arguments = parser.parse_args()
    size, facts = SIZES[arguments.millions], machine()
    found, other = measure(size, arguments.rank, arguments.millions)
    columns = ["way", "load s", "fit s", "passes", "s a pass", "in turns / foretold"]
    columns += ["peak MB", "MB sent a pass"]
    numbers = "; ".join(
        ", ".join(f"{name} {number:.2e}" for name, number in run.foretold.model.as_json().items())
        for run in found
        if run.foretold
    )
    title = f"{size.name} interactions, {size.users:,} × {size.items:,}, rank {arguments.rank}"
    note = f"Cost models (s): {numbers}." + (f" {other}." if other else "")
    report = Report(
        name=f"bench_distributed-{arguments.millions}m",
        claim=(__doc__ or "").split("\n\nRun")[0],
        machine=facts,
        cells={"runs": [as_json(run) for run in found]},
        tables=[Table(title, columns, [row(run) for run in found], note)],
        verdicts=verdicts(found, size, arguments.millions, facts["load_1min_at_start"]),
    )
    report.show()
    if arguments.out or arguments.full:
        report.write(arguments.out or harness.RESULTS)


if __name__ == "__main__":
    main()

"""Claim: on data larger than memory, the time of a fit is that of its passes and can be predicted.

`ItemWeightedPCA.fit` reaches the same objective (to 1e-8) in memory, streamed from disk under a
memory limit, and on Dask workers. No worker and no streamed fit exceeds its memory limit. The
seconds per pass, and per fit with that many passes, are within 30 % of the prediction of a cost
model. Its constants are measured first, on 4 million interactions with the same items. Where
dask-ml's TruncatedSVD can run (dense chunks), `VanillaPCA` captures as much in no more time.

Every run has its own process. The runs on workers are predicted before the first of them starts.
Run ``python benchmarks/bench_distributed.py --quick`` (2 million interactions) or ``--full`` (20
and 100 million, which takes a quarter of an hour and some 5 GB of memory).
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import distributed_peer as peer
import distributed_runs as runs
from cost_model import CostModel
from distributed_peer import Peer
from distributed_runs import Run, Size, in_process
from harness import Report, Table, machine, progress
from plots import Plot, Point

PAGE = Path(__file__).parents[1] / "docs" / "cost-model.md"
_WITHIN, _SAME = 0.30, 1e-8
_WORKERS = (1, 2)
_COLUMNS = (
    "way",
    "read s",
    "fit s (predicted)",
    "passes",
    "s per pass (predicted)",
    "peak MB (allowed)",
    "MB sent per pass",
    "cores busy for others",
)


class Plan(NamedTuple):
    """What one form of the benchmark runs."""

    name: str
    sizes: tuple[Size, ...]
    small: int  # interactions of the table that a cost model is measured on
    dense: Size


QUICK = Plan(
    "bench_distributed-quick",
    (Size("2 M", 20_000, 8_000, 2_000_000, "500MB", "2GB"),),
    500_000,
    Size("dense", 3_000, 600, 60_000),
)
FULL = Plan(
    "bench_distributed",
    (
        Size("20 M", 138_000, 26_700, 20_000_000, "1GB", "2GB"),
        Size("100 M", 480_000, 17_800, 100_000_000, "1GB", "6GB"),
    ),
    4_000_000,
    Size("dense", 20_000, 2_000, 1_000_000),
)


class Predicted(NamedTuple):
    """The numbers measured for a table, and the seconds of a pass that they come to."""

    model: CostModel
    pass_s: dict[str, float]


class Measured(NamedTuple):
    """All runs on one table, and what was predicted of those on workers."""

    size: Size
    runs: list[Run]
    predicted: Predicted


def predict(size: Size, small: int, rank: int) -> Predicted:
    """Measure the numbers on a share of the users, and say what a pass over all will take."""
    share = small / size.nnz
    little = size._replace(name="small", users=int(size.users * share), nnz=small)
    model = in_process(partial(runs.calibration, little, rank, harness.QUIET_WAIT.left))
    return Predicted(
        model,
        {
            f"Dask, {count} worker(s)": model.one_pass(runs.job(size, rank, count))
            for count in _WORKERS
        },
    )


def measure(
    size: Size, rank: int, predicted: Predicted, place: Path, step: Callable[[str], None]
) -> Measured:
    """Every way to fit the table."""
    folder = place / size.name
    folder.mkdir()
    in_process(partial(runs.write_table, size, folder))
    step(f"{size.name}: written")
    cores = harness.THREADS
    ways = [(partial(runs.local, folder, rank, threads), threads) for threads in {1, cores}]
    ways.append((partial(runs.streamed, folder, rank, cores, size.memory), cores))
    ways += [(partial(runs.on_cluster, folder, rank, count, size.worker), 1) for count in _WORKERS]
    found: list[Run] = []
    for way, threads in ways:
        harness.QUIET_WAIT.wait()
        found.append(in_process(way, threads))
        step(f"{size.name}: {found[-1].way}")
    return Measured(size, found, predicted)


class Check(NamedTuple):
    """A run and its prediction."""

    run: Run
    pass_s: float
    fit_s: float

    @property
    def off(self) -> tuple[float, float]:
        """How far the pass and the fit were from it, as shares."""
        return self.run.pass_s / self.pass_s - 1, self.run.fit_s / self.fit_s - 1


def checks(measured: Measured, rank: int) -> dict[str, Check]:
    """The runs on workers and their predictions."""
    model, pass_s = measured.predicted
    return {
        run.way: Check(
            run,
            pass_s[run.way],
            model.fit(runs.job(measured.size, rank, run.threads), run.passes),
        )
        for run in measured.runs
        if run.way in pass_s
    }


def table_of(measured: Measured, rank: int) -> Table:
    """One row per run."""
    size, predictions = measured.size, checks(measured, rank)
    numbers = measured.predicted.model.as_json()
    dense = 8 * size.users * size.items / 1e9
    return Table(
        f"{size.name} interactions, {size.users:,} × {size.items:,}, rank {rank}",
        _COLUMNS,
        [_row(run, predictions.get(run.way)) for run in measured.runs],
        f"dask-ml takes dense chunks, {dense:,.1f} GB of this table. The cost model, seconds: "
        + ", ".join(f"{name} {number:.2e}" for name, number in numbers.items())
        + ".",
    )


def _row(run: Run, check: Check | None) -> list[str]:
    off = check.off if check else (0.0, 0.0)
    shown = f" ({check.fit_s:.1f}, {off[1]:+.0%})" if check else ""
    told_pass = f" ({check.pass_s:.3f}, {off[0]:+.0%})" if check else ""
    return [
        run.way,
        f"{run.load_s:.1f}",
        f"{run.fit_s:.1f}{shown}",
        str(run.passes),
        f"{run.pass_s:.3f}{told_pass}",
        f"{run.peak_mb:,.0f}" + (f" ({run.limit_mb:,.0f})" if run.limit_mb else ""),
        "" if run.moved_mb is None else f"{run.moved_mb:.1f}",
        f"{run.others:.2f}",
    ]


def picture(found: list[Measured], rank: int) -> Plot:
    """Measured and predicted passes."""
    series: dict[str, list[Point]] = {"measured": [], "predicted": []}
    for measured in found:
        for way, check in checks(measured, rank).items():
            where = f"{measured.size.name}, {way}"
            series["measured"].append((where, check.run.pass_s))
            series["predicted"].append((where, check.pass_s))
    return Plot("A pass over the data", "", "seconds", series)


def peers_table(peers: list[Peer], size: Size, rank: int) -> Table:
    """Ours compared with dask-ml's."""
    rows = [
        [each.way, f"{each.fit_s:.2f}", f"{each.captured:.6f}", f"{each.data_mb:,.0f}"]
        for each in peers
    ]
    title = f"dask-ml where it can run: {size.users:,} × {size.items:,}, {size.nnz:,} interactions"
    columns = ("way", "fit s", "captured", "data MB")
    return Table(f"{title}, rank {rank}, 2 workers", columns, rows)


def verdicts(found: list[Measured], rank: int, peers: list[Peer]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    lines = []
    for measured in found:
        name, each = measured.size.name, measured.runs
        difference = max(abs(run.objective / each[0].objective - 1) for run in each)
        lines.append(_judged(difference <= _SAME, f"{name}: objectives agree to {difference:.1e}."))
        limited = [run for run in each if run.limit_mb]
        most = max(limited, key=lambda run: run.peak_mb / run.limit_mb)
        shown = f"{most.peak_mb:,.0f} of {most.limit_mb:,.0f} MB"
        within = most.peak_mb <= most.limit_mb
        lines.append(_judged(within, f"{name}: memory, at most {shown} ({most.way})."))
        for way, check in checks(measured, rank).items():
            off_pass, off_fit = check.off
            held = max(abs(off_pass), abs(off_fit)) <= _WITHIN
            said = f"a pass {off_pass:+.0%}, the fit {off_fit:+.0%} off what was predicted."
            lines.append(_judged(held, f"{name}, {way}: {said}"))
    if peers:
        ours, *theirs = peers
        best = max(each.captured for each in theirs)
        fastest = min(each.fit_s for each in theirs)
        held = ours.captured >= best - 1e-6 and ours.fit_s <= fastest
        said = f"captures {ours.captured:.6f}, dask-ml at best {best:.6f}"
        times = f"in {ours.fit_s:.2f} s, dask-ml at best {fastest:.2f} s"
        lines.append(_judged(held, f"VanillaPCA {said}; {times}."))
    busiest = max(run.others for measured in found for run in measured.runs)
    lines.append(f"Other processes kept at most {busiest:.2f} cores busy during a fit.")
    return lines


def _judged(held: bool, said: str) -> str:
    return f"{'holds' if held else 'DOES NOT HOLD'}: {said}"


def run(plan: Plan, rank: int) -> Report:
    """Calibrate, predict, measure, judge."""
    facts, why_not = machine(), peer.missing()
    with tempfile.TemporaryDirectory() as place, progress(1 + 7 * len(plan.sizes)) as step:
        folder, predicted = Path(place), []
        for size in plan.sizes:
            predicted.append(predict(size, plan.small, rank))
            step(f"{size.name}: predicted")
        found = [
            measure(size, rank, shown, folder, step)
            for size, shown in zip(plan.sizes, predicted, strict=True)
        ]
        peers = [] if why_not else in_process(partial(peer.compare, plan.dense, rank))
        step(why_not or "dask-ml")
    tables = [table_of(each, rank) for each in found]
    if peers:
        tables.append(peers_table(peers, plan.dense, rank))
    judged = verdicts(found, rank, peers) + ([f"{why_not}."] if why_not else [])
    claim = (__doc__ or "").split("\n\nEverybody")[0]
    plots = [picture(found, rank)]
    return Report(plan.name, claim, facts, _cells(found, peers), tables, judged, plots)


def _cells(found: list[Measured], peers: list[Peer]) -> dict[str, Any]:
    return {
        "tables": [
            {
                "size": each.size._asdict(),
                "cost_model": each.predicted.model.as_json(),
                "predicted_s_a_pass": each.predicted.pass_s,
                "runs": [run._asdict() for run in each.runs],
            }
            for each in found
        ],
        "dask_ml": [each._asdict() for each in peers],
    }


def main() -> None:
    """Measure, print, and write where asked to."""
    parser = harness.arguments("Fits past one memory: from disk, and on Dask workers.")
    parser.add_argument("--rank", type=int, default=32)
    options = parser.parse_args()
    report = run(FULL if options.full else QUICK, options.rank)
    harness.conduct(report, options)
    if options.full and options.out in (None, harness.RESULTS):
        report.publish(PAGE)


if __name__ == "__main__":
    main()

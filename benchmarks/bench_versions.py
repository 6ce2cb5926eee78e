"""Claim: nothing is slower than in the first version.

Fits, lists for all users, reading, data in blocks on disk and on Dask workers, and the start of a
process: each takes at most 1.05 times as long as in the first version of equipoise, which is taken
from the repository's history.

Every run has a process of its own, which runs a task once to load and compile code, and then times
it. Both versions take turns, and each round begins with the other one. A cell compares the medians
of the rounds. Run ``python benchmarks/bench_versions.py --quick`` or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

import datasets
from datasets import DataSet
from first_version import REVISION, unpack
from harness import Report, Table, machine, progress
from plots import Plot

Cell = dict[str, Any]

_SLOWER = 1.05
_ROOT = Path(__file__).parent.parent

# Works with either version: some names differ. Prints the seconds of each timed run.
_TASK = """
import json, sys, time
import numpy as np
import scipy.sparse as sp
import equipoise

kind, path, number, repeats = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])

def blocks(**options):
    try:
        from equipoise.distributed import DistributedInteractions, StreamedInteractions
    except ImportError:
        return equipoise.Interactions.read(path, **options)
    if "client" in options:
        return DistributedInteractions.from_parquet(path, **options)
    return StreamedInteractions.read(path, **options)

def matrix():
    saved = np.load(path)
    parts = saved["data"], saved["indices"], saved["indptr"]
    return sp.csr_array(parts, shape=tuple(saved["shape"]))

def measured(run):
    run()
    seconds = []
    for _ in range(repeats):
        before = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - before)
    return seconds

def main():
    if kind == "fit":
        X = matrix()
        return measured(lambda: equipoise.ItemWeightedPCA(number).fit(X))
    if kind == "recommend":
        X = matrix()
        model = equipoise.ItemWeightedPCA(number, tol=1e-3).fit(X)
        return measured(lambda: model.recommend(X, 20))
    if kind == "read":
        return measured(lambda: equipoise.Interactions.read(path))
    if kind == "disk":
        data = blocks(memory="500MB")
        return measured(lambda: equipoise.ItemWeightedPCA(number).fit(data))
    from distributed import Client, LocalCluster
    quiet = {"processes": True, "dashboard_address": ":0", "silence_logs": 50}
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, host="127.0.0.1", **quiet) as cluster,
        Client(cluster) as client,
    ):
        data = blocks(client=client)
        return measured(lambda: equipoise.ItemWeightedPCA(number).fit(data))

if __name__ == "__main__":
    print(json.dumps(main()))
"""
_STARTS = {
    "import equipoise": ["-c", "import equipoise"],
    "equipoise --help": ["-m", "equipoise", "--help"],
}


class Task(NamedTuple):
    """What is timed: its name, and the arguments of the program."""

    name: str
    kind: str
    data: str
    number: int = 0


class Plan(NamedTuple):
    """What to measure."""

    name: str
    rounds: int
    repeats: int
    fits: Sequence[tuple[DataSet, Sequence[int]]]
    rows: int


_SETS = (datasets.LAST_FM, datasets.MOVIE_LENS_FULL, datasets.GOWALLA_SHAPE)
QUICK = Plan("bench_versions-quick", 1, 2, [(data, (32,)) for data in _SETS], 500_000)
FULL = Plan("bench_versions", 3, 2, [(data, (32, 128)) for data in _SETS], 2_000_000)


def tasks(plan: Plan, folder: Path) -> list[Task]:
    """Write the data that both versions read, and return what to time."""
    from equipoise.data.synthetic import scale

    found = []
    for number, (data, ranks) in enumerate(plan.fits):
        if not datasets.available([data]):
            continue
        path = folder / f"{number}.npz"
        _save(data.load().matrix, path)
        found += [Task(f"fit, {data.name}, r = {r}", "fit", str(path), r) for r in ranks]
    lists = folder / "lists.npz"
    _save(scale(14_000, 8_000, 1_000_000).matrix, lists)
    found.append(Task("lists of 20 for 14,000 users, r = 64", "recommend", str(lists), 64))
    parquet, csv = _write_table(plan.rows, folder)
    found += [Task(f"read {plan.rows:,} rows, {file.suffix[1:]}", "read", str(file))
              for file in (parquet, csv)]  # fmt: skip
    for kind, title in (("disk", "on disk"), ("cluster", "on two Dask workers")):
        found.append(
            Task(f"fit, {plan.rows:,} rows {title}, r = 32", kind, str(parquet.parent), 32)
        )
    return found


def _save(matrix: Any, path: Path) -> None:
    parts = {"data": matrix.data, "indices": matrix.indices, "indptr": matrix.indptr}
    np.savez(path, shape=matrix.shape, **parts)


def _write_table(rows: int, folder: Path) -> tuple[Path, Path]:
    import polars as pl

    from equipoise.data.synthetic import scale

    entries = scale(rows // 145, 26_700, rows).matrix.tocoo()
    users, items = entries.row.astype(np.int32), entries.col.astype(np.int32)
    frame = pl.DataFrame({"user": users, "item": items, "value": entries.data})
    parquet, csv = folder / "parquet" / "rows.parquet", folder / "rows.csv"
    parquet.parent.mkdir()
    frame.write_parquet(parquet, row_group_size=500_000)
    frame.write_csv(csv)
    return parquet, csv


def seconds_of(task: Task, source: Path, script: Path, repeats: int) -> float:
    """Median wall time of a task with one version, in a process of its own."""
    command = [sys.executable, str(script), task.kind, task.data, str(task.number), str(repeats)]
    environment = os.environ | {"PYTHONPATH": str(source)}
    ran = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return median(json.loads(ran.stdout.splitlines()[-1]))


def start_seconds(arguments: list[str], source: Path) -> float:
    """CPU time of a whole process with one version."""
    before = os.times()
    environment = os.environ | {"PYTHONPATH": str(source)}
    subprocess.run([sys.executable, *arguments], env=environment, check=True, capture_output=True)
    after = os.times()
    user = after.children_user - before.children_user
    return user + after.children_system - before.children_system


def measure(plan: Plan) -> list[Cell]:
    """Time both versions, in turns."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        sources = {"first": unpack(folder), "now": _ROOT / "src"}
        script = folder / "task.py"
        script.write_text(_TASK)
        runs = {
            task.name: lambda source, task=task: seconds_of(task, source, script, plan.repeats)
            for task in tasks(plan, folder)
        }
        runs |= {
            f"{what}, CPU": lambda source, command=command: start_seconds(command, source)
            for what, command in _STARTS.items()
            if "--help" not in command or find_spec("typer")
        }
        cells = []
        with progress(len(runs)) as step:
            for what, run in runs.items():
                taken: dict[str, list[float]] = {version: [] for version in sources}
                for turn in range(plan.rounds):
                    for version in list(sources)[:: 1 if turn % 2 else -1]:
                        taken[version].append(run(sources[version]))
                first, now = median(taken["first"]), median(taken["now"])
                cells.append({"what": what, "first_s": first, "now_s": now, "ratio": now / first,
                              "runs_s": taken})  # fmt: skip
                step(f"{what}: {now / first:.2f}")
    return cells


def run(plan: Plan) -> Report:
    """Compare both versions."""
    facts, cells = machine(), measure(plan)
    rows = [
        [cell["what"], f"{cell['first_s']:.3f}", f"{cell['now_s']:.3f}", f"{cell['ratio']:.2f}"]
        for cell in cells
    ]
    slower = [cell["what"] for cell in cells if cell["ratio"] > _SLOWER]
    verdict = (
        f"{'DOES NOT HOLD' if slower else 'holds'}: {len(cells) - len(slower)} of {len(cells)} "
        f"take at most {_SLOWER} times as long as in the first version ({REVISION}); median "
        f"{median(cell['ratio'] for cell in cells):.2f}."
    )
    verdicts = [verdict, *(f"Slower: {what}." for what in slower)]
    if not find_spec("typer"):
        verdicts.append(
            "equipoise --help was NOT compared: the first version needs typer, which the extra "
            "bench installs."
        )
    columns = ("what", "first version, s", "now, s", "now ÷ first")
    table = Table("Now, compared with the first version", columns, rows)
    claim = (__doc__ or "").split("\n\nEvery run")[0]
    named = [cell | {"way": "now ÷ first"} for cell in cells]
    plot = Plot.of("Versions", named, by="way", x="what", y="ratio", unit="ratio")
    return Report(plan.name, claim, facts, {"tasks": cells}, [table], verdicts, [plot])


if __name__ == "__main__":
    harness.main("This version, compared with the first one.", run, QUICK, FULL)

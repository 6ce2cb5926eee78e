"""Claim: one request costs about what the fastest peer needs.

One user from a list of text ids takes at most 1.2 × the time of implicit's `recommend` plus 0.2 ms,
at equal catalog, rank and precision (float32). A search through `AnnVectors` takes at most 1.5 ×
the time of usearch's own `search`. A model of a million items loads by memory map in 0.2 s of CPU
time, and processes that load it share the pages of its arrays.

The factors are random: only the time matters. Each number is the median and the minimum CPU time of
single calls in turn, which other work on the machine changes little. Run
``python benchmarks/bench_serve.py --quick`` or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from implicit.als import AlternatingLeastSquares

from datasets import synthetic
from equipoise import ItemWeightedPCA, load
from equipoise.serving import to_ann
from harness import Report, Table, machine, progress

_BASKET, _K = 20, 10
_EXPLAIN = 2.0
_GOALS = {"one user": "≤ 1.2 × implicit + 0.2 ms", "index": "≤ 1.5 × usearch", "load": "≤ 200 ms"}


class Plan(NamedTuple):
    """Sizes: items to score, items in an index, rank, calls."""

    name: str
    catalogs: tuple[int, ...]
    indexed: int
    rank: int
    calls: int


def model_of(n_items: int, rank: int) -> ItemWeightedPCA:
    """A fitted model of random components, with text ids."""
    rng = np.random.default_rng(n_items)
    model = ItemWeightedPCA(rank)
    vectors = rng.standard_normal((rank, n_items), dtype=np.float32)
    model.components_ = vectors / np.float32(np.sqrt(n_items))
    model.eigenvalues_ = model.residuals_ = np.linspace(2, 1, rank)
    model.item_norms_ = model.item_weights_ = np.ones(n_items)
    model.n_components_, model.n_features_in_ = rank, n_items
    model.solver_, model.error_budget_multiplier_ = "matrix_free", 0.0
    model.item_ids_ = np.array([f"item-{j:07}" for j in range(n_items)], dtype=object)
    fields = {"objective": 1.0, "dual_bound": 1.0, "gap": 0.0, "max_residual": 0.0}
    from equipoise.spectral.certificate import Certificate

    model.certificate_ = Certificate(**fields, orthogonality=0.0, passes=0, method="lanczos")
    return model


def milliseconds(
    calls: dict[str, Callable[[int], Any]], count: int
) -> dict[str, tuple[float, float]]:
    """Median and minimum of single calls in CPU time, in turn."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(-2, count):  # two calls to warm up
        for name, call in calls.items():
            started = time.process_time()
            call(number)
            if number >= 0:
                taken[name].append(1e3 * (time.process_time() - started))
    return {name: (median(times), min(times)) for name, times in taken.items()}


def measure(n_items: int, plan: Plan) -> dict[str, tuple[float, float]]:
    """One user by implicit, and by us from text ids."""
    model, rng = model_of(n_items, plan.rank), np.random.default_rng(0)
    users = [rng.choice(n_items, _BASKET, replace=False) for _ in range(plan.calls)]
    baskets = [model.item_ids_[user].tolist() for user in users]
    ones = np.ones(_BASKET, np.float32)
    rows = [sp.csr_matrix((ones, ([0] * _BASKET, user)), shape=(1, n_items)) for user in users]
    als = AlternatingLeastSquares(factors=plan.rank)
    als.item_factors = np.ascontiguousarray(model.components_.T)
    als.user_factors = rng.standard_normal((plan.calls, plan.rank), dtype=np.float32)
    calls = {
        "implicit": lambda n: als.recommend(n % plan.calls, rows[n], N=_K),
        "equipoise": lambda n: model.recommend(baskets[n], k=_K),
    }
    return milliseconds(calls, plan.calls)


def measure_index(plan: Plan) -> dict[str, tuple[float, float]]:
    """One user by usearch alone, and by `AnnVectors.search` from text ids."""
    vectors, rng = to_ann(model_of(plan.indexed, plan.rank)), np.random.default_rng(0)
    index = vectors.usearch()
    baskets = [
        vectors.item_ids[rng.choice(plan.indexed, _BASKET, replace=False)].tolist()
        for _ in range(plan.calls)
    ]
    queries = [vectors.user_vectors(basket)[0] for basket in baskets]
    # for another user: the first search brings the vectors that it meets into the cache
    calls = {
        "usearch": lambda n: index.search(queries[n], _K + _BASKET),
        "equipoise": lambda n: vectors.search(index, baskets[n - plan.calls // 2], _K),
    }
    return milliseconds(calls, plan.calls)


class Loading(NamedTuple):
    """CPU time (median, minimum) and fastest wall time in ms; MB in a file's pages, by kind."""

    cpu: tuple[float, float]
    wall: float
    mapped: dict[str, float]


def measure_load(n_items: int, plan: Plan) -> Loading:
    """Load by memory map, without comparing hashes; then in two processes that use the model."""
    with TemporaryDirectory() as folder:
        path = model_of(n_items, plan.rank).save(Path(folder) / "model.eqp")
        calls = {"load": lambda _: load(path, mmap=True, verify=False)}
        walls = []
        for _ in range(5):
            started = time.perf_counter()
            load(path, mmap=True, verify=False)
            walls.append(1e3 * (time.perf_counter() - started))
        return Loading(milliseconds(calls, 5)["load"], min(walls), shared_pages(path))


_USE = """
import sys
from equipoise import load
model = load(sys.argv[1], mmap=True, verify=False)
model.recommend(["item-0000007"])
print("ready", flush=True)
sys.stdin.read()
"""


def shared_pages(path: Path) -> dict[str, float]:
    """MB that one of two processes has in the pages of a model, by kind, as Linux counts them."""
    command = [sys.executable, "-c", _USE, str(path)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    processes = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for process in processes:
        process.stdout.readline()
    found: Counter[str] = Counter()
    ours = False
    for line in Path(f"/proc/{processes[0].pid}/smaps").read_text().splitlines():
        name, _, rest = line.partition(":")
        if not re.fullmatch(r"[A-Z]\w+", name):  # the first line of a mapping names its file
            ours = line.endswith(str(path))
        elif ours and rest.endswith("kB"):
            found[name] += int(rest.split()[0])
    for process in processes:
        process.communicate()
    kinds = ("Rss", "Pss", "Shared_Clean", "Private_Clean", "Private_Dirty")
    return {kind: found[kind] / 1024 for kind in kinds}


def measure_explain() -> dict[str, float]:
    """`equipoise recommend` to 6,000 users, with --explain and without, in CPU seconds."""
    from equipoise.cli.app import run as command

    data = synthetic(6_000, 3_400, 300_000)
    with TemporaryDirectory() as name:
        model = ItemWeightedPCA(64).fit(data).save(Path(name) / "model.eqp")
        table, out = Path(name) / "plays.csv", Path(name) / "lists.parquet"
        entries = data.matrix.tocoo()
        lines = (f"{user},{item}" for user, item in zip(*entries.coords, strict=True))
        table.write_text("\n".join(["user,item", *lines]))
        seconds: dict[str, list[float]] = {"": [], "--explain": []}
        for turn in range(4):
            for option, taken in seconds.items():
                words = ["recommend", str(model), str(table), "--out", str(out), option]
                started = time.process_time()
                if command([word for word in words if word]):
                    raise RuntimeError("equipoise recommend failed")
                taken += [time.process_time() - started] * (turn > 0)  # the first run compiles
    plain, explained = (median(taken) for taken in seconds.values())
    return {"plain_s": plain, "explain_s": explained, "ratio": explained / plain}


def run(plan: Plan) -> Report:
    """Measure everything."""
    rows: list[tuple[Any, ...]] = []
    pages: list[list[str]] = []
    cells: dict[str, Any] = {}
    with progress(2 * len(plan.catalogs) + 2) as step:
        for n_items in plan.catalogs:
            found = measure(n_items, plan)
            rows.append(_row(f"one user, {n_items:,} items", found, "one user", 1.2, 0.2))
            step(f"{n_items:,} items")
            loading = measure_load(n_items, plan)
            rows.append(
                _row(f"load, {n_items:,} items", {"equipoise": loading.cpu}, "load", 0, 200)
            )
            cells[str(n_items)] = {**found, "load": loading._asdict()}
            pages.append([f"{n_items:,} items", f"{loading.wall:.0f}", *_megabytes(loading)])
            step("load")
        found = measure_index(plan)
        cells["index"] = found
        rows.append(_row(f"index, {plan.indexed:,} items", found, "index", 1.5, 0))
        step("index")
        cells["explain"] = measure_explain()
        step("explanations")
    headers = ("", "peer, CPU ms", "equipoise, CPU ms", "fastest peer", "fastest equipoise", "goal")
    table = Table(
        f"One request at a time, rank {plan.rank}, float32", headers, [r[:-1] for r in rows]
    )
    mapped = Table(
        "A model in the pages of its file, in two processes",
        (
            "",
            "load, fastest wall ms",
            "resident MB",
            "of these shared",
            "private",
            "counted to each",
        ),
        pages,
        "Resident, shared, private and proportional (Pss) memory of one process, in the pages of "
        "the model's file, after one list. Wall time includes waiting for a core where others keep "
        "them busy.",
    )
    verdicts = [
        f"{row[0]}: {'met' if row[-1] else 'MISSED'} ({row[-2]}, by the minima)" for row in rows
    ]
    ratio = cells["explain"]["ratio"]
    met = "met" if ratio <= _EXPLAIN else "MISSED"
    verdicts.append(
        f"recommend --explain: {met} ({ratio:.2f} × the CPU time without; goal: ≤ {_EXPLAIN:g})"
    )
    private = max(sum(_private(cells[str(size)]["load"])) for size in plan.catalogs)
    verdicts.append(
        f"pages: {'shared' if private == 0 else 'NOT SHARED'} ({private:.1f} MB private)"
    )
    claim = (__doc__ or "").split("\n\n")[0].removeprefix("Claim: ")
    return Report(plan.name, claim, machine(), cells, [table, mapped], verdicts)


def _private(load_cell: dict[str, Any]) -> list[float]:
    return [load_cell["mapped"][kind] for kind in ("Private_Clean", "Private_Dirty")]


def _megabytes(loading: Loading) -> list[str]:
    found, private = loading.mapped, sum(_private(loading._asdict()))
    return [f"{mb:.1f}" for mb in (found["Rss"], found["Shared_Clean"], private, found["Pss"])]


def _row(name: str, found: Any, goal: str, factor: float, plus: float) -> tuple[Any, ...]:
    peer = next((found[other] for other in found if other != "equipoise"), (0.0, 0.0))
    ours = found["equipoise"]
    shown = [f"{value:.2f}" if value else "" for value in (peer[0], ours[0], peer[1], ours[1])]
    return (name, *shown, _GOALS[goal], ours[1] <= factor * peer[1] + plus)


if __name__ == "__main__":
    harness.main(
        __doc__,
        run,
        Plan("bench_serve-quick", (57_289,), 20_000, 128, 60),
        Plan("bench_serve", (57_289, 1_000_000), 57_289, 128, 100),
    )

"""Claim: Local + global fits large sparse catalogs in seconds to minutes, and serves like a PCA.

On Gowalla (810,128 interactions, 40,981 items), rank 512 and 400 neighbors per item are fitted
within 15 s of two idle cores (30 s of CPU time) and 2 GB. 20 million synthetic interactions with
27,000 items are fitted at rank 256 within 3 minutes (6 minutes of CPU time) and 6 GB. Recommending
has at least half of the throughput of Item-Weighted PCA of the same rank.

CPU time is that of all threads: on idle cores the wall time is at least half of it. Peak memory is
that of the process, data included. Run ``python benchmarks/bench_local_global.py --quick`` for
Gowalla, ``--full`` for both. Needs EQUIPOISE_DATA with the folder ``sparse/gowalla``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from equipoise import Interactions, ItemWeightedPCA, LocalGlobal
from harness import Report, Table, machine, progress
from isolated import Isolated

K, SERVED, ROUNDS = 20, 2_000, 5


class Case(NamedTuple):
    """Data, a rank, and limits: CPU seconds and GB of the process."""

    title: str
    load: Callable[[], Interactions]
    rank: int
    neighbors: int
    cpu_seconds: float
    gigabytes: float


def gowalla() -> Interactions:
    """The training part of the standard split."""
    from compare_models import read_folder

    return read_folder(Path(os.environ["EQUIPOISE_DATA"]) / "sparse" / "gowalla").train_validation


def synthetic() -> Interactions:
    """20 million interactions."""
    from equipoise.data.synthetic import scale

    return scale(138_000, 27_000, 20_000_000).binarize()


QUICK = (Case("Gowalla", gowalla, 512, 400, 30.0, 2.0),)
FULL = (*QUICK, Case("20 million, synthetic", synthetic, 256, 400, 360.0, 6.0))


def measure(case: Case, plays: Interactions) -> dict[str, Any]:
    """Fit, then recommend to some users in turn with Item-Weighted PCA."""
    started, wall = time.process_time(), time.perf_counter()
    ours = LocalGlobal(case.rank, n_neighbors=case.neighbors).fit(plays)
    fit = {"cpu_s": time.process_time() - started, "wall_s": time.perf_counter() - wall}
    fit["process_gb"] = _peak_gigabytes()
    # the components do not matter for the time of a list
    pca = ItemWeightedPCA(case.rank, tol=0.01).fit(plays)
    models = {"local_global": ours, "item_weighted": pca}
    rows = plays.matrix[np.random.default_rng(0).permutation(plays.n_users)[:SERVED]]
    for model in models.values():
        model.recommend(rows, K)
    seconds: dict[str, list[float]] = {name: [] for name in models}
    for _ in range(ROUNDS):
        for name, model in models.items():
            begun = time.process_time()
            model.recommend(rows, K)
            seconds[name].append(time.process_time() - begun)
    serve = {name: SERVED / median(runs) for name, runs in seconds.items()}
    return {"case": case.title, **fit, "users_per_cpu_s": serve}


def _peak_gigabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return kilobytes / 1e6


def run(cases: tuple[Case, ...]) -> Report:
    """Measure every case in a process of its own."""
    facts, cells, rows, verdicts = machine(), [], [], []
    with progress(len(cases)) as step:
        for case in cases:
            with Isolated(case.load) as isolated:
                outcome = isolated.run(partial(measure, case))
            if outcome.failure:
                verdicts.append(f"NOT MEASURED: {case.title}: {outcome.failure}")
                continue
            cell = outcome.value
            cells.append(cell)
            serve = cell["users_per_cpu_s"]
            share = serve["local_global"] / serve["item_weighted"]
            rows.append(
                [
                    case.title, str(case.rank), f"{cell['cpu_s']:.1f}", f"{cell['wall_s']:.1f}",
                    f"{cell['process_gb']:.2f}", f"{serve['local_global']:,.0f}",
                    f"{serve['item_weighted']:,.0f}", f"{share:.2f}",
                ]
            )  # fmt: skip
            within = cell["cpu_s"] <= case.cpu_seconds and cell["process_gb"] <= case.gigabytes
            verdicts.append(
                f"{_held(within)}: {case.title}: fitted in {cell['cpu_s']:.0f} s of CPU time (at "
                f"most {case.cpu_seconds:.0f}) and {cell['process_gb']:.1f} GB (at most "
                f"{case.gigabytes:.0f})."
            )
            verdicts.append(
                f"{_held(share >= 0.5)}: {case.title}: {share:.2f} of the throughput of "
                "Item-Weighted PCA."
            )
            step(case.title)
    columns = (
        "data", "rank", "fit CPU s", "fit s", "process GB", "users per CPU s", "Item-Weighted PCA",
        "ratio",
    )  # fmt: skip
    claim = (__doc__ or "").split("\n\nCPU time")[0]
    tables = [Table(f"Local + global: fit, and lists of {K}", columns, rows)]
    return Report("bench_local_global", claim, facts, {"cases": cells}, tables, verdicts)


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


if __name__ == "__main__":
    harness.main("Local + global: fit and serving.", run, QUICK, FULL)

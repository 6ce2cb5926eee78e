"""Claim: Local + global fits large sparse catalogs in seconds to minutes, and serves like a PCA.

On Gowalla (810,128 interactions, 40,981 items), rank 512 and 400 neighbors per item are fitted
within 15 s of two idle cores (30 s of CPU time) and 2 GB. 20 million synthetic interactions with
27,000 items are fitted at rank 256 within 3 minutes (6 minutes of CPU time) and 6 GB. Recommending
has at least half of the throughput of Item-Weighted PCA of the same rank.

Lists are also timed for implicit's ALS of the same rank (for known users, whose factors it stores),
GF-CF and, where its matrix fits into memory, EASE. CPU time is that of all threads: on idle cores
the wall time is at least half of it. Peak memory is that of the process, data included. Run
``python benchmarks/bench_local_global.py --quick`` for Gowalla, ``--full`` for all. Needs
EQUIPOISE_DATA with the folders ``sparse/gowalla`` and ``sparse/citeulike``.
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
from equipoise.models import EASE, GFCF
from harness import Report, Table, machine, progress
from isolated import Isolated

K, SERVED, ROUNDS = 20, 2_000, 3


TITLES = {
    "local_global": "Local + global",
    "item_weighted": "Item-Weighted PCA",
    "implicit": "implicit ALS",
    "gfcf": "GF-CF",
    "ease": "EASE",
}
Lists = Callable[[], Any]


class Case(NamedTuple):
    """Data, a rank, other models to serve, and limits: CPU seconds and GB of the process.

    Without other models, the fit alone is measured.
    """

    title: str
    load: Callable[[], Interactions]
    rank: int
    peers: tuple[str, ...]
    cpu_seconds: float | None = None
    gigabytes: float | None = None


def folder(name: str) -> Interactions:
    """The training part of a sparse data set."""
    from compare_models import read_folder

    return read_folder(Path(os.environ["EQUIPOISE_DATA"]) / "sparse" / name).train_validation


def synthetic() -> Interactions:
    """20 million interactions."""
    from equipoise.data.synthetic import scale

    return scale(138_000, 27_000, 20_000_000).binarize()


NEIGHBORS = 400
QUICK = (Case("Gowalla", partial(folder, "gowalla"), 512, ("implicit", "gfcf"), 30.0, 2.0),)
FULL = (
    *QUICK,
    Case("CiteULike", partial(folder, "citeulike"), 256, ("implicit", "gfcf", "ease")),
    Case("20 million, synthetic", synthetic, 256, (), 360.0, 6.0),
)


def measure(case: Case, plays: Interactions) -> dict[str, Any]:
    """Fit, then recommend to some users."""
    started, wall = time.process_time(), time.perf_counter()
    ours = LocalGlobal(case.rank, n_neighbors=NEIGHBORS).fit(plays)
    fit = {"cpu_s": time.process_time() - started, "wall_s": time.perf_counter() - wall}
    fit["process_gb"] = _peak_gigabytes()
    serve = _serve(case, plays, ours) if case.peers else {}
    return {"case": case.title, **fit, "users_per_cpu_s": serve}


def _serve(case: Case, plays: Interactions, ours: LocalGlobal) -> dict[str, float]:
    """Users per CPU second of every model, whose rounds take turns."""
    drawn = np.random.default_rng(0).permutation(plays.n_users)[:SERVED]
    # the learned numbers do not matter for the time of a list
    fitted = {"local_global": ours, "item_weighted": ItemWeightedPCA(case.rank, tol=0.01)}
    fitted |= {"gfcf": GFCF(case.rank, tol=0.01)} if "gfcf" in case.peers else {}
    fitted |= {"ease": EASE()} if "ease" in case.peers else {}
    lists: dict[str, Lists] = {}
    for name, model in fitted.items():
        served = model if model is ours else model.fit(plays)
        lists[name] = partial(served.recommend, plays.matrix[drawn], K)
    if "implicit" in case.peers:
        lists["implicit"] = _implicit(plays, case.rank, drawn)
    seconds: dict[str, list[float]] = {name: [] for name in lists}
    for turn in range(ROUNDS + 1):  # the first loads and compiles code
        for name, recommend in lists.items():
            begun = time.process_time()
            recommend()
            seconds[name] += [time.process_time() - begun] if turn else []
    return {name: SERVED / median(runs) for name, runs in seconds.items()}


def _implicit(plays: Interactions, rank: int, drawn: Any) -> Lists:
    """Lists of implicit's own model, with one BLAS thread, as it asks for."""
    import scipy.sparse as sp
    from implicit.als import AlternatingLeastSquares
    from threadpoolctl import threadpool_limits

    X = plays.matrix
    parts = (X.data.astype(np.float32), X.indices.copy(), X.indptr.copy())
    user_items = sp.csr_matrix(parts, shape=X.shape)
    model = AlternatingLeastSquares(rank, iterations=1)
    with threadpool_limits(1, "blas"):
        model.fit(user_items, show_progress=False)
    return lambda: model.recommend(drawn, user_items[drawn], N=K)


def _peak_gigabytes() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    kilobytes = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    return kilobytes / 1e6


def run(cases: tuple[Case, ...]) -> Report:
    """Measure every case in a process of its own."""
    facts, cells, failed = machine(), [], []
    with progress(len(cases)) as step:
        for case in cases:
            with Isolated(case.load) as isolated:
                outcome = isolated.run(partial(measure, case))
            if outcome.failure:
                failed.append(f"NOT MEASURED: {case.title}: {outcome.failure}")
            else:
                cells.append(outcome.value | {"threads": facts["threads"]})
            step(case.title)
    return report(cells, facts, failed)


def report(cells: list[dict[str, Any]], facts: dict[str, Any], failed: list[str]) -> Report:
    """One row per case, with the verdicts."""
    cases = {case.title: case for case in FULL}
    columns = (
        "data", "rank", "threads", "fit CPU s", "fit s", "process GB", *TITLES.values(),
        "Local + global ÷ Item-Weighted PCA",
    )  # fmt: skip
    note = (
        f"Columns of models: users per CPU second, lists of {K} for {SERVED:,} users. Fit s is "
        "wall time, on whatever the other work on the machine left."
    )
    rows = [_row(cases[cell["case"]], cell) for cell in cells]
    said = [line for cell in cells for line in _verdicts(cases[cell["case"]], cell)]
    claim = (__doc__ or "").split("\n\nLists are")[0]
    tables = [Table(f"Local + global: fit, and lists of {K}", columns, rows, note)]
    return Report("bench_local_global", claim, facts, {"cases": cells}, tables, [*said, *failed])


def _share(cell: dict[str, Any]) -> float | None:
    serve = cell["users_per_cpu_s"]
    return serve["local_global"] / serve["item_weighted"] if serve else None


def _row(case: Case, cell: dict[str, Any]) -> list[str]:
    serve, share = cell["users_per_cpu_s"], _share(cell)
    return [
        case.title, str(case.rank), str(cell["threads"]), f"{cell['cpu_s']:.1f}",
        f"{cell['wall_s']:.1f}", f"{cell['process_gb']:.2f}",
        *(f"{serve[name]:,.0f}" if name in serve else "–" for name in TITLES),
        "–" if share is None else f"{share:.2f}",
    ]  # fmt: skip


def _verdicts(case: Case, cell: dict[str, Any]) -> list[str]:
    said, share = [], _share(cell)
    if case.cpu_seconds is not None and case.gigabytes is not None:
        within = cell["cpu_s"] <= case.cpu_seconds and cell["process_gb"] <= case.gigabytes
        said.append(
            f"{_held(within)}: {case.title}: fitted in {cell['cpu_s']:.0f} s of CPU time (at most "
            f"{case.cpu_seconds:.0f}) and {cell['process_gb']:.1f} GB (at most "
            f"{case.gigabytes:.0f})."
        )
    if share is not None:
        said.append(
            f"{_held(share >= 0.5)}: {case.title}: {share:.2f} of the throughput of Item-Weighted "
            "PCA."
        )
    return said


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


if __name__ == "__main__":
    harness.main("Local + global: fit and serving.", run, QUICK, FULL)

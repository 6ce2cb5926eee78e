"""Claim: time grows linearly with the interactions, up to a hundred million on a laptop.

With the items fixed, the time of `ItemWeightedPCA.fit` grows with the number of interactions to a
power of at most 1.1. A Netflix-shaped set (480,000 users, 18,000 items, 100 million interactions)
with 64 components is fitted in less than a minute and less than 4 GB, data included, on two
cores. Most of the time is spent in the parallel passes over the data.

Every fit is certified: residuals of 1e-6, measured in float64. Kernel time is that of the passes
alone; a pass of the weighted kernel counts as 8 operations per entry and vector. The peak for
comparison is measured here too: the same loop on data whose vectors stay in the first cache, and
the bandwidth of reading and writing vectors of the same size.
Run ``python benchmarks/bench_scaling.py --quick`` or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from harness import Report, Table, machine, progress
from isolated import Isolated
from plots import Plot

Cell = dict[str, Any]

ACCURACY = 1e-6
_EXPONENT, _SECONDS, _GIGABYTES = 1.1, 60.0, 4.0
_NETFLIX = 100_000_000
_N_ITEMS, _PER_USER = 18_000, 208  # 480,000 users at a hundred million
_FLOPS = 8  # two products, two sums of them: four multiply-adds an entry and vector


class Plan(NamedTuple):
    """What to measure."""

    name: str
    sizes: Sequence[int]  # interactions, all with the rank below
    rank: int
    ranks: Sequence[int]  # all on the size below
    size: int
    repeats: int


QUICK = Plan("bench_scaling-quick", (300_000, 1_000_000, 3_000_000), 64, (16, 64), 1_000_000, 3)
FULL = Plan(
    "bench_scaling",
    (1_000_000, 3_000_000, 10_000_000, 30_000_000, _NETFLIX),
    64,
    (8, 32, 128, 512),
    10_000_000,
    3,
)


def matrix(nnz: int) -> Any:
    """So many interactions with a fixed catalog."""
    from equipoise.data.synthetic import scale

    return scale(nnz // _PER_USER, _N_ITEMS, nnz, seed=0).matrix


@contextmanager
def kernel_clock() -> Iterator[dict[str, float]]:
    """Count the seconds and operations of the passes over the data."""
    from equipoise.spectral import kernels

    spent = {"seconds": 0.0, "operations": 0.0}
    product = kernels.gram_product

    def clocked(X: Any, V: Any, *rest: Any, **options: Any) -> Any:
        started = time.perf_counter()
        result = product(X, V, *rest, **options)
        spent["seconds"] += time.perf_counter() - started
        spent["operations"] += _FLOPS * X.nnz * V.shape[1]
        return result

    kernels.gram_product = clocked  # type: ignore[assignment]
    try:
        yield spent
    finally:
        kernels.gram_product = product


def fit(X: Any, rank: int) -> Cell:
    """One fit, and where its time went."""
    from equipoise import ItemWeightedPCA

    with kernel_clock() as kernel:
        started = time.perf_counter()
        model = ItemWeightedPCA(rank, gamma=-1.0, tol=ACCURACY, solver="matrix_free").fit(X)
        seconds = time.perf_counter() - started
    return {
        "nnz": int(X.nnz), "users": X.shape[0], "rank": rank, "seconds": seconds,
        "passes": model.certificate_.passes, "residual": model.certificate_.max_residual,
        "kernel_share": kernel["seconds"] / seconds,
        "gflops": kernel["operations"] / kernel["seconds"] / 1e9,
    }  # fmt: skip


def measure(X: Any, rank: int, repeats: int) -> Cell:
    """The middle of several fits; large ones are run once."""
    runs = [fit(X, rank)]
    while len(runs) < (repeats if runs[0]["seconds"] < 20 else 1):
        runs.append(fit(X, rank))
    seconds = [run["seconds"] for run in runs]
    middle = min(runs, key=lambda run: abs(run["seconds"] - median(seconds)))
    return middle | {"runs_s": seconds}


def seconds_of(run: Callable[[], Any], repeats: int = 9) -> float:
    """CPU time per thread, the shortest of several runs, after one that warms up."""
    run()
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        run()
        seconds.append(time.process_time() - started)
    return min(seconds) / harness.THREADS


def _stream(V: Any, out: Any, times: int) -> None:
    """Read V, read and write out, in order: the traffic of a pass with hardly any arithmetic."""
    for _ in range(times):
        for j in range(V.shape[0]):
            for k in range(V.shape[1]):
                out[j, k] += V[j, k]


def roofline(nnz: int = 3_000_000, width: int = 16) -> Cell:
    """Speed of a pass, and the limits of this machine for its arithmetic and its traffic.

    The peak is that of the same loop on data that stay in the first cache. The bandwidth is that of
    reading and writing vectors of the same size in order, in as many threads. A pass does 8
    operations per entry and vector, and moves 12 bytes for them: it reads V, and reads and writes
    the sums. It also reads each entry once, its item and its value.
    """
    import scipy.sparse as sp

    from equipoise.parallel import compile_loop, in_threads
    from equipoise.spectral.gram import SparseGram

    tiny = sp.random_array((40_000, 64), density=0.4, format="csr", dtype=np.float32, rng=0)
    V, product = np.ones((64, 32), np.float32), SparseGram(tiny).weighted_product(np.ones(64))
    peak = _FLOPS * tiny.nnz * 32 / seconds_of(lambda: product(V))
    X = matrix(nnz).astype(np.float32)
    gram, W = SparseGram(X), np.ones((X.shape[1], width), np.float32)
    pass_over = gram.weighted_product(np.ones(X.shape[1]))
    reached = _FLOPS * X.nnz * width / seconds_of(lambda: pass_over(W))
    stream, times = compile_loop(_stream), 40
    sums = [np.zeros_like(W) for _ in range(harness.THREADS)]
    moved = 12 * W.size * times * len(sums)
    bandwidth = moved / seconds_of(
        lambda: in_threads(lambda part: stream(W, sums[part], times), len(sums))
    )
    entry = gram.rows.indices.itemsize + X.data.itemsize
    attainable = min(peak, bandwidth * _FLOPS / (12 + entry / width))
    return {
        "width": width,
        "gflops": reached / 1e9,
        "peak_gflops": peak / 1e9,
        "bandwidth_gbs": bandwidth / 1e9,
        "attainable_gflops": attainable / 1e9,
        "share": reached / attainable,
    }


def warm_up(X: Any) -> None:
    """Load and compile what a fit needs, on a few users."""
    fit(X[:2_000], 8)


def measure_memory(nnz: int, rank: int) -> float:
    """Gigabytes that a fit holds at most, the matrix included, in a process of its own."""
    with Isolated(partial(matrix, nnz)) as isolated:
        came = isolated.run(partial(_fit_isolated, rank), warm_up=warm_up)
    return float(came.value + came.peak_mb * 2**20) / 1e9


def _fit_isolated(rank: int, X: Any) -> int:
    """Fit, and return the bytes of the matrix."""
    fit(X, rank)
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def exponent(cells: Sequence[Cell], against: str) -> float:
    """Slope of log seconds over log size, by least squares."""
    x = np.log([cell[against] for cell in cells])
    return float(np.polyfit(x, np.log([cell["seconds"] for cell in cells]), 1)[0])


def table_of(title: str, cells: Sequence[Cell]) -> Table:
    """The results as a table."""
    columns = (
        "interactions",
        "users",
        "r",
        "seconds",
        "passes",
        "in passes",
        "GFLOP/s",
        "residual",
    )
    rows = [
        [
            f"{cell['nnz']:,}", f"{cell['users']:,}", str(cell["rank"]), f"{cell['seconds']:.2f}",
            str(cell["passes"]), f"{cell['kernel_share']:.0%}", f"{cell['gflops']:.1f}",
            f"{cell['residual']:.0e}",
        ]
        for cell in cells
    ]  # fmt: skip
    return Table(title, columns, rows)


def verdicts(cells: dict[str, Any]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    by_size, by_rank, largest = cells["by_nnz"], cells["by_rank"], cells["by_nnz"][-1]
    roof = cells["roofline"]
    growth = exponent(by_size, "nnz")
    said = [
        f"{_holds(growth <= _EXPONENT)}: time grows with the interactions to the power of "
        f"{growth:.2f} (claimed: at most {_EXPONENT:g}), with the rank to the power of "
        f"{exponent(by_rank, 'rank'):.2f} (reported).",
        f"{_holds(all(c['residual'] <= ACCURACY for c in [*by_size, *by_rank]))}: every fit is "
        f"certified to {ACCURACY:g}.",
        f"Passes take {largest['kernel_share']:.0%} of the time of the largest fit, at "
        f"{largest['gflops']:.1f} GFLOP/s; the same loop reaches {roof['peak_gflops']:.1f} on data "
        "that stay in the first cache.",
        f"A pass alone reaches {roof['share']:.0%} of what bandwidth "
        f"({roof['bandwidth_gbs']:.0f} GB/s for vectors of this size) and that peak allow.",
    ]
    if largest["nnz"] >= 0.99 * _NETFLIX:
        within = largest["seconds"] <= _SECONDS and cells["peak_gb"] <= _GIGABYTES
        said.append(
            f"{_holds(within)}: {largest['users']:,} × {_N_ITEMS:,}, {largest['nnz']:,} "
            f"interactions, r = {largest['rank']}: {largest['seconds']:.0f} s and "
            f"{cells['peak_gb']:.1f} GB, data included (claimed: {_SECONDS:g} s, {_GIGABYTES:g})."
        )
    return said


def _holds(is_so: bool) -> str:
    return "HOLDS" if is_so else "DOES NOT HOLD"


def run(plan: Plan) -> Report:
    """Measure everything in the plan."""
    facts = machine()
    cells: dict[str, Any] = {"by_nnz": [], "by_rank": [], "roofline": roofline()}
    warm_up(matrix(400_000))
    with progress(len(plan.sizes) + len(plan.ranks) + 1) as step:
        for nnz in plan.sizes:
            X = matrix(nnz)
            cells["by_nnz"].append(measure(X, plan.rank, plan.repeats))
            step(f"{nnz:,} interactions")
        X = matrix(plan.size)
        for rank in plan.ranks:
            cells["by_rank"].append(measure(X, rank, plan.repeats))
            step(f"r = {rank}")
        del X
        cells["peak_gb"] = measure_memory(plan.sizes[-1], plan.rank)
        step("memory")
    tables = [
        table_of(f"Interactions, {_N_ITEMS:,} items", cells["by_nnz"]),
        table_of("Components", cells["by_rank"]),
    ]
    points = {"fit": [(cell["nnz"], cell["seconds"]) for cell in cells["by_nnz"]]}
    plot = Plot(f"Fit of {plan.rank} components", "interactions", "seconds", points)
    claim = (__doc__ or "").split("\n\nEvery fit")[0]
    return Report(plan.name, claim, facts, cells, tables, verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("Fit against size.", run, QUICK, FULL)

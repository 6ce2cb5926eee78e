"""Claim: an exact Item-Weighted PCA takes no longer than scikit-learn's truncated SVD.

With residuals of 1e-6, `ItemWeightedPCA.fit` takes no more time than scikit-learn's TruncatedSVD
(arpack) of the same rank, and half of it from 128 components on, although each of its steps has
two products in place of one. It takes a quarter of the time of 15 iterations of implicit's ALS with
as many factors. It reaches the optimum of the paper's semidefinite program to 1e-6, a thousand
times faster on the whole of Last.fm. The solver that `solver="auto"` chooses is never more than 1.3
times slower than the best of the three.

All methods run in one process, interleaved, on the same matrices; peak memory is measured in
processes of their own. Run ``python benchmarks/bench_fit.py --quick`` (some minutes), which leaves
out the largest set and high ranks of large catalogs, or ``--full`` (an hour or more).
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, NamedTuple

import datasets
import fit_report
from datasets import DataSet
from equipoise.spectral.solve import Solver
from fit_methods import (
    ACCURACY,
    OURS,
    Candidate,
    Inputs,
    candidates,
    fit_item_weighted,
    load_inputs,
    residual,
)
from harness import Report, Timing, interleave, machine, progress
from isolated import Isolated
from plots import Plot

Cell = dict[str, Any]
Step = Callable[[str], None]
SDPSolver = Literal["CLARABEL", "SCS"]

# Paths that need an m × m matrix are measured up to this many items: 800 MB in float64.
_DENSE_ITEMS = 10_000
# Runs of so many seconds are not repeated for their memory.
_MEMORY_UNDER = 30.0
_SDP_RANK = 16
_SDP_MEMORY_GB = 8.0
_SDP_SOLVERS: tuple[SDPSolver, ...] = ("CLARABEL", "SCS")
# An interior-point method holds a matrix with a row for each of m²/2 unknowns.
_CLARABEL_ITEMS = 100


class Plan(NamedTuple):
    """What to measure, and how long to wait for it."""

    name: str
    sets: Sequence[DataSet]
    ranks: Sequence[int]
    repeats: int
    paths: bool  # measure each path of our solver too
    sdp_items: Sequence[int | None]  # None: all there are
    sdp_limit: float
    largest: float = float("inf")  # items times rank; larger cells are left out


QUICK = Plan(
    "bench_fit-quick",
    (datasets.LAST_FM, datasets.MOVIE_LENS_FULL, datasets.GOWALLA_SHAPE),
    ranks=(32, 128, 512),
    repeats=3,
    paths=False,
    sdp_items=(50,),
    sdp_limit=20.0,
    largest=1e7,
)
FULL = Plan(
    "bench_fit",
    (datasets.LAST_FM, datasets.MOVIE_LENS_FULL, datasets.GOWALLA_SHAPE, datasets.ML20M_SHAPE),
    ranks=(32, 128, 512),
    repeats=5,
    paths=True,
    sdp_items=(50, 200, 400, 800, None),
    sdp_limit=1800.0,
)


def describe(data: DataSet, X: Any) -> str:
    """Name and size of a set, as the tables show it."""
    return f"{data.name} ({X.shape[0]:,} × {X.shape[1]:,}, {X.nnz:,})"


def measure_fits(plan: Plan, data: DataSet, inputs: Inputs, step: Step) -> list[Cell]:
    """Time, residual and memory of every method at every rank."""
    cells: list[Cell] = []
    with Isolated(partial(load_inputs, data)) as isolated:
        for rank in plan.ranks:
            if inputs.X.shape[1] * rank > plan.largest:
                step(f"{data.name}, r = {rank}: left out")
                continue
            field = candidates(inputs, rank)
            runs = {one.method: partial(one.task, inputs) for one in field}
            timings = interleave(runs, plan.repeats)
            for one in field:
                timing = timings[one.method]
                peak = _peak_mb(isolated, one) if timing.median < _MEMORY_UNDER else None
                facts = {"set": describe(data, inputs.X), "rank": rank, "peak_mb": peak}
                cells.append(facts | _cell(one, timing, timings[OURS].median, inputs))
            step(f"{data.name}, r = {rank}: {len(field)} methods")
    return cells


def _peak_mb(isolated: Isolated, one: Candidate) -> float:
    return isolated.run(partial(discard, one.task), warm_up=one.warm_up).peak_mb


def discard(task: Any, inputs: Inputs) -> None:
    """Run a task for its memory alone: a model need not be sent between processes."""
    task(inputs)


def _cell(one: Candidate, timing: Timing, ours: float, inputs: Inputs) -> Cell:
    found = residual(inputs.X, timing.value)
    return {
        "method": one.method,
        "settings": one.settings,
        "ratio": ours / timing.median,
        "residual": found,
        "accurate": found is None or found <= ACCURACY,
        "solver": getattr(timing.value, "solver_", ""),
        **timing.as_json(),
    }


def measure_solvers(plan: Plan, data: DataSet, inputs: Inputs, step: Step) -> list[Cell]:
    """Seconds of each path of ItemWeightedPCA, and the one it takes by itself."""
    paths: tuple[Solver, ...] = ("matrix_free", "gram", "dense")
    cells: list[Cell] = []
    for rank in plan.ranks if inputs.X.shape[1] <= _DENSE_ITEMS else ():
        runs: dict[str, Callable[[], Any]] = {
            path: partial(fit_item_weighted, inputs, rank, path) for path in paths
        }
        timings = interleave(runs, 3, slow_repeats=1)
        cells.append(
            {
                "set": describe(data, inputs.X),
                "rank": rank,
                "auto": fit_item_weighted(inputs, rank).solver_,
                "seconds": {path: timing.median for path, timing in timings.items()},
            }
        )
        step(f"{data.name}, r = {rank}: {len(paths)} paths")
    return cells


def sample(data: DataSet, n_items: int | None) -> Any:
    """Some items of a set, few enough for the semidefinite program, or all of them."""
    plays = data.load()
    few = plays if n_items is None else plays.sample_items(n_items, seed=2020)
    return few.matrix.astype("float64")


def solve_sdp(solver: SDPSolver, X: Any) -> dict[str, float]:
    """The paper's program, as published; what it takes and what it reaches."""
    import equipoise

    # SCS gets the same accuracy as all methods; Clarabel stops at double precision
    tol = ACCURACY if solver == "SCS" else None
    found = equipoise.solve_sdp(X, _SDP_RANK, gamma=-1.0, solver=solver, tol=tol)
    return {"sdp_s": found.seconds, "objective": found.objective}


def warm_up_sdp(solver: SDPSolver, X: Any) -> None:
    """Load the solver: the same program on as many items as components."""
    solve_sdp(solver, X[:, :_SDP_RANK])


def sdp_solvers(n_items: int | None) -> tuple[SDPSolver, ...]:
    """Who can solve a program of this size here."""
    small = n_items is not None and n_items <= _CLARABEL_ITEMS
    return _SDP_SOLVERS if small else ("SCS",)


def measure_sdp(plan: Plan, data: DataSet, step: Step) -> list[Cell]:
    """The semidefinite program and our fit, on samples of the items; one run of each."""
    cells: list[Cell] = []
    for n_items in plan.sdp_items:
        X = sample(data, n_items)
        fit = partial(fit_item_weighted, Inputs(X, X, X), _SDP_RANK)
        ours = interleave({OURS: fit}, plan.repeats)[OURS]
        best = ours.value.certificate_.objective
        with Isolated(partial(sample, data, n_items)) as isolated:
            for solver in sdp_solvers(n_items):
                solve = partial(solve_sdp, solver)
                warm_up = partial(warm_up_sdp, solver)
                came = isolated.run(
                    solve, warm_up=warm_up, limit=plan.sdp_limit, memory_gb=_SDP_MEMORY_GB
                )
                sdp = came.value or {"sdp_s": None, "objective": None}
                cells.append(
                    {
                        "set": data.name, "items": X.shape[1], "whole": n_items is None,
                        "rank": _SDP_RANK, "solver": solver,
                        "ours_s": ours.median, "our_objective": best, "failure": came.failure,
                        "peak_mb": came.peak_mb, **sdp,
                        "difference": came.value and sdp["objective"] / best - 1,
                    }
                )  # fmt: skip
                step(f"{data.name}, {X.shape[1]} items: {solver} {came.failure}")
    return cells


def run(plan: Plan) -> Report:
    """Measure everything in the plan that is available here."""
    facts = machine()
    sets = datasets.available(plan.sets)
    steps = (1 + plan.paths) * len(sets) * len(plan.ranks)
    steps += sum(len(sdp_solvers(n_items)) for n_items in plan.sdp_items)
    cells: dict[str, list[Cell]] = {"fits": [], "solvers": [], "sdp": []}
    with progress(steps) as step:
        for data in sets:
            inputs = load_inputs(data)
            cells["fits"] += measure_fits(plan, data, inputs, step)
            if plan.paths:
                cells["solvers"] += measure_solvers(plan, data, inputs, step)
        cells["sdp"] = measure_sdp(plan, sets[0], step)
    claim = (__doc__ or "").split("\n\nAll methods")[0]
    tables, verdicts = fit_report.tables(cells), fit_report.verdicts(cells)
    named = [
        cell | {"cell": f"{cell['set'].split(' (')[0]}, r={cell['rank']}"} for cell in cells["fits"]
    ]
    plot = Plot.of("Fit", named, by="method", x="cell", y="median_s", unit="seconds")
    return Report(plan.name, claim, facts, cells, tables, verdicts, [plot])


if __name__ == "__main__":
    harness.main("Fit, compared with other libraries.", run, QUICK, FULL)

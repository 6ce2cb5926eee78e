"""Claim: tuning takes at most 20 times as long as one fit.

`tune` with its default search, on five data sets: the search on validation, the refit of the choice
and its scores on test, compared with one fit at the largest rank that the search tried.

Times are CPU times of this process, medians of several runs in turn, which other work on the
machine changes little. Run ``python benchmarks/bench_tune.py --quick`` (without the two large
sets) or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple

import datasets
from datasets import PAPER_SEED, DataSet
from harness import Report, Table, machine, progress
from plots import Plot

Cell = dict[str, Any]

_GOAL = 20.0


# A search that takes longer than this is not repeated.
_ONCE = 30.0


class Plan(NamedTuple):
    """What to measure."""

    name: str
    sets: Sequence[DataSet]
    repeats: int


QUICK = Plan(
    "bench_tune-quick", (datasets.LAST_FM, datasets.MOVIE_LENS_FULL, datasets.CITEULIKE), 1
)
FULL = Plan("bench_tune", (*QUICK.sets, datasets.AMAZON_BEAUTY, datasets.ML20M_SHAPE), repeats=3)


def cpu_seconds(run: Callable[[], Any]) -> tuple[float, Any]:
    """CPU time of all threads, and what was returned."""
    before = time.process_time()
    value = run()
    return time.process_time() - before, value


def measure(data: DataSet, repeats: int) -> Cell:
    """Tune and fit in turn."""
    from equipoise import ItemWeightedPCA
    from equipoise.data import holdout
    from equipoise.evaluation import tune

    split = holdout(data.load(), seed=PAPER_SEED)
    ItemWeightedPCA(8, solver="matrix_free").fit(split.train)  # loads and compiles
    tunings, fits = [], []
    while len(tunings) < (repeats if not tunings or tunings[0] < _ONCE else 1):
        seconds, tuning = cpu_seconds(lambda: tune(split))
        tunings.append(seconds)
        rank = max(trial.settings["n_components"] for trial in tuning.trials)
        model = tuning.model().set_params(n_components=rank)
        fits += [cpu_seconds(lambda: model.fit(split.train))[0] for _ in range(3)]  # noqa: B023
    return {
        "set": data.name,
        "settings": len(tuning.trials),
        "choice": tuning.constructor(),
        "validation": tuning.choice.scores[tuning.goal.target.label],
        "rank": rank,
        "tune_s": median(tunings),
        "fit_s": median(fits),
        "ratio": median(tunings) / median(fits),
        "runs_s": {"tune": tunings, "fit": fits},
    }


def run(plan: Plan) -> Report:
    """Measure every set of the plan."""
    facts, sets = machine(), datasets.available(plan.sets)
    cells = []
    with progress(len(sets)) as step:
        for data in sets:
            cells.append(measure(data, plan.repeats))
            step(data.name)
    columns = ("set", "settings", "tune, CPU s", "largest rank", "fit, CPU s", "tune ÷ fit")
    rows = [
        [
            cell["set"], str(cell["settings"]), f"{cell['tune_s']:.1f}", str(cell["rank"]),
            f"{cell['fit_s']:.2f}", f"{cell['ratio']:.1f}",
        ]
        for cell in cells
    ]  # fmt: skip
    verdicts = [
        f"{'holds' if cell['ratio'] <= _GOAL else 'DOES NOT HOLD'}: {cell['set']}: tuning takes "
        f"{cell['ratio']:.1f} fits (goal: {_GOAL:g}); choice {cell['choice']}, "
        f"ndcg@20 {cell['validation']:.4f} on validation."
        for cell in cells
    ]
    claim = (__doc__ or "").split("\n\nTimes are")[0]
    named = [cell | {"way": "tune ÷ fit"} for cell in cells]
    plot = Plot.of("Tune", named, by="way", x="set", y="ratio", unit="fits")
    tables = [Table("Tune with the default search", columns, rows)]
    return Report(plan.name, claim, facts, {"sets": cells}, tables, verdicts, [plot])


if __name__ == "__main__":
    harness.main("Tuning, compared with one fit.", run, QUICK, FULL)

"""Claim: importing equipoise loads only what is used.

`import equipoise`, with `Interactions`, takes less than half a second and loads no compiled parts;
`equipoise --help` loads as little. The models are scikit-learn estimators: importing them takes as
long as `import sklearn.base`, which is shown for comparison. The first `fit` of a large matrix with
an empty cache compiles its loops. The second `fit`, and the first one of the next process, do not.

Every number is the median of fresh processes, with numba's cache in a folder of its own: empty for
the cold start, filled for the warm one. Run ``python benchmarks/bench_start.py --quick`` or
``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from harness import Report, Table, machine, progress
from plots import Plot

Cell = dict[str, Any]

# What a program that only imports us should not have to load.
HEAVY = ("numba", "polars", "plotly", "sklearn", "implicit", "torch", "pandas", "typer")
_GOAL = 0.5

IMPORTS = ("import equipoise", "from equipoise import Interactions")
_ESTIMATORS = ("import sklearn.base", "from equipoise import ItemWeightedPCA")

_IMPORT = f"""
import json, sys, time
before = time.perf_counter()
%s
seconds = time.perf_counter() - before
print(json.dumps({{"seconds": seconds, "heavy": [n for n in {HEAVY} if n in sys.modules]}}))
"""

_FIT = """
import json, sys, time
from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import scale
X = scale(20_000, 5_000, 1_000_000).matrix
seconds = []
for _ in range(2):
    before = time.perf_counter()
    model = ItemWeightedPCA(32, solver="matrix_free").fit(X)
    seconds.append(time.perf_counter() - before)
print(json.dumps({"first": seconds[0], "second": seconds[1], "numba": "numba" in sys.modules}))
"""


class Plan(NamedTuple):
    """What to measure."""

    name: str
    repeats: int


QUICK = Plan("bench_start-quick", repeats=3)
FULL = Plan("bench_start", repeats=9)


def in_process(code: str, cache: Path) -> dict[str, Any]:
    """Run a program on its own; what it prints last is its result."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache)}
    ran = subprocess.run(
        [sys.executable, "-c", code], env=environment, check=True, capture_output=True, text=True
    )
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def seconds_of(command: list[str]) -> float:
    """Wall time of a whole process."""
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


def measure(plan: Plan) -> list[Cell]:
    """Import, help, and the two fits with an empty and with a filled cache."""
    help_command = [sys.executable, "-m", "equipoise", "--help"]
    with progress(4) as step, TemporaryDirectory() as name:
        imports = {
            statement: [in_process(_IMPORT % statement, Path(name)) for _ in range(plan.repeats)]
            for statement in (*IMPORTS, *_ESTIMATORS)
        }
        step("import")
        bare = [seconds_of([sys.executable, "-c", ""]) for _ in range(plan.repeats)]
        helps = [seconds_of(help_command) for _ in range(plan.repeats)]
        step("--help")
        folders = [Path(name) / str(turn) for turn in range(plan.repeats)]
        cold = [in_process(_FIT, folder) for folder in folders]
        step("fit on a cold cache")
        warm = [in_process(_FIT, folder) for folder in folders]
        step("fit on a warm cache")
    return [
        _cell("python -c ''", bare),
        *(
            _cell(statement, [one["seconds"] for one in runs], runs[0]["heavy"])
            for statement, runs in imports.items()
        ),
        _cell("equipoise --help, whole process", helps),
        _cell("first fit, cold cache", [one["first"] for one in cold]),
        _cell("second fit, cold cache", [one["second"] for one in cold]),
        _cell("first fit, warm cache", [one["first"] for one in warm]),
        _cell("second fit, warm cache", [one["second"] for one in warm]),
    ]


def _cell(what: str, seconds: list[float], heavy: list[str] | None = None) -> Cell:
    return {"what": what, "median_s": median(seconds), "runs_s": seconds, "heavy": heavy or []}


def table_of(cells: list[Cell]) -> Table:
    """The results as a table."""
    rows = [[cell["what"], f"{cell['median_s']:.3f}", ", ".join(cell["heavy"])] for cell in cells]
    note = "The fits are of 20,000 × 5,000 with a million entries, r = 32, matrix-free."
    return Table("From nothing to a result", ("what", "median s", "heavy modules"), rows, note)


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    at = {cell["what"]: cell for cell in cells}
    cold, second = (at[f"{turn} fit, cold cache"]["median_s"] for turn in ("first", "second"))
    warm = at["first fit, warm cache"]["median_s"]
    said = []
    for statement in IMPORTS:
        seconds, heavy = at[statement]["median_s"], at[statement]["heavy"]
        held = seconds < _GOAL and "numba" not in heavy
        loaded = f"it loads {', '.join(heavy)}" if heavy else "it loads nothing heavy"
        said.append(
            f"{_held(held)}: `{statement}` takes {seconds:.2f} s (goal: {_GOAL}) and no compiled "
            f"parts; {loaded}."
        )
    base, estimator = (at[statement]["median_s"] for statement in _ESTIMATORS)
    return [
        *said,
        f"reported: `{_ESTIMATORS[1]}` takes {estimator:.2f} s, "
        f"`{_ESTIMATORS[0]}` alone {base:.2f}.",
        f"reported: the first fit takes {cold - second:.1f} s longer on a cold cache, and "
        f"{warm - second:.1f} s longer on a warm one, than the second.",
    ]


def _held(claim: bool) -> str:
    return "holds" if claim else "DOES NOT HOLD"


def run(plan: Plan) -> Report:
    """Measure everything in the plan."""
    facts = machine()
    cells = measure(plan)
    claim = (__doc__ or "").split("\n\nEvery number")[0]
    named = [cell | {"way": "equipoise"} for cell in cells]
    plot = Plot.of("To the first result", named, by="way", x="what", y="median_s", unit="seconds")
    tables, found = [table_of(cells)], {"starts": cells}
    return Report(plan.name, claim, facts, found, tables, verdicts(cells), [plot])


if __name__ == "__main__":
    harness.main("Time to the first result.", run, QUICK, FULL)

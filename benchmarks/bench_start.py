"""Claim: importing equipoise loads only what is used.

`import equipoise` takes at most 0.05 s more than a bare interpreter, `equipoise --help` 0.2 s, and
a first fit with an empty cache of compiled loops 1.0 s. The models have scikit-learn's API, but a
fit does not import it: `import sklearn.base` is shown for comparison, as is `import numba`, which a
fit of large data needs only for a dense XᵀX. The second process with the same fit finds loops of
numba, if there are any, in the cache.

Every number is CPU time of a whole fresh process, the fastest of several, with bytecode and numba's
cache in folders of their own: as after an installation, and numba's cache empty for the cold start.
Run ``python benchmarks/bench_start.py --quick`` or ``--full``.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from harness import Report, Table, machine, progress
from plots import Plot

Cell = dict[str, Any]

_FIT = """
import numpy as np
from scipy.sparse import csr_array
rng = np.random.default_rng(0)
users, items = (rng.integers(size, size=%d) for size in (%d, %d))
X = csr_array((np.ones(len(users)), (users, items)))
%s
"""
_MODEL = "from equipoise import ItemWeightedPCA; ItemWeightedPCA(32).fit(X)"
_SMALL, _LARGE = (50_000, 1000, 500), (1_000_000, 20_000, 5_000)

# What is run, the run that it is compared with, and the most that it may take beyond that
STARTS: dict[str, tuple[list[str], str, float | None]] = {
    "python -c ''": (["-c", ""], "", None),
    "import equipoise": (["-c", "import equipoise"], "python -c ''", 0.05),
    "equipoise --help": (["-m", "equipoise", "--help"], "python -c ''", 0.2),
    "equipoise audit --help": (["-m", "equipoise", "audit", "--help"], "python -c ''", None),
    "import sklearn.base": (["-c", "import sklearn.base"], "python -c ''", None),
    "import numba": (["-c", "import numba"], "python -c ''", None),
    "only the small data": (["-c", _FIT % (*_SMALL, "")], "python -c ''", None),
    "first small fit": (["-c", _FIT % (*_SMALL, _MODEL)], "only the small data", 1.0),
    "only the large data": (["-c", _FIT % (*_LARGE, "")], "python -c ''", None),
    "first large fit": (["-c", _FIT % (*_LARGE, _MODEL)], "only the large data", 1.0),
    "large fit, filled cache": (["-c", _FIT % (*_LARGE, _MODEL)], "only the large data", None),
}


class Plan(NamedTuple):
    """What to measure."""

    name: str
    repeats: int


QUICK = Plan("bench_start-quick", repeats=1)
FULL = Plan("bench_start", repeats=3)


def cpu_seconds(arguments: list[str], environment: dict[str, str]) -> float:
    """CPU time of one process."""
    before = os.times()
    command = [sys.executable, *arguments]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    after = os.times()
    used = after.children_user + after.children_system
    return used - before.children_user - before.children_system


def measure(plan: Plan) -> list[Cell]:
    """Run everything in turn; the first round only writes bytecode."""
    seconds: dict[str, list[float]] = {name: [] for name in STARTS}
    with progress(plan.repeats + 1) as step, TemporaryDirectory() as folder:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": str(Path(folder) / "bytecode")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for turn in range(plan.repeats + 1):
            for name, (arguments, _, _) in STARTS.items():
                if name != "large fit, filled cache":
                    cache = Path(folder) / f"{turn}-{len(name)}-{name[:5]}"
                environment["NUMBA_CACHE_DIR"] = str(cache)
                seconds[name].append(cpu_seconds(arguments, environment))
            step(f"round {turn}")
    fastest = {name: min(taken[1:]) for name, taken in seconds.items()}
    return [
        {
            "what": name,
            "cpu_s": fastest[name],
            "compared_with": base,
            "beyond_s": fastest[name] - fastest.get(base, 0.0),
            "goal_s": goal,
            "runs_s": seconds[name][1:],
        }
        for name, (_, base, goal) in STARTS.items()
    ]


def table_of(cells: list[Cell]) -> Table:
    """The results as a table."""
    rows = [
        [
            cell["what"],
            f"{cell['cpu_s']:.2f}",
            cell["compared_with"],
            f"{cell['beyond_s']:.2f}",
            "" if cell["goal_s"] is None else f"≤ {cell['goal_s']:.2f}",
        ]
        for cell in cells
    ]
    note = (
        "Fits of rank 32: 50,000 interactions with 500 items, and a million with 5,000. The clock "
        "of CPU time has steps of 0.01 s."
    )
    columns = ("what", "CPU s", "compared with", "beyond it, s", "goal, s")
    return Table("From nothing to a result", columns, rows, note)


def verdicts(cells: list[Cell]) -> list[str]:
    """Each part of the claim, with the number that decides it."""
    said = [
        f"{'met' if cell['beyond_s'] <= cell['goal_s'] else 'MISSED'}: {cell['what']} takes "
        f"{cell['beyond_s']:.2f} s more than {cell['compared_with']} (goal: {cell['goal_s']})."
        for cell in cells
        if cell["goal_s"] is not None
    ]
    at = {cell["what"]: cell["beyond_s"] for cell in cells}
    said.append(
        f"a fit imports neither scikit-learn nor numba, which would add "
        f"{at['import sklearn.base']:.2f} and {at['import numba']:.2f} s."
    )
    return said


def run(plan: Plan) -> Report:
    """Measure everything in the plan."""
    facts = machine()
    cells = measure(plan)
    claim = (__doc__ or "").split("\nRun ``python")[0]
    named = [cell | {"way": "equipoise"} for cell in cells]
    plot = Plot.of("To the first result", named, by="way", x="what", y="cpu_s", unit="CPU seconds")
    return Report(
        plan.name, claim, facts, {"starts": cells}, [table_of(cells)], verdicts(cells), [plot]
    )


if __name__ == "__main__":
    harness.main("Time to the first result.", run, QUICK, FULL)

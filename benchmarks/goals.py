"""Claim: users wait little, for any of the commands.

One row per goal: what was measured, the goal, the verdict, and the run that the number comes from.
This file measures nothing. It reads the results of the other benchmarks and takes, for each goal,
the newest run that covers it. Run ``make bench``, or ``python benchmarks/goals.py`` after any of
the benchmarks; ``--out`` also writes the table to the results and to the documentation.
"""

from __future__ import annotations

# isort: off
import harness  # before NumPy: it pins the threads

# isort: on
import json
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, NamedTuple

from harness import RESULTS, Report, Table, machine

Cells = Mapping[str, Any]

OURS = "ItemWeightedPCA"

_MILLION = 990_000  # MovieLens, which counts as a million, has 999,611 interactions
_AUDIT = {  # seconds, gigabytes beyond the data
    "Last.fm": (3, 0.5),
    "MovieLens": (12, 0.8),
    "CiteULike": (15, 1.0),
    "Amazon Beauty": (40, 2.0),
    "ml-20m's shape": (90, 3.0),
}
_TUNE, _READ, _KERNEL, _FASTER, _EXPLAIN = 20.0, 1.3, 0.6, 3.0, 2.0
_STARTS = {  # CPU seconds more than a bare interpreter, which makes the data of a fit
    "import equipoise": 0.05,
    "equipoise --help": 0.2,
    "first small fit": 1.0,
    "first large fit": 1.0,
}


class Figure(NamedTuple):
    """A measured number as text, and whether it meets its goal."""

    text: str
    met: bool


class Goal(NamedTuple):
    """What is measured, what is wanted, and how to read it from a benchmark's cells.

    `read` returns None where a run does not cover the goal.
    """

    work: str
    wanted: str
    benchmark: str
    read: Callable[[Cells], Figure | None]


def goals() -> Iterator[Goal]:
    """Yield every goal, in the order of the table."""
    for name, (seconds, gigabytes) in _AUDIT.items():
        wanted = f"≤ {seconds} s, ≤ {gigabytes:g} GB"
        yield Goal(f"audit, {name}", wanted, "bench_audit", _audit(name, seconds, gigabytes))
    for name in _AUDIT:
        wanted = f"≤ {_TUNE:g} fits at its largest rank"
        yield Goal(f"tune, {name}", wanted, "bench_tune", _tune(name))
    for kind in ("item AUC", "lists"):
        wanted = f"≥ {_FASTER:g} × the first version"
        yield Goal(f"{kind} at many ranks", wanted, "bench_evaluate", _at_ranks(kind))
    everywhere, high, large = (lambda _: True), (lambda c: c["rank"] >= 128), _is_large
    tuned, svd, als = "arpack, tuned", "arpack", "implicit ALS"
    for work, ours, peer, most, where, text in (
        ("fit ÷ tuned ARPACK, same problem", OURS, f"{svd}, same problem", 1.0, everywhere, ""),
        ("PCA ÷ tuned TruncatedSVD, same problem", "VanillaPCA", tuned, 1.0, everywhere, ""),
        ("fit ÷ tuned TruncatedSVD, half the products", OURS, tuned, 1.0, everywhere, ""),
        ("fit ÷ TruncatedSVD as called", OURS, svd, 0.5, high, " from r = 128"),
        ("fit ÷ implicit ALS", OURS, als, 0.5, everywhere, ""),
        ("fit ÷ implicit ALS", OURS, als, 0.25, large, " from 1 M interactions"),
    ):
        read = _fits(ours, peer, most, where)
        yield Goal(work, f"≤ {most:g} in every cell{text}", "bench_fit", read)
    yield Goal("peak memory of a fit ÷ ARPACK's", "≤ 1 in every cell", "bench_fit", _fit_memory)
    wanted = f"≥ {_KERNEL:.0%} of the roofline"
    yield Goal("pass over the data", wanted, "bench_scaling", _kernel)
    yield Goal("fit 100 M interactions, r = 64", "≤ 25 s, ≤ 2.5 GB", "bench_scaling", _hundred)
    for file in ("parquet", "csv"):
        wanted = f"≤ {_READ:g} × polars with the matrix"
        yield Goal(f"read 20 M rows, {file}", wanted, "bench_read", _read(file))
    for what, most in _STARTS.items():
        yield Goal(what, f"≤ {most:g} s beyond Python", "bench_start", _start(what, most))
    yield Goal("recommend with explanations", "≤ 2 × without", "bench_serve", _explain)


def _audit(name: str, seconds: float, gigabytes: float) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        for cell in cells["sets"]:
            if cell["set"] == name and "cpu_s" in cell:
                met = cell["seconds"] <= seconds and cell["peak_mb"] <= 1000 * gigabytes
                text = f"{cell['seconds']:.1f} s ({cell['cpu_s']:.0f} s of CPU)"
                if "first_s" in cell:
                    text += f", {cell['first_s']:.1f} s the first time"
                return Figure(f"{text}, {cell['peak_mb'] / 1000:.2f} GB", met)
        return None

    return read


def _tune(name: str) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        for cell in cells["sets"]:
            if cell["set"] == name:
                text = (
                    f"{cell['ratio']:.1f} fits at r = {cell['rank']} ({cell['fit_s']:.1f} s each)"
                )
                return Figure(text, cell["ratio"] <= _TUNE)
        return None

    return read


def _at_ranks(kind: str) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        found = [cell["times_faster"] for cell in cells.get("ranks", []) if cell["kind"] == kind]
        return _worst(found, _FASTER, at_least=True) if found else None

    return read


def _fits(
    ours: str, peer: str, most: float, where: Callable[[Any], bool]
) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        mine = {(c["set"], c["rank"]): c["median_s"] for c in cells["fits"] if c["method"] == ours}
        chosen = [c for c in cells["fits"] if c["method"] == peer and c["accurate"] and where(c)]
        names = [f"{c['set'].split(' (')[0]}, r = {c['rank']}" for c in chosen]
        ratios = [mine[c["set"], c["rank"]] / c["median_s"] for c in chosen]
        return _worst(ratios, most, names) if chosen else None

    return read


def _is_large(cell: Any) -> bool:
    return int(cell["set"].rsplit(", ", 1)[1].rstrip(")").replace(",", "")) >= _MILLION


def _fit_memory(cells: Cells) -> Figure | None:
    by_cell: dict[str, dict[str, float]] = {}
    for c in cells["fits"]:
        if c["peak_mb"]:
            name = f"{c['set'].split(' (')[0]}, r = {c['rank']}"
            by_cell.setdefault(name, {})[c["method"]] = c["peak_mb"]
    ratios = {
        name: peaks[OURS] / peaks["arpack"]
        for name, peaks in by_cell.items()
        if {OURS, "arpack"} <= peaks.keys()
    }
    return _worst(list(ratios.values()), 1.0, list(ratios)) if ratios else None


def _worst(
    ratios: Sequence[float], limit: float, names: Sequence[str] = (), *, at_least: bool = False
) -> Figure:
    """Return the worst of several ratios, with their median and how many meet the limit."""
    meets = operator.ge if at_least else operator.le
    worst = (min if at_least else max)(ratios)
    met = sum(meets(ratio, limit) for ratio in ratios)
    where = f" ({names[ratios.index(worst)]})" if names else ""
    text = f"worst {worst:.2f}{where}, median {median(ratios):.2f}; {met} of {len(ratios)} cells"
    return Figure(text, met == len(ratios))


def _kernel(cells: Cells) -> Figure | None:
    roof = cells.get("roofline")
    if roof is None:
        return None
    text = (
        f"{roof['share']:.0%}: {roof['gflops']:.1f} of {roof['attainable_gflops']:.1f} GFLOP/s "
        f"(peak {roof['peak_gflops']:.0f}, {roof['bandwidth_gbs']:.0f} GB/s)"
    )
    return Figure(text, roof["share"] >= _KERNEL)


def _hundred(cells: Cells) -> Figure | None:
    largest = cells["by_nnz"][-1]
    if largest["nnz"] < 100 * _MILLION:
        return None
    seconds, gigabytes = largest["seconds"], cells["peak_gb"]
    return Figure(f"{seconds:.0f} s, {gigabytes:.1f} GB", seconds <= 25 and gigabytes <= 2.5)


def _read(file: str) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        found = [
            (cell["ratio"], f"ids are {cell['ids']}")
            for cell in cells["reads"]
            if cell["file"] == file
            and cell["way"].endswith("the matrix")
            and cell["rows"] >= 20 * _MILLION
        ]
        ratios, names = zip(*found, strict=True) if found else ((), ())
        return _worst(ratios, _READ, names) if found else None

    return read


def _start(what: str, most: float) -> Callable[[Cells], Figure | None]:
    def read(cells: Cells) -> Figure | None:
        beyond = {cell["what"]: cell.get("beyond_s") for cell in cells["starts"]}.get(what)
        return None if beyond is None else Figure(f"{beyond:.2f} s of CPU", beyond <= most)

    return read


def _explain(cells: Cells) -> Figure | None:
    found = cells.get("explain")
    if found is None:
        return None
    return Figure(f"{found['ratio']:.2f} × without", found["ratio"] <= _EXPLAIN)


def runs(benchmark: str) -> list[dict[str, Any]]:
    """Return the stored runs of a benchmark, the newest first, and the full before the quick."""
    files = [RESULTS / f"{benchmark}{kind}.json" for kind in ("", "-quick")]
    found = [json.loads(file.read_text()) for file in files if file.exists()]
    return sorted(found, key=lambda run: run["machine"]["date"], reverse=True)


def row_of(goal: Goal) -> dict[str, str]:
    """Return one row: the newest run that covers the goal decides."""
    for run in runs(goal.benchmark):
        figure = goal.read(run["cells"])
        if figure is not None:
            facts = run["machine"]
            load = f"load {facts['load_1min_at_start']:g} on {facts['cores']} cores"
            source = f"{run['name']}, {facts['date']}, {load}"
            verdict = "met" if figure.met else "MISSED"
            return _row(goal, figure.text, verdict, source)
    return _row(goal, "", "not measured", goal.benchmark)


def _row(goal: Goal, measured: str, verdict: str, source: str) -> dict[str, str]:
    return {
        "work": goal.work,
        "measured": measured,
        "goal": goal.wanted,
        "verdict": verdict,
        "source": source,
    }


def report() -> Report:
    """Compare every goal with what was measured."""
    rows = [row_of(goal) for goal in goals()]
    counts = {
        verdict: sum(row["verdict"] == verdict for row in rows)
        for verdict in dict.fromkeys(row["verdict"] for row in rows)
    }
    table = Table("Goals", tuple(rows[0]), [tuple(row.values()) for row in rows])
    summary = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    claim = (__doc__ or "").split("\n\n")[0]
    return Report("goals", claim, machine(), {"rows": rows}, [table], [f"{summary}."])


if __name__ == "__main__":
    harness.conduct(report(), harness.arguments("Goals and what was measured.").parse_args())

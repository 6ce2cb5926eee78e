"""Tables and verdicts of the benchmark of fitting, computed from its cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

from fit_methods import (
    ACCURACY,
    ALS,
    ARPACK,
    ARPACK_SAME,
    ARPACK_TUNED,
    OURS,
    PCA,
    RANDOMIZED_TUNED,
    SETTINGS,
)
from harness import Table
from machine_load import DISTURBED

Cell = dict[str, Any]

# From this rank on, half of the time of TruncatedSVD is claimed.
_HIGH_RANK = 128

# How many times longer the semidefinite program is claimed to take on a whole data set.
_TIMES_FASTER = 1_000

# An automatic choice this much slower than the best path is a wrong one.
TOLERATED = 1.3


def tables(cells: dict[str, list[Cell]]) -> list[Table]:
    """Everything that was measured, one table per question."""
    fits, solvers = cells["fits"], cells["solvers"]
    paths = Table('Seconds of each path, and the one solver="auto" takes', *_solvers(solvers))
    measured = [
        Table("Methods", ["method", "settings"], [[*pair] for pair in SETTINGS.items()]),
        _by_method(
            "Median seconds (ItemWeightedPCA ÷ this one)",
            fits,
            _seconds,
            note=f"† not at the same accuracy: its residual is above {ACCURACY:g}, see below. "
            "A ratio below 1 means that ItemWeightedPCA is faster.",
        ),
        _by_method("Residual, and the setting that gave it", fits, _accuracy),
        _by_method("Peak memory of a fit above the data, MB", fits, _peak),
        Table("The paper's semidefinite program", *_sdp(cells["sdp"])),
    ]
    return [*measured, paths] if solvers else measured


def verdicts(cells: dict[str, list[Cell]]) -> list[str]:
    """The claim, point by point."""
    fits = cells["fits"]
    lines = [_goal(fits, ARPACK), _goal(fits, ALS), *_sdp_verdicts(cells["sdp"])]
    pairs = [(OURS, peer) for peer in (ARPACK_SAME, ARPACK_TUNED, RANDOMIZED_TUNED)]
    pairs += [(PCA, peer) for peer in (ARPACK, ARPACK_TUNED, RANDOMIZED_TUNED)]
    lines += [_compare(fits, ours, peer, "median_s", "seconds") for ours, peer in pairs]
    lines += [_compare(fits, OURS, peer, "peak_mb", "MB") for peer in (ARPACK, ALS)]
    lines += _inaccurate(fits)
    disturbed = sum(cell["cores_busy_for_others"] > DISTURBED for cell in fits)
    lines.append(
        f"Other processes kept more than {DISTURBED:g} cores busy in {disturbed} of {len(fits)} "
        "cells even at their quietest."
    )
    worst = max((cell["residual"] for cell in fits if cell["method"] == OURS), default=0.0)
    lines.append(f"Largest residual of {OURS}: {worst:.1e} (promised: {ACCURACY:g}).")
    return [*lines, *_solver_verdicts(cells["solvers"])]


def goal(peer: str, rank: int) -> float:
    """The ratio of our time to a peer's that the claim allows."""
    if peer == ALS:
        return 0.25
    return 1.0 if rank < _HIGH_RANK else 0.5


def _goal(fits: Sequence[Cell], peer: str) -> str:
    """Whether our time, divided by a peer's, is within the claim in every cell."""
    theirs = [cell for cell in fits if cell["method"] == peer and cell["accurate"]]
    missed = [
        f"{cell['set'].split(' (')[0]} r={cell['rank']}: {cell['ratio']:.2f}"
        for cell in theirs
        if cell["ratio"] > goal(peer, cell["rank"])
    ]
    ratios = [cell["ratio"] for cell in theirs]
    allowed = (
        f"{goal(peer, 0):g}"
        if peer == ALS
        else f"{goal(peer, 0):g}, and {goal(peer, _HIGH_RANK):g} from r = {_HIGH_RANK} on,"
    )
    return (
        f"{'DOES NOT HOLD' if missed else 'HOLDS'}: {OURS} takes at most {allowed} of the time of "
        f"{_name(peer)} in {len(theirs) - len(missed)} of {len(theirs)} cells; median "
        f"{median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
        + (f". Missed: {'; '.join(missed)}." if missed else ".")
    )


def _name(peer: str) -> str:
    names = {ALS: f"{ALS}, 15 iterations", ARPACK_SAME: "eigsh on the same problem"}
    return names.get(peer, f"TruncatedSVD({peer})")


def _by_method(
    title: str, fits: Sequence[Cell], show: Callable[[Cell], str], note: str = ""
) -> Table:
    methods = list(dict.fromkeys(cell["method"] for cell in fits))
    rows: dict[tuple[str, int], dict[str, str]] = {}
    for cell in fits:
        rows.setdefault((cell["set"], cell["rank"]), {})[cell["method"]] = show(cell)
    lines = [
        [name, str(rank), *(row.get(method, "–") for method in methods)]
        for (name, rank), row in rows.items()
    ]
    return Table(title, ["set", "r", *methods], lines, note)


def _seconds(cell: Cell) -> str:
    if cell["method"] == OURS:
        return f"{cell['median_s']:.3f} {cell['solver']}"
    mark = "" if cell["accurate"] else " †"
    return f"{cell['median_s']:.3f} ({cell['ratio']:.2f}){mark}"


def _peak(cell: Cell) -> str:
    return "–" if cell["peak_mb"] is None else f"{cell['peak_mb']:.0f}"


def _accuracy(cell: Cell) -> str:
    if cell["residual"] is None:
        return "–"
    return f"{cell['residual']:.0e}" + (f", {cell['settings']}" if cell["settings"] else "")


def _compare(fits: Sequence[Cell], ours: str, peer: str, measure: str, unit: str) -> str:
    """In how many cells we need no more than a peer of the same accuracy, and where not."""
    mine = {(c["set"], c["rank"]): c[measure] for c in fits if c["method"] == ours}
    theirs = [cell for cell in fits if cell["method"] == peer]
    fair = [cell for cell in theirs if cell["accurate"] and cell[measure] is not None]
    name = _name(peer)
    if not fair:
        return f"{ours} and {name} cannot be compared: no cell has the same accuracy."
    ratios = [mine[cell["set"], cell["rank"]] / cell[measure] for cell in fair]
    lost = [
        f"{cell['set'].split(' (')[0]} r={cell['rank']}: {ratio:.2f}"
        for cell, ratio in zip(fair, ratios, strict=True)
        if ratio > 1
    ]
    return (
        f"{ours} ≤ {name} in {len(fair) - len(lost)} of {len(fair)} cells ({unit}); median ratio "
        f"{median(ratios):.2f}, from {min(ratios):.2f} to {max(ratios):.2f}"
        + (f". Lost: {'; '.join(lost)}." if lost else ".")
    )


def _inaccurate(fits: Sequence[Cell]) -> list[str]:
    """Methods that never reached the accuracy."""
    peers = dict.fromkeys(cell["method"] for cell in fits if not cell["accurate"])
    lines = []
    for peer in peers:
        theirs = [cell for cell in fits if cell["method"] == peer]
        short = [cell for cell in theirs if not cell["accurate"]]
        residuals = [cell["residual"] for cell in short]
        lines.append(
            f"TruncatedSVD({peer}) is not at the same accuracy in {len(short)} of {len(theirs)} "
            f"cells: its residuals there are {min(residuals):.0e} to {max(residuals):.0e}, and it "
            f"takes longer than {OURS} in {sum(cell['ratio'] < 1 for cell in short)} of them."
        )
    return lines


def _sdp(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    columns = [
        "set", "m", "r", "solver", "its seconds", "its MB", "our seconds", "times as long",
        "relative difference of the objectives",
    ]  # fmt: skip
    rows = [
        [
            cell["set"], str(cell["items"]), str(cell["rank"]), cell["solver"],
            cell["failure"] or f"{cell['sdp_s']:.2f}",
            "–" if cell["failure"] else f"{cell['peak_mb']:.0f}",
            f"{cell['ours_s']:.4f}",
            "–" if cell["failure"] else f"{cell['sdp_s'] / cell['ours_s']:.0f}",
            "–" if cell["failure"] else f"{cell['difference']:.1e}",
        ]
        for cell in cells
    ]  # fmt: skip
    return columns, rows


def _sdp_verdicts(cells: Sequence[Cell]) -> list[str]:
    done = [cell for cell in cells if not cell["failure"]]
    if not done:
        return [f"The semidefinite program was not solved in any of {len(cells)} attempts."]
    equal = [cell for cell in done if abs(cell["difference"]) <= ACCURACY]
    factors = [cell["sdp_s"] / cell["ours_s"] for cell in done]
    said = [
        f"The semidefinite program's optimum equals ours to {ACCURACY:g} in {len(equal)} of "
        f"{len(done)} solved cases and takes {min(factors):.0f} to {max(factors):.0f} times as "
        f"long; {len(cells) - len(done)} of {len(cells)} were not solved in the time given."
    ]
    whole = [cell for cell in done if cell["whole"]]
    for cell in whole:
        factor = cell["sdp_s"] / cell["ours_s"]
        holds = factor >= _TIMES_FASTER and cell in equal
        said.append(
            f"{'HOLDS' if holds else 'DOES NOT HOLD'}: on all {cell['items']:,} items of "
            f"{cell['set']} it takes {factor:,.0f} times as long (claimed: at least "
            f"{_TIMES_FASTER:,}), objectives equal to {abs(cell['difference']):.0e}."
        )
    return said


def _solvers(cells: Sequence[Cell]) -> tuple[list[str], list[list[str]]]:
    paths = list(dict.fromkeys(path for cell in cells for path in cell["seconds"]))
    rows = [
        [
            cell["set"],
            str(cell["rank"]),
            *(f"{cell['seconds'][p]:.3f}" if p in cell["seconds"] else "–" for p in paths),
            cell["auto"],
            f"{slowdown(cell):.2f}",
        ]
        for cell in cells
    ]
    return ["set", "r", *paths, "auto", "auto ÷ best"], rows


def slowdown(cell: Cell) -> float:
    """How much longer the path taken is than the best one."""
    seconds = cell["seconds"]
    return float(seconds[cell["auto"]] / min(seconds.values()))


def _solver_verdicts(cells: Sequence[Cell]) -> list[str]:
    if not cells:
        return []
    wrong = [
        f"{cell['set'].split(' (')[0]} r={cell['rank']}: {cell['auto']} {slowdown(cell):.2f} times "
        f"{min(cell['seconds'], key=cell['seconds'].__getitem__)}"
        for cell in cells
        if slowdown(cell) > TOLERATED
    ]
    return [
        f'solver="auto" is within {TOLERATED:g} of the best path in {len(cells) - len(wrong)} of '
        f"{len(cells)} cells" + (f". Not: {'; '.join(wrong)}." if wrong else ".")
    ]

"""Writes the README's table of speed from the results of the full benchmarks, and nothing else.

Run ``python benchmarks/quote.py`` after them; a test holds the README to it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- begin speed -->\n", "<!-- end speed -->"

# Of the ranks measured: the one with the largest ratios to TruncatedSVD where half is claimed.
RANK = 128

PEERS = {"arpack": "TruncatedSVD(arpack)", "implicit ALS": "implicit ALS"}

Row = tuple[str, str, str]


def results(name: str) -> dict[str, Any]:
    """What a full run of a benchmark left."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def fits() -> Iterator[Row]:
    """Fits beside TruncatedSVD and ALS, a line a set."""
    cells: dict[str, dict[str, Any]] = {}
    for cell in results("bench_fit")["cells"]["fits"]:
        if cell["rank"] == RANK:
            cells.setdefault(cell["set"], {})[cell["method"]] = cell
    for name, field in cells.items():
        told = [
            f"{peer} {field[method]['median_s']:.2f} s (ours ÷ it: {field[method]['ratio']:.2f})"
            for method, peer in (
                ("arpack", "TruncatedSVD(arpack)"),
                ("implicit ALS", "implicit ALS"),
            )
            if method in field
        ]
        yield (
            f"fit {name}, r = {RANK}",
            f"{field['ItemWeightedPCA']['median_s']:.2f} s",
            "; ".join(told),
        )


def programme() -> Iterator[Row]:
    """The paper's semidefinite programme on a whole data set."""
    for cell in results("bench_fit")["cells"]["sdp"]:
        if cell["whole"] and not cell["failure"]:
            yield (
                f"fit all {cell['items']:,} artists of {cell['set']}, r = {cell['rank']}",
                f"{cell['ours_s']:.2f} s",
                f"the paper's programme ({cell['solver']}) {cell['sdp_s']:,.0f} s, "
                f"{cell['sdp_s'] / cell['ours_s']:,.0f} times as long, the same optimum",
            )


def largest() -> Iterator[Row]:
    """A hundred million interactions."""
    cells = results("bench_scaling")["cells"]
    cell = cells["by_nnz"][-1]
    yield (
        f"fit {cell['nnz'] // 10**6} M interactions ({cell['users']:,} users), r = {cell['rank']}",
        f"{cell['seconds']:.0f} s",
        f"{cells['peak_gb']:.1f} GB, data included",
    )


def lists() -> Iterator[Row]:
    """Recommending to everybody of the largest set."""
    ours, theirs = results("bench_recommend")["cells"]["sets"][-2:]
    yield (
        f"top 20 of everybody ({ours['set']})",
        f"{ours['users_per_s']:,.0f} users/s",
        f"implicit {theirs['users_per_s']:,.0f} users/s",
    )


def block() -> str:
    """The table, with the machine it was measured on."""
    rows = [*fits(), *programme(), *largest(), *lists()]
    machine = results("bench_fit")["machine"]
    lines = ["| what | Item-Weighted PCA here | beside |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    head = (
        f"On {machine['cores']} cores ({machine['cpu']}) that others used too, {machine['date']}, "
        "residuals of 1e-6, peers in the same\n"
        "run; [every cell, lost ones too](docs/benchmarks.md):"
    )
    return "\n".join([head, "", *lines, ""])


def main() -> None:
    """Put the table between its marks."""
    before, rest = README.read_text().split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}{block()}{END}{after}")


if __name__ == "__main__":
    main()

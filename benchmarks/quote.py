"""Write the README's table of speed from the results of the full benchmarks.

Run ``python benchmarks/quote.py`` after them. A test compares the README with its output.
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
    """Return the results of a full run of a benchmark."""
    found: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text())
    return found


def fits() -> Iterator[Row]:
    """Yield one row per data set: our fit compared with TruncatedSVD and ALS."""
    cells: dict[str, dict[str, Any]] = {}
    for cell in results("bench_fit")["cells"]["fits"]:
        if cell["rank"] == RANK:
            cells.setdefault(cell["set"], {})[cell["method"]] = cell
    for name, field in cells.items():
        compared = [
            f"{peer} {field[method]['median_s']:.2f} s (ours ÷ it: {field[method]['ratio']:.2f})"
            for method, peer in PEERS.items()
            if method in field
        ]
        yield (
            f"fit {name}, r = {RANK}",
            f"{field['ItemWeightedPCA']['median_s']:.2f} s",
            "; ".join(compared),
        )


def semidefinite_program() -> Iterator[Row]:
    """Yield the paper's semidefinite program on a whole data set."""
    for cell in results("bench_fit")["cells"]["sdp"]:
        if cell["whole"] and not cell["failure"]:
            yield (
                f"fit all {cell['items']:,} artists of {cell['set']}, r = {cell['rank']}",
                f"{cell['ours_s']:.2f} s",
                f"the paper's program ({cell['solver']}) {cell['sdp_s']:,.0f} s, "
                f"{cell['sdp_s'] / cell['ours_s']:,.0f} times as long, the same optimum",
            )


def largest() -> Iterator[Row]:
    """Yield the fit of a hundred million interactions."""
    cells = results("bench_scaling")["cells"]
    cell = cells["by_nnz"][-1]
    yield (
        f"fit {cell['nnz'] // 10**6} M interactions ({cell['users']:,} users), r = {cell['rank']}",
        f"{cell['seconds']:.0f} s",
        f"{cells['peak_gb']:.1f} GB, data included",
    )


def lists() -> Iterator[Row]:
    """Yield the time of recommending to all users of the largest set."""
    ours, theirs = results("bench_recommend")["cells"]["sets"][-2:]
    yield (
        f"top 20 for all users ({ours['set']})",
        f"{ours['users_per_s']:,.0f} users/s",
        f"implicit {theirs['users_per_s']:,.0f} users/s",
    )


def block() -> str:
    """Return the table, with the machine on which it was measured."""
    rows = [*fits(), *semidefinite_program(), *largest(), *lists()]
    machine = results("bench_fit")["machine"]
    lines = ["| task | Item-Weighted PCA | compared with |", "| --- | --- | --- |"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    head = (
        f"Measured on {machine['cores']} cores ({machine['cpu']}) shared with other work, "
        f"{machine['date']}, with residuals of 1e-6\n"
        "and all libraries in the same run; [every result, with the losses](docs/benchmarks.md):"
    )
    return "\n".join([head, "", *lines, ""])


def main() -> None:
    """Write the table between its markers."""
    before, rest = README.read_text().split(BEGIN)
    after = rest.split(END)[1]
    README.write_text(f"{before}{BEGIN}{block()}{END}{after}")


if __name__ == "__main__":
    main()

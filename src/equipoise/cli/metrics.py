"""`equipoise metrics`: every metric with its formula and its conventions."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from equipoise.cli import console


def metrics(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON instead of a table.")
    ] = False,
) -> None:
    """List every metric: name, formula, which values are better, conventions."""
    from equipoise.metrics import available

    found = available().values()
    if as_json:
        listed = [
            {
                "name": one.name,
                "title": one.title,
                "formula": one.formula,
                "needs": list(one.needs),
                "conventions": dict(one.conventions),
                "direction": one.direction,
                "has_k": one.has_k,
            }
            for one in found
        ]
        console.write(json.dumps(listed, indent=1))
        return
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("metric", "formula", "better", "conventions"):
        table.add_column(name, overflow="fold")
    for one in found:
        conventions = ", ".join(one.conventions)
        # of other packages too: a formula may contain square brackets
        table.add_row(one.name, Text(one.formula), one.direction or "–", conventions)
    console.out.print(table)

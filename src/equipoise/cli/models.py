"""`equipoise models`: every model with its paper, what it needs and what kind it is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli import console

if TYPE_CHECKING:
    from equipoise.models.registry import ModelEntry

_ANSWERS = {True: "yes", False: "no", None: "–"}


def models(
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON instead of a table.")
    ] = False,
) -> None:
    """List every model: name, paper, what it needs, convex, hard rank, labels, closed form."""
    from equipoise.models.registry import available

    entries = list(available().values())
    if as_json:
        listed = [entry.facts() for entry in entries]
        console.write(json.dumps(listed, indent=1))
        return
    _print(entries)


def _print(entries: list[ModelEntry]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name in ("model", "paper", "convex", "hard rank", "labels", "computed", "needs"):
        table.add_column(name, overflow="fold")
    for entry in entries:
        table.add_row(
            entry.key,
            entry.paper or "–",
            _ANSWERS[entry.convex],
            _ANSWERS[entry.hard_rank],
            _ANSWERS[entry.needs_labels],
            entry.computation or "–",
            _needs(entry),
        )
    console.out.print(table)
    for entry in entries:
        if not entry.installed:
            console.say(f"{entry.title} is not installed: {entry.install_command}")


def _needs(entry: ModelEntry) -> str:
    if entry.extra is None:
        return "–"
    return entry.extra if entry.installed else f"{entry.extra} (missing)"

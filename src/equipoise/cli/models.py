"""`equipoise models` and `equipoise metrics`: what can be fitted and what can be measured."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from equipoise.cli import console
from equipoise.cli.options import AsJson

if TYPE_CHECKING:
    from equipoise.models.registry import ModelEntry

_ANSWERS = {True: "yes", False: "no", None: "–"}
_COLUMNS = ("model", "paper", "convex", "hard rank", "labels", "computed", "needs")


def models(as_json: AsJson = False) -> None:
    """List every model: name, paper, convex, hard rank, labels, computation, extra."""
    from equipoise.models.registry import available

    entries = list(available().values())
    if as_json:
        console.write_json([entry.facts() for entry in entries], indent=1)
        return
    table = console.new_table(*_COLUMNS)
    for entry in entries:
        kind = (entry.convex, entry.hard_rank, entry.needs_labels)
        answers = (_ANSWERS[each] for each in kind)
        table.add_row(
            entry.key, entry.paper or "–", *answers, entry.computation or "–", _needs(entry)
        )
    console.out.print(table)
    for entry in entries:
        if not entry.installed:
            console.say(f"{entry.title} is not installed: {entry.install_command}")


def _needs(entry: ModelEntry) -> str:
    if entry.extra is None:
        return "–"
    return entry.extra if entry.installed else f"{entry.extra} (missing)"


def rerankers(as_json: AsJson = False) -> None:
    """List every re-ranker: name, paper, settings with their defaults."""
    from equipoise.reranking import available

    found: list[dict[str, Any]] = [
        {
            "name": name,
            "method": one.title or one.__name__,
            "paper": one.paper,
            "settings": dict(one.defaults()),
        }
        for name, one in available().items()
    ]
    if as_json:
        console.write_json(found, indent=1)
        return
    rows = [
        {**one, "paper": one["paper"] or "–", "settings": _settings(one["settings"])}
        for one in found
    ]
    console.print_rows(rows, "Re-rankers: NAME, NAME:VALUE or NAME:SETTING=VALUE,…")


def _settings(defaults: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in defaults.items() if value != "")


def metrics(as_json: AsJson = False) -> None:
    """List every metric: name, formula, which values are better, conventions."""
    from equipoise.metrics import available

    fields = ("name", "title", "formula", "needs", "conventions", "direction", "has_k")
    found = available().values()
    if as_json:
        console.write_json(
            [{name: getattr(one, name) for name in fields} for one in found], indent=1
        )
        return
    rows = [
        {
            "metric": one.name,
            "formula": one.formula,
            "better": one.direction or "–",
            "conventions": ", ".join(one.conventions),
        }
        for one in found
    ]
    console.print_rows(rows, "Metrics of evaluate and tune")

"""`equipoise models`, `rerankers`, `metrics` and `datasets`: what there is, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from equipoise.cli import console
from equipoise.cli import library as lib

_ANSWERS = {True: "yes", False: "no", None: "–", "": "–"}


def models(as_json: bool = False) -> None:
    """List every model: name, paper, convex, hard rank, labels, computation, extra."""
    columns = {"model": "key", "paper": "paper", "convex": "convex", "hard rank": "hard_rank"}
    columns |= {"labels": "needs_labels", "computed": "computation", "needs": "extra"}
    found = [entry.facts() for entry in lib.registry.available().values()]
    _show(found, columns, "Models of fit, evaluate and tune", as_json)
    for one in found:
        if not (one["installed"] or as_json):
            console.say(f"{one['title']} is not installed: {one['install']}")


def rerankers(as_json: bool = False) -> None:
    """List every re-ranker: name, paper, settings with their defaults."""
    found = [
        {"name": name, "method": one.title or one.__name__, "paper": one.paper}
        | {"settings": dict(one.defaults())}
        for name, one in lib.reranking.available().items()
    ]
    columns = {name: name for name in ("name", "method", "paper", "settings")}
    _show(found, columns, "Re-rankers: NAME, NAME:VALUE or NAME:SETTING=VALUE,…", as_json)


def metrics(as_json: bool = False) -> None:
    """List every metric: name, formula, which values are better, conventions."""
    fields = ("name", "title", "formula", "needs", "conventions", "direction", "has_k")
    found = [
        {name: getattr(one, name) for name in fields} for one in lib.metrics.available().values()
    ]
    columns = {"metric": "name", "formula": "formula", "better": "direction"}
    columns |= {"conventions": "conventions"}
    _show(found, columns, "Metrics of evaluate, tune and audit --more-metrics", as_json)


def _show(
    found: list[dict[str, Any]], columns: Mapping[str, str], title: str, as_json: bool
) -> None:
    """Print everything as JSON, or some of the fields as a table."""
    if as_json:
        console.write_json(found, indent=1)
        return
    rows = [{name: _text(one, key) for name, key in columns.items()} for one in found]
    console.print_rows(rows, title, whole=list(columns)[:1])  # names are copied


def _text(facts: Mapping[str, Any], field: str) -> str:
    value = facts[field]
    if field == "settings":
        return ", ".join(f"{name}={default}" for name, default in value.items() if default != "")
    if field == "conventions":
        return ", ".join(value)
    missing = " (missing)" if field == "extra" and not facts["installed"] else ""
    return f"{_ANSWERS.get(value, value)}{missing}"


def listing(as_json: bool = False) -> None:
    """List the data sets that can be loaded by name, or download one from its publisher."""
    if click.get_current_context().invoked_subcommand is not None:
        return
    if as_json:
        console.write_json([_described(each) for each in lib.catalog.CATALOG.values()], indent=2)
        return
    for dataset in lib.catalog.CATALOG.values():
        _print_dataset(dataset)


def get(name: str, out: Path | None = None) -> None:
    """Download a data set, check its hash, unpack it, and print its folder."""
    dataset = lib.catalog.entry(name)
    folder = lib.catalog.fetch(dataset, out, progress=console.progress())
    for line in (f"License: {dataset.license} ({dataset.terms})", f"Cite: {dataset.citation}"):
        console.say(line)
    console.write(str(folder))


def _described(dataset: lib.catalog.Dataset) -> dict[str, Any]:
    found = lib.catalog.locate(dataset)
    return asdict(dataset) | {"found_in": None if found is None else str(found)}


def _print_dataset(dataset: lib.catalog.Dataset) -> None:
    folder, size = _described(dataset)["found_in"], dataset.archive_bytes
    archive = "" if size is None else f"; archive of {size / 1e6:,.1f} MB"
    where = f"not downloaded; get it with equipoise datasets get {dataset.name}"
    where = where if folder is None else f"in {folder}"
    lines = (
        f"{dataset.users:,} users × {dataset.items:,} items, {dataset.interactions:,} "
        f"interactions{archive}",
        f"license  {dataset.license}",
        f"         {dataset.terms}",
        f"cite     {dataset.citation}",
        f"where    {where}",
    )
    console.out().print(f"[bold]{dataset.name}[/]  {dataset.what}", soft_wrap=True)
    console.write("\n".join(f"  {line}" for line in lines))

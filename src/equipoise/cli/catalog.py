"""`equipoise models`, `rerankers`, `metrics` and `datasets`: what there is, by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from equipoise.cli import console
from equipoise.cli import options as opt

if TYPE_CHECKING:
    from equipoise.data.catalog import Dataset
    from equipoise.models.registry import ModelEntry

_ANSWERS = {True: "yes", False: "no", None: "–"}


def models(as_json: bool = False) -> None:
    """List every model: name, paper, convex, hard rank, labels, computation, extra."""
    from equipoise.models.registry import available

    entries = list(available().values())
    if as_json:
        console.write_json([entry.facts() for entry in entries], indent=1)
        return
    rows = [
        {
            "model": entry.key,
            "paper": entry.paper or "–",
            "convex": _ANSWERS[entry.convex],
            "hard rank": _ANSWERS[entry.hard_rank],
            "labels": _ANSWERS[entry.needs_labels],
            "computed": entry.computation or "–",
            "needs": _needs(entry),
        }
        for entry in entries
    ]
    console.print_rows(rows, "Models of fit, evaluate and tune")
    for entry in entries:
        if not entry.installed:
            console.say(f"{entry.title} is not installed: {entry.install_command}")


def _needs(entry: ModelEntry) -> str:
    if entry.extra is None:
        return "–"
    return entry.extra if entry.installed else f"{entry.extra} (missing)"


def rerankers(as_json: bool = False) -> None:
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


def metrics(as_json: bool = False) -> None:
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


datasets = typer.Typer(name="datasets", cls=opt.Group, invoke_without_command=True)


@datasets.callback()
@opt.expand_options
def listing(context: typer.Context, as_json: bool = False) -> None:
    """List the data sets that can be loaded by name, or download one from its publisher."""
    if context.invoked_subcommand is not None:
        return
    from equipoise.data.catalog import CATALOG

    if as_json:
        console.write_json([_described(each) for each in CATALOG.values()], indent=2)
        return
    for dataset in CATALOG.values():
        _print_dataset(dataset)


@datasets.command(cls=opt.Command)
@opt.expand_options
def get(
    name: str,
    out: Path | None = None,
) -> None:
    """Download a data set, check its hash, unpack it, and print its folder."""
    from equipoise.data.catalog import entry, fetch

    dataset = entry(name)
    folder = fetch(dataset, out, progress=console.progress())
    for line in (f"License: {dataset.license} ({dataset.terms})", f"Cite: {dataset.citation}"):
        console.say(line)
    console.out.print(str(folder), highlight=False, markup=False, soft_wrap=True)


def _described(dataset: Dataset) -> dict[str, Any]:
    from equipoise.data.catalog import locate

    found = locate(dataset)
    return {
        **asdict(dataset),
        "cached_in": _cached_in(dataset),
        "found_in": None if found is None else str(found),
    }


def _cached_in(dataset: Dataset) -> str | None:
    """Return where a download goes, None if the extra that downloads is not installed."""
    from equipoise.data.catalog import cache_folder
    from equipoise.exceptions import MissingExtraError

    try:
        return str(cache_folder() / dataset.name)
    except MissingExtraError:
        return None


def _print_dataset(dataset: Dataset) -> None:
    about = _described(dataset)
    size = dataset.archive_bytes
    archive = "" if size is None else f"; archive of {size / 1e6:,.1f} MB"
    if about["found_in"]:
        where = f"in {about['found_in']}"
    else:
        where = f"not downloaded; get it with equipoise datasets get {dataset.name}"
        where += f" (into {about['cached_in']})" if about["cached_in"] else ""
    lines = (
        f"{dataset.users:,} users × {dataset.items:,} items, {dataset.interactions:,} "
        f"interactions{archive}",
        f"license  {dataset.license}",
        f"         {dataset.terms}",
        f"cite     {dataset.citation}",
        f"where    {where}",
    )
    console.out.print(f"[bold]{dataset.name}[/]  {dataset.what}", highlight=False, soft_wrap=True)
    for line in lines:
        console.out.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)

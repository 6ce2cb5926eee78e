"""`equipoise datasets`: what there is and where; `equipoise datasets get NAME`: fetch one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli.streams import need_output

if TYPE_CHECKING:
    from equipoise.data.catalog import Dataset

datasets = typer.Typer(
    name="datasets",
    invoke_without_command=True,
    no_args_is_help=False,
    help="List the data sets that can be loaded by name, or get one from its publisher.",
)


@datasets.callback()
def listing(
    context: typer.Context,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the catalogue as JSON instead of text.")
    ] = False,
) -> None:
    """List the data sets that can be loaded by name, or get one from its publisher."""
    if context.invoked_subcommand is not None:
        return
    from equipoise.data.catalog import CATALOG

    if as_json:
        console.out.print_json(json.dumps([_described(each) for each in CATALOG.values()]))
        return
    for dataset in CATALOG.values():
        _print(dataset)


@datasets.command()
def get(
    name: Annotated[str, typer.Argument(help="Which one, e.g. lastfm-2k.", metavar="NAME")],
    out: Annotated[
        Path | None, typer.Option(help="Put it here, not into the cache.", metavar="DIR")
    ] = None,
) -> None:
    """Download a data set, check its hash, unpack it, and print the folder it is in."""
    from equipoise.data.catalog import entry, fetch

    dataset = entry(name)
    need_output(False)  # the folder is printed, but it is there all the same
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


def _print(dataset: Dataset) -> None:
    about = _described(dataset)
    size = dataset.archive_bytes
    archive = "" if size is None else f"; archive of {size / 1e6:,.1f} MB"
    if about["found_in"]:
        where = f"in {about['found_in']}"
    else:
        where = f"not here; equipoise datasets get {dataset.name}"
        where += f" puts it into {about['cached_in']}" if about["cached_in"] else ""
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

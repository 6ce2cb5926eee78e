"""`equipoise datasets`: list the known data sets; `equipoise datasets get NAME`: download one."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli.options import AsJson, Command, Group, output

if TYPE_CHECKING:
    from equipoise.data.catalog import Dataset

datasets = typer.Typer(name="datasets", cls=Group, invoke_without_command=True)


@datasets.callback()
def listing(context: typer.Context, as_json: AsJson = False) -> None:
    """List the data sets that can be loaded by name, or download one from its publisher."""
    if context.invoked_subcommand is not None:
        return
    from equipoise.data.catalog import CATALOG

    if as_json:
        console.write_json([_described(each) for each in CATALOG.values()], indent=2)
        return
    for dataset in CATALOG.values():
        _print(dataset)


@datasets.command(cls=Command)
def get(
    name: Annotated[
        str, typer.Argument(help="Name of the data set, e.g. lastfm-2k.", metavar="NAME")
    ],
    out: Annotated[Path | None, output("Folder to use instead of the cache.", "DIR")] = None,
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


def _print(dataset: Dataset) -> None:
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

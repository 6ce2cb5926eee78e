"""`equipoise demo`: the main job on embedded data, in a minute."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli import console

if TYPE_CHECKING:
    from equipoise.audit import Comparison

_REPORT = Path("report") / "demo.html"
_DATA = "Synthetic listening data with planted tastes:"


def demo(
    rank: Annotated[int, typer.Option(help="Components of each model.", min=1, max=500)] = 16,
    seed: Annotated[int, typer.Option(help="Seed of the data and of the hold-out.", min=0)] = 0,
    out: Annotated[Path, typer.Option(help="Where to write the report.")] = _REPORT,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the numbers as JSON instead of a table.")
    ] = False,
) -> None:
    """Show on embedded data what PCA does to hits and niche items, and what mends it."""
    from equipoise.audit import compare, render
    from equipoise.audit.comparison import MODELS
    from equipoise.data.synthetic import listening
    from equipoise.files import write_whole

    plays = listening(seed=seed)
    console.err.print(
        f"Drew {plays.n_users:,} invented listeners of {plays.n_items:,} invented artists; "
        f"fitting {len(MODELS)} models …"
    )
    with console.progress() as bar:
        task = bar.add_task("Fitting", total=len(MODELS))

        def next_model(name: str) -> None:
            bar.update(task, description=f"Fitting {name}", advance=1)

        comparison = compare(plays, rank=rank, seed=seed, progress=next_model)
    page = render(comparison, _DATA).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(out, page)
    if as_json:
        console.out.print_json(json.dumps({**comparison.as_dict(), "report": str(out)}))
        return
    _print(comparison, out)


def _print(comparison: Comparison, out: Path) -> None:
    from rich.table import Table

    from equipoise.audit.comparison import GLOSSARY
    from equipoise.audit.page import portrait, table

    shown = Table(title="What the components are spent on", caption=portrait(comparison))
    shown.add_column("")
    for model in comparison.models:
        shown.add_column(model.name, justify="right")
    for line in table(comparison):
        shown.add_row(line.title, *line.values)
    console.out.print(shown)
    console.out.print(comparison.in_words(), highlight=False)
    console.out.print(f"\n{GLOSSARY}", style="dim", highlight=False)
    console.out.print(f"\nReport: {out.resolve()}", highlight=False, soft_wrap=True)

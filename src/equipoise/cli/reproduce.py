"""`equipoise reproduce`: the paper's claims, figures and theorems, with verdicts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from equipoise.cli import console

if TYPE_CHECKING:
    from rich.table import Table

    from equipoise.paper.report import Reproduction

_FOLDER = Path("reproduction")
# Exit codes: 1 a claim was lost, 2 something that was asked for was not made.
_LOST, _INCOMPLETE = 1, 2
_VERDICTS = {
    "REPRODUCED": ("green", "reproduced"),
    "BY_CODE_ONLY": ("yellow", "by code only"),
    "NOT_REPRODUCED": ("red", "not"),
}


def reproduce(
    targets: Annotated[
        list[str] | None,
        typer.Argument(help="all, fig1 … fig8, tables, theory, claims.", metavar="[WHAT]..."),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the report, figures, tables and cache.")
    ] = _FOLDER,
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer ranks and smaller experiments; same claims.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings as JSON instead of a table.")
    ] = False,
) -> None:
    """Reproduce the paper: measure and judge every claim, draw all figures, test all theorems."""
    from equipoise.cli import paths
    from equipoise.paper.reproduction import run

    paths.check(folder=out, printed=as_json)
    found = run(targets or ["all"], out, quick=quick, progress=console.progress())
    if as_json:
        text = json.dumps({**found.as_dict(), "report": str(out / "index.html")})
        console.out.print_json(text)
    else:
        _print(found, out)
    for line in found.missing:
        console.err.print(
            f"[yellow]left out:[/] {console.inert(line)}", highlight=False, soft_wrap=True
        )
    if found.lost:
        raise typer.Exit(_LOST)
    if found.missing:
        raise typer.Exit(_INCOMPLETE)


def _print(found: Reproduction, out: Path) -> None:
    if found.findings:
        console.out.print(_table(found))
    for line in found.headlines:
        console.out.print(f"• {console.inert(line)}", highlight=False)
    console.out.print(f"\n{found.headline()}.", highlight=False)
    page = (out / "index.html").resolve()
    console.out.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)


def _table(found: Reproduction) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from equipoise.paper.verdicts import show, show_measured

    table = Table(box=SIMPLE_HEAD)
    for title in ("claim", "published", "measured", "verdict"):
        table.add_column(title, overflow="fold")
    for finding in found.findings:
        color, word = _VERDICTS[finding.verdict.name]
        lost = " [bold red]LOST[/]" if finding.lost else ""
        cells = (finding.claim.what, show(finding.claim.published), show_measured(finding))
        table.add_row(*map(console.inert, cells), f"[{color}]{word}[/]{lost}")
    return table

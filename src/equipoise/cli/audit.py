"""`equipoise audit [DATA]`: which items a low-rank model fails or memorises, on one page."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from equipoise.cli import console
from equipoise.cli import options as shared
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from equipoise.audit.findings import Findings
    from equipoise.data import Interactions

EMBEDDED = "built-in example data"
_REPORT = Path("report.html")

Data = Annotated[
    str | None,
    typer.Argument(
        help="File, folder, glob or database URL; without it, the built-in example data.",
        metavar="DATA",
        show_default=False,
    ),
]
Rank = Annotated[
    str,
    typer.Option(
        "--rank",
        help="Components of each model, or auto: the best on held-out data.",
        metavar="N|auto",
    ),
]
Gamma = Annotated[
    float,
    typer.Option("--gamma", help="An item counts by its popularity to this power; 0 is plain PCA."),
]
Groups = Annotated[
    str,
    typer.Option(
        "--groups",
        help="Cut popularity groups at shares of interactions (interactions) or of items (items).",
    ),
]
Factors = Annotated[
    list[Path] | None,
    typer.Option(
        "--factors",
        help="Audit this model as well: item factors or an item × item matrix in .npy, .npz, "
        "Parquet or .eqp; may be repeated.",
        metavar="FILE",
    ),
]
Length = Annotated[int, typer.Option("-k", help="Length of the recommended lists.", min=1)]
Seed = Annotated[int, typer.Option(help="Seed of the hold-out and of every sample.", min=0)]
Normalize = Annotated[
    bool | None,
    typer.Option(
        "--normalize-rows/--as-they-are",
        help="Divide every user's values by their sum, or not; default: where a few users would "
        "outweigh all others.",
        rich_help_panel=shared.PREPARING,
    ),
]
Out = Annotated[
    Path,
    typer.Option("--out", "-o", help="Where to write the report.", rich_help_panel=shared.OUTPUT),
]
AsMarkdown = Annotated[
    bool,
    typer.Option("--md", help="Print Markdown instead of a table.", rich_help_panel=shared.OUTPUT),
]
Open = Annotated[
    bool,
    typer.Option("--open", help="Open the report in the browser.", rich_help_panel=shared.OUTPUT),
]


def audit(
    data: Data = None,
    rank: Rank = "32",
    gamma: Gamma = -1.0,
    groups: Groups = "interactions",
    factors: Factors = None,
    names: shared.Names = None,
    k: Length = 20,
    seed: Seed = 0,
    out: Out = _REPORT,
    as_json: shared.AsJson = False,
    as_markdown: AsMarkdown = False,
    open_page: Open = False,
    user: shared.User = None,
    item: shared.Item = None,
    value: shared.Value = None,
    timestamp: shared.Timestamp = None,
    delimiter: shared.Delimiter = None,
    file_format: shared.Format = None,
    query: shared.Query = None,
    min_items_per_user: shared.MinItems = 0,
    min_users_per_item: shared.MinUsers = 0,
    binarize: shared.Binarize = False,
    normalize_rows: Normalize = None,
) -> None:
    """Tell which items a low-rank model fails, which it memorises, and what item weights change.

    Prints a summary, a verdict and the setting to use, and writes one HTML page to open.
    """
    from equipoise.cli import paths

    if as_json and as_markdown:
        raise InvalidParameterError("--json and --md both say what to print. Give one of them.")
    asked = _rank(rank)
    paths.check(
        outputs={"--out": out},
        data=data,
        file_format=file_format,
        inputs={"--names": names},
        factors=factors or [],
        printed=as_json or as_markdown,
    )
    if data is None:
        interactions = embedded(0)
    else:
        interactions = shared.read(
            data, user, item, value, timestamp, file_format, query, delimiter
        )
    interactions = shared.prepare(
        interactions, min_items_per_user, min_users_per_item, binarize, False
    )
    found = examine(
        interactions,
        names=names,
        rank=asked,
        gamma=gamma,
        groups=groups,
        factors=factors or [],
        k=k,
        seed=seed,
        normalize=normalize_rows,
        source=EMBEDDED if data is None else shared.shown(data),
    )
    reading = {
        "--user": user,
        "--item": item,
        "--value": value,
        "--delimiter": delimiter,
        "--format": file_format,
        "--query": query,
        "--min-items-per-user": min_items_per_user or None,
        "--min-users-per-item": min_users_per_item or None,
        "--binarize": binarize or None,
    }
    found = with_options(found, reading)
    publish(found, out, as_json=as_json, as_markdown=as_markdown)
    if open_page:
        _open(out)


def embedded(seed: int) -> Interactions:
    """Draw the data that come with the package."""
    from equipoise.data.synthetic import listening

    plays = listening(seed=seed)
    console.say(f"Drew {plays.n_users:,} invented listeners of {plays.n_items:,} invented artists.")
    return plays


def examine(interactions: Interactions, **settings: Any) -> Findings:
    """Run the audit and show its progress."""
    from equipoise.audit import audit as run

    return run(interactions, progress=console.progress(), **settings)


def with_options(found: Findings, reading: Mapping[str, str | int | bool | None]) -> Findings:
    """Let the advised calls read and prepare the data as they were read and prepared here."""
    words = {name: value for name, value in reading.items() if value is not None}
    said = "".join(
        f" {name}" if value is True else f" {name} {shlex.quote(str(value))}"
        for name, value in words.items()
    )
    advice = found.verdict.advice
    data, rank, setting = advice.command.rpartition(" --rank ")
    calls = f"interactions{_filtered(reading)}{'.binarize()' * bool(reading['--binarize'])}"
    python = advice.python.replace(".fit(interactions", f".fit({calls}")
    told = replace(advice, command=f"{data}{said}{rank}{setting}", python=python)
    return replace(found, verdict=replace(found.verdict, advice=told))


def _filtered(reading: Mapping[str, str | int | bool | None]) -> str:
    users, items = reading["--min-users-per-item"] or 0, reading["--min-items-per-user"] or 0
    if not (users or items):
        return ""
    return f".filter(min_users_per_item={users}, min_items_per_user={items})"


def publish(found: Findings, out: Path, *, as_json: bool, as_markdown: bool) -> None:
    """Write the page; print the summary as JSON, as Markdown, or for people."""
    from equipoise.audit.report import render
    from equipoise.files import write_whole

    write_whole(out, render(found).encode())
    if as_json or as_markdown:
        from equipoise.audit import to_json, to_markdown

        console.write(to_json(found) if as_json else to_markdown(found))
        console.say(f"Report: {out.resolve()}")
        return
    _print(found)
    console.write(f"\nReport: {out.resolve()}")


def _rank(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not re.fullmatch(r"0*[1-9][0-9]{0,17}", text):
        raise InvalidParameterError(
            f"--rank takes a whole number of at least 1, or auto, got {text!r}."
        )
    return int(text)


def _print(found: Findings) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from equipoise.audit.record import compared_variants
    from equipoise.cli.summary import lines, portrait

    for note in found.settings.notes:
        console.say(f"note: {note}")
    table = Table(
        box=SIMPLE_HEAD,
        title="What the components are spent on",
        caption=console.inert(portrait(found)),
        caption_justify="left",
    )
    # where many models stand side by side, a name may break, but no part of it is lost
    table.add_column("", overflow="fold")
    for variant in compared_variants(found):
        table.add_column(console.inert(variant.label), justify="right", overflow="fold")
    for line in lines(found):
        table.add_row(line.title, *line.values)
    console.out.print(table)
    verdict = found.verdict
    for sentence in verdict.sentences:
        console.out.print(f"• {console.inert(sentence)}", highlight=False)
    console.out.print(f"\n[bold]Advice[/]  {console.inert(verdict.advice.why)}", highlight=False)
    for call in (verdict.advice.command, verdict.advice.python):
        console.out.print(f"  {console.inert(call)}", highlight=False, soft_wrap=True)


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        console.say(f"There is no browser to be found here: open {page.resolve()} in one yourself.")

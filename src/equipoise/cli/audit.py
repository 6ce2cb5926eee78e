"""`equipoise audit [DATA]` and `equipoise demo`: which items a model fails, on one page."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import typer

from equipoise.cli import console
from equipoise.cli.options import (
    GAMMA,
    OUTPUT,
    PREPARING,
    AsJson,
    Cutoff,
    DataOptions,
    Names,
    check_outputs,
    flag,
    option,
    output,
    shown,
)
from equipoise.exceptions import InvalidParameterError

if TYPE_CHECKING:
    from equipoise.audit.findings import Findings, Variant
    from equipoise.data import Interactions

_EXAMPLE = "built-in example data"
_AUDIT = "equipoise.audit:audit"

Out = Annotated[Path, output("Write the report to this file.", "FILE", "--out", "-o")]
Seed = Annotated[int, option("Random seed.", "N", min=0, default_of=f"{_AUDIT}.seed")]


def audit(
    reading: DataOptions,
    rank: Annotated[
        str,
        option(
            "Components of each model, or auto: the best on held-out data.",
            "N|auto",
            default_of=f"{_AUDIT}.rank",
        ),
    ],
    gamma: Annotated[float, option(GAMMA, "GAMMA", default_of=f"{_AUDIT}.gamma")],
    groups: Annotated[
        str,
        option("Popularity groups: interactions or items.", "RULE", default_of=f"{_AUDIT}.groups"),
    ],
    k: Cutoff,
    seed: Seed,
    data: Annotated[
        str | None,
        typer.Argument(
            help="File, folder, glob or database URL (default: built-in example data).",
            metavar="DATA",
            show_default=False,
        ),
    ] = None,
    factors: Annotated[
        list[Path] | None,
        option(
            "Audit this model, too: item factors or an item × item matrix in .npy, .npz, "
            "Parquet or .eqp; may be repeated.",
            "FILE",
        ),
    ] = None,
    names: Names = None,
    no_normalize_rows: Annotated[
        bool,
        flag(
            "Leave the rows unchanged (default: decided by the data).",
            "--no-normalize-rows",
            rich_help_panel=PREPARING,
        ),
    ] = False,
    out: Out = Path("report.html"),
    as_json: AsJson = False,
    as_markdown: Annotated[
        bool, flag("Print Markdown instead of a table.", "--md", rich_help_panel=OUTPUT)
    ] = False,
    open_page: Annotated[
        bool, flag("Open the report in the browser.", "--open", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Show which items a low-rank model fails, which it memorizes, and what item weights change.

    Prints a summary, a verdict and the setting to use, and writes one HTML page. By default, rows
    are normalized if a few users would outweigh all others.
    """
    from equipoise.audit import audit as run

    if as_json and as_markdown:
        raise InvalidParameterError("--json and --md exclude each other. Give one of them.")
    if no_normalize_rows and reading.normalize_rows:
        raise InvalidParameterError(
            "--normalize-rows and --no-normalize-rows exclude each other. Give one of them."
        )
    asked = _rank(rank)
    check_outputs({"--out": out}, [*reading.files(data), names, *(factors or [])])
    if data is None:
        interactions = reading.prepare(_example(0), normalize=False)
    else:
        interactions = reading.read(data, normalize=False)
    found = run(
        interactions,
        progress=console.progress(),
        names=names,
        rank=asked,
        gamma=gamma,
        groups=groups,  # type: ignore[arg-type]  # refuses other names
        factors=factors or [],
        k=k,
        seed=seed,
        normalize=False if no_normalize_rows else reading.normalize_rows or None,
        source=_EXAMPLE if data is None else shown(data),
        data_options=reading.given(),
    )
    _publish(found, out, as_json=as_json, as_markdown=as_markdown)
    if open_page:
        _open(out)


def demo(
    seed: Seed,
    rank: Annotated[int, option("Components of each model.", "N", min=1, max=500)] = 16,
    out: Out = Path("report/demo.html"),
    as_json: AsJson = False,
) -> None:
    """Audit the built-in example data: how PCA treats popular and niche items, and what helps."""
    from equipoise.audit import audit as run

    out.parent.mkdir(parents=True, exist_ok=True)
    check_outputs({"--out": out}, [])
    interactions = _example(seed)
    progress = console.progress()
    found = run(interactions, rank=rank, seed=seed, source=_EXAMPLE, progress=progress)
    _publish(found, out, as_json=as_json, as_markdown=False)


def _example(seed: int) -> Interactions:
    """Draw the data that come with the package."""
    from equipoise.data.synthetic import listening

    plays = listening(seed=seed)
    console.say(f"Drew {plays.n_users:,} invented listeners of {plays.n_items:,} invented artists.")
    return plays


def _publish(found: Findings, out: Path, *, as_json: bool, as_markdown: bool) -> None:
    """Write the page; print the summary as JSON, as Markdown or as a table."""
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
    from equipoise.audit.advice import command, python_call

    for note in found.settings.notes:
        console.say(f"note: {note}")
    models = [variant.label for variant in found.compared]
    table = console.new_table(
        "",
        *models,
        right=models,
        title="What the components are spent on",
        caption=console.escape_markup(data_summary(found)),
        caption_justify="left",
    )
    for line in lines(found):
        table.add_row(line.title, *line.values)
    console.out.print(table)
    verdict = found.verdict
    for sentence in verdict.sentences:
        console.out.print(f"• {console.escape_markup(sentence)}", highlight=False)
    why = console.escape_markup(verdict.advice.why)
    console.out.print(f"\n[bold]Advice[/]  {why}", highlight=False)
    for call in (command(verdict.advice), python_call(verdict.advice)):
        console.out.print(f"  {console.escape_markup(call)}", highlight=False, soft_wrap=True)


def _open(page: Path) -> None:
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        console.say(f"no browser found; open {page.resolve()} yourself.")


class Line(NamedTuple):
    """One measure: its title, and the number of each model."""

    title: str
    values: tuple[str, ...]


def lines(found: Findings) -> list[Line]:
    """Return the main numbers of each model at the audited setting."""
    from equipoise.audit.formatting import components

    variants, k, size = found.compared, found.settings.k, found.settings.size

    def line(title: str, form: str, number: Callable[[Variant], float]) -> Line:
        return Line(title, tuple(_shown(form, number(each)) for each in variants))

    def mean(title: str, metric: str, group: str = "all") -> Line:
        return line(title, "{:.3f}", lambda v: v.means[metric][group][v.at(size)])

    def to_half(group: str) -> Line:  # if some items were never halved, the mean is a bound
        means = ((v.components_to_half[group], "≥ " * bool(v.not_halved[group])) for v in variants)
        shown = (f"{bound}{components(m)}" if math.isfinite(m) else "–" for m, bound in means)
        return Line(f"{group}: components to half error", tuple(shown))

    groups = [group.name for group in found.data.groups]
    first, last = groups[0], groups[-1]
    return [
        mean("specialization (0: all shared)", "specialization"),
        mean(f"{first}: self-reconstruction", "self_reconstruction", first),
        mean(f"{last}: self-reconstruction", "self_reconstruction", last),
        to_half(first),
        to_half(last),
        mean(f"{last}: AUC from other items", "item_auc", last),
        mean(f"Recall@{k}", "recall"),
        mean(f"NDCG@{k}", "ndcg"),
        line("components owned by one item", "{:.0f}", lambda v: len(v.owned)),
    ]


def data_summary(found: Findings) -> str:
    """Return in one sentence what was audited."""
    from equipoise.audit.formatting import setting

    data, settings = found.data, found.settings
    groups = ", ".join(f"{group.n_items:,} {group.name}" for group in data.groups)
    chosen = "" if settings.size_chosen_by == "given" else f"; rank: {settings.size_chosen_by}"
    return (
        f"{data.n_users:,} users × {data.n_items:,} items, {data.n_interactions:,} interactions; "
        f"{setting(settings.audited)}{chosen}; popularity groups by {settings.groups}: {groups}."
    )


def _shown(form: str, number: float) -> str:
    return form.format(number) if math.isfinite(number) else "–"

"""`equipoise recommend MODEL DATA`: lists for all users of a file, or for a few."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from equipoise.cli import console
from equipoise.cli import options as shared
from equipoise.exceptions import InvalidParameterError
from equipoise.progress import task

if TYPE_CHECKING:
    import polars as pl
    from rich.table import Table

    from equipoise.data import Interactions

Users = Annotated[
    str | None, typer.Option("--users", help="Only these, e.g. 17,42.", metavar="IDS")
]
UsersFile = Annotated[
    Path | None, typer.Option("--users-file", help="Only these: one id on each line.")
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="Write to this .parquet, .csv or .jsonl file.",
        rich_help_panel=shared.OUTPUT,
    ),
]
Explain = Annotated[bool, typer.Option("--explain", help="Add what speaks for each item.")]
Top = Annotated[int, typer.Option("--top", help="With --explain: so many reasons.", min=1)]
Seen = Annotated[bool, typer.Option("--include-seen", help="List what a user has as well.")]
Only = Annotated[
    str | None, typer.Option("--only-items", help="Choose from these alone.", metavar="IDS")
]
Exclude = Annotated[
    str | None, typer.Option("--exclude-items", help="Never list these.", metavar="IDS")
]
AsJsonLines = Annotated[
    bool, typer.Option("--json", help="Print JSON lines.", rich_help_panel=shared.OUTPUT)
]


def recommend(
    model: shared.ModelFile,
    data: shared.Data,
    users: Users = None,
    users_file: UsersFile = None,
    n: shared.Length = 10,
    out: Out = None,
    explain: Explain = False,
    top: Top = 3,
    include_seen: Seen = False,
    only_items: Only = None,
    exclude_items: Exclude = None,
    names: shared.Names = None,
    as_json: AsJsonLines = False,
    user: shared.User = None,
    item: shared.Item = None,
    value: shared.Value = None,
    timestamp: shared.Timestamp = None,
    delimiter: shared.Delimiter = None,
    file_format: shared.Format = None,
    query: shared.Query = None,
    binarize: shared.Binarize = False,
    normalize_rows: shared.Normalize = False,
    drop_unknown_items: shared.DropUnknown = False,
) -> None:
    """Recommend items to all users of DATA, or to those named; users need not be in training.

    Without --out the lists are printed: as a table on a terminal, as JSON lines into a pipe.
    """
    from equipoise.cli import ids, lists, paths
    from equipoise.models import load

    write = None if out is None else lists.writer(out)
    paths.check(
        outputs={"--out": out},
        data=data,
        file_format=file_format,
        inputs={"MODEL": model, "--users-file": users_file, "--names": names},
    )
    fitted = load(model)
    catalogue = ids.item_ids(fitted)
    request = lists.Request(
        k=min(n, len(catalogue)),
        include_seen=include_seen,
        only=ids.wanted(only_items, catalogue, "item", "--only-items"),
        exclude=ids.wanted(exclude_items, catalogue, "item", "--exclude-items"),
        because=top if explain else 0,
        names=ids.item_names(fitted, names),
    )
    interactions = shared.read(data, user, item, value, timestamp, file_format, query, delimiter)
    interactions = shared.prepare(interactions, 0, 0, binarize, normalize_rows)
    chosen = _chosen(ids.aligned(interactions, fitted, drop_unknown_items), users, users_file)
    # a bar would run through the tables that are printed to the same terminal
    progress = console.progress(hidden=out is None and console.out.is_terminal)
    with task(progress, "Recommending", chosen.n_users) as recommending:
        blocks = lists.tables(fitted, chosen, request, progress=recommending)
        if out is None or write is None:
            _print(blocks, as_json or not console.out.is_terminal)
        else:
            write(out, blocks)
    if out is not None:
        console.say(f"Lists of {chosen.n_users:,} users: {out.resolve()}")


def _chosen(interactions: Interactions, users: str | None, file: Path | None) -> Interactions:
    """Keep the users who were named; all if none was."""
    from equipoise.cli import ids

    if users is not None and file is not None:
        raise InvalidParameterError("--users and --users-file both name users. Give one of them.")
    if file is not None:
        found = ids.matched(ids.listed(file, "user"), interactions.user_ids, "user")
        return interactions.select_users(found)
    named = ids.wanted(users, interactions.user_ids, "user", "--users")
    return interactions if named is None else interactions.select_users(named)


def _print(blocks: Iterable[pl.DataFrame], as_json: bool) -> None:
    from equipoise.cli.lists import as_json_lines

    for block in blocks:
        if as_json:
            console.write(as_json_lines(block))
        else:
            console.out.print(_table(block))


def _table(block: pl.DataFrame) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD)
    for name in block.columns:
        table.add_column(name, justify="right" if name in ("rank", "score") else "left")
    for row in block.iter_rows(named=True):
        cells = {**row, "score": f"{row['score']:.4g}"}
        if "because" in row:
            cells["because"] = ", ".join(map(_reason, row["because"]))
        table.add_row(*(console.inert(cell) for cell in cells.values()))
    return table


def _reason(reason: Mapping[str, Any]) -> str:
    called = reason.get("name", reason["item"])
    return str(called) if reason["share"] is None else f"{called} {reason['share']:.0%}"

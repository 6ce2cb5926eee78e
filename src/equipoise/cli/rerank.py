"""`equipoise rerank LISTS DATA`: the lists of another system, re-ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from equipoise.cli import console
from equipoise.cli.options import (
    AsJson,
    Data,
    DataOptions,
    ItemGroupsFile,
    Length,
    Rerank,
    check_outputs,
    output,
    rerank_groups,
)
from equipoise.cli.recommend import print_lists, sink_of
from equipoise.exceptions import OutputError

ListFile = Annotated[
    Path,
    typer.Argument(
        help="CSV or Parquet file with the columns user, item, and score or rank.", metavar="LISTS"
    ),
]


def rerank(
    lists: ListFile,
    data: Data,
    reading: DataOptions,
    n: Length,
    rerank: Rerank = "xquad:0.3",
    item_groups: ItemGroupsFile = None,
    out: Annotated[
        Path | None, output("Write to this .parquet, .csv or .jsonl file.", "FILE", "--out", "-o")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Re-rank the lists of another system; DATA contains what the users already have.

    The longer the lists, the more a re-ranker can choose from.
    """
    from equipoise.reranking import rerank_lists

    sink = None if out is None else sink_of(out)
    check_outputs({"--out": out}, [lists, *reading.files(data)])
    found = rerank_lists(
        lists, reading.read(data), rerank or "xquad:0.3", n, **rerank_groups(item_groups)
    )
    if found.solution is not None:
        for line in str(found.solution).splitlines():
            console.say(line)
    if out is None or sink is None:
        print_lists(found.table, as_json or not console.out.is_terminal)
        return
    try:
        getattr(found.table.lazy(), sink)(out)
    except OSError as error:
        raise OutputError(f"{out} was not written: {error}.") from error
    console.say(f"Lists of {found.table['user'].n_unique():,} users: {out.resolve()}")

"""`equipoise recommend`, `rerank`, `similar` and `explain`: lists, and the reasons for them."""

from __future__ import annotations

import functools
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise import defaults
from equipoise.cli import console
from equipoise.cli import library as lib
from equipoise.cli import options as opt
from equipoise.display import Shown
from equipoise.exceptions import InvalidParameterError, OutputError, explained
from equipoise.files import by_ending, scratch_folder, write_whole
from equipoise.progress import Progress, task

if TYPE_CHECKING:
    import polars as pl


SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}


def recommend(
    model: Path,
    data: str,
    reading: opt.DataOptions,
    k: int = defaults.SERVED_K,
    users: str | None = None,
    users_file: Path | None = None,
    out: Path | None = None,
    explain: bool = False,
    top: int = 3,
    include_seen: bool = False,
    only_items: str | None = None,
    exclude_items: str | None = None,
    names: str | None = None,
    as_json: bool = False,
    drop_unknown_items: bool = False,
    rerank: str | None = None,
    item_groups: str | None = None,
) -> None:
    """Recommend items to all users of DATA, or to some; they need not be in the training data.

    Without --out the lists are printed: as a table on a terminal, as JSON lines into a pipe.
    """
    sink = None if out is None else sink_of(out)
    opt.check_outputs({"--out": out})
    if users is not None and users_file is not None:
        raise InvalidParameterError("--users and --users-file both name users. Give one of them.")
    listed = None if users_file is None else lib.ids.listed(users_file, "user")
    fitted = lib.load(model)
    known = lib.ids.item_ids(fitted)
    options = {
        "filter_already_liked_items": not include_seen,
        "items": lib.ids.wanted(only_items, known, "item", "--only-items"),
        "filter_items": lib.ids.wanted(exclude_items, known, "item", "--exclude-items"),
    }
    called = lib.ids.item_names(fitted, reading.like(fitted).names(data, names))
    chosen = lib.ids.aligned(reading.like(fitted).read(data), fitted, drop_unknown_items)
    if rerank is not None:
        fitted = lib.Reranked.around(fitted, rerank, chosen, **opt.rerank_groups(item_groups))
    who = lib.ids.wanted(users, chosen.user_ids, "user", "--users")
    if listed is not None:
        who = lib.ids.matched(listed, chosen.user_ids, "user")
    if who is not None:
        chosen = chosen.select_users(who)
    wanted = lib.Wanted(
        fitted, min(k, len(known)), options, because=top if explain else 0, names=called
    )
    # a bar would interfere with tables that are printed to the same terminal
    progress = console.progress(hidden=out is None and console.out().is_terminal)
    with task(progress, "Recommending", chosen.n_users) as recommending:
        if out is None or sink is None:
            for table in printed_tables(chosen, wanted, recommending):
                print_lists(table, as_json or not console.out().is_terminal)
        else:
            write_file(out, sink, chosen, wanted, recommending)
    if out is not None:
        console.say(f"Lists of {chosen.n_users:,} users: {out.resolve()}")


def sink_of(path: Path) -> str:
    """Return polars' writer for the ending of a file; a pipe without one gets JSON lines."""
    if not path.suffix and path.exists() and not (path.is_file() or path.is_dir()):
        return SINKS[".jsonl"]
    return by_ending(path, SINKS)


def printed_tables(
    data: lib.Interactions, wanted: lib.Wanted, progress: Progress
) -> Iterator[pl.DataFrame]:
    """Yield the tables of all users, from files for data in blocks."""
    import polars as pl

    block = data.rows.whole()
    if block is not None:
        yield from lib.lists.tables(block, wanted, progress)
        return
    with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
        lib.lists.write_parts(wanted, data, Path(folder))
        yield from map(pl.read_parquet, sorted(Path(folder).iterdir()))


def write_file(
    path: Path, sink: str, data: lib.Interactions, wanted: lib.Wanted, progress: Progress
) -> None:
    """Write the tables of all users to one file, which appears when it is complete."""
    import polars as pl

    problem = f"{path} was not written. Free space on the disk, or write elsewhere"
    with scratch_folder(path) as folder:
        with explained(problem, pl.exceptions.PolarsError, OSError, kind=OutputError):
            lib.lists.write_parts(wanted, data, folder, progress)
            lists = pl.scan_parquet(sorted(folder.iterdir()), glob=False)
            if sink == "sink_csv" and wanted.because:  # a cell is text: JSON
                reasons = pl.col("because").list.eval(pl.element().struct.json_encode())
                lists = lists.with_columns(because=pl.format("[{}]", reasons.list.join(",")))
            whole = folder / "whole"
            getattr(lists, sink)(whole)
        with whole.open("rb") as source:
            write_whole(path, functools.partial(shutil.copyfileobj, source))


def print_lists(lists: pl.DataFrame, as_json: bool) -> None:
    """Print a table of lists, or JSON lines."""
    if as_json:
        console.write(lists.write_ndjson())
        return
    rows = []
    for row in lists.iter_rows(named=True):
        if row["score"] is None:  # the list is a fallback
            row["score"] = "popular"
        if "because" in row:
            row["because"] = ", ".join(map(_reason, row["because"]))
        rows.append(list(row.values()))
    console.print_table(Shown("", lists.columns, rows))


def _reason(reason: Mapping[str, Any]) -> str:
    name = reason.get("name", reason["item"])
    return str(name) if reason["share"] is None else f"{name} {reason['share']:.0%}"


def rerank(
    lists: Path,
    data: str,
    reading: opt.DataOptions,
    k: int = defaults.SERVED_K,
    rerank: str = defaults.RERANKER,
    item_groups: str | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Re-rank the lists of another system; DATA contains what the users already have.

    The longer the lists, the more a re-ranker can choose from.
    """
    sink = None if out is None else sink_of(out)
    opt.check_outputs({"--out": out})
    table = lib.read_list_file(lists)  # before the data, which may be large
    found = lib.rerank_lists(table, reading.read(data), rerank, k, **opt.rerank_groups(item_groups))
    if found.solution is not None:
        for line in str(found.solution).splitlines():
            console.say(line)
    if out is None or sink is None:
        print_lists(found.table, as_json or not console.out().is_terminal)
        return
    with explained(f"{out} was not written", OSError, kind=OutputError):
        getattr(found.table.lazy(), sink)(out)
    console.say(f"Lists of {found.table['user'].n_unique():,} users: {out.resolve()}")


def similar(
    model: Path,
    item: str,
    k: int = defaults.SERVED_K,
    names: str | None = None,
    as_json: bool = False,
) -> None:
    """List the items most similar to one, according to the model."""
    fitted = lib.load(model)
    (wanted,) = lib.ids.matched([item], lib.ids.item_ids(fitted), "item")
    called = lib.ids.item_names(fitted, names)
    found = fitted.similar_items(wanted, min(k, fitted.n_features_in_))
    rows: list[dict[str, Any]] = [
        {"item": each, "similarity": float(score)}
        | ({} if called is None else {"name": called[each]})
        for each, score in zip(found.ids.tolist(), found.scores.tolist(), strict=True)
        if score == score  # a short list ends in NaN
    ]
    if not rows:
        console.say(f"note: {type(fitted).__name__} finds no item similar to {wanted}.")
    if as_json:
        console.write_json(rows)
    elif rows:
        name = "" if called is None else f" ({called[wanted]})"
        console.print_rows(rows, f"Most similar to {wanted}{name}")


def explain(
    model: Path,
    data: str,
    user_id: str,
    item_id: str,
    reading: opt.DataOptions,
    top: int = 10,
    names: str | None = None,
    as_json: bool = False,
    drop_unknown_items: bool = False,
) -> None:
    """Split a user's score for an item into the contributions of the user's own items."""
    fitted = lib.load(model)
    (wanted,) = lib.ids.matched([item_id], lib.ids.item_ids(fitted), "item")
    called = lib.ids.item_names(fitted, reading.like(fitted).names(data, names))
    interactions = lib.ids.aligned(reading.like(fitted).read(data), fitted, drop_unknown_items)
    (who,) = lib.ids.matched([user_id], interactions.user_ids, "user")
    why = fitted.explain(interactions.select_users([who]), wanted, top)
    rows = [
        {"item": each, "contribution": part, "share": part / why.score if why.score else None}
        | ({} if called is None else {"name": called[each]})
        for each, part in zip(why.ids.tolist(), why.contributions.tolist(), strict=True)
    ]
    if as_json:
        facts = {"user": who, "item": wanted, "score": why.score, "because": rows}
        console.write_json({**facts, "rest": why.rest})
        return
    name = "" if called is None else f" ({called[wanted]})"
    console.print_rows(rows, f"Why {wanted}{name} scores {why.score:.4g} for {who}")
    console.out().print(f"all other items {why.rest:.4g}")

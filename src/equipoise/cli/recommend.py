"""`equipoise recommend`, `rerank`, `similar` and `explain`: lists, and the reasons for them."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from equipoise.cli import console
from equipoise.cli import options as opt
from equipoise.display import Shown
from equipoise.exceptions import InvalidParameterError, OutputError, explained
from equipoise.files import scratch_folder, write_whole
from equipoise.progress import NoProgress, Progress, task

if TYPE_CHECKING:
    import polars as pl
    from numpy.typing import NDArray

    from equipoise.data import Interactions
    from equipoise.data.rows import RowBlock
    from equipoise.models import Explanations, Recommender

# Rows of a table at a time: some MB, and blocks large enough for fast products.
_ROWS_AT_A_TIME = 1 << 16
SINKS = {".parquet": "sink_parquet", ".csv": "sink_csv", ".jsonl": "sink_ndjson"}


@dataclass(frozen=True)
class Request:
    """What to recommend."""

    model: Recommender
    length: int  # items per user
    options: Mapping[str, Any]  # of the model's `recommend`
    because: int = 0  # contributions to list with each item
    names: Mapping[Any, str] | None = None
    as_text: bool = False  # contributions as JSON text, for CSV
    rows_at_a_time: int = _ROWS_AT_A_TIME  # of one table, which has at least one user


def recommend(
    model: Path,
    data: str,
    reading: opt.DataOptions,
    n: int,
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
    from equipoise.cli import ids

    sink = None if out is None else sink_of(out)
    opt.check_outputs({"--out": out})
    if users is not None and users_file is not None:
        raise InvalidParameterError("--users and --users-file both name users. Give one of them.")
    listed = None if users_file is None else ids.listed(users_file, "user")
    fitted = opt.load_model(model)
    known = ids.item_ids(fitted)
    options = {
        "filter_already_liked_items": not include_seen,
        "items": ids.wanted(only_items, known, "item", "--only-items"),
        "filter_items": ids.wanted(exclude_items, known, "item", "--exclude-items"),
    }
    called = ids.item_names(fitted, reading.like(fitted).names(data, names))
    request = Request(
        fitted, min(n, len(known)), options, top if explain else 0, called, sink == "sink_csv"
    )
    chosen = ids.aligned(reading.like(fitted).read(data), fitted, drop_unknown_items)
    if rerank is not None:
        from equipoise.reranking import Reranked

        groups = opt.rerank_groups(item_groups)
        request = replace(request, model=Reranked.around(fitted, rerank, chosen, **groups))
    wanted = ids.wanted(users, chosen.user_ids, "user", "--users")
    if listed is not None:
        wanted = ids.matched(listed, chosen.user_ids, "user")
    if wanted is not None:
        chosen = chosen.select_users(wanted)
    # a bar would interfere with tables that are printed to the same terminal
    progress = console.progress(hidden=out is None and console.out.is_terminal)
    with task(progress, "Recommending", chosen.n_users) as recommending:
        if out is None or sink is None:
            as_json = as_json or not console.out.is_terminal
            with tempfile.TemporaryDirectory(prefix="equipoise-") as folder:
                for table in printed_tables(chosen, request, Path(folder), recommending):
                    print_lists(table, as_json)
        else:
            write_tables(out, sink, chosen, request, recommending)
    if out is not None:
        console.say(f"Lists of {chosen.n_users:,} users: {out.resolve()}")


def sink_of(path: Path) -> str:
    """Return polars' writer for the ending of a file; a pipe without one gets JSON lines."""
    if not path.suffix and path.exists() and not (path.is_file() or path.is_dir()):
        return SINKS[".jsonl"]
    if path.suffix.lower() not in SINKS:
        raise InvalidParameterError(
            f"--out {path}: the ending sets the format; use one of {', '.join(SINKS)}."
        )
    return SINKS[path.suffix.lower()]


def printed_tables(
    data: Interactions, request: Request, folder: Path, progress: Progress
) -> Iterator[pl.DataFrame]:
    """Yield the tables of all users; blocks on disk or on a cluster write theirs to `folder`."""
    import polars as pl

    block = data.rows.whole()
    if block is not None:
        yield from tables(block, request, progress)
    else:
        yield from map(pl.read_parquet, _parts(data, request, folder, progress))


def write_tables(
    path: Path, sink: str, data: Interactions, request: Request, progress: Progress
) -> None:
    """Write the tables of all users to one file, which appears when it is complete."""
    import polars as pl

    problem = f"{path} was not written. Free space on the disk, or write elsewhere"
    with scratch_folder(path) as folder:
        with explained(problem, pl.exceptions.PolarsError, OSError, kind=OutputError):
            parts = _parts(data, request, folder, progress)
            whole = folder / "whole"
            getattr(pl.scan_parquet(parts, glob=False), sink)(whole)
        with whole.open("rb") as source:
            write_whole(path, functools.partial(shutil.copyfileobj, source))


def _parts(data: Interactions, request: Request, folder: Path, progress: Progress) -> list[Path]:
    """Write the tables of all users as Parquet files into a folder, block by block."""
    if data.rows.whole() is None:  # the work may be in other processes
        progress = NoProgress()
    numbers = [(number,) for number in range(len(data.rows))]
    counts = data.map(_write_parts, request, str(folder), progress, each=numbers)
    parts = [_part(folder, block, n) for block, count in enumerate(counts) for n in range(count)]
    if not all(part.exists() for part in parts):
        raise OutputError(
            f"{folder} lacks some lists: the workers of the cluster write to another disk. Write "
            "to a folder that all of them share."
        )
    return parts


def _write_parts(
    block: RowBlock, request: Request, folder: str, progress: Progress, number: int
) -> int:
    count = 0
    for table in tables(block, request, progress):
        table.write_parquet(_part(Path(folder), number, count))
        count += 1
    return count


def _part(folder: Path, block: int, number: int) -> Path:
    return folder / f"{block:06}-{number:06}.parquet"


def tables(block: RowBlock, request: Request, progress: Progress) -> Iterator[pl.DataFrame]:
    """Yield tables of user, rank, item, score, and what else was asked for; never all at once."""
    step = max(1, request.rows_at_a_time // request.length)
    for start in range(0, len(block.user_ids), step):
        users = block.user_ids[start : start + step]
        yield _table(users, block.matrix[start : start + step], request)
        progress.advance(len(users))


def _table(users: NDArray[Any], rows: Any, request: Request) -> pl.DataFrame:
    import polars as pl

    from equipoise.serving.lists import lists_of

    found = lists_of(request.model, rows, request.length, request.options)
    table = found.table(users)
    if request.names is not None:
        names = [request.names[item] for item in found.items.tolist()]
        table.insert_column(table.columns.index("score"), pl.Series("name", names, pl.String))
    if not request.because:
        return table
    explained = request.model.explain_lists(rows, found.ranking, request.because)
    because = reasons(explained, found.items, request.names)
    if request.as_text:
        texts = [json.dumps(each, ensure_ascii=False, default=str) for each in because.to_list()]
        because = pl.Series("because", texts, pl.String)
    return table.with_columns(because)


def reasons(
    explained: Explanations, like: NDArray[Any], names: Mapping[Any, str] | None
) -> pl.Series:
    """Return one list per score: the user's items, their part of the score, its share.

    Ids have the type of those of `like`, also where there is no explanation.
    """
    import numpy as np
    import polars as pl

    from equipoise.data.identifiers import as_column

    listed = ~np.isnan(explained.scores)
    given = ~np.isnan(explained.contributions)
    counts = given.sum(axis=2)
    items = np.concatenate([like[:0], explained.ids[given]])
    parts = explained.contributions[given]
    scores = np.repeat(explained.scores.ravel(), counts.ravel())
    share = pl.Series(parts / np.where(scores == 0, np.nan, scores), nan_to_null=True)
    flat = pl.DataFrame({"item": as_column(items), "contribution": parts, "share": share})
    if names is not None:
        flat = flat.with_columns(pl.Series("name", [names[i] for i in items.tolist()], pl.String))
    owner = pl.Series("owner", np.repeat(np.arange(listed.sum()), counts[listed])).set_sorted()
    grouped = flat.to_struct("because").to_frame().with_columns(owner)
    grouped = grouped.group_by("owner", maintain_order=True).agg("because")
    if len(grouped) == listed.sum():
        return grouped["because"]
    every = pl.DataFrame({"owner": np.arange(listed.sum())})
    found = every.join(grouped, on="owner", how="left", maintain_order="left")["because"]
    return found.fill_null(pl.Series([[]], dtype=found.dtype))


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
    n: int,
    rerank: str | None = "xquad:0.3",
    item_groups: str | None = None,
    out: Path | None = None,
    as_json: bool = False,
) -> None:
    """Re-rank the lists of another system; DATA contains what the users already have.

    The longer the lists, the more a re-ranker can choose from.
    """
    from equipoise.reranking import rerank_lists

    sink = None if out is None else sink_of(out)
    opt.check_outputs({"--out": out})
    found = rerank_lists(
        lists, reading.read(data), rerank or "xquad:0.3", n, **opt.rerank_groups(item_groups)
    )
    if found.solution is not None:
        for line in str(found.solution).splitlines():
            console.say(line)
    if out is None or sink is None:
        print_lists(found.table, as_json or not console.out.is_terminal)
        return
    with explained(f"{out} was not written", OSError, kind=OutputError):
        getattr(found.table.lazy(), sink)(out)
    console.say(f"Lists of {found.table['user'].n_unique():,} users: {out.resolve()}")


def similar(
    model: Path, item: str, n: int, names: str | None = None, as_json: bool = False
) -> None:
    """List the items most similar to one, according to the model."""
    from equipoise.cli import ids

    fitted = opt.load_model(model, "Give the file that equipoise fit wrote.")
    (wanted,) = ids.matched([item], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, names)
    found = fitted.similar_items(wanted, min(n, fitted.n_features_in_))
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
    from equipoise.cli import ids

    fitted = opt.load_model(model)
    (wanted,) = ids.matched([item_id], ids.item_ids(fitted), "item")
    called = ids.item_names(fitted, reading.like(fitted).names(data, names))
    interactions = ids.aligned(reading.like(fitted).read(data), fitted, drop_unknown_items)
    (who,) = ids.matched([user_id], interactions.user_ids, "user")
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
    console.out.print(f"all other items {why.rest:.4g}", highlight=False)

"""Recommended lists as tables: made block by block, written as they come, never all at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import polars as pl

from equipoise.exceptions import InvalidParameterError, OutputError
from equipoise.files import scratch_folder, write_whole

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from equipoise.data import Interactions
    from equipoise.models import Explanation, Recommender
    from equipoise.progress import Progress

# Rows held at a time: some MB of table, and blocks large enough for fast products.
ROWS_AT_A_TIME = 1 << 16


@dataclass(frozen=True)
class Request:
    """What to recommend.

    Attributes
    ----------
    k : int
        Items a user.
    include_seen : bool
        Whether to list what the user already has.
    only, exclude : list or None
        The only items to choose from, and those never to list.
    because : int
        How many contributions to list with each item; 0 for none.
    names : mapping or None
        What items are called.
    """

    k: int
    include_seen: bool = False
    only: list[Any] | None = None
    exclude: list[Any] | None = None
    because: int = 0
    names: Mapping[Any, str] | None = None


def tables(
    model: Recommender,
    interactions: Interactions,
    request: Request,
    *,
    rows_at_a_time: int = ROWS_AT_A_TIME,
    progress: Progress | None = None,
) -> Iterator[pl.DataFrame]:
    """Yield one table for each block of users: user, rank, item, score, and what was asked for.

    Parameters
    ----------
    model : Recommender
        Fitted.
    interactions : Interactions
        The users, with the columns of the model.
    request : Request
        What to recommend.
    rows_at_a_time : int
        Upper limit of a block; one user is the least.
    progress : Progress, optional
        A task that advances by the users of each block.
    """
    step = max(1, rows_at_a_time // request.k)
    for start in range(0, interactions.n_users, step):
        users = interactions.user_ids[start : start + step]
        yield _table(model, users, interactions.matrix[start : start + step], request)
        if progress is not None:
            progress.advance(len(users))


def _table(model: Recommender, users: NDArray[Any], rows: Any, request: Request) -> pl.DataFrame:
    ranking = model.recommend(
        rows,
        request.k,
        filter_already_liked_items=not request.include_seen,
        filter_items=request.exclude,
        items=request.only,
    )
    # where too few items are left, the list is shorter
    row, place = np.nonzero(~np.isnan(ranking.scores))
    items = ranking.ids[row, place]
    columns = {"user": _column(users[row]), "rank": place + 1, "item": _column(items)}
    if request.names is not None:
        columns["name"] = [request.names[item] for item in items.tolist()]
    columns["score"] = ranking.scores[row, place].astype(np.float64)
    table = pl.DataFrame(columns, schema_overrides={"rank": pl.Int32})
    if request.because:
        told = [
            reasons(model.explain(rows[[i]], item, k=request.because), request.names)
            for i, item in zip(row, items, strict=True)
        ]
        table = table.with_columns(pl.Series("because", told, dtype=_reasons_type(table)))
    return table


def reasons(why: Explanation, names: Mapping[Any, str] | None) -> list[dict[str, Any]]:
    """What speaks for an item: items of the user, their part of the score, and its share."""
    rows = [
        {"item": item, "contribution": part, "share": part / why.score if why.score else None}
        for item, part in zip(why.ids.tolist(), why.contributions.tolist(), strict=True)
    ]
    return rows if names is None else [row | {"name": names[row["item"]]} for row in rows]


def _reasons_type(table: pl.DataFrame) -> pl.DataType:
    fields = {"item": table.schema["item"], "contribution": pl.Float64(), "share": pl.Float64()}
    if "name" in table.columns:
        fields["name"] = pl.String()
    return pl.List(pl.Struct(fields))


def _column(ids: NDArray[Any]) -> pl.Series:
    """Ids as a column of one type, the same for every block; mixed ones as text."""
    if ids.dtype.kind != "O":
        return pl.Series(ids)
    return pl.Series([str(value) for value in ids], dtype=pl.String)


def as_json_lines(table: pl.DataFrame) -> str:
    """One JSON object a line."""
    return table.write_ndjson()


def _as_csv(table: pl.DataFrame, *, header: bool) -> str:
    if "because" in table.columns:  # a cell of CSV holds text alone
        cells = table["because"].to_list()
        told = [json.dumps(cell, ensure_ascii=False, default=str) for cell in cells]
        table = table.with_columns(pl.Series("because", told, dtype=pl.String))
    return table.write_csv(include_header=header)


def _write_csv(path: Path, blocks: Iterable[pl.DataFrame]) -> None:
    def fill(file: IO[bytes]) -> None:
        for number, table in enumerate(blocks):
            file.write(_as_csv(table, header=number == 0).encode())

    write_whole(path, fill)


def _write_json_lines(path: Path, blocks: Iterable[pl.DataFrame]) -> None:
    def fill(file: IO[bytes]) -> None:
        for table in blocks:
            file.write(as_json_lines(table).encode())

    write_whole(path, fill)


def _write_parquet(path: Path, blocks: Iterable[pl.DataFrame]) -> None:
    """Parquet is closed by a footer: blocks become files of their own, then one stream of rows."""
    with scratch_folder(path) as folder:
        pieces = []
        for number, table in enumerate(blocks):
            pieces.append(folder / f"{number:08}.parquet")
            _stored(path, partial(table.write_parquet, pieces[-1]))
        whole = folder / "whole.parquet"
        _stored(path, lambda: pl.scan_parquet(pieces, glob=False).sink_parquet(whole))
        with whole.open("rb") as source:
            write_whole(path, lambda file: _copy(source, file))


def _stored(path: Path, store: Callable[[], None]) -> None:
    try:
        store()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise OutputError(
            f"{path} was not written: {error}. Free space on the disk, or write elsewhere."
        ) from error


def _copy(source: IO[bytes], target: IO[bytes]) -> None:
    while piece := source.read(1 << 20):
        target.write(piece)


_WRITERS: dict[str, Callable[[Path, Iterable[pl.DataFrame]], None]] = {
    ".parquet": _write_parquet,
    ".csv": _write_csv,
    ".jsonl": _write_json_lines,
}


def writer(path: Path) -> Callable[[Path, Iterable[pl.DataFrame]], None]:
    """Who writes files of this ending; a pipe without one takes JSON lines."""
    if not path.suffix and path.exists() and not (path.is_file() or path.is_dir()):
        return _write_json_lines
    if path.suffix.lower() not in _WRITERS:
        raise InvalidParameterError(
            f"--out {path}: the ending says how lists are written; use one of "
            f"{', '.join(_WRITERS)}."
        )
    return _WRITERS[path.suffix.lower()]

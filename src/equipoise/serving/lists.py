"""Lists for all users, written block by block as Parquet files, all of them or none."""

from __future__ import annotations

import io
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.identifiers import as_column
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.defaults import SERVED_K
from equipoise.exceptions import InvalidDataError, OutputError, explained, require_extra
from equipoise.models import Explanations, Recommender
from equipoise.progress import NoProgress, Progress

# Rows of a table at a time: some MB, and blocks large enough for fast products.
_ROWS_AT_A_TIME = 1 << 16
# A file of a million rows has some ten MB.
_TABLES_PER_FILE = 16


class Wanted(NamedTuple):
    """Which lists of a model are wanted, with what."""

    model: Recommender
    k: int
    options: Mapping[str, Any]  # of the model's `recommend`
    item_ids: NDArray[Any] | None = None  # of the columns, where the model has another order
    because: int = 0  # contributions to list with each item
    names: Mapping[Any, str] | None = None
    rows_at_a_time: int = _ROWS_AT_A_TIME  # of one table, which has at least one user


def write_lists(
    model: Recommender,
    data: Interactions,
    folder: str | os.PathLike[str],
    *,
    k: int = SERVED_K,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> int:
    """Write the k best items of every user as Parquet files: user, rank, item, score.

    The folder gets its name when every list is in it. On an object store, which cannot rename
    folders, the file `_SUCCESS` is written last, and all files are removed if anything fails.

    Parameters
    ----------
    model : Recommender
        Fitted; sent to every worker once.
    data : Interactions
        The users, with their interactions; in memory, on disk or on a cluster.
    folder : path or URL
        Must not exist yet. With a cluster: a place where all workers can write.
    k : int
        Items per user.
    storage_options : mapping, optional
        fsspec's, for a URL.
    options : keyword arguments
        filter_already_liked_items, filter_items and items, as in `Recommender.recommend`.

    Returns
    -------
    int
        Rows written.
    """
    wanted = Wanted(model, k, options, _other_order(model, data.item_ids))
    if "://" in str(folder):
        return _write_to_store(wanted, data, str(folder), dict(storage_options or {}))
    target = Path(folder)
    if target.exists():
        raise OutputError(f"{target} exists already. Remove it, or choose another name.")
    problem = (
        f"{target} was not written, and nothing was kept. Check that its parent folder exists, has "
        "free space, and that every worker can write to it"
    )
    staging = target.with_name(f".equipoise-{secrets.token_hex(8)}.tmp")
    with explained(problem, OSError, kind=OutputError):
        staging.mkdir()
        try:
            rows = write_parts(wanted, data, staging)
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return rows


def _write_to_store(wanted: Wanted, data: Interactions, place: str, storage: dict[str, Any]) -> int:
    fsspec = require_extra("fsspec", "dask", f"writing {place}")
    system, path = fsspec.core.url_to_fs(place, **storage)
    if system.exists(path):
        raise OutputError(f"{place} exists already. Remove it, or choose another name.")
    try:
        files = _write(wanted, data, place, storage, NoProgress())
        system.pipe_file(f"{path}/_SUCCESS", b"")
    except BaseException:  # Ctrl-C too: lists of some users only must not stay behind
        if system.exists(path):
            system.rm(path, recursive=True)
        raise
    return sum(files.values())


def _other_order(model: Recommender, item_ids: NDArray[Any]) -> NDArray[Any] | None:
    """Return the ids of the columns, where the model has its items in another order."""
    if model.item_ids_ is None and model.n_features_in_ != len(item_ids):
        raise InvalidDataError(
            f"the model has {model.n_features_in_} items and no ids, the data have "
            f"{len(item_ids)} items. Fit the model on these data."
        )
    same = model.item_ids_ is None or np.array_equal(model.item_ids_, item_ids)
    return None if same else item_ids


def write_parts(
    wanted: Wanted, data: Interactions, folder: Path, progress: Progress | None = None
) -> int:
    """Write the lists into a folder; the names of the files have the order of the users."""
    if progress is None or data.rows.whole() is None:  # the work may be in other processes
        progress = NoProgress()
    files = _write(wanted, data, str(folder.resolve()), None, progress)
    found = {path.name for path in folder.iterdir()}
    if not files.keys() <= found:
        raise OSError("files are missing: the workers of the cluster write to another disk")
    for name in found - files.keys():  # incomplete files of workers that were killed
        (folder / name).unlink()
    return sum(files.values())


def _write(
    wanted: Wanted,
    data: Interactions,
    place: str,
    storage: Mapping[str, Any] | None,
    progress: Progress,
) -> dict[str, int]:
    """Write the lists of all blocks; return the number of rows of each file."""
    numbers = [(number,) for number in range(len(data.rows))]
    blocks = data.map(_write_block, wanted, place, storage, progress, each=numbers)
    return {name: rows for files in blocks for name, rows in files.items()}


def _write_block(
    block: RowBlock,
    wanted: Wanted,
    place: str,
    storage: Mapping[str, Any] | None,
    progress: Progress,
    number: int,
) -> dict[str, int]:
    rest, written = tables(block, wanted, progress), dict[str, int]()
    while part := list(islice(rest, _TABLES_PER_FILE)):
        name, table, buffer = _part_name(number, len(written)), pl.concat(part), io.BytesIO()
        table.write_parquet(buffer)
        if storage is None:
            unfinished = Path(place) / f".{name}-{secrets.token_hex(8)}"
            unfinished.write_bytes(buffer.getvalue())
            unfinished.replace(Path(place) / name)
        else:
            fsspec = require_extra("fsspec", "dask", f"writing {place}")
            system, path = fsspec.core.url_to_fs(place, **storage)
            system.pipe_file(f"{path}/{name}", buffer.getvalue())
        written[name] = len(table)
    return written


def _part_name(block: int, number: int) -> str:
    return f"part-{block:05}-{number:05}.parquet"


def tables(block: RowBlock, wanted: Wanted, progress: Progress) -> Iterator[pl.DataFrame]:
    """Yield tables of user, rank, item, score, and what else is wanted; never all at once."""
    step = max(1, wanted.rows_at_a_time // wanted.k)
    for start in range(0, len(block.user_ids), step):
        users = block.user_ids[start : start + step]
        yield _table(users, block.matrix[start : start + step], wanted)
        progress.advance(len(users))


def _table(user_ids: NDArray[Any], rows: Any, wanted: Wanted) -> pl.DataFrame:
    """Return the lists of some users, shorter ones where too few items are left."""
    if wanted.item_ids is not None:
        rows = Interactions(rows, user_ids, wanted.item_ids)
    ranking = wanted.model.recommend(rows, wanted.k, **wanted.options)
    owners, places = np.nonzero(~np.isnan(ranking.scores))
    fallback = np.broadcast_to(ranking.fallback, len(ranking.ids))[owners]
    scores = np.where(fallback, np.nan, ranking.scores[owners, places])
    items = ranking.ids[owners, places]
    columns = {
        "user": as_column(user_ids[owners]),
        "rank": pl.Series(places + 1, dtype=pl.Int32),
        "item": as_column(items),
        "name": _names(items, wanted.names),
        "score": pl.Series(scores.astype(np.float64), nan_to_null=True),
    }
    if wanted.because:
        found = wanted.model.explain_lists(rows, ranking, wanted.because)
        columns["because"] = _reasons(found, items, wanted.names)
    return pl.DataFrame({name: column for name, column in columns.items() if column is not None})


def _names(items: NDArray[Any], names: Mapping[Any, str] | None) -> pl.Series | None:
    return None if names is None else pl.Series([names[i] for i in items.tolist()], dtype=pl.String)


def _reasons(found: Explanations, like: NDArray[Any], names: Mapping[Any, str] | None) -> pl.Series:
    """Return one list per score: the user's items, their part of the score, its share.

    Ids have the type of those of `like`, also where there is no explanation.
    """
    listed = ~np.isnan(found.scores)
    given = ~np.isnan(found.contributions)
    counts = given.sum(axis=2)
    items = np.concatenate([like[:0], found.ids[given]])
    parts = found.contributions[given]
    scores = np.repeat(found.scores.ravel(), counts.ravel())
    fields = {
        "item": as_column(items),
        "contribution": pl.Series(parts),
        "share": pl.Series(parts / np.where(scores == 0, np.nan, scores), nan_to_null=True),
        "name": _names(items, names),
    }
    flat = pl.DataFrame({name: column for name, column in fields.items() if column is not None})
    owners = pl.Series("owner", np.repeat(np.arange(listed.sum()), counts[listed])).set_sorted()
    grouped = flat.to_struct("because").to_frame().with_columns(owners)
    grouped = grouped.group_by("owner", maintain_order=True).agg("because")
    every = pl.DataFrame({"owner": np.arange(listed.sum())})
    because = every.join(grouped, on="owner", how="left", maintain_order="left")["because"]
    return because.fill_null(pl.Series([[]], dtype=because.dtype))

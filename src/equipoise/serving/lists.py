"""Lists for all users, written block by block: one Parquet file per block, all of them or none."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.identifiers import as_column
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidDataError, OutputError, explained, require_extra
from equipoise.files import write_whole
from equipoise.models.base import Recommender
from equipoise.models.ranking import Ranking

if TYPE_CHECKING:
    import polars as pl


class Request(NamedTuple):
    """The lists to write, and where."""

    model: Recommender
    k: int
    options: Mapping[str, Any]
    item_ids: NDArray[Any] | None  # where the model has its items in another order
    place: str
    storage: Mapping[str, Any] | None  # None: a folder of the file system


def write_lists(
    model: Recommender,
    data: Interactions,
    folder: str | os.PathLike[str],
    *,
    k: int = 10,
    storage_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> int:
    """Write the k best items of every user, one Parquet file per block: user, rank, item, score.

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
    names = _names_needed(model, data.item_ids)
    numbers = [(number,) for number in range(len(data.rows))]
    if "://" in str(folder):
        storage = dict(storage_options or {})
        request = Request(model, k, options, names, str(folder), storage)
        return _into_store(data, request, numbers)
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
        request = Request(model, k, options, names, str(staging.resolve()), None)
        try:
            rows = data.map(_write_lists, request, each=numbers)
            _remove_leftovers(staging, len(numbers))
            staging.rename(target)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return sum(rows)


def _into_store(data: Interactions, request: Request, numbers: list[tuple[int]]) -> int:
    fsspec = require_extra("fsspec", "dask", f"writing {request.place}")
    system, path = fsspec.core.url_to_fs(request.place, **(request.storage or {}))
    if system.exists(path):
        raise OutputError(f"{request.place} exists already. Remove it, or choose another name.")
    try:
        rows = data.map(_write_lists, request, each=numbers)
        system.pipe_file(f"{path}/_SUCCESS", b"")
    except BaseException:  # Ctrl-C too: lists of some users only must not stay behind
        if system.exists(path):
            system.rm(path, recursive=True)
        raise
    return sum(rows)


def _names_needed(model: Recommender, item_ids: NDArray[Any]) -> NDArray[Any] | None:
    """The ids of the columns, where the model has its items in another order."""
    if model.item_ids_ is None and model.n_features_in_ != len(item_ids):
        raise InvalidDataError(
            f"the model has {model.n_features_in_} items and no ids, the data have "
            f"{len(item_ids)} items. Fit the model on these data."
        )
    same = model.item_ids_ is None or np.array_equal(model.item_ids_, item_ids)
    return None if same else item_ids


def _write_lists(block: RowBlock, request: Request, number: int) -> int:
    """Write the lists of a block; return the number of rows."""
    import io

    users: Any = block.matrix
    if request.item_ids is not None:
        users = Interactions(users, block.user_ids, request.item_ids)
    table = lists_of(request.model, users, request.k, request.options).table(block.user_ids)
    name = part_name(number)
    buffer = io.BytesIO()
    table.write_parquet(buffer)
    if request.storage is None:
        write_whole(Path(request.place) / name, buffer.getvalue())
    else:
        fsspec = require_extra("fsspec", "dask", f"writing {request.place}")
        system, path = fsspec.core.url_to_fs(request.place, **request.storage)
        system.pipe_file(f"{path}/{name}", buffer.getvalue())
    return len(table)


def part_name(number: int) -> str:
    """Return the name of a block's file."""
    return f"part-{number:05}.parquet"


class Lists(NamedTuple):
    """The best items of some users, best first; shorter lists where too few items are left.

    Attributes
    ----------
    rows : ndarray
        Position of the user.
    ranks, items, scores : ndarray
        Rank from 1, id and score of each item; NaN in lists that are a fallback for users without
        known items.
    ranking : Ranking
        The same as `Recommender.recommend` returned them.
    """

    rows: NDArray[Any]
    ranks: NDArray[Any]
    items: NDArray[Any]
    scores: NDArray[Any]
    ranking: Ranking

    def table(self, user_ids: NDArray[Any]) -> pl.DataFrame:
        """Return the columns user, rank, item, score."""
        import polars as pl

        return pl.DataFrame(
            {
                "user": as_column(user_ids[self.rows]),
                "rank": pl.Series(self.ranks, dtype=pl.Int32),
                "item": as_column(self.items),
                "score": pl.Series(self.scores.astype(np.float64), nan_to_null=True),
            }
        )


def lists_of(
    model: Recommender, users: Interactions | Any, k: int, options: Mapping[str, Any]
) -> Lists:
    """Return the lists of the users of a matrix, with the options of `Recommender.recommend`."""
    ranking = model.recommend(users, k, **options)
    rows, places = np.nonzero(~np.isnan(ranking.scores))
    fallback = np.broadcast_to(ranking.fallback, len(ranking.ids))[rows]
    scores = np.where(fallback, np.nan, ranking.scores[rows, places])
    return Lists(rows, places + 1, ranking.ids[rows, places], scores, ranking)


def _remove_leftovers(staging: Path, count: int) -> None:
    """Remove incomplete files of workers that were killed."""
    wanted = {part_name(number) for number in range(count)}
    missing = wanted - {path.name for path in staging.iterdir()}
    if missing:
        raise OSError(
            f"{len(missing)} of {count} files are missing: the workers write to another disk"
        )
    for path in staging.iterdir():
        if path.name not in wanted:
            path.unlink()

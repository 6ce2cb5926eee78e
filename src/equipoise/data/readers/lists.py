"""Lists of another system: a table of users, items, and ranks or scores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.identifiers import as_id_array, show
from equipoise.data.readers import parquet
from equipoise.data.readers.columns import normalized
from equipoise.data.readers.encoder import POLARS_ERRORS
from equipoise.exceptions import InvalidDataError, explained


class ListTable(NamedTuple):
    """Lists of another system.

    Attributes
    ----------
    users, items : ndarray
        Ids; rows of one user follow each other, the best item first.
    places : ndarray of int
        Place in the list, from 0.
    scores : ndarray or None
        None if the table has ranks only.
    older : int
        Rows of earlier lists of the same users, which are left out.
    """

    users: NDArray[Any]
    items: NDArray[Any]
    places: NDArray[np.intp]
    scores: NDArray[Any] | None
    older: int


_RANKS, _SCORES = ("rank", "position", "place"), ("score", "prediction", "value", "rating")
_TIMES = ("time", "timestamp", "date", "datetime")


def read_frame(path: Path) -> pl.DataFrame:
    """Read a whole CSV, TSV or Parquet file."""
    if path.suffix.lower() in (".parquet", ".pq"):
        return parquet.read_table(path)
    separator = "\t" if path.suffix.lower() == ".tsv" else ","
    with explained(f"{path} cannot be read as a CSV table", OSError, *POLARS_ERRORS):
        return pl.read_csv(path, separator=separator, infer_schema_length=None)


def read_list_file(path: str | os.PathLike[str]) -> ListTable:
    """Read the lists in a CSV, TSV or Parquet file."""
    return read_lists(read_frame(Path(path)), str(path))


def read_lists(table: pl.DataFrame, where: str) -> ListTable:
    """Read columns user, item, rank or score, and optionally time: the latest list counts."""

    def column(names: tuple[str, ...]) -> str | None:
        return next((name for name in table.columns if normalized(name) in names), None)

    user, item = column(("user", "userid")), column(("item", "itemid"))
    rank, score, time = column(_RANKS), column(_SCORES), column(_TIMES)
    order = rank or score
    if user is None or item is None or order is None:
        raise InvalidDataError(
            f"{where} has columns {table.columns}. Lists need user, item, and rank or score. Did "
            "you swap LISTS and DATA?"
        )
    numbers = table[order]
    if not numbers.dtype.is_numeric() or numbers.has_nulls() or not numbers.is_finite().all():
        raise InvalidDataError(f"{where}: column {order!r} must contain numbers, none missing.")
    kept = table
    if time is not None:
        kept = table.filter(pl.col(time) == pl.col(time).max().over(user))
    kept = kept.with_columns(
        _place=pl.col(order).rank("ordinal", descending=rank is None).over(user) - 1
    ).sort(pl.int_range(pl.len()).min().over(user), "_place")
    repeated = kept.filter(kept.select(user, item).is_duplicated())
    if len(repeated):
        raise InvalidDataError(
            f"{where}: user {show(repeated[user][0])} has item {show(repeated[item][0])} more than "
            "once in one list. Keep it once, or add a column 'time' for lists of several days."
        )
    return ListTable(
        as_id_array(kept[user].to_numpy(), "user"),
        as_id_array(kept[item].to_numpy(), "item"),
        kept["_place"].to_numpy().astype(np.intp),
        None if score is None else kept[score].to_numpy(),
        len(table) - len(kept),
    )


def is_list_table(names: list[str]) -> bool:
    """Whether columns of these names are lists: a user and an item."""
    found = {normalized(name) for name in names}
    return bool(found & {"user", "userid"}) and bool(found & {"item", "itemid"})

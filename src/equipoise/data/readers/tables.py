"""Tables in memory: pandas, polars, Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import polars as pl

from equipoise.data.assembly import Duplicates
from equipoise.data.interactions import Interactions
from equipoise.data.readers.columns import Columns, Resolved, refuse_idle_numbers, resolve
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, times_of
from equipoise.exceptions import EquipoiseError, InvalidDataError, first_line

_ONE_COLUMN = "it is one column"


def is_pandas(source: Any) -> bool:
    """Tell a pandas table without importing pandas."""
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def is_table(source: Any) -> bool:
    """Tell a polars table, or anything that speaks the Arrow C interface."""
    return isinstance(source, pl.DataFrame | pl.LazyFrame) or any(
        hasattr(source, speaks) for speaks in ("__arrow_c_stream__", "__arrow_c_array__")
    )


def from_pandas(table: Any, asked: Columns, duplicates: Duplicates) -> Interactions:
    """Read a pandas table; ids of any type stay what they are."""
    names = [str(name) for name in table.columns]
    found = resolve(names, len(names), asked, "the pandas table")
    _refuse_repeated_names(names, found)
    numeric = [place for place, kind in enumerate(table.dtypes) if kind.kind in "iufc"]
    refuse_idle_numbers(found, names, asked, numeric, "the pandas table")
    if not len(table):
        raise InvalidDataError("the pandas table is empty: it has columns but no rows.")
    values = None
    if found.value is not None:
        column = table.iloc[:, found.value]
        values = _pandas_numbers(column)
    times = None if found.timestamp is None else _pandas_times(table.iloc[:, found.timestamp])
    return Interactions.from_pairs(
        table.iloc[:, found.user].to_numpy(),
        table.iloc[:, found.item].to_numpy(),
        values,
        times,
        duplicates,
    )


def _refuse_repeated_names(names: list[str], found: Resolved) -> None:
    """Refuse to choose one of two columns; other tables cannot hold such."""
    for role, place in found.taken().items():
        if names.count(names[place]) > 1:
            raise InvalidDataError(
                f"the pandas table has more than one column {names[place]!r}, and it would be the "
                f"{role}. Rename those columns."
            )


def _pandas_numbers(column: Any) -> Any:
    if column.dtype.kind in "cMm":  # pandas would drop a part of it, or count nanoseconds
        raise InvalidDataError(
            f"the pandas table, column {column.name!r} (value): {column.dtype} is no number that "
            "can be compared. Values must be numbers; name another column with value= (--value)."
        )
    try:
        return column.to_numpy(dtype="float64", na_value=float("nan"))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidDataError(
            f"the pandas table, column {column.name!r} (value): {error}. Values must be numbers; "
            "name another column with value= (--value)."
        ) from error


def _pandas_times(column: Any) -> Any:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if column.dtype.kind in "iufM":
        return column.to_numpy()
    rows = pl.DataFrame({"timestamp": column.tolist()}, strict=False)
    source, called = "the pandas table", {"timestamp": repr(str(column.name))}
    return times_of(Batch(rows, source, partial(_row, 0), called))


def _row(start: int, row: int) -> str:
    return f"row {start + row} (counted from 0)"


def called(table: Any) -> str:
    """Return how an error names a table: by its library."""
    return f"the {type(table).__module__.split('.')[0]} table"


def batches(table: Any, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a polars or Arrow table."""
    source = called(table)
    if isinstance(table, pl.LazyFrame):
        yield from _lazy_batches(table, asked, source)
        return
    start = 0
    for frame in _frames(table):
        found = resolved_columns(frame.schema, asked, source)
        yield batch_of(frame, found, source, start)
        start += len(frame)


def _frames(table: Any) -> Iterator[pl.DataFrame]:
    if isinstance(table, pl.DataFrame):
        yield table
    elif hasattr(table, "read_next_batch"):
        # a RecordBatchReader may hold more than memory: one batch at a time
        with _naming(table):
            for part in table:
                yield frame_of(part)
    else:
        yield frame_of(table)


def frame_of(table: Any) -> pl.DataFrame:
    """Return anything that is a table as a polars one; refuse what is not, or cannot be read."""
    lazy = isinstance(table, pl.LazyFrame)
    with _naming(table):
        frame: pl.DataFrame = table.collect() if lazy else pl.DataFrame(table)
    if isinstance(table, pl.Series) and table.dtype != pl.Struct:
        raise _unreadable(table, _ONE_COLUMN)
    return frame


@contextmanager
def _naming(table: Any) -> Iterator[None]:
    """Say what failed: a table that is computed as it is read may raise anything."""
    try:
        yield
    except (EquipoiseError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        # what Arrow calls a table is a column of structs
        column = isinstance(error, pl.exceptions.SchemaError) and not isinstance(
            table, pl.LazyFrame
        )
        foreign = not isinstance(error, (*POLARS_ERRORS, TypeError, ValueError, OSError))
        kind = f"{type(error).__name__}: " if foreign and str(error).strip() else ""
        raise _unreadable(table, _ONE_COLUMN if column else kind + first_line(error)) from error


def _unreadable(table: Any, reason: str) -> InvalidDataError:
    library = type(table).__module__.split(".")[0]
    return InvalidDataError(
        f"the {library} {type(table).__name__} cannot be read as a table: "
        f"{reason}. Give a table with a column of users and one of items, each a "
        "plain type, or the columns to Interactions.from_pairs."
    )


def resolved_columns(schema: pl.Schema, asked: Columns, source: str) -> Resolved:
    """Return where each role is in a table; refuse if that is a question."""
    names = schema.names()
    found = resolve(names, len(names), asked, source)
    numeric = [place for place, kind in enumerate(schema.dtypes()) if kind.is_numeric()]
    refuse_idle_numbers(found, names, asked, numeric, source)
    return found


def _lazy_batches(table: pl.LazyFrame, asked: Columns, source: str) -> Iterator[Batch]:
    with _naming(table):
        schema = table.collect_schema()
    names, found = schema.names(), resolved_columns(schema, asked, source)
    narrow = table.select(names[place] for place in found.taken().values())
    start = 0
    with _naming(table):
        for frame in _collected(narrow):
            yield batch_of(frame, renumbered(found), source, start)
            start += len(frame)


def _collected(table: pl.LazyFrame) -> Iterator[pl.DataFrame]:
    if hasattr(table, "collect_batches"):
        yield from table.collect_batches()
    else:
        yield table.collect()


def renumbered(found: Resolved) -> Resolved:
    """Return the positions within a table that holds the taken columns only, in role order."""
    order = {role: place for place, role in enumerate(found.taken())}
    return Resolved(order["user"], order["item"], order.get("value"), order.get("timestamp"))


def batch_of(frame: pl.DataFrame, found: Resolved, source: str, start: int) -> Batch:
    """Return rows as a batch; `start` is the number of the first in its source."""
    names = frame.columns
    places = found.taken()
    return Batch(
        frame.select(pl.col(names[place]).alias(role) for role, place in places.items()),
        source,
        partial(_row, start),
        {role: repr(names[place]) for role, place in places.items()},
    )

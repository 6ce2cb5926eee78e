"""Tables in memory: pandas, polars, Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import polars as pl

from equipoise.data.interactions import Interactions
from equipoise.data.readers.columns import Columns, Header, recorded
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, row_place, times_of
from equipoise.data.validation import Duplicates
from equipoise.exceptions import EquipoiseError, InvalidDataError, explained, first_line

_ONE_COLUMN = "it is one column"
_PANDAS = "the pandas table"


def is_pandas(source: Any) -> bool:
    """Return whether this is a pandas table, without importing pandas."""
    return type(source).__module__.split(".")[0] == "pandas" and hasattr(source, "columns")


def is_table(source: Any) -> bool:
    """Return whether this is a polars table or has the Arrow C interface."""
    return isinstance(source, pl.DataFrame | pl.LazyFrame) or any(
        hasattr(source, method) for method in ("__arrow_c_stream__", "__arrow_c_array__")
    )


def is_frame(source: Any) -> bool:
    """Return whether this is a whole polars, pandas or Arrow table."""
    return is_pandas(source) or (is_table(source) and hasattr(source, "columns"))


def library_of(table: Any) -> str:
    """Return the name of a table in errors: that of its library."""
    return f"the {type(table).__module__.split('.')[0]} table"


def from_pandas(table: Any, asked: Columns, duplicates: Duplicates) -> Interactions:
    """Read a pandas table; ids keep their type, whatever it is."""
    names = [str(name) for name in table.columns]
    numeric = [place for place, kind in enumerate(table.dtypes) if kind.kind in "iufc"]
    header = Header(_PANDAS, names, len(names), numeric)
    found = header.resolve(asked)
    for role, place in found.items():
        if names.count(names[place]) > 1:
            raise InvalidDataError(
                f"{_PANDAS} has more than one column {names[place]!r}, which would be the {role}. "
                "Rename those columns."
            )
    if not len(table):
        raise InvalidDataError(f"{_PANDAS} is empty: it has columns but no rows.")
    columns = {role: table.iloc[:, place] for role, place in found.items()}
    return Interactions.from_pairs(
        columns["user"].to_numpy(),
        columns["item"].to_numpy(),
        _pandas_numbers(columns["value"]) if "value" in columns else None,
        _pandas_times(columns["timestamp"]) if "timestamp" in columns else None,
        duplicates,
    ).with_step("read", **recorded(asked, header.called(found)), duplicates=duplicates)


def _pandas_numbers(column: Any) -> Any:
    problem = f"{_PANDAS}, column {column.name!r} (value): not all cells are numbers; choose "
    problem += "another column with value= (--value)"
    with explained(problem, TypeError, ValueError, OverflowError):
        if column.dtype.kind in "cMm":  # pandas would drop a part, or count nanoseconds
            raise TypeError(f"{column.dtype} is not a real number")
        return column.to_numpy(dtype="float64", na_value=float("nan"))


def _pandas_times(column: Any) -> Any:
    if getattr(column.dtype, "tz", None) is not None:
        column = column.dt.tz_convert("UTC").dt.tz_localize(None)
    if column.dtype.kind in "iufM":
        return column.to_numpy()
    rows = pl.DataFrame({"timestamp": column.tolist()}, strict=False)
    return times_of(Batch(rows, _PANDAS, partial(row_place, 0), {"timestamp": str(column.name)}))


def batches(table: Any, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a polars or Arrow table."""
    source, start = library_of(table), 0
    names: dict[str, str] = {}
    with _naming(table):
        if isinstance(table, pl.LazyFrame):
            names = column_names(table.collect_schema(), asked, source)
            table = table.select(names.values())
        for frame in _frames(table):
            names = names or column_names(frame.schema, asked, source)
            yield batch_of(frame, names, source, start)
            start += len(frame)


def _frames(table: Any) -> Iterator[pl.DataFrame]:
    # a lazy table or a RecordBatchReader may be larger than memory: one batch at a time
    if hasattr(table, "collect_batches"):
        yield from table.collect_batches()
    elif hasattr(table, "read_next_batch"):
        yield from map(frame_of, table)
    else:
        yield frame_of(table)


def frame_of(table: Any) -> pl.DataFrame:
    """Return a table of any library as a polars one; refuse what is not a table."""
    with _naming(table):
        if isinstance(table, pl.Series) and table.dtype != pl.Struct:
            raise pl.exceptions.SchemaError(_ONE_COLUMN)
        return table.collect() if isinstance(table, pl.LazyFrame) else pl.DataFrame(table)


@contextmanager
def _naming(table: Any) -> Iterator[None]:
    """Add the table to errors: one that is computed while it is read may raise anything."""
    try:
        yield
    except (EquipoiseError, MemoryError):
        raise
    except (Exception, pl.exceptions.PanicException) as error:
        reason = first_line(error)
        if not isinstance(error, (*POLARS_ERRORS, TypeError, ValueError, OSError)):
            reason = f"{type(error).__name__}: {reason}" if str(error).strip() else reason
        elif isinstance(error, pl.exceptions.SchemaError) and not isinstance(table, pl.LazyFrame):
            reason = _ONE_COLUMN  # Arrow requires a column of structs
        library, kind = type(table).__module__.split(".")[0], type(table).__name__
        raise InvalidDataError(
            f"the {library} {kind} cannot be read as a table: {reason}. Give a table with a column "
            "of users and one of items, each a plain type, or the columns to "
            "Interactions.from_pairs."
        ) from error


def column_names(schema: pl.Schema, asked: Columns, source: str) -> dict[str, str]:
    """Return role → name of its column; refuse an ambiguous table."""
    names = schema.names()
    numeric = [place for place, kind in enumerate(schema.dtypes()) if kind.is_numeric()]
    found = Header(source, names, len(names), numeric).resolve(asked)
    return {role: names[place] for role, place in found.items()}


def batch_of(frame: pl.DataFrame, names: dict[str, str], source: str, start: int) -> Batch:
    """Return rows as a batch; `start` is the number of the first row in its source."""
    rows = frame.select(pl.col(name).alias(role) for role, name in names.items())
    return Batch(rows, source, partial(row_place, start), names)

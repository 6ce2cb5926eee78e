"""From batches of rows to coded columns: cells are checked, ids become codes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.readers.ids import Vocabulary
from equipoise.data.validation import CodedColumns, invalid_at, value_rule
from equipoise.exceptions import InvalidDataError, InvalidParameterError, explained
from equipoise.parallel import in_threads

# polars raises these for input that it cannot read; PanicException is not an Exception
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

_NOT_A_TIME = (
    "is not a time: use numbers or ISO dates (YYYY-MM-DD, or with a time), or set the format of "
    "the dates, e.g. date_format='%d.%m.%Y' (--date-format). Choose another column with "
    "timestamp= (--timestamp), or none with timestamp=''."
)
_ISO_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|$)"
# Encoding this many rows takes some milliseconds, starting a thread a tenth of one
_ROWS_PER_THREAD = 1 << 16


class Batch(NamedTuple):
    """Some rows: columns user, item and, if present, value and timestamp."""

    rows: pl.DataFrame
    source: str
    # returns where row k of this batch is, e.g. "line 17"; called only for an error
    place: Callable[[int], str]
    # role → header of its column, or position without one
    columns: Mapping[str, str | int]
    n_bytes: int | None = None  # of the text that was parsed

    def only(self, kept: NDArray[np.bool_]) -> Batch:
        """Return some of the rows, with their places."""
        rows, numbers = self.rows.filter(pl.Series(kept)), np.flatnonzero(kept)
        return self._replace(rows=rows, place=lambda row: self.place(int(numbers[row])))

    def error(self, role: str, row: int, problem: str) -> InvalidDataError:
        """Return an error that names source, place and column."""
        return InvalidDataError(
            f"{self.source}, {self.place(row)}, column {self.called(role)} ({role}): {problem}"
        )

    def called(self, role: str) -> str:
        """Return the name of a column in errors: its header in quotes, or its position."""
        column = self.columns[role]
        return repr(column) if isinstance(column, str) else f"{column}, counted from 0"


def row_place(start: int, row: int) -> str:
    """Return the place of a row of a batch whose first row has the number `start`."""
    return f"row {start + row} (counted from 0)"


class Encoder:
    """Checks batches and turns their ids into codes, which count all ids so far.

    Memory grows by one entry per distinct id.

    Parameters
    ----------
    users, items : Vocabulary
        The codes.
    decimal, date_format : str, optional
        The decimal sign of values in text, and the format of dates in text.

    Attributes
    ----------
    columns : mapping
        Role → column of the first batch.
    """

    def __init__(
        self,
        users: Vocabulary,
        items: Vocabulary,
        decimal: str | None = None,
        date_format: str | None = None,
    ) -> None:
        self._users, self._items = users, items
        self._decimal, self._date_format = decimal, date_format
        self._roles: frozenset[str] | None = None
        self.columns: Mapping[str, str | int] = {}

    def encode(self, batch: Batch) -> CodedColumns:
        """Return the rows of a batch with a value above 0."""
        roles = frozenset(batch.rows.columns)
        self._roles = self._roles or roles
        self.columns = self.columns or batch.columns
        if roles != self._roles:
            raise InvalidDataError(
                f"{batch.source} has the columns {sorted(roles)}, earlier parts have "
                f"{sorted(self._roles)}. Give every part the same columns."
            )
        for role in ("user", "item"):
            _refuse_missing_id(batch, role)
        columns: CodedColumns = {}
        if "value" in roles:
            values = _numbers(batch, self._decimal)
            positive = values > 0
            if not positive.all():
                batch, values = batch.only(positive), values[positive]
            columns["value"] = values
        if "timestamp" in roles:
            columns["timestamp"] = times_of(batch, self._date_format)
        columns["user"], columns["item"] = self._codes(batch.rows)
        return columns

    def _codes(self, rows: pl.DataFrame) -> list[NDArray[np.int32]]:
        """Encode users and items, in two threads if there are many rows."""
        work = ((self._users, rows["user"]), (self._items, rows["item"]))
        if len(rows) < _ROWS_PER_THREAD:
            return [vocabulary.encode(column) for vocabulary, column in work]
        return in_threads(lambda part: work[part][0].encode(work[part][1]), len(work))


def joined(parts: list[CodedColumns]) -> CodedColumns:
    """Return the columns of all parts; the parts are emptied, which saves memory."""
    if len({part["timestamp"].dtype.kind == "M" for part in parts if "timestamp" in part}) > 1:
        raise InvalidDataError("timestamps are numbers in one part and dates in another.")
    roles = tuple(parts[0])
    columns = in_threads(
        lambda place: np.concatenate([part.pop(roles[place]) for part in parts]), len(roles)
    )
    return dict(zip(roles, columns, strict=True))


def _refuse_missing_id(batch: Batch, role: str) -> None:
    column = batch.rows[role]
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan()
    if missing.any():
        raise batch.error(
            role, _first(missing), "the id is missing; every row needs one. Drop or fill such rows."
        )


def _numbers(batch: Batch, decimal: str | None) -> NDArray[np.float64]:
    """Return the values as float64; refuse missing, infinite and negative values and text."""
    column = batch.rows["value"]
    if column.dtype == pl.String:
        if decimal is not None:
            column = column.str.replace(decimal, ".", literal=True)
        parsed = column.cast(pl.Float64, strict=False)
        if parsed.null_count() > column.null_count():
            parsed = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        parsed = column.cast(pl.Float64)
    else:
        raise InvalidDataError(
            f"{batch.source}: column {batch.called('value')} (value) is {column.dtype}, not a "
            "number. Choose another column with value= (--value)."
        )
    values = parsed.to_numpy()  # a missing number is NaN
    bad = invalid_at(values)
    if bad is None:
        return values
    if parsed[bad] is not None:
        problem = f"the value {float(values[bad])!r} {value_rule(float(values[bad]))}"
    elif column[bad] is not None:
        problem = f"{column[bad]!r} is not a number"
        if "," in str(column[bad]):
            problem += " (for decimal commas set decimal=',', --decimal ',')"
    else:
        problem = "the value is missing"
    raise batch.error(
        "value",
        bad,
        f"{problem}; values must be finite and not negative. Drop or correct such rows, or choose "
        "another column with value= (--value).",
    )


def times_of(batch: Batch, date_format: str | None = None) -> NDArray[Any]:
    """Return the timestamps as integers, floats or datetime64.

    Text is parsed in the given format; without one, as integers, floats and ISO dates in turn.
    """
    column, advice = batch.rows["timestamp"], _NOT_A_TIME
    if column.dtype == pl.String:
        column = _times_of_text(column, date_format)
        if date_format is not None:
            advice = f"does not have the format {date_format!r} (--date-format)."
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if column.dtype.is_float():
        column = column.set(~column.is_finite(), None)
    elif str(column.dtype) in ("Int128", "UInt128"):
        column = column.cast(pl.Int64, strict=False)  # null if the number is too large
    if not (column.dtype.is_numeric() or column.dtype in (pl.Date, pl.Datetime, pl.String)):
        called = batch.called("timestamp")
        raise InvalidDataError(
            f"{batch.source}: column {called} (timestamp): {column.dtype} {advice}"
        )
    if column.dtype.is_temporal():  # null if microseconds cannot count it; nanoseconds are cut
        column = column.cast(pl.Datetime("us"), strict=False)
    missing = column.is_null()
    if missing.any():
        row = _first(missing)
        shown = batch.rows["timestamp"].to_physical()[row]  # Python has no dates after 9999
        raise batch.error("timestamp", row, f"{shown!r} {advice}")
    return column.to_numpy()


def _times_of_text(column: pl.Series, date_format: str | None) -> pl.Series:
    if date_format is not None:
        problem = f"date_format={date_format!r} (--date-format) is not a format of dates like "
        problem += "'%d.%m.%Y' or '%d/%m/%Y %H:%M'"
        with explained(problem, *POLARS_ERRORS, kind=InvalidParameterError):
            text = column.str.strip_chars()
            return text.str.to_datetime(date_format, strict=False, time_unit="us")
    numbers = column.cast(pl.Int64, strict=False)
    if not numbers.has_nulls():
        return numbers
    text = column.str.strip_chars()
    for kind in (pl.Int64, pl.Float64):
        numbers = text.cast(kind, strict=False)
        if not numbers.has_nulls():
            return numbers
    # a few wrong cells are errors in a column of numbers; many are dates
    if numbers.null_count() < len(numbers) // 2:
        return numbers
    # polars also reads 01/02/2020, as February 1, which may mean January 2
    text = text.set(~text.str.contains(_ISO_DATE), None)
    try:
        return text.str.to_datetime(strict=False, time_unit="us")
    except POLARS_ERRORS:  # polars finds no format for the first cells: no times
        return column.clear(len(column))


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0)

"""Batches of rows in, `Interactions` out: all that stays of a batch is codes and numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.assembly import CodedPairs, Duplicates, invalid_at, value_rule
from equipoise.data.interactions import Interactions
from equipoise.data.readers.vocabulary import Vocabulary
from equipoise.exceptions import InvalidDataError
from equipoise.parallel import in_threads

# What polars raises on input that it cannot read; a panic of its own is no Exception to Python
POLARS_ERRORS = (pl.exceptions.PolarsError, pl.exceptions.PanicException)

_ISO_DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ]|$)"
# Encoding so many rows takes some milliseconds, starting a thread a tenth of one
_WORTH_A_THREAD = 1 << 16


class Batch(NamedTuple):
    """Some rows: columns named user, item and, where there are any, value and timestamp."""

    rows: pl.DataFrame
    source: str
    # says where row k of this batch is, e.g. "line 17": asked only when something is wrong
    place: Callable[[int], str]
    # role → what an error calls the column: its name in quotes, or its position
    called: dict[str, str]

    def only(self, kept: NDArray[np.bool_]) -> Batch:
        """Return some of the rows; each is where it was."""
        rows, numbers = self.rows.filter(pl.Series(kept)), np.flatnonzero(kept)
        return self._replace(rows=rows, place=lambda row: self.place(int(numbers[row])))

    def refuse(self, role: str, row: int, complaint: str) -> InvalidDataError:
        """Return the error that names source, place and column."""
        return InvalidDataError(
            f"{self.source}, {self.place(row)}, column {self.called[role]} ({role}): {complaint}"
        )


class Encoder:
    """Takes batches in order and keeps dense codes, values and times.

    Memory grows by 8 bytes per row for the two codes, 8 for a value, 8 for a timestamp, plus one
    entry per distinct id; the batch itself is let go.
    """

    def __init__(self, users: Vocabulary, items: Vocabulary) -> None:
        self._users, self._items = users, items
        self._columns: dict[str, list[NDArray[Any]]] = {}
        self._roles: frozenset[str] | None = None

    def add(self, batch: Batch) -> None:
        """Check and encode one batch."""
        roles = frozenset(batch.rows.columns)
        if self._roles is None:
            self._roles = roles
        if roles != self._roles:
            raise InvalidDataError(
                f"{batch.source} has the columns {sorted(roles)}, earlier parts have "
                f"{sorted(self._roles)}. Give every part the same columns."
            )
        for role in ("user", "item"):
            _refuse_missing_id(batch, role)
        columns: dict[str, NDArray[Any]] = {}
        if "value" in roles:
            values = _numbers(batch)
            there = values > 0
            if not there.all():
                batch, values = batch.only(there), values[there]
            columns["value"] = values
        if "timestamp" in roles:
            columns["timestamp"] = times_of(batch)
        columns["user"], columns["item"] = self._codes(batch.rows)
        self._keep(columns)

    def _keep(self, columns: dict[str, NDArray[Any]]) -> None:
        """Keep one batch: in memory here, on disk where a subclass has less of it."""
        for role, column in columns.items():
            self._columns.setdefault(role, []).append(column)

    def _codes(self, rows: pl.DataFrame) -> list[NDArray[np.int32]]:
        """Encode users and items, each in a thread of its own where there is much to do."""
        work = ((self._users, rows["user"]), (self._items, rows["item"]))
        if len(rows) < _WORTH_A_THREAD:
            return [vocabulary.encode(column) for vocabulary, column in work]
        return in_threads(lambda part: work[part][0].encode(work[part][1]), len(work))

    def finish(self, duplicates: Duplicates, source: str) -> Interactions:
        """Return everything that came."""
        users, items = self._joined("user"), self._joined("item")
        if users is None or items is None or not len(users):
            raise InvalidDataError(
                f"{source} holds no interaction: no rows, or not one value above 0."
            )
        values = self._joined("value")
        pairs = CodedPairs(
            users=users,
            items=items,
            values=np.ones(len(users)) if values is None else values,
            timestamps=self._joined("timestamp"),
            user_ids=self._users.ids(),
            item_ids=self._items.ids(),
            source=source,
        )
        return Interactions.from_codes(pairs, duplicates)

    def _joined(self, role: str) -> NDArray[Any] | None:
        parts = self._columns.pop(role, None)
        if parts is None:
            return None
        kinds = {part.dtype.kind == "M" for part in parts}
        if len(kinds) > 1:
            raise InvalidDataError("timestamps are numbers in one part and dates in another.")
        return np.concatenate(parts)


def _refuse_missing_id(batch: Batch, role: str) -> None:
    column = batch.rows[role]
    missing = column.is_null()
    if column.dtype.is_float():
        missing = missing | column.is_nan()
    if missing.any():
        raise batch.refuse(
            role, _first(missing), "the id is missing; every row needs one. Drop or fill such rows."
        )


def _numbers(batch: Batch) -> NDArray[np.float64]:
    """Return the values as float64; refuse what is no number, missing, infinite or negative."""
    column = batch.rows["value"]
    if column.dtype == pl.String:
        parsed = column.str.strip_chars().cast(pl.Float64, strict=False)
    elif column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null):
        parsed = column.cast(pl.Float64)
    else:
        raise InvalidDataError(
            f"{batch.source}: column {batch.called['value']} (value) is {column.dtype}, not a "
            "number. Name another one with value= (--value)."
        )
    if parsed.has_nulls():
        row = _first(parsed.is_null())
        if column[row] is None:
            raise batch.refuse("value", row, "the value is missing. Drop or fill such rows.")
        raise batch.refuse(
            "value",
            row,
            f"{column[row]!r} is not a number. Correct it, or name another column with value= "
            "(--value).",
        )
    values = parsed.to_numpy()
    bad = invalid_at(values)
    if bad is not None:
        raise batch.refuse(
            "value",
            bad,
            f"the value {float(values[bad])!r} {value_rule(float(values[bad]))}; values must be "
            "finite and not below 0. Drop or correct such rows.",
        )
    return values


_NUMPY_INTEGERS = (
    pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
)  # fmt: skip


def times_of(batch: Batch) -> NDArray[Any]:
    """Return whole numbers, numbers or datetime64; text is tried as each of them in turn."""
    column = batch.rows["timestamp"]
    if column.dtype == pl.String:
        column = _times_of_text(column)
    if isinstance(column.dtype, pl.Datetime) and column.dtype.time_zone is not None:
        column = column.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
    if column.dtype.is_float():
        column = column.set(~column.is_finite(), None)  # not a number, or without end: no time
    elif column.dtype.is_integer() and column.dtype not in _NUMPY_INTEGERS:
        column = column.cast(pl.Int64, strict=False)  # of 128 bits: null where that is too few
    unusable = not (column.dtype.is_numeric() or column.dtype in (pl.Date, pl.Datetime, pl.String))
    missing = column.is_null()
    if unusable or missing.any():
        row = 0 if unusable else _first(missing)
        came = f"a {column.dtype}" if unusable else repr(batch.rows["timestamp"][row])
        raise batch.refuse(
            "timestamp",
            row,
            f"{came} is no time: use a number or an ISO date (YYYY-MM-DD, with a time or without). "
            "Name another column with timestamp= (--timestamp), or none with timestamp=''.",
        )
    times = column.to_numpy()
    return _microseconds(times, batch) if times.dtype.kind == "M" else times


def _microseconds(times: NDArray[Any], batch: Batch) -> NDArray[Any]:
    exact = times.astype("datetime64[us]")
    # nanoseconds become fewer; of days or milliseconds some are more than microseconds can count
    wrapped = exact.astype(times.dtype) != times
    if np.datetime_data(times.dtype)[0] != "ns" and wrapped.any():
        raise batch.refuse(
            "timestamp",
            int(np.argmax(wrapped)),
            "the time is more than 290,000 years from 1970, which microseconds cannot count. "
            "Correct it, or name another column with timestamp= (--timestamp).",
        )
    return exact


def _times_of_text(column: pl.Series) -> pl.Series:
    for kind in (pl.Int64, pl.Float64):
        numbers = column.str.strip_chars().cast(kind, strict=False)
        if not numbers.has_nulls():
            return numbers
    # numbers with a few wrong cells are reported as such; anything else is taken for dates
    if numbers.null_count() < len(numbers) // 2:
        return numbers
    text = column.str.strip_chars()
    # polars would read 01/02/2020 too, as a day of February, which half of its writers did not mean
    text = text.set(~text.str.contains(_ISO_DATE), None)
    try:
        return text.str.to_datetime(strict=False, time_unit="us")
    except (pl.exceptions.ComputeError, pl.exceptions.PanicException):
        # polars knows no format that fits even the first: none of them is a time
        return column.clear(len(column))


def _first(mask: pl.Series) -> int:
    return int(mask.arg_max() or 0)

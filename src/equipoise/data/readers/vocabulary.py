"""Growing dictionaries: ids in, dense codes out, batch by batch, without a loop over rows."""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.identifiers import as_id_array
from equipoise.exceptions import InvalidDataError

# Beside another whole-number type, Int64 may not hold these; old polars lack the last two
_WIDE = {"UInt64", "Int128", "UInt128"}
_WIDEST: Any = getattr(pl, "Int128", pl.Int64)
_NUMPY_TYPES = (pl.Boolean, pl.Date, pl.Duration)
_NOT_SCALAR = (pl.List, pl.Array, pl.Struct, pl.Object)


# Whole numbers that fit into int64
_ADDRESSES = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt32, pl.UInt16, pl.UInt8)
# Ids up to this far apart are coded by address: a table of 64 MB at most, and small for few rows
_WIDEST_TABLE, _FEWEST_PLACES, _PLACES_PER_ROW = 1 << 24, 1 << 16, 64


class Vocabulary(Protocol):
    """What an encoder needs of a dictionary of ids."""

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Return the code of each id; new ids get the next codes, in order of appearance."""
        ...

    def ids(self) -> NDArray[Any]:
        """Return the id behind each code."""
        ...


class _CodeTable:
    """Codes of whole numbers by address: an array with a place for every number in a range.

    Several times faster than hashing, where the ids lie close together, as most do.
    """

    def __init__(self) -> None:
        self._first = 0
        self._codes = np.empty(0, np.int32)

    def reaches(self, ids: NDArray[np.int64]) -> bool:
        """Make room for these ids; False if that would take too much."""
        if not len(ids):
            return True
        first, last = int(ids.min()), int(ids.max())
        size = len(self._codes)
        if size and self._first <= first and last < self._first + size:
            return True
        if size:
            first, last = min(first, self._first), max(last, self._first + size - 1)
        if last - first >= min(_WIDEST_TABLE, _FEWEST_PLACES + _PLACES_PER_ROW * len(ids)):
            return False
        # rising ids would make it grow with every batch: twice the room is enough for long
        wider = np.full(min(2 * (last - first + 1), _WIDEST_TABLE), -1, np.int32)
        wider[self._first - first : self._first - first + size] = self._codes
        self._first, self._codes = first, wider
        return True

    def learn(self, ids: NDArray[np.int64], first_code: int) -> None:
        """Give new ids the next codes."""
        self._codes[ids - self._first] = np.arange(first_code, first_code + len(ids))

    def look_up(self, ids: NDArray[np.int64]) -> NDArray[np.int32]:
        """Return the codes, -1 for new ids."""
        return self._codes.take(ids - self._first)


class ColumnVocabulary:
    """Ids that polars can hash: numbers, text, dates. They keep the type of the first batch."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._known: pl.Series | None = None
        self._table: _CodeTable | None = _CodeTable()

    @classmethod
    def of(cls, role: str, known: pl.Series) -> Self:
        """Return a vocabulary that knows these ids already."""
        vocabulary = cls(role)
        vocabulary.encode(known)
        return vocabulary

    def encode(self, column: pl.Series) -> NDArray[np.int32]:
        """Return codes; only ids never seen before touch the dictionary."""
        column = self.typed(column)
        if self._known is None:
            self._known = column.clear()
        codes = self._look_up(column)
        new = np.flatnonzero(codes < 0)
        if len(new):
            rows = column.gather(new) if len(new) < len(column) else column
            self._learn(rows.unique(maintain_order=True))
            codes[new] = self._look_up(rows)
        return codes

    def _learn(self, fresh: pl.Series) -> None:
        known = fresh.clear() if self._known is None else self._known
        if self._table is not None:
            self._table.learn(_integers(fresh), len(known))
        self._known = known.append(fresh)

    def _look_up(self, column: pl.Series) -> NDArray[np.int32]:
        """Return the codes, -1 for new ids: by address as long as that goes, else by hashing."""
        if self._table is not None:
            if column.dtype in _ADDRESSES and self._table.reaches(_integers(column)):
                return self._table.look_up(_integers(column))
            self._table = None
        known = self._known
        if known is None or not len(known):
            return np.full(len(column), -1, np.int32)
        codes = pl.Series(np.arange(len(known), dtype=np.int32))
        found = column.replace_strict(known, codes, default=-1, return_dtype=pl.Int32)
        return found.to_numpy(writable=True)

    def typed(self, column: pl.Series) -> pl.Series:
        """Return ids in the type that all have here; refuse those that have another."""
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
        if isinstance(column.dtype, _NOT_SCALAR):
            raise InvalidDataError(
                f"{self._role} ids of type {column.dtype} are not scalars equipoise can compare. "
                "Use whole numbers, strings or dates."
            )
        if self._known is None or column.dtype == self._known.dtype:
            return column
        if column.dtype.is_integer() and self._known.dtype.is_integer():
            wide = {str(column.dtype), str(self._known.dtype)} & _WIDE
            kind = _WIDEST if wide else pl.Int64
            self._known = self._known.cast(kind)
            return column.cast(kind)
        raise InvalidDataError(
            f"{self._role} ids are {self._known.dtype} in the first part and {column.dtype} in a "
            "later one. Give them one type."
        )

    @property
    def known(self) -> pl.Series:
        """The ids so far, in order of appearance, as polars holds them."""
        return pl.Series(dtype=pl.String) if self._known is None else self._known

    def ids(self) -> NDArray[Any]:
        """Return a NumPy array of the same type; text and rarer types become objects."""
        known = self.known
        kind = known.dtype
        zoned = isinstance(kind, pl.Datetime) and kind.time_zone is not None
        plain = (
            kind.is_integer() or kind.is_float() or isinstance(kind, (*_NUMPY_TYPES, pl.Datetime))
        )
        if plain and not zoned and str(kind) not in ("Int128", "UInt128"):
            return known.to_numpy()
        return as_id_array(known.to_list(), self._role)


class TextVocabulary(ColumnVocabulary):
    """Ids of a text file: int64 if every one is such a number, plainly written, else the text.

    "12" and "-3" are whole numbers; "012", "+3" and " 3" are spellings that a number would lose.
    Columns may come as text, or as numbers that were written plainly.
    """

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self._all_numbers = True

    def typed(self, column: pl.Series) -> pl.Series:
        """Return whole numbers as long as every id so far is one, then text."""
        if self._all_numbers:
            numbers = column.cast(pl.Int64, strict=False)
            if column.dtype == pl.Int64 or _is_plain(column, numbers):
                return numbers
            if self._known is not None:
                self._known = self._known.cast(pl.String)
        self._all_numbers = False
        return column.cast(pl.String)


def _is_plain(text: pl.Series, numbers: pl.Series) -> bool:
    return not numbers.has_nulls() and bool((numbers.cast(pl.String) == text).all())


def _integers(column: pl.Series) -> NDArray[np.int64]:
    return column.to_numpy().astype(np.int64, copy=False)


class ObjectVocabulary:
    """Ids of a database cursor: any Python object that can be hashed."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._codes: dict[Any, int] = {}

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Return codes through one dictionary lookup per row."""
        codes = self._codes
        try:
            return np.fromiter(
                (codes.setdefault(value, len(codes)) for value in column), np.int32, len(column)
            )
        except TypeError as error:
            raise InvalidDataError(
                f"{self._role} ids must be hashable scalars: {error}."
            ) from error

    def ids(self) -> NDArray[Any]:
        """Return the ids in their own type."""
        return as_id_array(list(self._codes), self._role)

"""Growing dictionaries: ids in, dense codes out, batch by batch, without a loop over rows."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.identifiers import as_id_array
from equipoise.exceptions import InvalidDataError

# "12" and "-3" are whole numbers; "012", "+3" and " 3" are spellings that a number would lose
_WHOLE_NUMBER = r"^(?:0|-?[1-9][0-9]{0,18})$"
# Beside another whole-number type, Int64 may not hold these; old polars lack the last two
_WIDE = {"UInt64", "Int128", "UInt128"}
_WIDEST: Any = getattr(pl, "Int128", pl.Int64)
_NUMPY_TYPES = (pl.Boolean, pl.Date, pl.Duration)
_NOT_SCALAR = (pl.List, pl.Array, pl.Struct, pl.Object)


class Vocabulary(Protocol):
    """What an encoder needs of a dictionary of ids."""

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Return the code of each id; new ids get the next codes, in order of appearance."""
        ...

    def ids(self) -> NDArray[Any]:
        """Return the id behind each code."""
        ...


class ColumnVocabulary:
    """Ids that polars can hash: numbers, text, dates. They keep the type of the first batch."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._known: pl.Series | None = None

    def encode(self, column: pl.Series) -> NDArray[np.int32]:
        """Return codes; only ids never seen before touch the dictionary."""
        column = self._typed(column)
        if self._known is None:
            self._known = column.clear()
        codes = self._look_up(column)
        fresh = column.filter(codes.is_null()).unique(maintain_order=True)
        if len(fresh):
            self._known = self._known.append(fresh)
            codes = self._look_up(column)
        return codes.to_numpy()

    def _look_up(self, column: pl.Series) -> pl.Series:
        known = self._known
        if known is None or not len(known):
            return pl.Series([None] * 0, dtype=pl.Int32).extend_constant(None, len(column))
        codes = pl.Series(np.arange(len(known), dtype=np.int32))
        return column.replace_strict(known, codes, default=None, return_dtype=pl.Int32)

    def _typed(self, column: pl.Series) -> pl.Series:
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

    def ids(self) -> NDArray[Any]:
        """Return a NumPy array of the same type; text and rarer types become objects."""
        known = pl.Series(dtype=pl.String) if self._known is None else self._known
        kind = known.dtype
        zoned = isinstance(kind, pl.Datetime) and kind.time_zone is not None
        plain = (
            kind.is_integer() or kind.is_float() or isinstance(kind, (*_NUMPY_TYPES, pl.Datetime))
        )
        if plain and not zoned and str(kind) not in ("Int128", "UInt128"):
            return known.to_numpy()
        return as_id_array(known.to_list(), self._role)


class TextVocabulary(ColumnVocabulary):
    """Ids of a text file: int64 if every one is such a number, plainly written, else the text."""

    def __init__(self, role: str) -> None:
        super().__init__(role)
        self._all_numbers = True

    def _typed(self, column: pl.Series) -> pl.Series:
        if self._all_numbers and column.str.contains(_WHOLE_NUMBER).all():
            numbers = column.cast(pl.Int64, strict=False)
            if not numbers.has_nulls():
                return numbers
        if self._all_numbers and self._known is not None:
            self._known = self._known.cast(pl.String)
        self._all_numbers = False
        return column


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

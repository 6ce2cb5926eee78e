"""Vocabularies of ids that grow batch by batch: ids in, dense codes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data.identifiers import as_id_array, hashable
from equipoise.exceptions import InvalidDataError

# Int64 cannot hold all of these
_WIDE = {"UInt64", "Int128", "UInt128"}
_INTEGERS = (pl.Int64, pl.Int32, pl.Int16, pl.Int8, pl.UInt64, pl.UInt32, pl.UInt16, pl.UInt8)
# 2^64 divided by the golden ratio: the first bits of its multiples are spread evenly
_ODD = np.uint64(0x9E3779B97F4A7C15)
_NUMPY_TYPES = (pl.Boolean, pl.Date, pl.Duration, pl.Datetime)
_NOT_SCALAR = (pl.List, pl.Array, pl.Struct, pl.Object)
# Slots of a hash table: at least twice the ids, or long runs of full slots are searched
_MIN_SLOTS, _SLOTS_PER_ID = 1 << 10, 2


class _HashTable:
    """Codes of ids by their 64-bit hashes; it takes a fifth of the time of joins by polars.

    A full slot sends an id to the next one (linear probing). All steps are loops of NumPy.
    """

    def __init__(self, hash_ids: Callable[[pl.Series], pl.Series]) -> None:
        self._hash_ids = hash_ids
        self._clear(pl.Null())

    def _clear(self, kind: pl.DataType) -> None:
        self._kind = kind
        self._hashes = np.empty(0, np.uint64)
        self._slots = np.full(_MIN_SLOTS, -1, np.int32)

    def find(self, column: pl.Series, known: pl.Series) -> NDArray[np.int32] | None:
        """Return the codes, -1 for new ids; None if two different ids have the same hash."""
        if known.dtype != self._kind:
            self._clear(known.dtype)
        self._add(known.slice(len(self._hashes)))
        codes = self._codes(self._hashes_of(column))
        if not len(known) or known.dtype in _INTEGERS:
            return codes
        same = known[pl.Series(np.maximum(codes, 0))] == column
        return codes if (same.to_numpy() | (codes < 0)).all() else None

    def _hashes_of(self, ids: pl.Series) -> NDArray[np.uint64]:
        """Return 64-bit hashes; those of integers are products with an odd number: all differ."""
        if ids.dtype in _INTEGERS:
            return ids.to_numpy().astype(np.uint64) * _ODD
        return self._hash_ids(ids).to_numpy()

    def _codes(self, hashes: NDArray[np.uint64]) -> NDArray[np.int32]:
        if not len(self._hashes):
            return np.full(len(hashes), -1, np.int32)
        slots = self._first_slots(hashes)
        codes = self._slots.take(slots)
        rows = np.flatnonzero((self._hashes.take(codes) != hashes) & (codes >= 0))
        slots, hashes = slots[rows], hashes[rows]
        while len(rows):
            slots = self._next_slots(slots)
            codes[rows] = found = self._slots.take(slots)
            others = (self._hashes.take(found) != hashes) & (found >= 0)
            rows, slots, hashes = rows[others], slots[others], hashes[others]
        return codes

    def _add(self, ids: pl.Series) -> None:
        """Give new ids the next codes."""
        if not len(ids):
            return
        first = len(self._hashes)
        self._hashes = np.concatenate([self._hashes, self._hashes_of(ids)])
        if _SLOTS_PER_ID * len(self._hashes) > len(self._slots):
            # twice the length: rising ids would extend the table with every batch
            size = 1 << (2 * _SLOTS_PER_ID * len(self._hashes)).bit_length()
            self._slots, first = np.full(size, -1, np.int32), 0
        codes = np.arange(first, len(self._hashes), dtype=np.int32)
        slots = self._first_slots(self._hashes[first:])
        while len(codes):
            free = self._slots[slots] < 0
            self._slots[slots[free]] = codes[free]  # of several codes for a slot one stays
            left = self._slots[slots] != codes
            codes, slots = codes[left], self._next_slots(slots[left])

    def _first_slots(self, hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
        bits = len(self._slots).bit_length() - 1
        return (hashes >> np.uint64(64 - bits)).view(np.int64)

    def _next_slots(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        return (slots + 1) & (len(self._slots) - 1)


class ColumnVocabulary:
    """Ids that polars can hash: numbers, text, dates. They keep the type of the first batch.

    Parameters
    ----------
    role : str
        ``"user"`` or ``"item"``: how an error names them.
    hash_ids : callable
        Returns 64-bit hashes of a column that is not of integers.
    """

    def __init__(
        self, role: str, hash_ids: Callable[[pl.Series], pl.Series] = pl.Series.hash
    ) -> None:
        self._role = role
        self._known: pl.Series | None = None
        self._hashes: _HashTable | None = _HashTable(hash_ids)

    @classmethod
    def of(cls, role: str, known: pl.Series) -> Self:
        """Return a vocabulary of these ids."""
        vocabulary = cls(role)
        vocabulary.encode(known)
        return vocabulary

    def encode(self, column: pl.Series) -> NDArray[np.int32]:
        """Return the code of each id; new ids get the next codes, in order of appearance."""
        column = self.typed(column)
        known = column.clear() if self._known is None else self._known
        self._known = known
        codes = self._find(column, known)
        new = np.flatnonzero(codes < 0)
        if len(new):
            rows = column[pl.Series(new)] if len(new) < len(column) else column
            fresh = rows.unique(maintain_order=True)
            self._known = known.append(fresh).rechunk()
            codes[new] = self._find(rows, self._known)
        return codes

    def _find(self, column: pl.Series, known: pl.Series) -> NDArray[np.int32]:
        """Return the codes, -1 for new ids: by hashes while no two ids have the same."""
        if self._hashes is not None:
            found = self._hashes.find(column, known)
            if found is not None:
                return found
            self._hashes = None
        codes = pl.Series(np.arange(len(known), dtype=np.int32))
        joined = column.replace_strict(known, codes, default=-1, return_dtype=pl.Int32)
        return joined.to_numpy(writable=True)

    def typed(self, column: pl.Series) -> pl.Series:
        """Return ids in the type of this vocabulary; refuse ids of another type."""
        if column.dtype in (pl.Categorical, pl.Enum):
            column = column.cast(pl.String)
        if isinstance(column.dtype, _NOT_SCALAR):
            raise InvalidDataError(
                f"{self._role} ids of type {column.dtype} are not scalars. Use whole numbers, "
                "strings or dates."
            )
        if self._known is None or column.dtype == self._known.dtype:
            return column
        if column.dtype.is_integer() and self._known.dtype.is_integer():
            wide = {str(column.dtype), str(self._known.dtype)} & _WIDE
            kind = pl.Int128 if wide else pl.Int64
            self._known = self._known.cast(kind)
            return column.cast(kind)
        raise InvalidDataError(
            f"{self._role} ids are {self._known.dtype} in the first part and {column.dtype} in a "
            "later one. Use one type in all parts."
        )

    @property
    def known(self) -> pl.Series:
        """The ids in order of appearance, as a polars column."""
        return pl.Series(dtype=pl.String) if self._known is None else self._known

    def ids(self) -> NDArray[Any]:
        """Return a NumPy array of the same type; text and rarer types become objects."""
        return id_array(self.known, self._role)


def id_array(column: pl.Series, role: str) -> NDArray[Any]:
    """Return ids as a NumPy array of the same type; text and rarer types become objects."""
    kind = column.dtype
    zoned = isinstance(kind, pl.Datetime) and kind.time_zone is not None
    in_numpy = kind.is_integer() or kind.is_float() or isinstance(kind, _NUMPY_TYPES)
    if in_numpy and not zoned and str(kind) not in ("Int128", "UInt128"):
        return column.to_numpy()
    return as_id_array(column.to_list(), role)


class TextVocabulary(ColumnVocabulary):
    """Ids of a text file: int64 if all are plain integers, otherwise the text.

    "12" and "-3" are plain integers. "012", "+3" and " 3" are not: a number would lose how they are
    written. Columns are text, or integers that were plain in the file.
    """

    _all_integers = True

    def typed(self, column: pl.Series) -> pl.Series:
        """Return integers while all ids so far are plain integers, then text."""
        if self._all_integers:
            numbers = column.cast(pl.Int64, strict=False)
            # signs and zeros sort before "1": without them, no number has to be written again
            if not numbers.has_nulls() and (
                column.dtype == pl.Int64
                or bool((column >= "1").all())
                or bool((numbers.cast(pl.String) == column).all())
            ):
                return numbers
            if self._known is not None:
                self._known = self._known.cast(pl.String)
        self._all_integers = False
        return column.cast(pl.String)


class ObjectVocabulary:
    """Ids from a database: any hashable Python objects."""

    def __init__(self, role: str) -> None:
        self._role = role
        self._codes: dict[Any, int] = {}

    def encode(self, column: Any) -> NDArray[np.int32]:
        """Return the code of each id, by one dictionary lookup per row."""
        codes = self._codes
        with hashable(self._role):
            return np.fromiter(
                (codes.setdefault(value, len(codes)) for value in column), np.int32, len(column)
            )

    def ids(self) -> NDArray[Any]:
        """Return the ids in their own type."""
        return as_id_array(list(self._codes), self._role)


# What an encoder needs: codes by first appearance, and the id of each code
Vocabulary = ColumnVocabulary | ObjectVocabulary

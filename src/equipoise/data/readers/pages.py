"""Headers of Parquet pages, looked at before polars trusts them.

polars reserves room for as many values as a page says it has, and a number below zero, which only
damage or malice writes, ends the process. Headers are written in Thrift's compact protocol.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from equipoise.exceptions import InvalidDataError

_MAGIC = b"PAR1"
# Most headers fit; a longer one, with long names in its statistics, is read again
_HEADER_BYTES = 1 << 9
_LONGEST_HEADER = 1 << 24
_DEEPEST = 16

# Numbers of fields in parquet.thrift
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_N_VALUES, _CHUNK_BYTES, _FIRST_PAGE, _DICTIONARY = 5, 7, 9, 11
_PAGE_BYTES = 3
_DATA, _INDEX, _DICTIONARY_PAGE, _DATA_V2 = 5, 6, 7, 8  # kinds of pages
_COUNTS = {
    _DATA: (1,),
    _INDEX: (),
    _DICTIONARY_PAGE: (1,),
    _DATA_V2: (1, 2, 3),
}  # values, nulls, rows

_Fields = dict[int, Any]
_Kind = TypeVar("_Kind")


class _UnreadableError(Exception):
    """Not the bytes of a header."""


def refuse_broken_headers(path: Path) -> None:
    """Refuse a file with headers that break off, or say that a page has fewer than no values.

    What does not even end like a Parquet file is left to polars, which says so.

    Parameters
    ----------
    path : Path
        A Parquet file, or one that claims to be.
    """
    with path.open("rb") as file:
        try:
            wrong = next((count for count in _counts(file) if count < 0), None)
        except _UnreadableError:
            reason = "its headers break off"
        else:
            if wrong is None:
                return
            reason = f"one of its pages says that it has {wrong} values"
    raise InvalidDataError(
        f"{path} cannot be read as Parquet: {reason}. The file is damaged; write it anew."
    )


def _counts(file: BinaryIO) -> Iterator[int]:
    """Yield what the pages say of their lengths."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    ending = file.read(8)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != _MAGIC or length > size - 8:
        return
    file.seek(size - 8 - length)
    footer = _Compact(file.read(length)).struct()
    for group in _field(footer, _ROW_GROUPS, list):
        for column in _field(group, _COLUMNS, list):
            yield from _counts_of_chunk(file, _field(column, _COLUMN, dict))


def _counts_of_chunk(file: BinaryIO, column: _Fields) -> Iterator[int]:
    # from where and as long as polars reads
    at = _field(column, _DICTIONARY if _DICTIONARY in column else _FIRST_PAGE, int)
    end = at + _field(column, _CHUNK_BYTES, int)
    missing = _field(column, _N_VALUES, int)
    while at < end and missing > 0:
        header, n_bytes = _header(file, at)
        kinds = [kind for kind in _COUNTS if kind in header]
        if not kinds:
            raise _UnreadableError
        for kind in kinds:
            page = _field(header, kind, dict)
            yield from (_as_int32(_field(page, number, int)) for number in _COUNTS[kind])
            missing -= _field(page, 1, int) if kind in (_DATA, _DATA_V2) else 0
        at += n_bytes + max(0, _field(header, _PAGE_BYTES, int))


def _field(fields: Any, number: int, kind: type[_Kind]) -> _Kind:
    """Return a field that has to be there, as what it has to be."""
    value = fields.get(number) if isinstance(fields, dict) else None
    if not isinstance(value, kind):
        raise _UnreadableError
    return value


def _header(file: BinaryIO, at: int) -> tuple[_Fields, int]:
    """Return the header that begins there, and its length."""
    if not 0 < at < os.fstat(file.fileno()).st_size:
        raise _UnreadableError
    n_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        reader = _Compact(file.read(n_bytes))
        try:
            return reader.struct(), reader.at
        except _UnreadableError:
            if len(reader.bytes) < n_bytes or n_bytes >= _LONGEST_HEADER:
                raise
            n_bytes *= 16


def _as_int32(number: int) -> int:
    """Return what is left of a number in 32 bits, as readers keep it."""
    return (number + 2**31) % 2**32 - 2**31


class _Compact:
    r"""Thrift's compact protocol: structs become dictionaries of fields by number.

    Examples
    --------
    >>> _Compact(bytes([0x15, 0x05, 0x18, 0x01, 0x61, 0x00])).struct()
    {1: -3, 2: b'a'}
    """

    def __init__(self, content: bytes) -> None:
        self.bytes, self.at = content, 0

    def struct(self, depth: int = 0) -> _Fields:
        fields: _Fields = {}
        number = 0
        while head := self._byte():
            step, kind = head >> 4, head & 15
            number = number + step if step else self._number()
            # a field of truth has its value in its kind
            fields[number] = kind == 1 if kind in (1, 2) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > _DEEPEST:
            raise _UnreadableError
        match kind:
            case 1 | 2 | 3:
                return self._byte()
            case 4 | 5 | 6:
                return self._number()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                head = self._byte()
                length = self._varint() if head >> 4 == 15 else head >> 4
                return [self._value(head & 15, depth + 1) for _ in range(length)]
            case 12:
                return self.struct(depth + 1)
        raise _UnreadableError

    def _take(self, length: int) -> bytes:
        self.at += length
        if self.at > len(self.bytes):
            raise _UnreadableError
        return self.bytes[self.at - length : self.at]

    def _byte(self) -> int:
        return self._take(1)[0]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise _UnreadableError

    def _number(self) -> int:
        zigzag = self._varint()
        return (zigzag >> 1) ^ -(zigzag & 1)

"""Headers of Parquet pages, looked at before polars trusts them.

polars reserves room for as many values as a page says it has, and a number below zero, which only
damage or malice writes, ends the process. Headers are written in Thrift's compact protocol; what
cannot be followed here is left to polars, which refuses it with an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from equipoise.exceptions import InvalidDataError

_MAGIC = b"PAR1"
# Most headers fit; a longer one, with long names in its statistics, is read again
_HEADER_BYTES = 1 << 9
_LONGEST_HEADER = 1 << 24
_DEEPEST = 16

# Numbers of fields in parquet.thrift
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_CHUNK_BYTES, _FIRST_PAGE, _DICTIONARY = 7, 9, 11
_PAGE_BYTES = 3
_COUNTS = {5: (1,), 7: (1,), 8: (1, 2, 3)}  # kinds of pages: values, nulls, rows

_Fields = dict[int, Any]


class _UnreadableError(Exception):
    """Not the bytes of a header."""


def refuse_negative_counts(path: Path) -> None:
    """Refuse a file in which a page says that it has fewer than no values.

    Parameters
    ----------
    path : Path
        A Parquet file, or one that claims to be.
    """
    with path.open("rb") as file:
        for count in _counts(file):
            if count < 0:
                raise InvalidDataError(
                    f"{path} cannot be read as Parquet: one of its pages says that it has {count} "
                    "values. The file is damaged; write it anew."
                )


def _counts(file: BinaryIO) -> Iterator[int]:
    """Yield what the pages say of their lengths."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    ending = file.read(8)
    if len(ending) < 8 or not ending.endswith(_MAGIC):
        return
    length = int.from_bytes(ending[:4], "little")
    if length > size - 8:
        return
    file.seek(size - 8 - length)
    try:
        footer = _Compact(file.read(length)).struct()
    except _UnreadableError:
        return
    for group in _structs(footer.get(_ROW_GROUPS)):
        for column in _structs(group.get(_COLUMNS)):
            yield from _counts_of_chunk(file, column.get(_COLUMN), size)


def _counts_of_chunk(file: BinaryIO, column: Any, size: int) -> Iterator[int]:
    if not isinstance(column, dict):
        return
    starts = [column.get(field) for field in (_DICTIONARY, _FIRST_PAGE)]
    known = [start for start in starts if isinstance(start, int) and 0 < start < size]
    length = column.get(_CHUNK_BYTES)
    if not known or not isinstance(length, int):
        return
    at, end = min(known), min(size, min(known) + length)
    while at < end:
        try:
            header, n_bytes = _header(file, at)
        except _UnreadableError:
            return
        for kind, fields in _COUNTS.items():
            page = header.get(kind)
            if isinstance(page, dict):
                yield from (_as_int32(page[k]) for k in fields if isinstance(page.get(k), int))
        page_bytes = header.get(_PAGE_BYTES)
        if not isinstance(page_bytes, int) or page_bytes < 0:
            return
        at += n_bytes + page_bytes


def _header(file: BinaryIO, at: int) -> tuple[_Fields, int]:
    """Return the header that begins there, and its length."""
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


def _structs(value: Any) -> list[_Fields]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


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

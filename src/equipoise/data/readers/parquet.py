"""Parquet files, in batches of the columns needed.

polars allocates memory for as many values as a page claims to have. A negative number, as in a
damaged file, ends the process. Page headers are therefore checked before polars reads a file. They
are written in Thrift's compact protocol:
https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, BinaryIO

import polars as pl

from equipoise.data.readers.columns import Columns
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch
from equipoise.data.readers.tables import batch_of, column_names
from equipoise.exceptions import InvalidDataError, explained

# Rows in memory at a time
_ROWS_PER_BATCH = 1 << 19
# Most headers are shorter; one with long statistics is read again
_HEADER_BYTES = 1 << 9
_MAX_HEADER_BYTES = 1 << 24

# Numbers of fields in parquet.thrift
_ROW_GROUPS, _COLUMNS, _COLUMN = 4, 1, 3
_N_VALUES, _CHUNK_BYTES, _FIRST_PAGE, _DICTIONARY_PAGE = 5, 7, 9, 11
_PAGE_BYTES = 3
# Kind of page → its fields that count values, nulls and rows
_DATA, _INDEX, _DICTIONARY, _DATA_V2 = 5, 6, 7, 8
_COUNTS = {_DATA: (1,), _INDEX: (), _DICTIONARY: (1,), _DATA_V2: (1, 2, 3)}
# What following damaged fields raises
_DAMAGE = (LookupError, TypeError, ValueError, RecursionError)


def batches(paths: Sequence[Path], asked: Columns) -> Iterator[Batch]:
    """Yield the rows of the files in batches; only the columns needed are read."""
    for path in paths:
        with _naming(path):
            yield from _one_file(path, asked)


def row_count(paths: Sequence[Path]) -> int:
    """Return the number of rows of all files, from their footers."""
    total = 0
    for path in paths:
        with _naming(path):
            total += pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    return total


def read_table(path: Path) -> pl.DataFrame:
    """Return a whole file, e.g. a small one of names or factors."""
    with _naming(path):
        return _scan(path).collect()


def _one_file(path: Path, asked: Columns) -> Iterator[Batch]:
    scan = _scan(path)
    names = column_names(scan.collect_schema(), asked, str(path))
    narrow = scan.select(names.values())
    n_rows = scan.select(pl.len()).collect().item()
    for start in range(0, n_rows, _ROWS_PER_BATCH):
        frame = narrow.slice(start, _ROWS_PER_BATCH).collect()
        yield batch_of(frame, names, str(path), start)


def _scan(path: Path) -> pl.LazyFrame:
    refuse_damaged_pages(path)
    return pl.scan_parquet(path, glob=False)


def _naming(path: Path) -> AbstractContextManager[None]:
    """Add the path to errors."""
    problem = f"{path} cannot be read as Parquet; it may be damaged or another kind of file"
    return explained(problem, *POLARS_ERRORS, OSError)


def refuse_damaged_pages(path: Path) -> None:
    """Refuse a file with truncated headers or with a page that has a negative number of values.

    A file that does not end like a Parquet file is left to polars, which raises an error.
    """
    with path.open("rb") as file:
        try:
            wrong = next((count for count in page_counts(file) if count < 0), None)
        except _DAMAGE:
            problem = "its headers are truncated"
        else:
            if wrong is None:
                return
            problem = f"one of its pages claims to have {wrong} values"
    raise InvalidDataError(
        f"{path} cannot be read as Parquet: {problem}. The file is damaged; write it again."
    )


def page_counts(file: BinaryIO) -> Iterator[int]:
    """Yield the numbers of values, nulls and rows that the pages claim to have."""
    size = file.seek(0, 2)
    file.seek(max(0, size - 8))
    ending = file.read(8)
    length = int.from_bytes(ending[:4], "little")
    if ending[4:] != b"PAR1" or length > size - 8:
        return
    file.seek(size - 8 - length)
    footer, _ = _struct(file.read(length), 0)
    for group in footer[_ROW_GROUPS]:
        for column in group[_COLUMNS]:
            yield from _chunk_counts(file, size, column[_COLUMN])


def _chunk_counts(file: BinaryIO, size: int, column: dict[int, Any]) -> Iterator[int]:
    at = column[_DICTIONARY_PAGE if _DICTIONARY_PAGE in column else _FIRST_PAGE]
    end, missing = at + column[_CHUNK_BYTES], column[_N_VALUES]
    while at < end and missing > 0:
        if not 0 < at < size:
            raise LookupError
        header, n_bytes = _header(file, at)
        (kind,) = (kind for kind in _COUNTS if kind in header)
        for number in _COUNTS[kind]:
            # readers keep 32 bits
            yield (header[kind][number] + 2**31) % 2**32 - 2**31
        missing -= header[kind][1] if kind in (_DATA, _DATA_V2) else 0
        at += n_bytes + max(0, header[_PAGE_BYTES])


def _header(file: BinaryIO, at: int) -> tuple[dict[int, Any], int]:
    """Return the header at a position, and its length."""
    n_bytes = _HEADER_BYTES
    while True:
        file.seek(at)
        content = file.read(n_bytes)
        try:
            return _struct(content, 0)
        except IndexError:
            if len(content) < n_bytes or n_bytes >= _MAX_HEADER_BYTES:
                raise
            n_bytes *= 16


def _struct(content: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and the position after it.

    Examples
    --------
    >>> _struct(bytes([0x15, 0x05, 0x18, 0x01, 0x61, 0x00]), 0)
    ({1: -3, 2: None}, 6)
    """
    fields: dict[int, Any] = {}
    number = 0
    while head := content[at]:
        at += 1
        number += head >> 4
        if not head >> 4:
            number, at = _integer(content, at)
        # the type of a boolean field is its value, and no bytes follow
        fields[number], at = (None, at) if head & 15 in (1, 2) else _value(content, at, head & 15)
    return fields, at + 1


def _value(content: bytes, at: int, kind: int) -> tuple[Any, int]:
    """Return a number, list or struct, and the position after it; None for other types."""
    match kind:
        case 1 | 2 | 3:
            return None, at + 1
        case 4 | 5 | 6:
            return _integer(content, at)
        case 7:
            return None, at + 8
        case 8:
            length, at = _varint(content, at)
            return None, at + length
        case 9 | 10:
            length, kind = content[at] >> 4, content[at] & 15
            length, at = (length, at + 1) if length < 15 else _varint(content, at + 1)
            values = []
            for _ in range(length):
                if at >= len(content):  # a damaged length may be very large
                    raise IndexError
                value, at = _value(content, at, kind)
                values.append(value)
            return values, at
        case 12:
            return _struct(content, at)
    raise LookupError


def _integer(content: bytes, at: int) -> tuple[int, int]:
    zigzag, at = _varint(content, at)
    return (zigzag >> 1) ^ -(zigzag & 1), at


def _varint(content: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte, at = content[at], at + 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
    raise LookupError

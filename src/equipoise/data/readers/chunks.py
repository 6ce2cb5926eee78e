"""A text file in pieces that end where a record ends, each knowing its first line."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeVar, cast

from equipoise.data.readers.zstd import open_zstd
from equipoise.exceptions import InvalidDataError

# Text held at a time: large enough that polars works at full speed, small beside any memory
CHUNK_BYTES = 1 << 23
# A quote left open would glue the rest of the file together: a record of so many chunks is none
_LONGEST_RECORD = 8
_Part = TypeVar("_Part")
_BOM = b"\xef\xbb\xbf"


class Chunk(NamedTuple):
    """Whole records, and the number of the first line (from 1) in the file."""

    text: bytes
    first_line: int


def open_text(path: Path) -> BinaryIO:
    """Open a file for reading bytes; .gz and .zst are unpacked as they are read."""
    packing = path.suffix.lower()
    if packing == ".gz":
        return cast(BinaryIO, gzip.open(path, "rb"))
    return open_zstd(path) if packing == ".zst" else path.open("rb")


def head(path: Path, n_bytes: int = 1 << 16) -> bytes:
    """Return the first lines, without the mark that some editors put before UTF-8."""
    with open_text(path) as file:
        start = file.read(n_bytes)
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidDataError(f"{path} is UTF-16 text. Save it as UTF-8 and read that.")
    if b"\r" in start and b"\n" not in start:
        raise InvalidDataError(
            f"{path}: its lines end in carriage returns alone, as on old Macs. Turn them into "
            "newlines (tr '\\r' '\\n') and read that."
        )
    start = start.removeprefix(_BOM)
    if len(start) >= n_bytes - len(_BOM) and b"\n" not in start:
        raise InvalidDataError(
            f"{path}: its first line is longer than {len(start):,} bytes, which no row of a table "
            "is. LightGCN text, a line of items per user, is read with format='lightgcn' "
            "(--format)."
        )
    return start if len(start) < n_bytes - len(_BOM) else start[: start.rfind(b"\n") + 1]


def chunks(path: Path, *, quoted: bool, has_header: bool = False) -> Iterator[Chunk]:
    """Yield the file in chunks of whole records.

    A newline ends a record if the quotes before it pair up, which holds for quoted fields with
    newlines and doubled quotes inside them. A record that does not end is refused in time: what
    unpacks to gigabytes on one line is not collected.
    """
    line, longest = 1, _LONGEST_RECORD * CHUNK_BYTES
    with open_text(path) as file:
        rest = file.read(len(_BOM)).removeprefix(_BOM)
        while has_header:
            rest += b"" if b"\n" in rest else file.readline(longest)
            header, ended, rest = rest.partition(b"\n")
            _refuse_long_record(header, path, line)
            line, has_header = line + 1, bool(ended) and not header.strip()
        while block := file.read(CHUNK_BYTES):
            rest += block
            cut = _last_record_end(rest, quoted)
            if cut:
                yield Chunk(rest[:cut], line)
                line, rest = line + rest.count(b"\n", 0, cut), rest[cut:]
            _refuse_long_record(rest, path, line)
    if rest.strip():
        yield Chunk(rest, line)


def _refuse_long_record(text: bytes, path: Path, line: int) -> None:
    longest = _LONGEST_RECORD * CHUNK_BYTES
    if len(text) >= longest:
        raise InvalidDataError(
            f"{path}, from line {line} on: no row ends within {longest:,} bytes. A quote may be "
            "open, or this is no table of text."
        )


def ahead(parts: Iterator[_Part]) -> Iterator[_Part]:
    """Yield the parts; while one is used, a thread prepares the next."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = pool.submit(next, parts, None)
            yield part


def _last_record_end(text: bytes, quoted: bool) -> int:
    cut = text.rfind(b"\n") + 1
    if not quoted:
        return cut
    last = cut
    open_quotes = text.count(b'"', 0, cut) % 2
    while cut and open_quotes:
        before = text.rfind(b"\n", 0, cut - 1) + 1
        open_quotes ^= text.count(b'"', before, cut) % 2
        cut = before
    return cut if cut or len(text) < _LONGEST_RECORD * CHUNK_BYTES else last


def csv_reader(lines: Iterable[str], delimiter: str, *, quoted: bool, strict: bool = False) -> Any:
    """Return the standard library's reader, which counts lines, with or without quoting."""
    if quoted:
        spaces = delimiter != " "
        return csv.reader(lines, delimiter=delimiter, skipinitialspace=spaces, strict=strict)
    return csv.reader(lines, delimiter=delimiter, quoting=csv.QUOTE_NONE)


def records(
    chunk: Chunk, delimiter: str, *, quoted: bool, strict: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) one by one: slow, for finding what is wrong and where."""
    text = io.StringIO(chunk.text.decode("utf-8", errors="replace"), newline="")
    reader = csv_reader(text, delimiter, quoted=quoted, strict=strict)
    line = chunk.first_line
    for fields in reader:
        yield line, fields
        line = chunk.first_line + reader.line_num


def refuse_encoding(chunk: Chunk, source: str) -> None:
    """Refuse text that is not UTF-8, with the line where it stops being so."""
    try:
        chunk.text.decode("utf-8")
    except UnicodeDecodeError as error:
        line = chunk.first_line + chunk.text.count(b"\n", 0, error.start)
        raise InvalidDataError(
            f"{source}, line {line}: byte {chunk.text[error.start]:#04x} is not UTF-8 text. "
            "Save the file as UTF-8 (iconv -f ISO-8859-1 -t UTF-8) and read that."
        ) from error

"""Text files, plain or compressed, in chunks of whole records with their line numbers."""

from __future__ import annotations

import gzip
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple, TypeVar, cast

import numpy as np

from equipoise.exceptions import InvalidDataError, require_extra

# Text in memory at a time: large enough for polars to run at full speed.
CHUNK_BYTES = 1 << 23
# An open quote joins the rest of the file into one record: a record of more chunks is an error.
_MAX_CHUNKS_PER_RECORD = 8
_BOM = b"\xef\xbb\xbf"
_Part = TypeVar("_Part")


class Chunk(NamedTuple):
    """Whole records, and the number of their first line in the file, counted from 1."""

    text: bytes
    first_line: int

    def decoded(self, source: str) -> str:
        """Return the text; refuse bytes that are not UTF-8 and give their line."""
        try:
            return self.text.decode("utf-8")
        except UnicodeDecodeError as error:
            line = self.first_line + self.text.count(b"\n", 0, error.start)
            raise InvalidDataError(
                f"{source}, line {line}: byte {self.text[error.start]:#04x} is not UTF-8 text. "
                "Save the file as UTF-8 (iconv -f ISO-8859-1 -t UTF-8) and read that."
            ) from error


@contextmanager
def open_text(path: Path) -> Iterator[BinaryIO]:
    """Open a file for reading bytes; .gz and .zst are decompressed while they are read.

    A damaged or truncated file raises OSError, EOFError or zlib.error while it is read.
    """
    if path.suffix.lower() == ".zst":
        module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
        zstd = require_extra(module, "zstd", "reading .zst files")
        try:
            with zstd.open(path, "rb") as file:
                yield file
        except zstd.ZstdError as error:
            raise OSError(str(error)) from error
    else:
        open_file = gzip.open if path.suffix.lower() == ".gz" else open
        with open_file(path, "rb") as file:
            yield cast(BinaryIO, file)


def head(path: Path, n_bytes: int = 1 << 16) -> bytes:
    """Return the first lines, without a byte order mark."""
    with open_text(path) as file:
        start = file.read(n_bytes)
    is_whole = len(start) < n_bytes
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidDataError(f"{path} is UTF-16 text. Save it as UTF-8 and read that.")
    if b"\r" in start and b"\n" not in start:
        raise InvalidDataError(
            f"{path}: its lines end in carriage returns alone, as on old Macs. Turn them into "
            "newlines (tr '\\r' '\\n') and read that."
        )
    if not is_whole and b"\n" not in start:
        raise InvalidDataError(
            f"{path}: its first line is longer than {len(start):,} bytes, too long for a row of a "
            "table. Read LightGCN text (one line of items per user) with format='lightgcn' "
            "(--format)."
        )
    start = start if is_whole else start[: start.rfind(b"\n") + 1]
    return start.removeprefix(_BOM)


def chunks(path: Path, *, quoted: bool, has_header: bool = False) -> Iterator[Chunk]:
    """Yield the file in chunks of whole records, without the header.

    A newline ends a record if the number of quotes before it is even. This holds for quoted fields
    with newlines and doubled quotes.
    """
    line = 1
    with open_text(path) as file:
        rest = file.read(len(_BOM)).removeprefix(_BOM)
        while has_header:
            rest += b"" if b"\n" in rest else file.readline(_longest_record())
            header, ended, rest = rest.partition(b"\n")
            _check_record_length(header, path, line)
            line, has_header = line + 1, bool(ended) and not header.strip()
        while block := file.read(CHUNK_BYTES):
            rest += block
            cut = _last_record_end(rest, quoted)
            if cut:
                yield Chunk(rest[:cut], line)
                line, rest = line + _count(rest, b"\n", cut), rest[cut:]
            _check_record_length(rest, path, line)
    if rest.strip():
        yield Chunk(rest, line)


def prefetch(parts: Iterator[_Part]) -> Iterator[_Part]:
    """Yield the parts; a thread prepares the next one while a part is used."""
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, parts, None)
        while (part := coming.result()) is not None:
            coming = pool.submit(next, parts, None)
            yield part


def _longest_record() -> int:
    return _MAX_CHUNKS_PER_RECORD * CHUNK_BYTES


def _check_record_length(text: bytes, path: Path, line: int) -> None:
    if len(text) >= _longest_record():
        raise InvalidDataError(
            f"{path}, from line {line} on: no row ends within {_longest_record():,} bytes. A quote "
            "may be open, or this is not a table of text."
        )


def _count(text: bytes, byte: bytes, stop: int) -> int:
    """Count a byte before `stop`: faster than `bytes.count`, and without the GIL."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8, stop) == ord(byte)))


def _last_record_end(text: bytes, quoted: bool) -> int:
    last = cut = text.rfind(b"\n") + 1
    open_quotes = _count(text, b'"', cut) % 2 if quoted else 0
    while cut and open_quotes:
        before = text.rfind(b"\n", 0, cut - 1) + 1
        open_quotes ^= text.count(b'"', before, cut) % 2
        cut = before
    # an open quote in a record that is too long is found by parsing what there is
    return cut if cut or len(text) < _longest_record() else last

"""Text with a delimiter: CSV, TSV, MovieLens `::` and Last.fm files, in chunks."""

from __future__ import annotations

import csv
import io
import itertools
import re
import string
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import polars as pl

from equipoise.data.readers.chunks import (
    Chunk,
    ahead,
    chunks,
    csv_reader,
    head,
    records,
    refuse_encoding,
)
from equipoise.data.readers.columns import (
    Columns,
    is_known_name,
    names_user_and_item,
    refuse_idle_numbers,
    resolve,
)
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch
from equipoise.data.readers.quotes import (
    refuse_other_reading,
    strictly_read,
    well_formed,
    without_blank_lines,
)
from equipoise.data.readers.typed import Types, guess_types, is_plain
from equipoise.exceptions import InvalidDataError, InvalidParameterError, first_line

_DELIMITERS = ("\t", ",", ";", "|", " ")
# polars splits at one byte; this one, "unit separator", stands in for "::" and occurs in no text
_STAND_IN = "\x1f"
_HEAD_ROWS = 50


class Layout(NamedTuple):
    """How a text file is written."""

    delimiter: str
    quoted: bool
    names: list[str] | None
    n_columns: int
    # columns whose first cells are mostly numbers
    numeric: list[int]
    # the first rows, as text
    first_rows: list[list[str]]

    @property
    def byte(self) -> str:
        """The one-byte delimiter that polars sees."""
        return _one_byte(self.delimiter)


def _one_byte(delimiter: str) -> str:
    return _STAND_IN if len(delimiter.encode()) > 1 else delimiter


def layout(path: Path, delimiter: str | None, asked: Columns, *, quoted: bool = True) -> Layout:
    """Tell delimiter, header and width from the first lines."""
    _refuse_odd_delimiter(delimiter)
    lines = _first_lines(path)
    delimiter = delimiter or _guess_delimiter(lines, path)
    rows = _split(lines, delimiter, quoted, path)
    first = [cell.strip() for cell in rows[0]]
    if not _has_header(first, rows[1:], asked):
        n_columns = max(map(len, rows))
        return Layout(delimiter, quoted, None, n_columns, _numeric(rows, n_columns), rows)
    repeated = {name for name in first if first.count(name) > 1}
    if repeated:
        raise InvalidDataError(
            f"{path}: the header names {sorted(repeated)} more than once. Rename those columns."
        )
    _refuse_odd_header(lines[0], delimiter, quoted, path)
    below = rows[1:]
    return Layout(delimiter, quoted, first, len(first), _numeric(below, len(first)), below)


def _refuse_odd_delimiter(delimiter: str | None) -> None:
    try:
        (delimiter or "").encode()
    except UnicodeEncodeError as error:
        raise InvalidParameterError(
            f"delimiter={delimiter!r} (--delimiter) is no UTF-8 text. Files are read as UTF-8; "
            "give a character of it."
        ) from error


def batches(path: Path, form: Layout, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a text file, every cell as text or, where nothing is lost, as a number."""
    resolved = resolve(form.names, form.n_columns, asked, str(path))
    refuse_idle_numbers(resolved, form.names, asked, form.numeric, str(path))
    places = resolved.taken()
    called = {
        role: repr(form.names[place]) if form.names else f"{place}, counted from 0"
        for role, place in places.items()
    }
    types: Types | None = guess_types(form.first_rows, places, set(form.numeric))
    for chunk, plain in ahead(_plain_or_not(path, form)):
        odd = not well_formed(chunk.text, form.byte, quoted=form.quoted)
        if odd:
            chunk = chunk._replace(text=without_outer_spaces(chunk.text, form))
            written = strictly_read(chunk, form, str(path))
        lines, chunk = _Lines(chunk, form), _dense(chunk, form)
        parsed = None
        if types is not None and plain and not odd:
            parsed = _parse_typed(chunk, form, places, types)
        if parsed is None:
            types = None  # what is odd once may be so again: no second try for each chunk
            as_read = chunk
            chunk, parsed = _parse(chunk, form, places, str(path))
            lines.without_spaces = chunk is not as_read
        rows = _without_blank_rows(parsed, chunk, form)
        if odd:
            refuse_other_reading(written, rows, list(places.values()), str(path))
        if b'""' in chunk.text:  # an empty id is a missing one, in quotes or without
            rows = rows.with_columns(pl.col(pl.String).replace("", None))
        yield Batch(rows, str(path), lines, called)


def _plain_or_not(path: Path, form: Layout) -> Iterator[tuple[Chunk, bool]]:
    """Yield the chunks, and of each whether its numbers are plainly written."""
    for chunk in chunks(path, quoted=form.quoted, has_header=form.names is not None):
        single = _one_byte_delimiter(chunk, form)
        yield single, is_plain(single.text, form.byte)


def _first_lines(path: Path) -> list[str]:
    # not splitlines(): to Python, but to no CSV file, a form feed ends a line too
    text = head(path).decode("utf-8", "replace").replace("\r\n", "\n")
    # and not strip() alone: a space of another alphabet is an id to the chunks, which are bytes
    lines = [line for line in text.split("\n") if line.strip(string.whitespace)]
    if not lines:
        raise InvalidDataError(f"{path} is empty: there is not one line of text in it.")
    return lines[: _HEAD_ROWS + 1]


def _split(lines: list[str], delimiter: str, quoted: bool, path: Path) -> list[list[str]]:
    try:
        return [row for row in _fields(lines, delimiter, quoted=quoted) if row]
    except csv.Error as error:
        raise InvalidDataError(
            f"{path}: the first lines cannot be split into columns; a carriage return may stand "
            f"inside a line. Turn carriage returns into newlines, or quote the field. ({error})"
        ) from error


def _fields(
    lines: list[str], delimiter: str, *, quoted: bool, strict: bool = False
) -> Iterator[list[str]]:
    byte = _one_byte(delimiter)
    if byte != delimiter:
        lines = [line.replace(delimiter, byte) for line in lines]
    yield from csv_reader(lines, byte, quoted=quoted, strict=strict)


def _refuse_odd_header(line: str, delimiter: str, quoted: bool, path: Path) -> None:
    """Refuse names that reach beyond their line: the rows begin below it."""
    try:
        list(_fields([line], delimiter, quoted=quoted, strict=True))
    except csv.Error as error:
        raise InvalidDataError(
            f"{path}: the header cannot be split into names; a quote may be open or stand inside "
            f"one. Quote whole names, each on one line, or none. ({error})"
        ) from error


def _guess_delimiter(lines: list[str], path: Path) -> str:
    """Return the delimiter that cuts all first lines into equally many fields."""
    if "::" in lines[0]:
        return "::"
    widths = {d: [len(row) for row in _split(lines, d, True, path)] for d in _DELIMITERS}
    for delimiter, counts in widths.items():
        if counts[0] > 1 and len(set(counts)) == 1:
            return delimiter
    ragged = max(_DELIMITERS, key=lambda d: widths[d][0])
    if widths[ragged][0] == 1:
        raise InvalidDataError(
            f"{path}: no delimiter found in {lines[0][:60]!r}; a user and an item need two "
            "columns. Say what separates them with delimiter= (--delimiter), or the kind of file "
            "with format= (--format)."
        )
    return ragged


def _has_header(first: list[str], rest: list[list[str]], asked: Columns) -> bool:
    """Tell a header: a known or asked-for name, or a word above a column of numbers."""
    if any(isinstance(wish, str) and wish in first and wish for wish in asked):
        return True
    if names_user_and_item(first):
        return True  # whatever else stands there: a year may name a column
    if any(map(is_number, first)):
        return False
    below = [[row[place] for row in rest if place < len(row)] for place in range(len(first))]
    above_numbers = any(column and all(map(is_number, column)) for column in below)
    return above_numbers or any(map(is_known_name, first))


def _numeric(rows: list[list[str]], n_columns: int) -> list[int]:
    cells = [
        [row[place] for row in rows if place < len(row) and row[place].strip()]
        for place in range(n_columns)
    ]
    # mostly: a few wrong or missing cells do not make a column of numbers one of words
    return [
        place for place, column in enumerate(cells) if 2 * sum(map(is_number, column)) > len(column)
    ]


def is_number(cell: str) -> bool:
    """Tell whether a cell is written as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _one_byte_delimiter(chunk: Chunk, form: Layout) -> Chunk:
    if form.byte == form.delimiter:
        return chunk
    return chunk._replace(text=chunk.text.replace(form.delimiter.encode(), form.byte.encode()))


def without_outer_spaces(text: bytes, form: Layout) -> bytes:
    """Take away the spaces around fields; those inside quotes stay."""
    if form.delimiter == " " or b" " not in text:
        return text
    cut = re.escape(form.byte.encode())
    # a run of spaces is entered at its start only, so that a long one takes linear time
    spaces = rb"(?<! ) ++(?=[\r\n" + cut + rb"]|\Z)|(?<![^\n" + cut + rb"]) ++"
    if not form.quoted:
        return re.sub(spaces, b"", text)
    field = rb"((?<![^\n " + cut + rb'])"[^"]*+(?:""[^"]*+)*+")'
    return re.sub(field + b"|" + spaces, rb"\1", text)


def _parse_typed(
    chunk: Chunk, form: Layout, places: dict[str, int], types: Types
) -> pl.DataFrame | None:
    """Return the cells with numbers as numbers, or None if that is not for this chunk."""
    try:
        rows = _cells(chunk, form, places, types)
    except POLARS_ERRORS:
        return None
    text = [role for role, kind in types.items() if kind == pl.String]
    return None if _has_outer_spaces(rows.select(text), chunk) else rows


def _parse(
    chunk: Chunk, form: Layout, places: dict[str, int], source: str
) -> tuple[Chunk, pl.DataFrame]:
    """Return the cells, and the text they were read from: without outer spaces if it had some."""
    try:
        rows = _cells(chunk, form, places)
        if not _has_outer_spaces(rows, chunk):
            return chunk, rows
    except POLARS_ERRORS:
        pass  # a space before a quote may be the reason: tried again without
    chunk = _dense(chunk._replace(text=without_outer_spaces(chunk.text, form)), form)
    try:
        return chunk, _cells(chunk, form, places)
    except POLARS_ERRORS as error:
        refuse_encoding(chunk, source)
        _refuse_wide_record(chunk, form, source)
        raise InvalidDataError(
            f"{source}, from line {chunk.first_line} on: the text cannot be split into columns; "
            f"a quote may be open or stand inside a field. ({first_line(error)})"
        ) from error


def _has_outer_spaces(rows: pl.DataFrame, chunk: Chunk) -> bool:
    if not rows.width or b" " not in chunk.text:
        return False
    outer = pl.all().str.starts_with(" ") | pl.all().str.ends_with(" ")
    return bool(rows.select(pl.any_horizontal(outer.any())).item())


def _cells(
    chunk: Chunk, form: Layout, places: dict[str, int], types: Types | None = None
) -> pl.DataFrame:
    names = [f"column_{place}" for place in range(form.n_columns)]
    # a header of our own: polars takes the width from the first line, which may be a short one
    header = form.byte.join(names).encode() + b"\n"
    rows = pl.read_csv(
        io.BytesIO(header + chunk.text),
        infer_schema=False,
        schema_overrides={names[places[role]]: kind for role, kind in (types or {}).items()},
        separator=form.byte,
        quote_char='"' if form.quoted else None,
        columns=[names[place] for place in places.values()],
    )
    return rows.select(pl.col(names[place]).alias(role) for role, place in places.items())


def _refuse_wide_record(chunk: Chunk, form: Layout, source: str) -> None:
    for line, fields in records(chunk, form.byte, quoted=form.quoted):
        if len(fields) > form.n_columns:
            raise InvalidDataError(
                f"{source}, line {line}: {len(fields)} fields where the table has "
                f"{form.n_columns} columns. Quote a field that contains the delimiter "
                f"{form.delimiter!r}, or name another one with delimiter= (--delimiter)."
            )


def _dense(chunk: Chunk, form: Layout) -> Chunk:
    """Remove blank lines before polars makes a row of each; odd text is left to `csv`."""
    if not well_formed(chunk.text, form.byte, quoted=form.quoted):
        return chunk
    return chunk._replace(text=without_blank_lines(chunk.text, quoted=form.quoted))


class _Lines:
    """Finds the physical line of a row of a chunk; counted only when somebody asks."""

    def __init__(self, chunk: Chunk, form: Layout) -> None:
        self._chunk, self._form = chunk, form
        self.without_spaces = False

    def __call__(self, row: int) -> str:
        chunk, form = self._chunk, self._form
        if self.without_spaces:
            chunk = chunk._replace(text=without_outer_spaces(chunk.text, form))
        numbered = records(chunk, form.byte, quoted=form.quoted)
        filled = (line for line, fields in numbered if fields)
        line = next(itertools.islice(filled, row, None), None)
        return f"about line {chunk.first_line + row}" if line is None else f"line {line}"


def _without_blank_rows(rows: pl.DataFrame, chunk: Chunk, form: Layout) -> pl.DataFrame:
    """Leave out blank lines; a line of nothing but delimiters stays, to be refused by number."""
    nothing = rows.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if not nothing.any():
        return rows
    written = pl.Series(
        [bool(fields) for _, fields in records(chunk, form.byte, quoted=form.quoted)],
        dtype=pl.Boolean,
    )
    # polars drops what follows the last newline, csv may not: the shorter count is the common one
    written = written.head(len(rows)).extend_constant(False, max(0, len(rows) - len(written)))
    return rows.filter(written)

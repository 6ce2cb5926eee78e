"""Delimited text: CSV, TSV, MovieLens `::` and Last.fm files.

polars reads well-formed text. Python's csv module, in its strict mode, reads the rest (misplaced
quotes, lone carriage returns, rows that polars cannot parse) and finds the line of every error.
"""

from __future__ import annotations

import csv
import io
import itertools
import re
import string
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from equipoise.data.readers.columns import (
    Columns,
    Header,
    is_known_name,
    names_user_and_item,
)
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch
from equipoise.data.readers.text import Chunk, chunks, head, prefetch
from equipoise.exceptions import InvalidDataError, explained

_DELIMITERS = ("\t", ",", ";", "|", " ")
# polars needs a delimiter of one byte: "unit separator", which text does not contain, replaces "::"
_UNIT_SEPARATOR = "\x1f"
_HEAD_ROWS = 50
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Bytes checked at a time: they and the masks computed from them stay in the cache
_WINDOW = 1 << 18

Types = dict[str, Any]


class Layout(NamedTuple):
    """How a text file is written."""

    delimiter: str
    quoted: bool
    names: list[str] | None
    n_columns: int
    numeric: list[int]  # columns whose first cells are mostly numbers
    first_rows: list[list[str]]
    # roles whose numbers are written in another way than polars reads them
    as_text: frozenset[str] = frozenset()

    @property
    def byte(self) -> str:
        """The delimiter of one byte that replaces a longer one."""
        return _one_byte(self.delimiter)


def _one_byte(delimiter: str) -> str:
    return _UNIT_SEPARATOR if len(delimiter.encode()) > 1 else delimiter


def layout(
    path: Path,
    delimiter: str | None,
    asked: Columns,
    *,
    quoted: bool = True,
    decimal: str | None = None,
    date_format: str | None = None,
) -> Layout:
    """Detect delimiter, header and number of columns from the first lines."""
    lines = _first_lines(path)
    delimiter = delimiter or _guess_delimiter(lines, path, decimal)
    rows = _split(lines, delimiter, quoted, path)
    header, *_ = rows
    if decimal is not None:  # to detect numbers: cells are parsed later
        rows = [[cell.replace(decimal, ".") for cell in row] for row in rows]
    first = [cell.strip() for cell in rows[0]]
    has_header = _has_header(first, rows[1:], asked)
    names = [cell.strip() for cell in header] if has_header else None
    if names is not None:
        _check_header(names, lines[0], delimiter, quoted, path)
        rows = rows[1:]
    n_columns = len(first) if names else max(map(len, rows))
    numeric = _numeric(rows, n_columns)
    written = {"value": decimal, "timestamp": date_format}  # digits may be a date: 20200131
    as_text = frozenset(role for role, how in written.items() if how is not None)
    return Layout(delimiter, quoted, names, n_columns, numeric, rows, as_text)


def _first_lines(path: Path) -> list[str]:
    # str.splitlines and str.strip also use form feeds and Unicode spaces, which are data in a CSV
    text = head(path).decode("utf-8", "replace").replace("\r\n", "\n")
    lines = [line for line in text.split("\n") if line.strip(string.whitespace)]
    if not lines:
        raise InvalidDataError(f"{path} is empty: it has no line of text.")
    return lines[: _HEAD_ROWS + 1]


def _split(
    lines: Sequence[str], delimiter: str, quoted: bool, path: Path, *, strict: bool = False
) -> list[list[str]]:
    byte = _one_byte(delimiter)
    cells = _csv_reader((line.replace(delimiter, byte) for line in lines), byte, quoted, strict)
    problem = (
        f"{path}: the {'header' if strict else 'first lines'} cannot be split into columns; a "
        "quote may be open or inside a name, or a carriage return inside a line"
    )
    with explained(problem, csv.Error):
        return [row for row in cells if row]


def _csv_reader(lines: Iterator[str], byte: str, quoted: bool, strict: bool) -> Any:
    if not quoted:
        return csv.reader(lines, delimiter=byte, quoting=csv.QUOTE_NONE)
    return csv.reader(lines, delimiter=byte, skipinitialspace=byte != " ", strict=strict)


def _guess_delimiter(lines: list[str], path: Path, decimal: str | None) -> str:
    """Return the delimiter that splits all first lines into equally many fields."""
    if "::" in lines[0]:
        return "::"
    possible = [delimiter for delimiter in _DELIMITERS if delimiter != decimal]
    widths = {d: [len(row) for row in _split(lines, d, True, path)] for d in possible}
    for delimiter, counts in widths.items():
        if counts[0] > 1 and len(set(counts)) == 1:
            return delimiter
    ragged = max(possible, key=lambda d: widths[d][0])
    if widths[ragged][0] == 1:
        raise InvalidDataError(
            f"{path}: no delimiter found in {lines[0][:60]!r}; a user and an item need two "
            "columns. Set delimiter= (--delimiter), or the kind of file with format= (--format)."
        )
    return ragged


def _has_header(first: list[str], rest: list[list[str]], asked: Columns) -> bool:
    """Detect a header: a known or requested name, or words above a column of numbers."""
    # "0" is a position, even where a cell of the first line is 0
    positions = set(map(str, range(len(first))))
    if any(isinstance(wish, str) and wish in first for wish in set(asked) - positions - {""}):
        return True
    if names_user_and_item(first):
        return True  # even next to a number: a year may be the name of a column
    if any(map(is_number, first)):
        return False
    below = [[row[place] for row in rest if place < len(row)] for place in range(len(first))]
    # decimal commas are numbers here: whether they may be read as such is decided later
    above_numbers = any(
        column and all(is_number(cell.replace(",", ".")) for cell in column) for column in below
    )
    return above_numbers or any(map(is_known_name, first))


def _check_header(names: list[str], line: str, delimiter: str, quoted: bool, path: Path) -> None:
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidDataError(
            f"{path}: the header contains {repeated} more than once. Rename those columns."
        )
    # the rows begin below the first line, so names must not continue on the next one
    _split([line], delimiter, quoted, path, strict=True)


def _numeric(rows: list[list[str]], n_columns: int) -> list[int]:
    cells = [
        [row[place] for row in rows if place < len(row) and row[place].strip()]
        for place in range(n_columns)
    ]
    # mostly numbers: a few wrong or missing cells are errors in a column of numbers
    return [
        place for place, column in enumerate(cells) if 2 * sum(map(is_number, column)) > len(column)
    ]


def is_number(cell: str) -> bool:
    """Return whether a cell is written as a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def batches(path: Path, form: Layout, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a text file: plain numbers as numbers, other cells as text."""
    source = str(path)
    header = Header(source, form.names, form.n_columns, form.numeric)
    places = header.resolve(asked)
    columns = header.called(places)
    types = guess_types(form, places)
    for chunk, plain in prefetch(_chunks(path, form)):
        rows = _parse(chunk, form, places, types) if plain and types else None
        if rows is None:
            types = {}  # no second try for each later chunk
            rows = _parse(chunk, form, places)
        if rows is None:
            chunk = chunk._replace(text=_without_outer_spaces(chunk.text, form))
            rows = _parse_strictly(chunk, form, places, source)
        yield Batch(rows, source, partial(_line, chunk, form, source), columns, len(chunk.text))


def _chunks(path: Path, form: Layout) -> Iterator[tuple[Chunk, bool]]:
    """Yield chunks with a delimiter of one byte, and whether all numbers are plain."""
    for chunk in chunks(path, quoted=form.quoted, has_header=form.names is not None):
        if form.byte != form.delimiter:
            text = chunk.text.replace(form.delimiter.encode(), form.byte.encode())
            chunk = chunk._replace(text=text)
        yield chunk, is_plain(chunk.text, form.byte)


def guess_types(form: Layout, places: dict[str, int]) -> Types:
    """Return role → polars type from the first rows; text wherever a number loses information."""
    types: Types = {}
    for role, place in places.items():
        cells = [row[place].strip() for row in form.first_rows if place < len(row)]
        if role in form.as_text:
            types[role] = pl.String
        elif role == "value":
            types[role] = pl.Float64 if place in form.numeric else pl.String
        else:
            integers = bool(cells) and all(map(_INTEGER.fullmatch, cells))
            types[role] = pl.Int64 if integers else pl.String
    return types


def is_plain(text: bytes, delimiter: str, window: int = _WINDOW) -> bool:
    r"""Return whether no field begins like an unusual number, which polars would change.

    Those begin with a sign, a space, a tab, a quote, or a zero before another digit: "007" is not
    the id 7. Negative ids are rare and are read as text first.

    Examples
    --------
    >>> [is_plain(text, ",") for text in (b"10,0.5\n", b"1,07\n", b"+1,2\n")]
    [True, False, False]
    """
    text = b"\n" + text
    windows = range(0, len(text), window)
    return all(_window_is_plain(text[at : at + window + 2], ord(delimiter)) for at in windows)


def _window_is_plain(text: bytes, delimiter: int) -> bool:
    byte = np.frombuffer(text, np.uint8)
    before, first, second = byte[:-2], byte[1:-1], byte[2:]
    odd = first == ord("0")
    odd &= second - np.uint8(ord("0")) < 10  # unsigned: smaller bytes become large numbers
    for start in map(ord, '+- "\t'):
        if start != delimiter:
            odd |= first == start
    odd &= (before == delimiter) | (before == ord("\n"))
    return not odd.any()


def _parse(
    chunk: Chunk, form: Layout, places: dict[str, int], types: Types | None = None
) -> pl.DataFrame | None:
    """Return the cells that polars reads; None for text that polars may read differently."""
    text = chunk.text
    has_quotes = form.quoted and b'"' in text
    lone_returns = b"\r" in text and text.count(b"\r") != text.count(b"\r\n")
    if lone_returns or (has_quotes and not well_quoted(text, form.byte)):
        return None
    rows = _read_csv(text, form, places, types)
    if rows is None:
        return None
    has_spaces = b" " in text and form.delimiter != " "
    if has_spaces:
        stripped = rows.with_columns(pl.col(pl.String).str.strip_chars(" "))
        if has_quotes and not stripped.equals(rows):
            return None  # spaces in quotes are part of a cell
        rows = stripped
    if has_spaces or has_quotes:  # an empty id in quotes is missing, like one without
        rows = rows.with_columns(pl.col(pl.String).replace("", None))
    # polars returns blank lines as rows without cells, which the csv module skips
    return None if rows["user"].has_nulls() and rows["item"].has_nulls() else rows


def _read_csv(
    text: bytes, form: Layout, places: dict[str, int], types: Types | None
) -> pl.DataFrame | None:
    names = [f"column_{place}" for place in range(form.n_columns)]
    # our own header sets the number of columns, which polars takes from the first line
    header = form.byte.join(names).encode() + b"\n"
    try:
        rows = pl.read_csv(
            header + text,
            infer_schema=False,
            schema_overrides={names[places[role]]: kind for role, kind in (types or {}).items()},
            separator=form.byte,
            quote_char='"' if form.quoted else None,
            columns=[names[place] for place in places.values()],
        )
    except POLARS_ERRORS:
        return None
    return rows.select(pl.col(names[place]).alias(role) for role, place in places.items())


def well_quoted(text: bytes, delimiter: str) -> bool:
    r"""Return whether every quote begins or ends a whole field, or is doubled inside one.

    Examples
    --------
    >>> [well_quoted(text, ",") for text in (b'a,"b,""c"\n', b'a,b"c\n', b'"a"b,c\n')]
    [True, False, False]
    """
    byte = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    at = np.flatnonzero(byte == ord('"'))
    if len(at) % 2:
        return False
    opening, closing = at[::2], at[1::2]
    opens = np.isin(byte[opening - 1], list(map(ord, (delimiter, "\n"))))
    closes = np.isin(byte[closing + 1], list(map(ord, (delimiter, "\n", "\r"))))
    doubled = closing[:-1] + 1 == opening[1:]
    opens[1:] |= doubled
    closes[:-1] |= doubled
    return bool(opens.all() and closes.all())


def _without_outer_spaces(text: bytes, form: Layout) -> bytes:
    """Remove the spaces around fields, but not those inside quotes."""
    if form.delimiter == " " or b" " not in text:
        return text
    cut = re.escape(form.byte.encode())
    # a run of spaces matches from its start only: a long one takes linear time
    spaces = rb"(?<! ) ++(?=[\r\n" + cut + rb"]|\Z)|(?<![^\n" + cut + rb"]) ++"
    if not form.quoted:
        return re.sub(spaces, b"", text)
    field = rb"((?<![^\n " + cut + rb'])"[^"]*+(?:""[^"]*+)*+")'
    return re.sub(field + b"|" + spaces, rb"\1", text)


def records(chunk: Chunk, form: Layout, source: str) -> Iterator[tuple[int, list[str]]]:
    """Yield (line, fields) of each record that is not blank, as Python's csv module reads them."""
    reader = _csv_reader(
        io.StringIO(chunk.decoded(source), newline="\n"), form.byte, form.quoted, strict=True
    )
    line = chunk.first_line
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = chunk.first_line + reader.line_num
    except csv.Error as error:
        raise InvalidDataError(
            f"{source}, from line {line} on: the text cannot be split into columns; a quote may "
            f"be open or inside a field, or a carriage return inside a line. ({error})"
        ) from error


def all_rows(text: str, form: Layout, source: str) -> list[list[str]]:
    """Return the rows of a small text file below its header, without the spaces around cells."""
    content = text.replace(form.delimiter, form.byte).encode()
    chunk = Chunk(_without_outer_spaces(content, form), 1)
    rows = [fields for _, fields in records(chunk, form, source)]
    return rows[1:] if form.names else rows


def _parse_strictly(
    chunk: Chunk, form: Layout, places: dict[str, int], source: str
) -> pl.DataFrame:
    """Return the cells that the csv module reads; refuse what it cannot read, with the line."""
    cells: dict[str, list[str | None]] = {role: [] for role in places}
    for line, fields in records(chunk, form, source):
        if len(fields) > form.n_columns:
            raise InvalidDataError(
                f"{source}, line {line}: {len(fields)} fields where the table has "
                f"{form.n_columns} columns. Quote a field that contains the delimiter "
                f"{form.delimiter!r}, or set another one with delimiter= (--delimiter)."
            )
        for role, place in places.items():
            cells[role].append((fields[place] or None) if place < len(fields) else None)
    return pl.DataFrame(cells, schema=dict.fromkeys(places, pl.String))


def _line(chunk: Chunk, form: Layout, source: str, row: int) -> str:
    """Return the line of a row of a chunk; called only for an error."""
    line, _ = next(itertools.islice(records(chunk, form, source), row, None))
    return f"line {line}"

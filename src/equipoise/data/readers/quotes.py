"""Quotes and carriage returns in odd places: refused, unless all readers understand them alike.

polars takes a record apart at its quotes without asking whether they are well placed; the standard
library's reader does ask. A field such as ``5" x 6"`` is the same to both. Where they differ, a
matrix would depend on who reads the file.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from itertools import zip_longest
from typing import Protocol

import numpy as np
import polars as pl

from equipoise.data.readers.chunks import Chunk, records
from equipoise.exceptions import InvalidDataError

_QUOTE, _NEWLINE, _RETURN = ord('"'), ord("\n"), ord("\r")

# In well-formed text every carriage return has its newline, so a run of both is blank lines
_BLANK = re.compile(rb"\n[\r\n]++")
_BLANK_OR_QUOTED = re.compile(rb'("[^"]*+")|' + _BLANK.pattern)


class Written(Protocol):
    """What of a layout matters here."""

    @property
    def byte(self) -> str:
        """The delimiter."""

    @property
    def quoted(self) -> bool:
        """Whether quotes mean something."""


def well_formed(text: bytes, delimiter: str, *, quoted: bool) -> bool:
    """Tell whether quotes are well placed, and no carriage return stands without its newline."""
    # most text has none, and a single byte is found sooner than two are counted
    returns = b"\r" not in text or text.count(b"\r") == text.count(b"\r\n")
    return returns and (not quoted or well_quoted(text, delimiter))


def well_quoted(text: bytes, delimiter: str) -> bool:
    r"""Tell whether every quote begins or ends a whole field, or is doubled inside one.

    Examples
    --------
    >>> [well_quoted(text, ",") for text in (b'a,"b,""c"\n', b'a,b"c\n', b'"a"b,c\n')]
    [True, False, False]
    """
    if b'"' not in text:
        return True
    byte = np.frombuffer(b"\n" + text + b"\n", np.uint8)
    at = np.flatnonzero(byte == _QUOTE)
    if len(at) % 2:
        return False
    opening, closing = at[::2], at[1::2]
    doubled = closing[:-1] + 1 == opening[1:]
    before, after = byte[opening - 1], byte[closing + 1]
    opens = (before == ord(delimiter)) | (before == _NEWLINE)
    closes = (after == ord(delimiter)) | (after == _NEWLINE) | (after == _RETURN)
    opens[1:] |= doubled
    closes[:-1] |= doubled
    return bool(opens.all() and closes.all())


def without_blank_lines(text: bytes, *, quoted: bool) -> bytes:
    r"""Remove the blank lines of well-formed text; those inside quotes stay.

    Examples
    --------
    >>> without_blank_lines(b'a,"b\n\nc"\n\nd,e\n\r\n', quoted=True)
    b'a,"b\n\nc"\nd,e\n'
    """
    text = b"\n" + text
    if b"\n\n" in text or b"\n\r\n" in text:
        if quoted and b'"' in text:
            text = _BLANK_OR_QUOTED.sub(lambda found: found[1] or b"\n", text)
        else:
            text = _BLANK.sub(b"\n", text)
    return text[1:]


def strictly_read(chunk: Chunk, form: Written, source: str) -> list[tuple[int, list[str]]]:
    """Return (line, fields) of each record as the standard library reads them; refuse bad ones."""
    try:
        strict = records(chunk, form.byte, quoted=form.quoted, strict=True)
        return [(line, fields) for line, fields in strict if fields]
    except csv.Error as error:
        raise InvalidDataError(
            f"{source}, from line {chunk.first_line} on: the text cannot be split into columns; a "
            f"quote may be open or stand inside a field, or a carriage return in a line. ({error})"
        ) from error


def refuse_other_reading(
    written: Sequence[tuple[int, list[str]]],
    rows: pl.DataFrame,
    places: Sequence[int],
    source: str,
) -> None:
    """Refuse records that were read in two ways.

    Parameters
    ----------
    written : sequence of (line, fields)
        What `strictly_read` returned.
    rows : DataFrame
        The cells as polars read them, as text, without blank lines.
    places : sequence of int
        Where the columns of `rows` stand in the file.
    source : str
        How an error calls the file.
    """
    cells = [["" if cell is None else cell for cell in row] for row in rows.rows()]
    meant = [[fields[k] if k < len(fields) else "" for k in places] for _, fields in written]
    if cells == meant:
        return
    pairs = zip_longest(cells, meant)
    place = next(k for k, (cell, fields) in enumerate(pairs) if cell != fields)
    # what only polars takes for records (lone carriage returns) has no line among those written
    where = f", line {written[place][0]}" if place < len(written) else ""
    raise InvalidDataError(
        f"{source}{where}: its quotes or carriage returns can be understood in more than one way. "
        "Put the whole field in quotes, double those inside it, and end lines with newlines."
    )

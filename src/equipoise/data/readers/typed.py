"""Columns of a text file that are parsed as numbers at once, where nothing is lost by it.

Text is the careful way: "012" and "+3" are ids that a number would change. But most files hold
plain numbers, and those need not become text first. What looks like it in the first lines is
parsed as numbers; the first chunk that is otherwise goes the careful way, and so does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

_WHOLE_NUMBER = re.compile(r"0|-?[1-9][0-9]{0,18}")
# Bytes looked at together: they and what is computed of them stay in the cache
_WINDOW = 1 << 18
_NEWLINE, _ZERO = ord("\n"), ord("0")
_ODD_STARTS = tuple(map(ord, '+- "\t'))

Types = dict[str, Any]


def guess_types(rows: Sequence[Sequence[str]], places: dict[str, int], numeric: set[int]) -> Types:
    """Return role → polars type from the first lines; text where a number would lose something.

    Examples
    --------
    >>> guess_types([["7", "x1", "0.5"]], {"user": 0, "item": 1, "value": 2}, {0, 2})
    {'user': Int64, 'item': String, 'value': Float64}
    """
    types: Types = {}
    for role, place in places.items():
        cells = [row[place].strip() for row in rows if place < len(row)]
        if role == "value":
            types[role] = pl.Float64 if place in numeric else pl.String
        else:
            whole = bool(cells) and all(map(_WHOLE_NUMBER.fullmatch, cells))
            types[role] = pl.Int64 if whole else pl.String
    return types


def is_plain(text: bytes, delimiter: str) -> bool:
    r"""Tell whether no field begins like a number that is written in an unusual way.

    That is: with a sign, a space, a tab or a quote, or with a zero before another digit. Negative
    ids are rare enough to go the careful way.

    Examples
    --------
    >>> [is_plain(text, ",") for text in (b"10,0.5\n", b"1,07\n", b"+1,2\n")]
    [True, False, False]
    """
    if not _window_is_plain(b"\n" + text[:_WINDOW], ord(delimiter)):
        return False
    windows = range(_WINDOW, len(text), _WINDOW)
    return all(_window_is_plain(text[at - 2 : at + _WINDOW], ord(delimiter)) for at in windows)


def _window_is_plain(text: bytes, delimiter: int) -> bool:
    byte = np.frombuffer(text, np.uint8)
    before, first, second = byte[:-2], byte[1:-1], byte[2:]
    odd = first == _ZERO
    odd &= second - np.uint8(_ZERO) < 10  # below "0" wraps around
    for start in _ODD_STARTS:
        if start != delimiter:
            odd |= first == start
    odd &= (before == delimiter) | (before == _NEWLINE)
    return not odd.any()

"""Delimited text: accepted input equals what the csv module reads from the same bytes."""

from __future__ import annotations

import csv
import io
import math
import string
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from equipoise.data import Interactions
from equipoise.data.readers import Columns, delimited, files
from equipoise.data.readers.columns import Header
from fuzz.target import Mismatch, Target

# The first byte of an input selects how the rest is read
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("data.csv", {}),
    ("data.tsv", {}),
    ("data.txt", {}),
    ("data.dat", {"format": "movielens"}),
    ("user_artists.dat", {}),
    ("data.csv", {"delimiter": ";"}),
    ("data.csv", {"user": 0, "item": 1, "value": ""}),
    ("data.csv", {"user": "1", "item": "0", "timestamp": ""}),
    ("data.csv", {"duplicates": "max"}),
    ("data.csv", {"duplicates": "last", "timestamp": ""}),
    ("data.csv", {"duplicates": "error"}),
    ("data.csv", {"user": "who", "item": "what"}),
)

_FILES = (
    (0, "user_id,item_id,rating\n1,10,4\n1,11,3.5\n2,10,0\n2,12,1\n"),
    (0, 'user,item,value,timestamp\n"a ""b""","x,y",2,30\n"line\nbreak",z,1,20\n'),
    (0, "user,item,rating,timestamp\nann,x,1,2020-01-02\nbob,y,2,2021-03-04\n"),
    (1, "userID\tartistID\tweight\n2\t51\t13883\n3\t52\t690\n"),
    (2, "1 10 5 100\n1 11 4 101\n2 10 3 102\n"),
    (3, "1::1193::5::978300760\n1::661::3::978302109\n2::661::4::978301968\n"),
    (4, "userID\tartistID\tweight\n2\t51\t13883\n2\t52\t11690\n3\t51\t228\n"),
    (5, "customer;movie;n\n007;+3;2\n 8 ; -3 ;1\n"),
    (6, "1,2,3\n2,3,4\n"),
    (7, "item,user,rating\nx,a,1\n"),
    (8, "user,item,value\na,x,1\na,x,3\nb,x,2\n"),
    (9, "user,item,value\na,x,3\na,x,1\nb,x,2\n"),
    (10, "user,item\n1,1\n1,2\n2,1\n"),
    (11, "who,what\r\n9223372036854775807,1\r\n-5,2\r\n"),
)


def seeds() -> list[bytes]:
    """One small file of each kind."""
    return [bytes([call]) + text.encode() for call, text in _FILES]


def call(content: bytes, folder: Path) -> None:
    """Read the file, and compare."""
    name, options = CALLS[content[0] % len(CALLS) if content else 0]
    path = folder / name
    path.write_bytes(content[1:])
    data = Interactions.read(path, **options)
    if files.find(path, options.get("format")).format != "lightgcn":
        compare(data, _cells(path, options), options.get("duplicates", "sum"))


def compare(data: Interactions, rows: Iterator[tuple[str, str, float]], duplicates: str) -> None:
    """Compare the matrix with rows of text; spaces around ids are ignored."""
    merge: Callable[[float, float], float] = {
        "sum": float.__add__,
        "max": max,
        "last": lambda _, new: new,
        "error": lambda _, new: math.nan * new,  # it would have been refused
    }[duplicates]
    expected: dict[tuple[str, str], float] = {}
    for user, item, value in rows:
        if value > 0:
            key = (user.strip(" "), item.strip(" "))
            expected[key] = merge(expected[key], value) if key in expected else value
    found: dict[tuple[str, str], float] = {}
    matrix = data.matrix.tocoo()
    for row, column, value in zip(*matrix.coords, matrix.data, strict=True):
        key = (str(data.user_ids[row]).strip(" "), str(data.item_ids[column]).strip(" "))
        found[key] = merge(found[key], value) if key in found else value
    same = found.keys() == expected.keys() and all(
        math.isclose(found[key], expected[key], rel_tol=1e-12) for key in found
    )
    if not same:
        raise Mismatch(
            f"read {_few(found, expected)}, the csv module reads {_few(expected, found)}"
        )


def _few(these: dict[Any, float], those: dict[Any, float]) -> str:
    return str({key: value for key, value in these.items() if those.get(key) != value})[:120]


def _cells(path: Path, options: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    asked = Columns(*(options.get(role) for role in Columns._fields))
    kind = files.find(path, options.get("format")).format
    fixed = {"movielens": "::", "lastfm": "\t"}.get(kind)
    form = delimited.layout(path, options.get("delimiter") or fixed, asked, quoted=fixed is None)
    places = Header("", form.names, form.n_columns).resolve(asked)
    rows = _rows(path.read_bytes(), form)
    for row in rows[form.names is not None :]:
        value = _number(row[places["value"]]) if "value" in places else 1.0
        yield row[places["user"]], row[places["item"]], value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Mismatch(f"{text!r} was taken for a number") from None


def _rows(content: bytes, form: delimited.Layout) -> Sequence[Sequence[str]]:
    text = content.decode("utf-8-sig", "replace").replace(form.delimiter, form.byte)
    lines = io.StringIO(text, newline="")
    if form.quoted:
        spaces = form.delimiter != " "
        reader = csv.reader(lines, delimiter=form.byte, skipinitialspace=spaces)
    else:
        reader = csv.reader(lines, delimiter=form.byte, quoting=csv.QUOTE_NONE)
    # a line of spaces is blank, and so is one of only tabs; other kinds of space are ids
    return [row for row in reader if "".join(row).strip(" \t" if row[1:] else string.whitespace)]


TARGET = Target("text", call, seeds, text=True)

"""Tables in containers: gzipped text, SQLite files, and files of names."""

from __future__ import annotations

import gzip
import math
import sqlite3
import zlib
from collections.abc import Callable
from contextlib import closing
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from equipoise.data import Interactions
from equipoise.data.names import names_for
from equipoise.exceptions import EquipoiseError
from fuzz.choices import NUMBERS, WORDS
from fuzz.mutation import mutated
from fuzz.target import Mismatch, Target
from fuzz.targets import parquet, text

_QUERY = "select user, item, value from plays"
_CELLS: tuple[Any, ...] = (
    None, 0, 1, -1, 2**53 + 1, 2**63 - 1, 0.5, -0.0, math.inf, 1e308, "", "a", "é", "1", " 1",
    "1e3", b"", b"\xff", b"1", *NUMBERS, *(word for word in WORDS if word != "\0"),
)  # fmt: skip
_IDS = np.array(["x", "y", "z"], dtype=object)


@cache
def seeds() -> tuple[bytes, ...]:
    """One of each kind; the first byte says which."""
    texts = [content[1:] for content in text.seeds()]
    names = [
        b"item,name\nx,X\ny,Y y\nz,\n",
        b"x::X::Drama\ny::Y::\nz::Z::a|b\n",
        b"id\tname\nx\tX\n",
    ]
    return (
        *(b"\0" + gzip.compress(content, mtime=0) for content in texts),
        *(b"\1" + _database(Random(seed)) for seed in range(3)),
        *(b"\2" + content for content in names),
        b"\3" + parquet.seeds()[0],
    )


def _database(random: Random) -> bytes:
    """A SQLite file: a few rows, some of them of types that no one expects."""
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.execute("create table plays (user, item, value)")
        for row in range(random.randrange(6)):
            odd = random.random() < 0.2
            cells = [random.choice(_CELLS) for _ in range(3)] if odd else [row, f"i{row % 2}", 1.5]
            connection.execute("insert into plays values (?, ?, ?)", cells)
        connection.commit()
        return bytes(connection.serialize())


def mutate(random: Random, content: bytes) -> bytes:
    """Change what is inside, write another database, or damage the container."""
    kind, inner = content[:1], content[1:]
    if kind == b"\1" and random.random() < 0.6:
        return kind + _database(random)
    if kind == b"\0" and random.random() < 0.6:
        try:
            plain = gzip.decompress(inner)
        except (OSError, EOFError, zlib.error):
            plain = text.seeds()[0][1:]
        return kind + gzip.compress(mutated(random, plain, text.seeds(), text=True), mtime=0)
    return kind + mutated(random, inner, seeds(), text=kind == b"\2")


def call(content: bytes, folder: Path) -> None:
    """Read, and compare with what the standard library reads from the same bytes."""
    kinds: tuple[tuple[str, Callable[[Path], None]], ...] = (
        ("data.csv.gz", _gzip), ("data.db", _sqlite), ("names.csv", _names),
        ("names.parquet", _names), ("movies.dat", _names),
    )  # fmt: skip
    name, check = kinds[content[0] % len(kinds) if content else 0]
    path = folder / name
    path.write_bytes(content[1:])
    check(path)


def _gzip(path: Path) -> None:
    packed = Interactions.read(path)
    plain = path.with_name("plain.csv")
    plain.write_bytes(gzip.decompress(path.read_bytes()))
    try:
        same = Interactions.read(plain) == packed
    except EquipoiseError as error:
        raise Mismatch(f"read from gzip, and refused without: {error}") from error
    if not same:
        raise Mismatch("gzipped text is read otherwise than the text")


def _sqlite(path: Path) -> None:
    data = Interactions.read(path, query=_QUERY)
    expected: dict[tuple[Any, Any], float] = {}
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        for user, item, value in connection.execute(_QUERY):
            if float(value) > 0:
                key = (_id(user), _id(item))
                expected[key] = expected.get(key, 0.0) + float(value)
    matrix = data.matrix.tocoo()
    found = {
        (_id(data.user_ids[row]), _id(data.item_ids[column])): value
        for row, column, value in zip(*matrix.coords, matrix.data, strict=True)
    }
    same = found.keys() == expected.keys() and all(
        math.isclose(found[key], expected[key], rel_tol=1e-12) for key in found
    )
    if not same:
        raise Mismatch(f"read {found}, sqlite3 reads {expected}")


def _id(value: Any) -> Any:
    """Numbers by their value: a column of 1 and 0.5 is one of floats."""
    return float(value) if isinstance(value, int | float | np.number) else str(value)


def _names(path: Path) -> None:
    called = names_for(_IDS, path)
    if called.shape != _IDS.shape or not all(isinstance(name, str) for name in called):
        raise Mismatch(f"names are not text: {called!r}")


TARGET = Target("containers", call, seeds, mutate=mutate)

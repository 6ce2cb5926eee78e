"""Parquet files, damaged or of odd types: accepted input equals what polars reads."""

from __future__ import annotations

import datetime as dt
import io
import math
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from equipoise.data import Interactions
from fuzz.choices import Choices
from fuzz.target import Mismatch, Target

_DAY = dt.date(2020, 1, 2)
_IDS: tuple[tuple[Any, list[Any]], ...] = (
    (pl.Int64, [1, 2, 2, 2**62]),
    (pl.UInt64, [0, 1, 2**64 - 1, 5]),
    (pl.Int8, [-1, 1, 1, 3]),
    (pl.String, ["a", "", "é", "a"]),
    (pl.Categorical, ["a", "b", "b", "c"]),
    (pl.Date, [_DAY, _DAY, dt.date(1, 1, 1), None]),
    (pl.Datetime("us", "UTC"), [dt.datetime(2020, 1, 2), None, None, None]),
    (pl.Float64, [1.0, math.nan, 2.0, -0.0]),
    (pl.Float32, [0.1, 0.2, 0.1, 3.0]),
    (pl.Boolean, [True, False, True, True]),
    (pl.Binary, [b"a", b"", b"\xff", b"a"]),
    (pl.Decimal(10, 2), [Decimal("1.50"), Decimal("2.00"), Decimal("1.50"), Decimal("3.00")]),
    (pl.List(pl.Int64), [[1], [2], [1], []]),
    (pl.Struct({"x": pl.Int64}), [{"x": 1}, {"x": 2}, None, {"x": 1}]),
    (pl.Time, [dt.time(1, 2), dt.time(3), dt.time(1, 2), None]),
    (pl.Duration, [dt.timedelta(1), dt.timedelta(2), dt.timedelta(1), None]),
    (pl.Null, [None] * 4),
)
_VALUES: tuple[tuple[Any, list[Any]], ...] = (
    (pl.Float64, [1.0, 2.5, 0.0, 3.0]),
    (pl.Float64, [1.0, math.nan, 2.0, 3.0]),
    (pl.Float64, [1.0, math.inf, 2.0, 3.0]),
    (pl.Float64, [5e-324, 1e308, 1e308, 1.0]),
    (pl.Int64, [1, 2, -3, 2**53 + 1]),
    (pl.UInt8, [0, 0, 0, 0]),
    (pl.Boolean, [True, False, None, True]),
    (pl.Decimal(10, 2), [Decimal("1.50")] * 4),
    (pl.String, ["1", "2.5", "x", "0"]),
)
_NAMES = ("user_id", "user", "item_id", "item", "rating", "value", "timestamp", "other", "")


def table(content: bytes) -> pl.DataFrame:
    """Return the table that bytes choose: types, names and a few rows."""
    choices = Choices(content)
    height = choices.below(5) if choices.yes(40) else 4
    columns = {
        choices.one(_NAMES) if choices.yes(40) else name: _series(choices, kinds, height)
        for name, kinds in (("user", _IDS), ("item", _IDS), ("value", _VALUES), ("timestamp", _IDS))
        if choices.yes(200)
    }
    return pl.DataFrame(columns)


def _series(choices: Choices, kinds: Any, height: int) -> pl.Series:
    kind, values = choices.one(kinds)
    offset = choices.below(4)
    return pl.Series((values[offset:] + values[:offset])[:height], dtype=kind, strict=False)


def packed(frame: pl.DataFrame, packing: Any = "uncompressed") -> bytes:
    """Return the table as the bytes of a Parquet file."""
    file = io.BytesIO()
    frame.write_parquet(file, compression=packing, statistics=len(frame) % 2 == 0)
    return file.getvalue()


def seeds() -> list[bytes]:
    """Small tables of every type."""
    chosen = [Random(k).randbytes(24) for k in range(24)]
    packings = ("uncompressed", "zstd", "snappy", "gzip")
    return [packed(table(one), packings[k % 4]) for k, one in enumerate(chosen)]


def mutate(random: Random, content: bytes) -> bytes:
    """Write another table, or damage the file: in its data, or in its footer."""
    if random.random() < 0.25:
        return packed(table(random.randbytes(24)))
    damaged = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 4))):
        damaged[random.randrange(4, max(5, len(damaged) - 4)) % len(damaged)] = random.choice(
            (0, 1, 0x7F, 0x80, 0xFF, random.randrange(256))
        )
    return bytes(damaged)


def call(content: bytes, folder: Path) -> None:
    """Read the file, and compare its sum and size with what polars reads."""
    path = folder / "data.parquet"
    path.write_bytes(content or b"\0")
    data = Interactions.read(path)
    frame = pl.read_parquet(path)
    names = {name.lower().replace("_", ""): name for name in reversed(frame.columns)}
    value = names.get("value") or names.get("rating")
    values = [1.0] * len(frame) if value is None else [float(v) for v in frame[value].to_list()]
    # halved, and halved again: the largest numbers would overflow
    total, found = (math.fsum(v / 2**10 for v in them) for them in (values, data.matrix.data))
    if not math.isclose(total, found, rel_tol=1e-9):
        raise Mismatch(f"the values sum up to {found}, in the file to {total}")
    positive = sum(value > 0 for value in values)
    if not 0 < data.nnz <= positive:
        raise Mismatch(f"{data.nnz} interactions of {positive} positive values")


# polars allocates what a dictionary page claims, and aborts if that is a negative number
TARGET = Target("parquet", call, seeds, mutate=mutate, isolated=True, may_abort=True)

"""LightGCN text: one line per user, `user item item ...`, all non-negative integers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from equipoise.data.readers.encoder import Batch
from equipoise.data.readers.text import Chunk, chunks
from equipoise.exceptions import InvalidDataError

_COLUMNS = {"user": "first number", "item": "later number"}


def batches(path: Path) -> Iterator[Batch]:
    """Yield one row per item of a line; a user without items has no row."""
    for chunk in chunks(path, quoted=False):
        lines = _lines(chunk, str(path))
        tokens = pl.col("text").str.split(" ")
        rows = (
            lines.select(
                "line", tokens.list.first().alias("user"), tokens.list.slice(1).alias("item")
            )
            .explode("item")
            .filter(pl.col("item").is_not_null() & (pl.col("item") != ""))
        )
        place = partial(_line, rows["line"])
        yield Batch(rows.select("user", "item"), str(path), place, _COLUMNS)


def _line(numbers: pl.Series, row: int) -> str:
    return f"line {numbers[row]}"


def _lines(chunk: Chunk, source: str) -> pl.DataFrame:
    """Return the lines that are not blank, with their numbers; refuse whatever is not a number."""
    texts = pl.Series("text", chunk.decoded(source).split("\n"))
    lines = pl.DataFrame(texts).with_row_index("line", offset=chunk.first_line)
    text = pl.col("text").str.replace_all("\t", " ", literal=True).str.strip_chars(" \r")
    lines = lines.with_columns(text).filter(pl.col("text") != "")
    bad = lines.filter(~pl.col("text").str.contains(r"^[0-9]+(?: +[0-9]+)*$"))
    if len(bad):
        tokens = bad["text"][0].split(" ")
        word = next(token for token in tokens if token and not re.fullmatch("[0-9]+", token))
        raise InvalidDataError(
            f"{source}, line {bad['line'][0]}: {word[:80]!r} is not a whole number. LightGCN text "
            "is 'user item item ...' in whole numbers. Set format= (--format) for another kind."
        )
    return lines

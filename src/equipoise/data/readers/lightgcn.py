"""LightGCN's text: a line per user, `user item item item …`, all whole numbers."""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import polars as pl

from equipoise.data.readers.chunks import Chunk, chunks, refuse_encoding
from equipoise.data.readers.encoder import Batch
from equipoise.exceptions import InvalidDataError

_CALLED = {"user": "'first number'", "item": "'later number'"}


def batches(path: Path) -> Iterator[Batch]:
    """Yield one row per item of a line; a user without items gives none."""
    for chunk in chunks(path, quoted=False):
        refuse_encoding(chunk, str(path))
        lines = _lines(chunk)
        tokens = lines.select(
            pl.col("line"),
            pl.col("text").str.strip_chars().str.split(" ").alias("tokens"),
        )
        rows = (
            tokens.select(
                pl.col("line"),
                pl.col("tokens").list.first().alias("user"),
                pl.col("tokens").list.slice(1).alias("item"),
            )
            .explode("item")
            .filter(pl.col("item").is_not_null() & (pl.col("item") != ""))
        )
        _refuse_words(rows, str(path))
        place = partial(_line, rows["line"])
        yield Batch(rows.select("user", "item"), str(path), place, _CALLED)


def _line(numbers: pl.Series, row: int) -> str:
    return f"line {numbers[row]}"


def _lines(chunk: Chunk) -> pl.DataFrame:
    text = pl.read_csv(
        io.BytesIO(chunk.text.replace(b"\t", b" ")),
        has_header=False,
        separator="\x1f",
        quote_char=None,
        schema={"text": pl.String},
    )
    return text.with_row_index("line", offset=chunk.first_line).drop_nulls()


def _refuse_words(rows: pl.DataFrame, source: str) -> None:
    for role in ("user", "item"):
        words = rows.filter(~pl.col(role).str.contains(r"^[0-9]+$"))
        if len(words):
            raise InvalidDataError(
                f"{source}, line {words['line'][0]}: {words[role][0]!r} is not a whole number. "
                "LightGCN text is 'user item item ...' in whole numbers; another kind of file "
                "needs format= (--format)."
            )

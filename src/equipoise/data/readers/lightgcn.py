"""LightGCN's text: a line per user, `user item item item …`, all whole numbers."""

from __future__ import annotations

import io
import re
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
        _refuse_words(lines, str(path))
        tokens = lines.select("line", pl.col("text").str.split(" ").alias("tokens"))
        rows = (
            tokens.select(
                pl.col("line"),
                pl.col("tokens").list.first().alias("user"),
                pl.col("tokens").list.slice(1).alias("item"),
            )
            .explode("item")
            .filter(pl.col("item").is_not_null() & (pl.col("item") != ""))
        )
        place = partial(_line, rows["line"])
        yield Batch(rows.select("user", "item"), str(path), place, _CALLED)


def _line(numbers: pl.Series, row: int) -> str:
    return f"line {numbers[row]}"


def _lines(chunk: Chunk) -> pl.DataFrame:
    # below a header of our own: polars would take a mark of UTF-8 off the first line of a chunk
    text = pl.read_csv(
        io.BytesIO(b"text\n" + chunk.text.replace(b"\t", b" ")),
        separator="\x1f",
        quote_char=None,
        schema={"text": pl.String},
    )
    numbered = text.with_row_index("line", offset=chunk.first_line).drop_nulls()
    return numbered.with_columns(pl.col("text").str.strip_chars(" \r")).filter(pl.col("text") != "")


def _refuse_words(lines: pl.DataFrame, source: str) -> None:
    """Refuse whatever is no number, also on a line without items, which would leave no trace."""
    odd = lines.filter(~pl.col("text").str.contains(r"^[0-9]+(?: +[0-9]+)*$"))
    if len(odd):
        tokens = odd["text"][0].split(" ")
        word = next(token for token in tokens if token and not re.fullmatch("[0-9]+", token))
        raise InvalidDataError(
            f"{source}, line {odd['line'][0]}: {word[:80]!r} is not a whole number. "
            "LightGCN text is 'user item item ...' in whole numbers; another kind of file "
            "needs format= (--format)."
        )

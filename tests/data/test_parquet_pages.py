"""Damaged Parquet pages that claim a negative number of values, which end the process."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.data.names import names_for
from equipoise.data.readers.parquet import page_counts, refuse_damaged_pages
from equipoise.exceptions import InvalidDataError

ROWS = 5_000


@pytest.fixture
def frame():
    random = np.random.default_rng(0)
    return pl.DataFrame(
        {
            "user": random.integers(0, 900, ROWS),
            "item": [f"item {k}" for k in random.integers(0, 3000, ROWS)],
            "value": random.random(ROWS),
        }
    )


@pytest.fixture
def damaged(tmp_path):
    """A file whose page of users claims to have -1 values."""
    path = tmp_path / "plays.parquet"
    # 57 rows: zigzag 114, a byte that stands in the header of the page before anything else
    table = pl.DataFrame({"user": range(57), "item": range(57), "value": [1.0] * 57})
    table.write_parquet(path, compression="uncompressed", statistics=False)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x15\x72") + 1] = 1
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("dictionary", [False, True])
def test_all_pages_of_arrow_files_are_found(frame, tmp_path, version, dictionary):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "plays.parquet"
    parquet.write_table(
        frame.to_arrow(), path, row_group_size=700, data_page_size=512, write_batch_size=64,
        data_page_version=version, use_dictionary=dictionary,
    )  # fmt: skip
    with path.open("rb") as file:
        counts = list(page_counts(file))
    values = ROWS * frame.width
    if version == "2.0":  # values, nulls and rows
        values *= 2
    # a dictionary has at most as many entries as there are values
    assert values <= sum(counts) <= (2 if dictionary else 1) * values
    assert len(counts) > 16 * frame.width  # several in each of 8 row groups
    refuse_damaged_pages(path)


@pytest.mark.parametrize("compression", ["uncompressed", "zstd", "snappy", "gzip", "lz4"])
def test_files_of_polars_pass(frame, tmp_path, compression):
    path = tmp_path / "plays.parquet"
    frame.write_parquet(path, compression=compression, row_group_size=700)
    with path.open("rb") as file:
        assert sum(page_counts(file)) >= ROWS * frame.width
    assert Interactions.read(path).matrix.sum() == pytest.approx(frame["value"].sum())


def test_long_statistics_are_read(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "plays.parquet"
    long = pl.DataFrame({"user": ["a" * 3000, "b" * 3000], "item": [1, 2]})
    parquet.write_table(long.to_arrow(), path, use_dictionary=False)
    with path.open("rb") as file:
        assert sum(page_counts(file)) == 4


@pytest.mark.parametrize(
    "read",
    [
        Interactions.read,
        lambda path: names_for(np.array([1]), path),
    ],
)
def test_a_negative_number_of_values_is_refused_by_every_reader(damaged, read):
    with pytest.raises(InvalidDataError, match="claims to have -1 values"):
        read(damaged)


@pytest.mark.medium
def test_damaged_headers_are_refused_or_readable(frame, tmp_path):
    path = tmp_path / "plays.parquet"
    frame.head(30).write_parquet(path, compression="uncompressed")
    whole, random, messages = path.read_bytes(), np.random.default_rng(1), set()
    for _ in range(3_000):
        content = bytearray(whole)
        for place in random.integers(0, len(whole), 3):
            content[place] = random.choice([0, 1, 0x1C, 0x7F, 0x80, 0xFF])
        path.write_bytes(content[: random.choice([len(whole), random.integers(len(whole))])])
        try:
            refuse_damaged_pages(path)
        except InvalidDataError as error:
            messages.add(str(error).partition(": ")[2])
    assert any("its headers are truncated" in message for message in messages)
    assert any("claims to have -" in message for message in messages)


@pytest.mark.parametrize("content", [b"", b"PAR1", b"\xff\xff\xff\xffPAR1", b"user,item\n1,2\n"])
def test_files_that_are_not_parquet_are_left_to_polars(tmp_path, content):
    path = tmp_path / "plays.parquet"
    path.write_bytes(content)
    refuse_damaged_pages(path)
    with pytest.raises(InvalidDataError, match="cannot be read as Parquet"):
        Interactions.read(path)

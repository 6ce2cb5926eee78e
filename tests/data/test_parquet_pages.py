"""Damaged Parquet files: refused by every reader, and never the end of the process."""

from __future__ import annotations

import contextlib

import numpy as np
import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.data.names import names_for
from equipoise.exceptions import InvalidDataError


@pytest.mark.parametrize(
    "read",
    [
        Interactions.read,
        lambda path: names_for(np.array([1]), path),
    ],
)
def test_a_page_with_a_negative_number_of_values_is_refused_by_every_reader(tmp_path, read):
    path = tmp_path / "plays.parquet"
    # 57 rows: zigzag 114, a byte that stands in the header of the page before anything else
    table = pl.DataFrame({"user": range(57), "item": range(57), "value": [1.0] * 57})
    table.write_parquet(path, compression="uncompressed", statistics=False)
    content = bytearray(path.read_bytes())
    content[content.index(b"\x15\x72") + 1] = 1
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match=r"plays\.parquet cannot be read as Parquet"):
        read(path)


@pytest.mark.parametrize("content", [b"PAR1", b"\xff\xff\xff\xffPAR1", b"user,item\n1,2\n"])
def test_files_that_are_not_parquet_are_refused(tmp_path, content):
    path = tmp_path / "plays.parquet"
    path.write_bytes(content)
    with pytest.raises(InvalidDataError, match="cannot be read as Parquet"):
        Interactions.read(path)


@pytest.mark.parametrize("lost", [1, 100, 4096])
@pytest.mark.parametrize("fill", [b"", b"\0", b"\xff"])
def test_a_file_with_a_damaged_part_is_refused_or_read(tmp_path, lost, fill):
    path = tmp_path / "plays.parquet"
    rng = np.random.default_rng(0)
    rows = {"user": rng.integers(0, 900, 5000), "item": rng.integers(0, 3000, 5000).astype(str)}
    pl.DataFrame(rows).write_parquet(path, row_group_size=700)
    whole = path.read_bytes()
    for number, start in enumerate(rng.integers(0, len(whole), 20)):
        # a file of its own: polars may still read the last one, in memory that is mapped to it
        damaged = tmp_path / f"damaged-{number}.parquet"
        damaged.write_bytes(whole[:start] + fill * lost + whole[start + lost :])
        with contextlib.suppress(InvalidDataError):
            assert Interactions.read(damaged).nnz <= 5000

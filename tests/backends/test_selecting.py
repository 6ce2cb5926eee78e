"""The k-th time of data in blocks, and the temporal hold-out that it makes possible."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise import Interactions
from equipoise.data.rows import RowBlock, pairwise_sum
from equipoise.data.split import kth_time
from equipoise.exceptions import InvalidDataError


class HeldBlocks:
    """Blocks of times in this process; counts how often it was asked."""

    def __init__(self, parts: list[np.ndarray]) -> None:
        self.parts = parts
        self.rounds = 0

    def __len__(self):
        return len(self.parts)

    def map(self, function, *shared):
        self.rounds += 1
        return [function(_row_of(times), *shared) for times in self.parts]

    def total(self, function, *shared):
        return pairwise_sum(*self.map(function, *shared))


def _row_of(times: np.ndarray) -> RowBlock:
    row = sp.csr_array(np.ones((1, len(times))))
    return RowBlock(row, np.array([0]), np.array([0]), times)


@given(
    st.lists(st.lists(st.integers(-9, 9), max_size=12), min_size=1, max_size=5),
    st.integers(1, 4),
)
def test_every_place_is_that_of_sorting_them_all(parts, intervals):
    ordered = np.sort(np.concatenate([np.array(part, dtype=np.int64) for part in parts]))
    blocks = HeldBlocks([np.array(part, dtype=np.int64) for part in parts])
    assert [
        kth_time(blocks, k, intervals=intervals) for k in range(len(ordered))
    ] == ordered.tolist()


def test_few_rounds_find_one_of_many_times():
    rng = np.random.default_rng(0)
    parts = [rng.integers(0, 10**12, 100_000) for _ in range(4)]
    blocks = HeldBlocks(parts)
    assert kth_time(blocks, 123_456) == np.sort(np.concatenate(parts))[123_456]
    assert blocks.rounds <= 6  # three times marks and counts


def test_dates_are_cut_as_by_the_local_split_ties_together(tmp_path):
    rng = np.random.default_rng(4)
    days = np.datetime64("2020-01-01") + rng.integers(0, 9, 500)  # few days, so many ties
    table = {"user": rng.integers(0, 60, 500), "item": rng.integers(0, 40, 500), "timestamp": days}
    pl.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    local = Interactions.read(tmp_path / "t.parquet").holdout(method="temporal", validation=0.0)
    data = Interactions.read(tmp_path / "t.parquet", n_blocks=7, memory="4GB")
    split = data.holdout(method="temporal", validation=0.0)
    assert split.train.collect() == local.train
    assert split.test.collect() == local.test


def test_data_without_times_are_refused(tmp_path):
    pl.DataFrame({"user": [1, 2], "item": [1, 2]}).write_parquet(tmp_path / "t.parquet")
    data = Interactions.read(tmp_path / "t.parquet", n_blocks=2, memory="4GB")
    with pytest.raises(InvalidDataError, match=r"method='temporal'.*needs timestamps"):
        data.holdout(method="temporal")

"""The small parts, without a cluster: sizes, placement, parts of a table put together."""

from __future__ import annotations

import threading
import time

import numpy as np
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise.data.backends.dask import moves, spread
from equipoise.data.backends.dask_shuffle import merge_names, merge_pieces, names_in
from equipoise.data.backends.disk import read_block, write_block
from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.block_ops import block_product, divide
from equipoise.data.readers.encoder import Batch
from equipoise.data.rows import RowBlock, driver_bytes, pairwise_sum, worker_bytes
from equipoise.exceptions import ClusterError, InvalidDataError
from equipoise.memory import format_bytes
from equipoise.spectral.gram import GramProduct, SparseGram


def block_of(matrix) -> RowBlock:
    X = sp.csr_array(np.asarray(matrix, dtype=np.float64))
    return RowBlock(X, np.arange(X.shape[0]), np.arange(X.shape[0]))


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_blocks_add_up_to_that_of_the_whole(parallel, weighted, dtype):
    rng = np.random.default_rng(1)
    dense = rng.integers(0, 3, (40, 12)) * (rng.random((40, 12)) < 0.5)
    gram = SparseGram(sp.csr_array(dense.astype(np.float64)), parallel=False)
    V, w = rng.standard_normal((12, 5)), rng.random(12)
    expected = gram.weighted_product(w)(V) if weighted else gram.product(V)
    weights = w.astype(dtype) if weighted else None
    wanted = GramProduct(V.astype(dtype), weights, gram.scale, parallel, 1)
    parts = [block_product(block_of(dense[i : i + 10]), wanted) for i in range(0, 40, 10)]
    assert parts[0].dtype == dtype
    within = 1e-6 if dtype == np.float32 else 1e-14
    np.testing.assert_allclose(pairwise_sum(*parts), expected, rtol=0, atol=10 * within)


def test_values_beyond_float32_are_multiplied_in_units():
    block = block_of([[1e30, 2e30], [0.0, 1e30]])
    wanted = GramProduct(np.eye(2, dtype=np.float32), None, 5e60, False, None)
    np.testing.assert_allclose(block_product(block, wanted), [[0.2, 0.4], [0.4, 1.0]], rtol=1e-6)


def test_a_scheduler_knows_the_size_of_a_block():
    sizeof = pytest.importorskip("dask.sizeof").sizeof
    rng = np.random.default_rng(0)
    block = block_of(rng.random((200, 300)))  # 60,000 entries of 8 + 4 bytes
    assert 720_000 <= sizeof(block) <= 730_000


def test_neighboring_blocks_share_a_worker():
    assert spread(4, ["a", "b"]) == ["a", "a", "b", "b"]
    assert spread(2, ["a", "b", "c"]) == ["a", "b"]


def test_a_new_worker_gets_its_share_and_nobody_else_moves():
    held = ["a", "a", "a", "b", "b", "b"]
    found = moves(held, ["a", "b", "c"])
    assert list(found.values()) == ["c", "c"]
    assert sorted(held[block] for block in found) == ["a", "b"]
    assert moves(held, ["a", "b"]) == {}


def test_a_block_whose_worker_is_gone_is_not_moved_but_made_again():
    assert moves(["gone", "a", None], ["a", "b"]) == {}


def batch(**columns) -> Batch:
    return Batch(pl.DataFrame(columns), "t", str, {name: name for name in columns})


def test_parts_are_coded_alone_and_agree_together():
    parts = [batch(user=[7, 8, 7], item=["x", "y", "y"]), batch(user=[9, 7], item=["z", "x"])]
    names = merge_names(*(names_in(part) for part in parts))
    assert names.items.to_list() == ["x", "y", "z"]
    pieces = [divide(names.encoder().encode(part), 2) for part in parts]
    blocks = [merge_pieces([each[b] for each in pieces], (b, 2), names, "sum") for b in range(2)]
    rows = {
        user: block.matrix.toarray()[place].tolist()
        for block in blocks
        for place, user in enumerate(block.user_ids)
    }
    assert rows == {7: [2.0, 1.0, 0.0], 8: [0.0, 1.0, 0.0], 9: [0.0, 0.0, 1.0]}
    order = {u: o for block in blocks for u, o in zip(block.user_ids, block.order, strict=True)}
    assert sorted(order, key=order.__getitem__) == [7, 8, 9]


def test_parts_with_other_columns_or_times_are_refused():
    with pytest.raises(InvalidDataError, match=r"columns \['item', 'user', 'val"):
        merge_names(
            names_in(batch(user=[1], item=[1])), names_in(batch(user=[1], item=[1], value=[2]))
        )
    numbers = batch(user=[1], item=[1], timestamp=[5])
    dates = batch(user=[1], item=[1], timestamp=["2020-01-01"])
    names = merge_names(names_in(numbers), names_in(dates))
    pieces = [names.encoder().encode(part) for part in (numbers, dates)]
    with pytest.raises(InvalidDataError, match="numbers in one part"):
        merge_pieces(pieces, (0, 1), names, "sum")


def test_blocks_survive_the_disk(tmp_path):
    block = block_of([[1, 0, 2], [0, 3, 0]])._replace(
        user_ids=np.array(["ann", "bob"], dtype=object), timestamps=np.array([3, 1, 2])
    )
    write_block(tmp_path / "b", block)
    back = read_block(tmp_path / "b")
    np.testing.assert_array_equal(back.matrix.toarray(), block.matrix.toarray())
    assert back.user_ids.tolist() == ["ann", "bob"]
    assert back.timestamps.tolist() == [3, 1, 2]


def test_ids_that_only_pickle_could_store_are_refused(tmp_path):
    block = block_of([[1.0]])._replace(user_ids=np.array([(1, 2), None], dtype=object)[:1])
    with pytest.raises(InvalidDataError, match="numbers, dates or text"):
        write_block(tmp_path / "b", block)


def test_the_table_of_the_guide_is_what_is_checked():
    assert format_bytes(worker_bytes(1_000_000, 64, 4)) == "6.66 GB"
    assert format_bytes(driver_bytes(1_000_000, 2 * 64 + 6 * 64, 64)) == "4.35 GB"


class Computed:
    """A future whose task is done, and whose result arrives after a few checks of the cluster."""

    status = "finished"

    def result(self):
        time.sleep(0.1)
        return 7


class Failed:
    """A future whose task failed with a time-out of its own."""

    status = "error"

    def result(self):
        raise TimeoutError("the store does not answer")


class Waiting:
    """A future whose task the scheduler has lost."""

    status = "pending"

    def result(self):
        threading.Event().wait()


class Alive:
    status = "running"

    def processing(self):
        return {"tcp://a:1": ()}

    def nthreads(self):
        return {"tcp://a:1": 1}


def test_a_result_that_takes_longer_than_a_glance_to_arrive_is_waited_for():
    assert with_retries(Alive(), lambda: [Computed()], RetryPolicy(interval=0.02)) == [7]


def test_a_task_that_timed_out_is_asked_again_with_its_own_reason():
    with pytest.raises(ClusterError, match=r"3 times.*store does not answer"):
        with_retries(Alive(), lambda: [Failed()], RetryPolicy(interval=0.02))


def test_a_task_that_no_worker_has_is_sent_again_until_it_ends():
    sent = []

    def submit():
        sent.append(Waiting() if len(sent) < 2 else Computed())
        return sent[-1:]

    assert with_retries(Alive(), submit, RetryPolicy(idle_after=0.0, interval=0.02)) == [7]
    assert len(sent) == 3


def test_a_task_that_is_lost_again_and_again_is_an_error():
    with pytest.raises(ClusterError, match=r"3 times.*no worker"):
        with_retries(Alive(), lambda: [Waiting()], RetryPolicy(idle_after=0.0, interval=0.02))

"""One process, blocks on disk: the same as in memory, and within the memory allowed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import equipoise
from equipoise import Interactions, ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.exceptions import (
    EquipoiseError,
    InvalidDataError,
    InvalidParameterError,
    MissingExtraError,
    OutputError,
)
from equipoise.metrics import item_auc, item_error
from equipoise.serving.lists import write_lists
from tests.backends.measuring import user_metrics
from tests.backends.subspaces import assert_same_model

MODELS = [
    ItemWeightedPCA(8, tol=1e-9),
    ItemWeightedPCA(8, tol=1e-9, value_transform="log1p", user_scaling=0.5),
    VanillaPCA(8, tol=1e-9),
    NormalizedPCA(8, tol=1e-9),
]


@pytest.fixture(scope="module")
def streamed(table_folder) -> Interactions:
    return Interactions.read(table_folder, n_blocks=5, memory="4GB")


def test_blocks_on_disk_hold_what_a_local_read_gives(streamed, local):
    assert streamed.shape == local.shape
    assert streamed.collect() == local


@pytest.mark.parametrize("duplicates", ["sum", "max", "last"])
def test_duplicates_are_merged_as_by_a_local_read(tmp_path, duplicates):
    rng = np.random.default_rng(3)
    table = pl.DataFrame(
        {
            "user": rng.integers(0, 20, 400),
            "item": rng.integers(0, 9, 400),
            "value": rng.integers(0, 5, 400),  # rows of value 0 are not interactions
        }
    )
    table.write_parquet(tmp_path / "t.parquet")
    local = Interactions.read(tmp_path / "t.parquet", duplicates=duplicates)
    streamed = Interactions.read(
        tmp_path / "t.parquet", duplicates=duplicates, n_blocks=3, memory="4GB"
    )
    assert streamed.collect() == local


def test_text_files_can_be_streamed_too(tmp_path):
    path = tmp_path / "plays.csv"
    path.write_text("user,item,plays\nann,x,3\nann,y,1\nbob,y,2\n")
    streamed = Interactions.read(path, memory="100MB")
    assert streamed.collect() == Interactions.read(path)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fit_from_disk_equals_one_in_memory(streamed, local, model):
    from sklearn.base import clone

    assert_same_model(clone(model).fit(streamed), clone(model).fit(local))


def test_pca_explains_the_same_variance_from_disk(streamed, local):
    ours, theirs = VanillaPCA(5, tol=1e-9).fit(streamed), VanillaPCA(5, tol=1e-9).fit(local)
    np.testing.assert_allclose(
        ours.explained_variance_ratio_, theirs.explained_variance_ratio_, rtol=1e-9
    )


def test_an_error_budget_holds_from_disk_too(streamed, local):
    ours = ItemWeightedPCA(6, error_budget=0.02).fit(streamed)
    theirs = ItemWeightedPCA(6, error_budget=0.02).fit(local)
    assert_same_model(ours, theirs)
    assert ours.error_budget_multiplier_ == pytest.approx(theirs.error_budget_multiplier_, rel=1e-6)


def test_a_path_over_gamma_is_fitted_from_disk(streamed, local):
    ours = ItemWeightedPCA(4, tol=1e-9).fit_path(streamed, [-1.0, -0.5])
    theirs = ItemWeightedPCA(4, tol=1e-9).fit_path(local, [-1.0, -0.5])
    for one, other in zip(ours, theirs, strict=True):
        assert_same_model(one, other)


def test_data_in_blocks_take_fewer_passes(streamed):
    few = ItemWeightedPCA(8).fit(streamed).certificate_.passes
    many = ItemWeightedPCA(8, passes="many").fit(streamed).certificate_.passes
    assert few < many


def test_few_passes_can_be_asked_for_in_memory(local):
    few = ItemWeightedPCA(8, passes="few", solver="matrix_free", tol=1e-9).fit(local)
    many = ItemWeightedPCA(8, solver="matrix_free", tol=1e-9).fit(local)
    assert few.certificate_.passes < many.certificate_.passes
    assert_same_model(few, many)


def test_the_saved_model_serves_like_a_local_one(streamed, local, tmp_path):
    ItemWeightedPCA(8, tol=1e-9).fit(streamed).save(tmp_path / "m.eqp")
    ours = equipoise.load(tmp_path / "m.eqp").recommend(local, k=3)
    theirs = ItemWeightedPCA(8, tol=1e-9).fit(local).recommend(local, k=3)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=1e-6)


def test_filters_and_scaling_are_those_of_interactions(streamed, local):
    once = streamed.filter(min_users_per_item=15, min_items_per_user=8)
    assert once.collect() == local.filter(min_users_per_item=15, min_items_per_user=8)
    stable = {"min_users_per_item": 25, "min_items_per_user": 12, "until_stable": True}
    assert streamed.filter(**stable).collect() == local.filter(**stable)
    items_first = {"min_users_per_item": 25, "min_items_per_user": 12, "order": "items_first"}
    assert streamed.filter(**items_first).collect() == local.filter(**items_first)
    assert streamed.binarize().collect() == local.binarize()
    assert streamed.normalize_rows().collect() == local.normalize_rows()


@pytest.mark.parametrize("kind", ["norm", "count", "sum"])
def test_popularity_is_that_of_interactions(streamed, local, kind):
    np.testing.assert_allclose(streamed.popularity(kind), local.popularity(kind), rtol=1e-12)


def test_popularity_has_no_overflow_or_underflow_across_blocks(tmp_path):
    path = tmp_path / "plays.parquet"
    values = [3e200, 4e200, 3e-200, 4e-200, 3.0, 4.0]
    table = {"user": [1, 2] * 3, "item": ["x", "x", "y", "y", "z", "z"], "value": values}
    pl.DataFrame(table).write_parquet(path)
    norms = Interactions.read(path, n_blocks=2, memory="4GB").popularity("norm")
    np.testing.assert_allclose(norms, [5e200, 5e-200, 5.0], rtol=1e-15)


@pytest.mark.parametrize(
    "method", ["per_user_random", "by_user", "per_user_last", "leave_last_n", "temporal"]
)
def test_a_hold_out_hides_the_same_entries(streamed, local, method):
    ours, theirs = streamed.holdout(method=method), local.holdout(method=method)
    for part in ("train", "validation", "test"):
        assert getattr(ours, part).collect() == getattr(theirs, part)
        assert getattr(ours, part).nnz == getattr(theirs, part).nnz
    if method == "by_user":
        assert ours.history.collect() == theirs.history


def test_user_metrics_are_those_of_the_local_path(streamed, local):
    from equipoise.metrics import ranking_metrics

    ours, theirs = streamed.holdout(), local.holdout()
    model = ItemWeightedPCA(8, tol=1e-9).fit(ours.train)
    table = user_metrics(ours.train, ours.test, model, k=[5, 20])
    lists = model.recommend(theirs.train.matrix, k=20).ids
    columns = theirs.train.item_index(lists.ravel()).reshape(lists.shape)
    expected = ranking_metrics(columns, theirs.test.matrix, k=[5, 20])
    for result in expected:
        assert table[result.name].value == pytest.approx(result.value, rel=1e-9)


def test_item_error_and_item_auc_are_those_of_the_local_path(streamed, local):
    from equipoise import metrics

    model = ItemWeightedPCA(8, tol=1e-9).fit(streamed)
    U = model.components_.T
    np.testing.assert_allclose(
        item_error(streamed, U, ranks=[1, 8]),
        metrics.item_error(local.matrix, U, ranks=[1, 8]),
    )
    expected = metrics.item_auc(local.matrix, U)
    # users with equal rows have equal scores up to rounding, which may break such ties either way
    np.testing.assert_allclose(item_auc(streamed, U), expected, atol=1e-4)
    np.testing.assert_allclose(item_auc(streamed, U, items=[7, 3]), expected[[7, 3]], atol=1e-4)


def test_item_auc_is_exact_where_scores_are(tmp_path):
    from scipy.linalg import hadamard

    from equipoise import metrics

    rng = np.random.default_rng(5)
    entries = rng.random((300, 64)) < 0.2
    users, items = np.nonzero(entries)
    values = rng.integers(1, 4, len(users))
    path = tmp_path / "t.parquet"
    pl.DataFrame({"user": users, "item": items, "value": values}).write_parquet(path)
    U = hadamard(64)[:, 1:7] / 8.0  # whole numbers of eighths: sums of them are exact
    local = Interactions.read(path)
    data = Interactions.read(path, n_blocks=7, memory="4GB")
    np.testing.assert_array_equal(item_auc(data, U), metrics.item_auc(local.matrix, U))


def test_item_auc_skips_blocks_without_users(tmp_path):
    table = pl.DataFrame({"user": np.repeat(np.arange(9), 2), "item": np.arange(18) % 4})
    table.write_parquet(tmp_path / "plays.parquet")
    data = Interactions.read(tmp_path / "plays.parquet", memory="1GB", n_blocks=3)
    some = data.select_users(data.user_ids[[0, 1, 3, 4, 6]])
    assert 0 in [size.users for size in some.rows.sizes()]
    U = np.eye(4)[:, :3]
    np.testing.assert_array_equal(item_auc(some, U), item_auc(some.collect(), U))


def test_item_auc_of_a_hand_made_case_counts_ties_half(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("user,item\n0,a\n0,b\n1,a\n1,b\n2,a\n3,b\n4,c\n")
    data = Interactions.read(path, n_blocks=2, memory="4GB")
    U = np.array([[2**-0.5], [2**-0.5], [0.0]])
    # as in the docstring of equipoise.metrics.item_auc: user 4 has neither a nor b
    assert item_auc(data, U, items=[0, 1]).round(4).tolist() == [0.5833, 0.5833]


def test_lists_of_all_users_are_those_of_recommend(streamed, local, tmp_path):
    model = ItemWeightedPCA(8, tol=1e-9).fit(streamed)
    rows = write_lists(model, streamed, tmp_path / "lists", k=4)
    table = pl.read_parquet(tmp_path / "lists").sort("user", "rank")
    assert len(table) == rows == 4 * local.n_users
    expected = model.recommend(local, k=4)
    order = np.argsort(local.user_ids.astype(str))
    assert table["item"].to_list() == expected.ids[order].ravel().tolist()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lists"]


def test_lists_align_items_of_a_model_fitted_elsewhere(streamed, local, tmp_path):
    reordered = local.select_items(local.item_ids[::-1])
    model = ItemWeightedPCA(8, tol=1e-9).fit(reordered)
    write_lists(model, streamed, tmp_path / "lists", k=3)
    table = pl.read_parquet(tmp_path / "lists").filter(pl.col("user") == local.user_ids[5])
    expected = model.recommend(local.select_users(local.user_ids[5:6]), k=3)
    assert table["item"].to_list() == expected.ids[0].tolist()


def test_lists_can_be_written_to_a_store_and_end_with_a_mark(streamed):
    fsspec = pytest.importorskip("fsspec")
    model = ItemWeightedPCA(4).fit(streamed)
    write_lists(model, streamed, "memory://lists/today", k=2)
    store = fsspec.filesystem("memory")
    names = {path.rsplit("/", 1)[1] for path in store.ls("/lists/today", detail=False)}
    assert names == {f"part-{number:05}-00000.parquet" for number in range(5)} | {"_SUCCESS"}
    with pytest.raises(OutputError, match="exists already"):
        write_lists(model, streamed, "memory://lists/today", k=2)


def test_a_table_at_a_url_is_streamed_as_well(table_folder, local):
    pytest.importorskip("fsspec")
    streamed = Interactions.read(f"file://{table_folder}", n_blocks=2, memory="4GB")
    assert streamed.collect() == local


def test_a_folder_that_exists_is_not_overwritten(streamed, tmp_path):
    model = ItemWeightedPCA(4).fit(streamed)
    with pytest.raises(OutputError, match="exists already"):
        write_lists(model, streamed, tmp_path)


def test_a_failure_leaves_no_lists_behind(streamed, tmp_path):
    class Broken:
        item_ids_, n_features_in_, calls = None, 500, 0

        def recommend(self, *_args, **_options):
            self.calls += 1
            if self.calls == 3:
                raise InvalidDataError("broken in the third block")
            return ItemWeightedPCA(2).fit(streamed).recommend(_args[0], 1)

    with pytest.raises(InvalidDataError, match="third block"):
        write_lists(Broken(), streamed, tmp_path / "lists")
    assert list(tmp_path.iterdir()) == []


def test_a_block_file_that_is_gone_is_named(table_folder):
    streamed = Interactions.read(table_folder, n_blocks=3, memory="4GB")
    (streamed.rows.folder / "block-00001").unlink()
    with pytest.raises(InvalidDataError, match="block-00001 cannot be read"):
        ItemWeightedPCA(4).fit(streamed)


def test_blocks_are_removed_when_nobody_uses_them(table_folder, tmp_path):
    streamed = Interactions.read(table_folder, n_blocks=2, scratch=tmp_path, memory="4GB")
    assert len(list(tmp_path.iterdir())) == 1
    del streamed
    assert list(tmp_path.iterdir()) == []


def test_too_little_memory_is_refused_with_the_number_needed(table_folder):
    streamed = Interactions.read(table_folder, memory="1MB", n_blocks=2)
    with pytest.raises(InvalidParameterError, match=r"1\.\d+ MB .* 1 MB is available"):
        ItemWeightedPCA(16).fit(streamed)


def test_less_memory_means_smaller_blocks(table_folder):
    small = Interactions.read(table_folder, memory="4MB")
    large = Interactions.read(table_folder, memory="400MB")
    assert len(small.rows) == 6  # 60,000 rows of 100 bytes, in quarters of 4 MB
    assert len(large.rows) == 1


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda d: ItemWeightedPCA(900).fit(d), InvalidParameterError, "at most the number of"),
        (lambda d: d.matrix, InvalidDataError, r"collect\(\) loads them: 1.21 MB"),
        (lambda d: d.popularity("mean"), InvalidParameterError, "kind must be one of"),
        (lambda d: d.filter(10**6), InvalidDataError, "no interaction survives"),
        (lambda d: d.holdout(method="newest"), InvalidParameterError, "method must be one of"),
        (lambda d: d.holdout(method="temporal", test=2), InvalidParameterError, "must be shares"),
        (lambda d: d.holdout(test=0.0001), InvalidDataError, "leaves no interaction for test"),
        (lambda d: item_error(d, np.eye(3)), InvalidDataError, "item_factors has 3 rows"),
        (lambda d: item_auc(d, np.eye(3)), InvalidDataError, "item_factors has 3 rows"),
        (
            lambda d: item_auc(d, np.eye(500), items=[500]),
            InvalidParameterError,
            "between 0 and 499",
        ),
        (
            lambda d: write_lists(ItemWeightedPCA(2).fit(np.eye(3)), d, "x"),
            InvalidDataError,
            "no ids",
        ),
        (lambda _: Interactions.read("x", n_blocks=2), InvalidParameterError, "without memory="),
        (
            lambda _: Interactions.read("x", memory="much"),
            InvalidParameterError,
            "not a size",
        ),
        (
            lambda _: Interactions.read("x", memory="9" * 5000 + "GB"),
            InvalidParameterError,
            "memory='9{40}…' is not a size. Write it like",
        ),
        (
            lambda _: Interactions.read("x", memory=10**20),
            InvalidParameterError,
            "is not a size",
        ),
        (lambda _: Interactions.read("x", memory=3), InvalidParameterError, "3 B is available"),
        (lambda _: Interactions.read("nowhere.csv", memory="4GB"), InvalidDataError, "no file"),
    ],
)
def test_what_cannot_be_done_is_refused(streamed, call, error, text):
    with pytest.raises(error, match=text) as caught:
        call(streamed)
    assert isinstance(caught.value, EquipoiseError)


def test_metrics_of_parts_that_do_not_belong_together_are_refused(streamed, table_folder):
    other = Interactions.read(table_folder, n_blocks=2, memory="4GB")
    model = ItemWeightedPCA(2).fit(streamed)
    with pytest.raises(InvalidDataError, match="do not belong together"):
        user_metrics(streamed, other, model)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[dask\]"'):
        Interactions.read("x.parquet", client="tcp://127.0.0.1:1")


def test_streaming_needs_no_dask(table_folder):
    code = (
        "import sys\n"
        "sys.modules['dask'] = sys.modules['distributed'] = None\n"
        "from equipoise import Interactions, ItemWeightedPCA\n"
        f"data = Interactions.read({str(table_folder)!r}, n_blocks=2, memory='4GB')\n"
        "print(ItemWeightedPCA(3).fit(data).certificate_.gap < 1e-6)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="peak memory is read from /proc")
def test_memory_stays_under_the_limit(tmp_path):
    """Four million rows, in blocks for which 250 MB above the interpreter are enough."""
    rng = np.random.default_rng(0)
    for part in range(4):
        users = rng.integers(0, 60_000, 1_000_000, dtype=np.int32)
        items = (500 * rng.random(1_000_000) ** 2).astype(np.int32)
        table = pl.DataFrame({"user": users, "item": items})
        table.write_parquet(tmp_path / f"{part}.parquet")
    code = (
        "from pathlib import Path\n"
        "from equipoise import Interactions, ItemWeightedPCA\n"
        "import numba, polars, sklearn.base, scipy.linalg\n"
        # not ru_maxrss, which starts at the size of the process that started this one
        "def peak():\n"
        "    status = Path('/proc/self/status').read_text()\n"
        "    return int(status.split('VmHWM:')[1].split()[0]) / 1000\n"
        "before = peak()\n"
        f"data = Interactions.read({str(tmp_path)!r}, memory='250MB')\n"
        "ItemWeightedPCA(8).fit(data)\n"
        "print(len(data.rows), peak() - before)"
    )
    # a polars thread has buffers of its own: their number must not be that of the cores
    environment = os.environ | {"POLARS_MAX_THREADS": "2", "NUMBA_NUM_THREADS": "2"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    blocks, megabytes = map(float, done.stdout.split())
    assert blocks > 4
    assert megabytes < 250


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_at_full_rank_every_user_ties_in_every_block(tmp_path, dtype):
    likes = (np.random.default_rng(0).random((40, 12)) < 0.4).astype(dtype)
    users, items = np.nonzero(likes)
    pl.DataFrame({"user": users, "item": items}).write_parquet(tmp_path / "likes.parquet")
    data = Interactions.read(tmp_path / "likes.parquet", memory="1GB", n_blocks=3)
    U = VanillaPCA(12).fit(data).components_.T.astype(dtype)
    np.testing.assert_array_equal(item_auc(data, U), np.full(12, 0.5))

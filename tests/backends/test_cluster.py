"""Real worker processes: what a cluster answers is what the local path answers."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import equipoise
from equipoise import (
    FairPCA,
    HiddenGroupsPCA,
    Interactions,
    ItemWeightedPCA,
    MaxMinItemWeightedPCA,
    NormalizedPCA,
    VanillaPCA,
)
from equipoise.data.backends.dask import connect
from equipoise.data.backends.retry import RetryPolicy, with_retries
from equipoise.data.block_ops import block_product
from equipoise.data.catalog import load_dataset
from equipoise.exceptions import ClusterError, InvalidDataError, InvalidParameterError
from equipoise.metrics import item_auc, item_error
from equipoise.serving.lists import write_lists
from tests.backends.conftest import shuffled_rows
from tests.backends.measuring import user_metrics
from tests.backends.object_store import object_store
from tests.backends.subspaces import assert_same_model
from tests.recorded_progress import Recorded
from tests.waiting import wait_until

pytestmark = pytest.mark.distributed


def test_results_that_arrive_slowly_do_not_disturb_later_ones(client):
    for _ in range(3):
        results = with_retries(
            client,
            lambda: client.map(large_result, range(20), pure=False),
            RetryPolicy(interval=1e-3),
        )
        assert [int(one[0]) for one in results] == list(range(20))


def large_result(number):
    return np.full(2_000_000, number)


@pytest.mark.parametrize(("n_blocks", "rows"), [(1, 10**9), (5, 8_000), (16, 1)])
def test_parquet_on_a_cluster_is_what_a_local_read_gives(
    client, table_folder, local, n_blocks, rows
):
    spread = Interactions.read(
        str(table_folder), client=client, n_blocks=n_blocks, rows_per_task=rows
    )
    assert len(spread.rows) == n_blocks
    assert spread.collect() == local


@pytest.mark.parametrize("duplicates", ["sum", "last"])
def test_duplicates_are_merged_as_by_a_local_read(client, tmp_path, duplicates):
    rng = np.random.default_rng(3)
    columns = {"user": rng.integers(0, 20, 400), "item": rng.integers(0, 9, 400)}
    table = pl.DataFrame(columns | {"value": rng.integers(0, 5, 400)})
    table.write_parquet(tmp_path / "t.parquet", row_group_size=50)
    options = {"duplicates": duplicates}
    local = Interactions.read(tmp_path / "t.parquet", **options)
    spread = Interactions.read(
        str(tmp_path), client=client, n_blocks=3, rows_per_task=50, **options
    )
    assert spread.collect() == local


def test_files_whose_whole_numbers_differ_in_width_agree(client, tmp_path):
    pl.DataFrame({"user": pl.Series([1, 2], dtype=pl.Int32), "item": [5, 6]}).write_parquet(
        tmp_path / "a.parquet"
    )
    pl.DataFrame({"user": pl.Series([2, 3], dtype=pl.Int64), "item": [6, 7]}).write_parquet(
        tmp_path / "b.parquet"
    )
    spread = Interactions.read(str(tmp_path), client=client, n_blocks=2)
    assert spread.collect() == Interactions.read(tmp_path)


def test_a_dask_data_frame_is_taken_as_it_is(client, table_folder, local):
    frames = pytest.importorskip("dask.dataframe")
    frame = frames.from_pandas(pl.read_parquet(table_folder).to_pandas(), npartitions=4)
    assert Interactions.from_dask(frame, client=client, n_blocks=3).collect() == local


def test_a_url_is_read_through_fsspec(client, table_folder, local):
    spread = Interactions.read(
        f"file://{table_folder}/*.parquet", client=client.scheduler.address, n_blocks=2
    )
    assert spread.collect() == local
    spread.rows.client.close()


def test_an_object_store_gives_the_table_and_takes_the_lists(client, table_folder, local):
    pytest.importorskip("s3fs")
    with object_store() as (objects, options):
        for path in table_folder.iterdir():
            objects[f"bucket/plays/{path.name}"] = path.read_bytes()
        spread = Interactions.read(
            "s3://bucket/plays", client=client, n_blocks=3, storage_options=options
        )
        assert spread.collect() == local
        model = ItemWeightedPCA(4).fit(spread)
        rows = write_lists(model, spread, "s3://bucket/lists/today", k=3, storage_options=options)
        written = {name for name in objects if name.startswith("bucket/lists/")}
        assert written == {
            *(f"bucket/lists/today/part-{number:05}-00000.parquet" for number in range(3)),
            "bucket/lists/today/_SUCCESS",
        }
        parts = [pl.read_parquet(objects[name]) for name in written if name.endswith("parquet")]
        assert sum(map(len, parts)) == rows == 3 * local.n_users


@pytest.mark.parametrize(
    "model",
    [
        ItemWeightedPCA(8, tol=1e-9),
        ItemWeightedPCA(8, tol=1e-9, value_transform="log1p", user_scaling=0.5),
        VanillaPCA(8, tol=1e-9),
        NormalizedPCA(8, tol=1e-9),
    ],
    ids=lambda model: type(model).__name__,
)
def test_a_fit_on_a_cluster_equals_a_local_one(spread, local, model):
    from sklearn.base import clone

    assert_same_model(clone(model).fit(spread), clone(model).fit(local))


@pytest.mark.parametrize(
    "model",
    [
        MaxMinItemWeightedPCA(2, groups=2, user_groups=2, error_budget=0.1),
        FairPCA(2, groups=2, error_budget=0.1),
        HiddenGroupsPCA(2, groups=2, mean_gap=0.1),
    ],
    ids=repr,
)
def test_goals_for_groups_have_the_same_optimum_on_a_cluster(spread, local, model):
    from sklearn.base import clone

    ours, theirs = (
        clone(model).set_params(solver="matrix_free", tol=1e-4).fit(data).certificate_
        for data in (spread, local)
    )
    scale = max(abs(theirs.objective), 1.0)
    assert ours.objective == pytest.approx(theirs.objective, abs=1e-3 * scale)
    assert ours.names == theirs.names


def test_the_saved_model_of_a_cluster_fit_is_a_model_like_any_other(spread, local, tmp_path):
    fitted = ItemWeightedPCA(8, tol=1e-9).fit(spread)
    loaded = equipoise.load(fitted.save(tmp_path / "m.eqp"))
    assert loaded.certificate_ == fitted.certificate_
    assert loaded.certificate_.passes < ItemWeightedPCA(8, tol=1e-9).fit(local).certificate_.passes
    np.testing.assert_array_equal(
        loaded.recommend(local, k=3).ids, fitted.recommend(local, k=3).ids
    )


@pytest.mark.data
@pytest.mark.parametrize("name", ["lastfm-2k", "ml-1m"])
def test_local_and_cluster_agree_on_the_papers_data(client, data_dir, name):
    data = load_dataset(name, preprocessing="paper", data_dir=data_dir)
    reference = ItemWeightedPCA(16, tol=1e-8).fit(data)
    for n_blocks in (1, 4, 13) if name == "lastfm-2k" else (2, 7):
        spread = data.distribute(client, n_blocks)
        assert_same_model(ItemWeightedPCA(16, tol=1e-8).fit(spread), reference)


@pytest.mark.data
@pytest.mark.parametrize("name", ["lastfm-2k", "ml-1m"])
def test_everything_measured_on_the_papers_data_is_what_the_local_path_measures(
    client, data_dir, name
):
    local = load_dataset(name, preprocessing="paper", data_dir=data_dir)
    spread = local.distribute(client, 5)
    ours, theirs = spread.holdout(), local.holdout()
    for part in ("train", "validation", "test"):
        collected, expected = getattr(ours, part).collect(), getattr(theirs, part)
        assert (collected.matrix != expected.matrix).nnz == 0
        np.testing.assert_array_equal(collected.user_ids, expected.user_ids)
    model = ItemWeightedPCA(16, tol=1e-8).fit(ours.train)
    reference = ItemWeightedPCA(16, tol=1e-8).fit(theirs.train)
    np.testing.assert_allclose(
        model.self_reconstruction(), reference.self_reconstruction(), atol=1e-8
    )
    U, X = model.components_.T, theirs.train.matrix
    np.testing.assert_allclose(
        item_error(ours.train, U), equipoise.metrics.item_error(X, U), atol=1e-9
    )
    items = np.arange(0, local.n_items, 37)
    np.testing.assert_allclose(
        item_auc(ours.train, U, items=items),
        equipoise.metrics.item_auc(X, U, items=items),
        atol=1e-5,
    )
    found = user_metrics(ours.train, ours.test, model, k=10, metrics=["recall", "ndcg", "map"])
    lists = model.recommend(theirs.train, k=10).ids
    columns = theirs.train.item_index(lists.ravel()).reshape(lists.shape)
    table = equipoise.metrics.ranking_metrics(
        columns, theirs.test.matrix, k=10, metrics=["recall", "ndcg", "map"]
    )
    for result in table:
        assert found[result.name].value == pytest.approx(result.value, rel=1e-12)


def test_blocks_that_no_user_fell_into_do_no_harm(client, tmp_path):
    table = {"user": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3], "timestamp": range(6)}
    pl.DataFrame(table).write_parquet(tmp_path / "t.parquet")
    spread = Interactions.read(str(tmp_path), client=client, n_blocks=9)
    local = Interactions.read(tmp_path)
    for method, options in (("leave_last_n", {}), ("temporal", {"test": 0.34})):
        ours, theirs = (data.holdout(method=method, **options) for data in (spread, local))
        assert ours.train.collect() == theirs.train
        assert ours.test.collect() == theirs.test
    assert_same_model(ItemWeightedPCA(1, tol=1e-9).fit(spread), ItemWeightedPCA(1).fit(local))


@pytest.mark.parametrize("passes", ["few", "many"])
def test_the_passes_of_the_certificate_and_the_progress_are_those_made(spread, monkeypatch, passes):
    made, seen = [], Recorded()
    total = spread.rows.total

    def counted(function, *shared, **options):
        if function is block_product:
            made.append(function)
        return total(function, *shared, **options)

    monkeypatch.setattr(spread.rows, "total", counted)
    model = ItemWeightedPCA(6, passes=passes).fit(spread, progress=seen)
    noted = [int(note.split()[0]) for note in seen.notes()]
    assert model.certificate_.passes == len(made)
    assert noted == sorted(noted)
    assert noted[-1] == len(made) - 1  # the last pass computes the certificate itself
    if passes == "few":
        assert noted == list(range(noted[0], len(made)))  # every pass is noted


@pytest.mark.data
def test_local_and_cluster_agree_on_a_table_of_the_papers_data(client, data_dir, tmp_path):
    data = load_dataset("lastfm-2k", preprocessing="paper", data_dir=data_dir)
    shuffled_rows(data).write_parquet(tmp_path / "plays.parquet", row_group_size=10_000)
    local = Interactions.read(tmp_path)
    spread = Interactions.read(str(tmp_path), client=client, n_blocks=6, rows_per_task=10_000)
    assert spread.collect() == local
    assert_same_model(
        ItemWeightedPCA(16, tol=1e-8).fit(spread), ItemWeightedPCA(16, tol=1e-8).fit(local)
    )


def test_the_bits_do_not_depend_on_the_number_of_workers(cluster, client, table_folder):
    def fitted() -> bytes:
        spread = Interactions.read(str(table_folder), client=client, n_blocks=7)
        return ItemWeightedPCA(6).fit(spread).components_.tobytes()

    with_three = fitted()
    cluster.scale(1)
    wait_until(lambda: len(client.nthreads()) == 1)
    assert fitted() == with_three


def test_a_cluster_prepares_splits_and_measures_like_the_local_path(spread, local, tmp_path):
    kept = {"min_users_per_item": 20, "min_items_per_user": 10}
    ours = spread.filter(**kept).normalize_rows()
    theirs = local.filter(**kept).normalize_rows()
    assert ours.collect() == theirs
    np.testing.assert_allclose(ours.popularity(), theirs.popularity(), rtol=1e-12)
    split, expected = ours.holdout(), theirs.holdout()
    assert split.train.collect() == expected.train
    assert split.test.collect() == expected.test
    model = ItemWeightedPCA(6, tol=1e-9).fit(split.train)
    recall = user_metrics(split.train, split.test, model, k=10, metrics=["recall"])
    lists = model.recommend(expected.train, k=10).ids
    columns = expected.train.item_index(lists.ravel()).reshape(lists.shape)
    assert recall["recall@10"].value == pytest.approx(
        equipoise.metrics.recall_at_k(columns, expected.test.matrix, k=10).value
    )
    U = model.components_.T
    np.testing.assert_allclose(
        item_auc(split.train, U, items=[0, 5]),
        equipoise.metrics.item_auc(expected.train.matrix, U, items=[0, 5]),
        atol=1e-4,
    )
    rows = write_lists(model, split.train, tmp_path / "lists", k=10)
    table = pl.read_parquet(tmp_path / "lists").sort("user", "rank")
    assert len(table) == rows
    order = np.argsort(expected.train.user_ids.astype(str))
    assert table["item"].to_list() == lists[order].ravel().tolist()


def test_a_table_without_the_column_is_refused_by_its_workers(client, table_folder):
    with pytest.raises(InvalidDataError, match="'listener' is not one of"):
        Interactions.read(str(table_folder), client=client, user="listener")


def test_a_bad_value_is_named_with_its_place(client, tmp_path):
    table = pl.DataFrame({"user": [1, 2, 3], "item": [1, 1, 1], "value": [1.0, 2.0, -3.0]})
    table.write_parquet(tmp_path / "t.parquet", row_group_size=2)
    with pytest.raises(InvalidDataError, match=r"t.parquet, row 2 .* is negative"):
        Interactions.read(str(tmp_path), client=client, rows_per_task=2)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda c: Interactions.read("/no/where", client=c), InvalidDataError,
         "there is no Parquet file at /no/where"),
        (lambda c: Interactions.read("nope://x", client=c), InvalidDataError,
         "cannot be listed"),
        (lambda c: Interactions.from_dask([1], client=c), InvalidParameterError,
         "takes a Dask DataFrame, got list"),
        (lambda c: Interactions.read("x", client=c, duplicates="mean"),
         InvalidParameterError, "duplicates must be one of"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(client, call, error, text):
    with pytest.raises(error, match=text):
        call(client)


def test_an_empty_table_is_refused(client, tmp_path):
    pl.DataFrame({"user": [1], "item": [1], "value": [0]}).write_parquet(tmp_path / "t.parquet")
    with pytest.raises(InvalidDataError, match="no interaction"):
        Interactions.read(str(tmp_path), client=client)


def test_without_a_client_the_way_to_one_is_named(monkeypatch):
    def no_client() -> None:
        raise ValueError("No global client found")

    monkeypatch.setattr("distributed.get_client", no_client)
    with pytest.raises(ClusterError, match=r"Connect first: distributed.Client"):
        connect()

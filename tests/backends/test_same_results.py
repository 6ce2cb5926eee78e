"""Every verb of `Interactions` gives the same data in memory and in blocks on disk."""

from __future__ import annotations

import pickle

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise import EASE, Interactions, ItemKNN, ItemWeightedPCA, Popularity, VanillaPCA
from equipoise.data import Split
from equipoise.data.block_ops import entries_per_user, whole
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.spectral.gram import BlockGram
from tests.backends.subspaces import assert_same_model


@pytest.fixture(scope="module")
def blocks(table_folder) -> Interactions:
    return Interactions.read(table_folder, memory="1GB", n_blocks=4)


def odd_items(data: Interactions) -> np.ndarray:
    return data.item_ids[::-2]


def some_users(data: Interactions) -> np.ndarray:
    return data.user_ids[[700, 3, 2998, 4, 1500]]


VERBS = {
    "binarize": lambda d: d.binarize(),
    "normalize_rows": lambda d: d.normalize_rows(),
    "filter": lambda d: d.filter(15, 8),
    "sample_items": lambda d: d.sample_items(40, seed=5),
    "select_items": lambda d: d.select_items(odd_items(d)),
    "select_users": lambda d: d.select_users(some_users(d)),
    "select_both": lambda d: d.select_users(some_users(d)).select_items(odd_items(d)),
    "align_items": lambda d: d.align_items([*odd_items(d), 10**6], unknown="drop"),
    "with_names": lambda d: d.with_names({int(d.item_ids[0]): "first"}).select_items(
        d.item_ids[:7]
    ),
    "without_timestamps": lambda d: d.without_timestamps(),
    "keep_entries": lambda d: d.keep_entries(np.arange(d.nnz) % 3 == 0),
    "train_validation": lambda d: d.holdout().train_validation,
    "train_validation_by_user": lambda d: d.holdout(method="by_user").train_validation,
    "seen_before_test": lambda d: d.holdout(method="by_user").seen_before_test,
    "prepared": lambda d: d.prepared(rooted).transform(whole),
}


def rooted(X):
    return X.sqrt()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_gives_the_same_data_in_blocks_as_in_memory(blocks, local, verb):
    ours, theirs = VERBS[verb](blocks), VERBS[verb](local)
    assert len(ours.rows) == 4
    assert ours.shape == theirs.shape
    assert ours.nnz == theirs.nnz
    np.testing.assert_array_equal(ours.user_ids, theirs.user_ids)
    assert ours.fingerprint() == theirs.fingerprint()
    assert ours.collect() == theirs
    assert ours == theirs


@pytest.mark.parametrize(
    "look",
    [
        Interactions.describe,
        lambda d: d.popularity().tolist(),
        lambda d: d.items_per_user().tolist(),
        lambda d: d.row("u7").toarray().tolist(),
        lambda d: d.user_index(["u9", "u2"]).tolist(),
        lambda d: d.density,
        lambda d: d.dtype,
        lambda d: d.has_timestamps,
        lambda d: d.holdout(method="leave_last_n", n=2).describe(),
        Interactions.largest_value,
    ],
)
def test_looking_gives_the_same_in_blocks_as_in_memory(blocks, local, look):
    assert look(blocks) == look(local)


@settings(max_examples=25, deadline=None)
@given(
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 7)), min_size=2, max_size=60),
    n_blocks=st.integers(1, 5),
    data=st.data(),
)
def test_any_chain_of_verbs_gives_the_same_data(tmp_path_factory, pairs, n_blocks, data):
    path = tmp_path_factory.mktemp("t") / "t.parquet"
    users, items = zip(*pairs, strict=True)
    pl.DataFrame({"user": users, "item": items, "timestamp": range(len(pairs))}).write_parquet(path)
    ours, theirs = Interactions.read(path, memory="1GB", n_blocks=n_blocks), Interactions.read(path)
    for _ in range(data.draw(st.integers(1, 3))):
        some_items = data.draw(st.permutations(theirs.item_ids.tolist()))
        kept_users = data.draw(st.permutations(theirs.user_ids.tolist()))
        size = data.draw(st.integers(1, len(kept_users)))
        flags = st.lists(st.booleans(), min_size=theirs.nnz, max_size=theirs.nnz)
        mask = np.array(data.draw(flags), dtype=bool)
        verb = data.draw(
            st.sampled_from(
                [
                    lambda d, s=some_items: d.align_items(s),
                    lambda d, k=kept_users, n=size: d.select_users(k[:n]),
                    lambda d, m=mask: d.keep_entries(m),
                    Interactions.normalize_rows,
                ]
            )
        )
        ours, theirs = verb(ours), verb(theirs)
    assert ours.collect() == theirs


def test_results_by_block_come_back_into_the_order_of_the_data(blocks, local):
    counts = np.concatenate(blocks.map(entries_per_user))[blocks.user_order]
    np.testing.assert_array_equal(counts, np.diff(local.matrix.indptr))


def overlap(train, factor, test):
    return factor * np.array([train.matrix.nnz, test.matrix.nnz, len(train.user_ids)])


def test_a_function_gets_the_blocks_of_other_parts_too(blocks, local):
    ours, theirs = blocks.holdout(), local.holdout()
    expected = [2 * theirs.train.nnz, 2 * theirs.test.nnz, 2 * local.n_users]
    assert ours.train.total(overlap, 2, each=ours.train.blocks_of(ours.test)).tolist() == expected
    assert (
        theirs.train.total(overlap, 2, each=theirs.train.blocks_of(theirs.test)).tolist()
        == expected
    )
    assert len(ours.train.map(overlap, 2, each=ours.train.blocks_of(ours.test))) == 4


def test_parts_of_other_blocks_do_not_belong_together(blocks, local, table_folder):
    other = Interactions.read(table_folder, memory="1GB", n_blocks=3)
    with pytest.raises(InvalidDataError, match="do not belong together"):
        blocks.blocks_of(other)
    with pytest.raises(InvalidDataError, match="parts of one holdout"):
        Split(blocks, other, other)
    with pytest.raises(InvalidDataError, match="parts of one holdout"):
        Split(local, blocks, blocks)


@pytest.mark.parametrize("solver", ["gram", "dense"])
def test_a_dense_gram_matrix_is_added_up_over_blocks(blocks, local, solver):
    model = VanillaPCA(6, solver=solver)
    assert_same_model(model.fit(blocks), VanillaPCA(6, solver=solver).fit(local))


def test_the_gram_matrix_of_blocks_is_that_of_the_product_with_the_identity(blocks, local):
    X = local.binarize().matrix
    gram = blocks.binarize().gram()
    assert isinstance(gram, BlockGram)
    np.testing.assert_allclose(gram.product(np.eye(500)) * gram.scale, (X.T @ X).toarray())
    np.testing.assert_allclose(blocks.binarize().dense_gram().C, (X.T @ X).toarray() / gram.scale)


def test_ease_learns_the_same_from_blocks(blocks, local):
    options = {"regularization": 20.0, "value_transform": "log1p"}
    ours, theirs = EASE(**options).fit(blocks), EASE(**options).fit(local)
    np.testing.assert_allclose(ours.coefficients_, theirs.coefficients_, atol=1e-10)


@pytest.mark.parametrize("model", [Popularity(), ItemKNN(5)], ids=lambda m: type(m).__name__)
def test_other_models_learn_the_same_from_blocks(blocks, local, model):
    ours = model.fit(blocks).recommend(blocks, k=4)
    theirs = model.fit(local).recommend(local, k=4)
    np.testing.assert_array_equal(ours.ids, theirs.ids)


def test_a_model_that_needs_the_whole_matrix_refuses_one_that_does_not_fit(table_folder):
    small = Interactions.read(table_folder, memory="2MB", n_blocks=3)
    with pytest.raises(InvalidDataError, match=r"ItemKNN .* whole matrix .* 2\.42 MB"):
        ItemKNN(5).fit(small)
    model = ItemWeightedPCA(2).fit(small)
    with pytest.raises(InvalidDataError, match="write_lists"):
        model.recommend(small)
    some = small.select_users(some_users(small))
    assert model.recommend(some, k=3).ids.shape == (5, 3)


def test_a_model_fitted_on_other_items_ranks_users_in_blocks(blocks, local):
    model = ItemWeightedPCA(4, tol=1e-9).fit(local.select_items(local.item_ids[::-1]))
    np.testing.assert_array_equal(model.recommend(blocks).ids, model.recommend(local).ids)


def test_data_of_one_block_on_disk_are_still_on_disk(table_folder, local):
    one = Interactions.read(table_folder, memory="1GB", n_blocks=1)
    with pytest.raises(InvalidDataError, match="have no matrix"):
        _ = one.matrix
    assert "in 1 blocks" in repr(one)
    assert one == local


def test_ids_that_are_not_there_are_refused(blocks):
    with pytest.raises(UnknownIdError, match="unknown user"):
        blocks.select_users(["nobody"])
    with pytest.raises(InvalidDataError, match="more than once"):
        blocks.select_users(["u1", "u1"])
    with pytest.raises(InvalidDataError, match="at least one"):
        blocks.select_items([])


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"memory": "1GB", "client": "tcp://127.0.0.1:1"}, "Give one of them"),
        ({"memory": "1GB", "rows_per_task": 5}, "without client="),
        ({"scratch": "x"}, "without memory="),
        ({"memory": "1GB", "n_blocks": 0}, "n_blocks=0"),
    ],
)
def test_options_that_do_not_go_together_are_refused(table_folder, options, word):
    with pytest.raises(InvalidParameterError, match=word):
        Interactions.read(table_folder, **options)


def test_a_table_in_memory_is_not_streamed():
    with pytest.raises(InvalidDataError, match="is in memory already"):
        Interactions.read(pl.DataFrame({"user": [1], "item": [1]}), memory="1GB")


def test_pickles_of_memory_data_keep_their_users(local):
    assert pickle.loads(pickle.dumps(local.select_users(some_users(local)))) == (
        local.select_users(some_users(local))
    )

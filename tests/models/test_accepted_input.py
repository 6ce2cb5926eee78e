"""What users pass by mistake: accepted where the meaning is clear, otherwise told what to pass."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import equipoise as eq
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError

ROWS = [("ann", "x", 2.0), ("ann", "y", 1.0), ("bob", "y", 3.0), ("bob", "z", 1.0)]
FRAME = pl.DataFrame(ROWS, schema=["user", "item", "value"], orient="row")


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=60, n_items=60, seed=3)


@pytest.fixture(scope="module")
def model(plays):
    return eq.ItemWeightedPCA(n_components=4).fit(plays)


@pytest.mark.parametrize("library", ["polars", "pandas", "path"])
def test_fit_takes_tables_of_pairs_and_paths(library, tmp_path):
    table = FRAME
    if library == "pandas":
        pd = pytest.importorskip("pandas")
        table = pd.DataFrame(ROWS, columns=FRAME.columns)
    elif library == "path":
        table = tmp_path / "plays.csv"
        FRAME.write_csv(table)
    fitted = eq.ItemWeightedPCA(n_components=2).fit(table)
    expected = eq.ItemWeightedPCA(n_components=2).fit(eq.Interactions.read(FRAME))
    assert fitted.item_ids_.tolist() == ["x", "y", "z"]
    np.testing.assert_array_equal(fitted.components_, expected.components_)


def test_a_table_of_numbers_is_still_a_matrix():
    pd = pytest.importorskip("pandas")
    matrix = pd.DataFrame([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0]], columns=["a", "b", "c"])
    fitted = eq.ItemWeightedPCA(n_components=1).fit(matrix)
    assert fitted.item_ids_ is None
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]


def test_recommend_takes_the_items_of_one_user(plays, model):
    user = plays.select_users(plays.user_ids[:1])
    columns = user.matrix.indices
    row = dict(zip(plays.item_ids[columns].tolist(), user.matrix.data.tolist(), strict=True))
    expected = model.recommend(user, k=5)
    found = model.recommend(row, k=5)
    assert found.ids.tolist() == expected.ids[0].tolist()
    np.testing.assert_allclose(found.scores, expected.scores[0])
    ones = model.recommend(user.matrix.sign(), k=5).ids[0].tolist()
    for items in (list(row), set(row), np.array(list(row))):
        assert model.recommend(items, k=5).ids.tolist() == ones
    assert model.score_items(row).shape == (60,)


@pytest.mark.parametrize("wrong", ["listener-0001", [["artist-0001"], ["artist-0002"]]])
def test_what_is_not_one_users_items_is_refused_with_advice(model, wrong):
    with pytest.raises(InvalidDataError, match="select_users"):
        model.recommend(wrong)


def test_unknown_items_of_a_user_are_named(model):
    with pytest.raises(UnknownIdError, match="nobody"):
        model.recommend({"nobody": 1.0})
    with pytest.raises(InvalidParameterError, match="one item"):
        model.similar_items(["artist-0001", "artist-0002"])


def test_evaluate_takes_one_rank_and_single_values_in_a_grid(plays):
    expected = eq.evaluate(plays, "pca", grid={"n_components": [8]}, metrics=["recall"])
    assert eq.evaluate(plays, "pca", ranks=8, metrics="recall") == expected
    assert eq.evaluate(plays, "pca", grid={"n_components": 8}, metrics="recall") == expected
    ranks = eq.evaluate(plays, ["pca", "ease"], ranks=[2, 4], metrics=["recall"])
    assert [row.settings for row in ranks] == [{"n_components": 2}, {"n_components": 4}, {}]


def test_lists_of_ids_are_scored_like_lists_of_columns(plays):
    from equipoise.data import holdout

    split = holdout(plays)
    columns = np.argsort(-split.train.popularity(), kind="stable")[:20]
    lists = np.tile(columns, (plays.n_users, 1))
    by_column = eq.evaluate(split, {"popular": lists}, metrics=["recall"])
    by_id = eq.evaluate(split, {"popular": split.train.item_ids[lists]}, metrics=["recall"])
    assert by_id == by_column
    short = split.train.item_ids[lists].astype(object)
    short[0, 10:] = None
    assert eq.evaluate(split, {"popular": short}, metrics=["recall@10"]) == eq.evaluate(
        split, {"popular": lists}, metrics=["recall@10"]
    )
    with pytest.raises(InvalidDataError, match=r"popular.*not in the data"):
        eq.evaluate(split, {"popular": np.full((plays.n_users, 20), "nobody")}, metrics=["recall"])


def test_read_takes_columns_and_tuples():
    expected = eq.Interactions.read(FRAME)
    assert eq.Interactions.read(FRAME.to_dict(as_series=False)) == expected
    assert eq.Interactions.read(ROWS) == expected
    assert eq.Interactions.read([row[:2] for row in ROWS]) == expected.binarize()


@pytest.mark.medium
def test_audit_takes_a_table_of_pairs(plays):
    found = eq.audit(plays.to_polars(), rank=2, depth="quick", budget=0)
    assert (found.data.n_users, found.data.n_items) == plays.shape

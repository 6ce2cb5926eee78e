"""Groups of items and users: how they are made, matched by id, crossed and refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import Groups, Interactions
from equipoise.data.row_groups import row_groups
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.groups import ItemGroups


@pytest.fixture
def plays() -> Interactions:
    X = sp.csr_array(np.array([[1.0, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 2]]))
    return Interactions.from_sparse(X, user_ids=["u", "v", "w"], item_ids=["a", "b", "c", "d"])


def test_labels_match_items_by_id_in_any_order(plays):
    groups = Groups.from_labels({"d": "jazz", "a": "rock", "x": "rock", "c": ["rock", "jazz"]})
    assert groups.names == ("jazz", "rock")
    expected = [[0, 1], [0, 0], [1, 1], [1, 0]]  # b is in no group, x is not in the data
    assert groups.align(plays).toarray().tolist() == expected


def test_shares_of_several_labels_sum_to_one(plays):
    groups = Groups.from_labels({"a": ["x", "y"], "b": "x"}, share=True)
    assert groups.align(plays).toarray().tolist() == [[0.5, 0.5], [1, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_a_column_of_a_table_with_a_separator_gives_groups(make):
    table = make({"movie": ["a", "b", "c"], "genres": ["Drama|War", "War", None]})
    groups = Groups.from_column(table, id="movie", column="genres", separator="|")
    assert groups.sizes == {"Drama": 1.0, "War": 2.0}
    assert groups.members("War").tolist() == ["a", "b"]
    with pytest.raises(InvalidDataError, match="no column 'genre'"):
        Groups.from_column(table, id="movie", column="genre")


def test_labels_without_ids_follow_the_order_of_the_data(plays):
    groups = Groups.from_labels(["x", None, "x", float("nan")])
    assert groups.align(plays).toarray().ravel().tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidDataError, match="one row for each of the 4 items"):
        Groups.from_labels(["x", "y"]).align(plays)


def test_popularity_groups_have_equal_numbers_of_items_most_popular_first(plays):
    groups = Groups.by_popularity(plays, 2)
    assert groups.members("popularity 1/2").tolist() == ["a", "c"]
    assert groups.names == ("popularity 1/2", "popularity 2/2")
    assert Groups.by_popularity(plays, 9).n_groups == 4
    assert Groups.by_popularity(plays, "head80").names == ("head", "tail")


def test_activity_groups_have_equal_numbers_of_users(plays):
    groups = Groups.by_activity(plays, 3)
    assert [groups.members(name).tolist() for name in groups.names] == [["u"], ["v"], ["w"]]


def test_crossed_groups_are_the_members_of_both():
    gender = Groups.from_labels({"u": "F", "v": "M", "w": "F"}, of="users")
    age = Groups.from_labels({"w": "old", "v": "old", "u": "young"}, of="users")
    both = gender.cross(age)
    assert both.sizes == {"F × young": 1.0, "F × old": 1.0, "M × old": 1.0}
    assert both.members("F × old").tolist() == ["w"]
    with pytest.raises(InvalidParameterError, match="groups of users and of items"):
        gender.cross(Groups.from_labels({"a": "x"}))


def test_selected_groups_leave_the_other_members_in_no_group(plays):
    groups = Groups.from_labels({"a": "x", "b": "y", "c": "z"}).select(["z", "x"])
    assert groups.align(plays).toarray().tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    with pytest.raises(InvalidParameterError, match="unknown group 'y'"):
        groups.select(["y"])


def test_a_partition_goes_to_metrics_and_back(plays):
    groups = Groups.from_labels({"a": "x", "b": "y", "c": "x", "d": "y"})
    partition = groups.partition(plays)
    assert isinstance(partition, ItemGroups)
    assert partition.items("y").tolist() == [1, 3]
    again = Groups.from_partition(partition, plays)
    np.testing.assert_array_equal(again.align(plays).toarray(), groups.align(plays).toarray())
    with pytest.raises(InvalidDataError, match="exactly one group"):
        Groups.from_labels({"a": "x"}).partition(plays)


def test_groups_that_match_no_id_are_refused(plays):
    with pytest.raises(InvalidDataError, match="match in type"):
        Groups.from_labels({1: "x", 2: "y"}).align(plays)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Groups.from_labels({"a": None}), "no member has a label"),
        (lambda: Groups(("x", "x"), np.eye(2)), "must differ"),
        (lambda: Groups(("x",), np.eye(2)), "one column for each"),
        (lambda: Groups(("x", "y"), -np.eye(2)), "at least 0"),
        (lambda: Groups(("x", "y"), np.eye(2), np.array(["a", "a"])), "two rows"),
        (lambda: Groups(("x", "y"), np.eye(2), np.array(["a"])), "one row per member"),
    ],
)
def test_impossible_groups_are_refused(make, words):
    with pytest.raises(InvalidDataError, match=words):
        make()


def test_groups_of_rows_in_blocks_equal_those_in_memory(tmp_path):
    rng = np.random.default_rng(3)
    X = rng.poisson(0.4, (90, 12)).astype(float)
    X[:, 0] += 1
    users, items = np.nonzero(X)
    table = pl.DataFrame({"user": users, "item": items, "value": X[users, items]})
    table.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(tmp_path / "plays.parquet")
    memory = Interactions.read(tmp_path / "plays.parquet")
    blocks = Interactions.read(tmp_path / "plays.parquet", memory="1GB", n_blocks=4)
    groups = Groups.from_labels({u: u % 3 for u in range(80)}, of="users")  # ten in no group
    ours = row_groups(blocks, groups.align(blocks))
    theirs = row_groups(memory, groups.align(memory))
    assert len(blocks.rows) == 4
    V, y = rng.standard_normal((12, 3)), np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ours.sums, theirs.sums)
    np.testing.assert_allclose(ours.energies, theirs.energies)
    a, b = ours.gram(y), theirs.gram(y)
    np.testing.assert_allclose(a.product(V) * a.scale, b.product(V) * b.scale, atol=1e-10)
    np.testing.assert_allclose(
        ours.compress(V, ours.image(V)), theirs.compress(V, theirs.image(V)), atol=1e-10
    )

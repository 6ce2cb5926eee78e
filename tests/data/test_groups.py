"""Groups of items and users: how they are made, matched by id, crossed and refused."""

from __future__ import annotations

import sqlite3

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp

from equipoise import Groups, Interactions
from equipoise.data.groups import row_groups
from equipoise.exceptions import EquipoiseError, InvalidDataError, InvalidParameterError
from equipoise.metrics import exposure_by_group


@pytest.fixture
def plays() -> Interactions:
    X = sp.csr_array(np.array([[1.0, 1, 1, 0], [1, 0, 1, 0], [1, 0, 0, 2]]))
    return Interactions.from_sparse(X, user_ids=["u", "v", "w"], item_ids=["a", "b", "c", "d"])


def test_labels_match_items_by_id_in_any_order(plays):
    groups = Groups.from_labels({"d": "jazz", "a": "rock", "x": "rock", "c": ["rock", "jazz"]})
    assert groups.names == ("jazz", "rock")
    expected = [[0, 1], [0, 0], [1, 1], [1, 0]]  # b is in no group, x is not in the data
    assert groups.align(plays).membership.toarray().tolist() == expected


def test_shares_of_several_labels_sum_to_one(plays):
    groups = Groups.from_labels({"a": ["x", "y"], "b": "x"}, share=True)
    assert groups.align(plays).membership.toarray().tolist() == [[0.5, 0.5], [1, 0], [0, 0], [0, 0]]


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, dict])
def test_a_column_of_a_table_with_a_separator_gives_groups(make):
    table = make({"movie": ["a", "b", "c"], "genres": ["Drama|War", "War", None]})
    groups = Groups.from_column(table, id="movie", column="genres", separator="|")
    assert groups.sizes == {"Drama": 1.0, "War": 2.0}
    assert groups.members("War").tolist() == ["a", "b"]
    with pytest.raises(InvalidDataError, match=r"no column 'genre'.*columns are"):
        Groups.from_column(table, id="movie", column="genre")


def test_labels_without_ids_follow_the_order_of_the_data(plays):
    groups = Groups.from_labels(["x", None, "x", float("nan")])
    assert groups.align(plays).membership.toarray().ravel().tolist() == [1, 0, 1, 0]
    with pytest.raises(InvalidDataError, match="each of the 4 items"):
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
    with pytest.raises(InvalidParameterError, match="groups of users and"):
        gender.cross(Groups.from_labels({"a": "x"}))


def test_selected_groups_leave_the_other_members_in_no_group(plays):
    groups = Groups.from_labels({"a": "x", "b": "y", "c": "z"}).select(["z", "x"])
    assert groups.align(plays).membership.toarray().tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    with pytest.raises(InvalidParameterError, match=r"one of .* got 'y'"):
        groups.select(["y"])


def test_aligned_groups_are_groups_of_the_columns(plays):
    groups = Groups.from_labels({"d": "y", "b": "y", "c": "x", "a": "x"}).align(plays)
    assert groups.items("y").tolist() == [1, 3]
    lists = [[0, 1], [1, 3]]
    assert exposure_by_group(lists, groups).by_group == {"y": 0.75, "x": 0.25}
    assert groups.align(plays).members("y").tolist() == ["b", "d"]


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
        (lambda: Groups(("x", "y"), np.eye(2), ids=np.array(["a", "a"])), "two rows"),
        (lambda: Groups(("x", "y"), np.eye(2), ids=np.array(["a"])), "one row per member"),
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
    ours = row_groups(blocks, groups.align(blocks).membership)
    theirs = row_groups(memory, groups.align(memory).membership)
    assert len(blocks.rows) == 4
    V, y = rng.standard_normal((12, 3)), np.array([1.0, -2.0, 0.5])
    np.testing.assert_allclose(ours.sums, theirs.sums)
    np.testing.assert_allclose(ours.energies, theirs.energies)
    a, b = ours.gram(y), theirs.gram(y)
    np.testing.assert_allclose(a.product(V) * a.scale, b.product(V) * b.scale, atol=1e-10)
    np.testing.assert_allclose(
        ours.compress(V, ours.image(V)), theirs.compress(V, theirs.image(V)), atol=1e-10
    )


def write_artists(path) -> None:
    path.write_text('artist,label,note\nb,Indie,"x, y"\na,Major,\nb,Live,\nz,Indie,\nc,,\n')


def test_groups_are_read_from_a_column_of_a_file_and_repeated_ids_have_several(tmp_path, plays):
    write_artists(tmp_path / "artists.csv")
    groups = Groups.read(f"{tmp_path}/artists.csv:label")
    assert groups.names == ("Indie", "Live", "Major")
    assert groups.rule == "label in artists.csv"
    assert {name: groups.members(name).tolist() for name in groups.names} == {
        "Indie": ["b", "z"],
        "Live": ["b"],
        "Major": ["a"],
    }
    said = groups.describe(plays)
    assert "2 of 4 items are in no group" in said
    assert "1 ids of the groups are not" in said


def test_parquet_with_lists_and_a_file_without_header_are_read(tmp_path):
    table = pl.DataFrame({"track": [1, 2], "genres": [["Drama", "War"], ["War"]]})
    table.write_parquet(tmp_path / "genres.parquet")
    assert Groups.read(f"{tmp_path}/genres.parquet:genres").sizes == {"Drama": 1, "War": 2}
    (tmp_path / "users.dat").write_text("7::F::25\n8::M::25\n9::F::1\n")
    by_age = Groups.read(f"{tmp_path}/users.dat:2", of="users")
    assert by_age.sizes == {"25": 2, "1": 1}
    numbered = Interactions.from_pairs([9, 8, 7], [1, 2, 3])
    assert by_age.align(numbered).membership.toarray().tolist() == [[0, 1], [1, 0], [1, 0]]
    (tmp_path / "movies.dat").write_text("1::Up::Drama|War\n2::Down::War\n")
    by_genre = Groups.read(f"{tmp_path}/movies.dat:2", separator="|")
    assert by_genre.sizes == {"Drama": 1, "War": 2}


def test_groups_are_read_from_a_database(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as connection:
        connection.execute("CREATE TABLE artists (artist, label)")
        connection.executemany("INSERT INTO artists VALUES (?, ?)", [(1, "x"), (2, "y"), (2, "x")])
    connection.close()
    query = "SELECT artist, label FROM artists"
    groups = Groups.read(f"{tmp_path}/shop.db:label", query=query)
    assert groups.sizes == {"x": 2, "y": 1}
    assert groups.ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("source", "words"), [("artists.csv", "FILE:COLUMN"), ("artists.csv:lable", "no column")]
)
def test_a_source_without_its_column_is_refused(tmp_path, source, words):
    write_artists(tmp_path / "artists.csv")
    with pytest.raises(EquipoiseError, match=words):
        Groups.read(f"{tmp_path}/{source}")

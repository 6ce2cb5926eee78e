"""Odd text, times and ids: each is refused, or read correctly."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.data.readers.delimited import well_quoted
from equipoise.exceptions import InvalidDataError


@pytest.fixture
def read(tmp_path):
    def read_text(text, name="data.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return Interactions.read(path, **options)

    return read_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('user,item,value\n"a",""x" ,y",2\n', "line 2 .*quote"),
        ('user,item\n1,""1""\n1,2\n', "line 2 .*quote"),
        ('user,item\nb,1\nc,"2""', "line 3 .*quote"),
        ('user,item\n1,a\n2,"b\n3,c\n', "line 3 .*quote"),
        ('user,itemx,1\na,x,"', "line 2 .*quote"),
        ('user,item,"value\na,x,3\nb,x,2\n', "header .*quote"),
        ('user,item,rating,"\x00\nann,x,1,2020-01-01\n', "header .*quote"),
        ('user",item,"value\na,x,3\n', "header .*quote"),
        ('user" ,item,"value\nusera,x,  3\n', "header .*quote"),
        ("who::what\r.5\n9::1\r\n8::2\r\n", "first lines .*carriage return"),
        ("user,item\n5,2\r3\n7,3\n", "carriage return"),
        ("user,item\n" + "5,2\n" * 60 + "5,2\r3\n7,3\n", "line 62 .*carriage return"),
    ],
)
def test_misplaced_quotes_and_carriage_returns_are_refused_with_their_line(read, text, words):
    with pytest.raises(InvalidDataError, match=words):
        read(text)


@pytest.mark.parametrize(
    ("text", "items"),
    [
        ('user,item\n1,5" x 6"\n2,y\n', ['5" x 6"', "y"]),
        ('user,item\n1,7" single\n2,"y"\n', ['7" single', "y"]),
        ('user,item\n1,"a ""b"" c"\n2,y\n', ['a "b" c', "y"]),
        ('user,item\n1, "x" \n2,"y"\n', ["x", "y"]),
        ('user,item\n1,"two\nlines"\n2,y\n', ["two\nlines", "y"]),
        ('user,item\r\n1,"x"\r\n2,"y"\r\n', ["x", "y"]),
        ("user,item\r\r\n1,x\r\r\n2,y\r\r\n", ["x", "y"]),
        ("user,item\n1,x\n\r\r\n2,y\n", ["x", "y"]),
    ],
)
def test_odd_but_unambiguous_text_is_read_as_the_csv_module_reads_it(read, text, items):
    assert read(text).item_ids.tolist() == items


@pytest.mark.parametrize("text", ['user,item\n1,x\n2,""\n', "user,item\n1,x\n2,\n"])
def test_an_empty_id_is_a_missing_one_in_quotes_or_without(read, text):
    with pytest.raises(InvalidDataError, match=r"line 3, column 'item'.*missing"):
        read(text)


@pytest.mark.parametrize("item", ["\t2", "2\t", "\x0b2", "\u20282"])
def test_a_space_that_does_not_count_as_one_belongs_to_the_id(read, item):
    assert read(f"user,item\n1,2\n2,{item}\n").item_ids.tolist() == ["2", item]


def test_a_line_of_spaces_that_do_not_count_is_not_blank(read):
    data = read("user,item\nx,y\n\u2028,\u2028\n")
    assert data.user_ids.tolist() == ["x", "\u2028"]
    assert data.item_ids.tolist() == ["y", "\u2028"]


def test_a_tab_belongs_to_an_id_between_colons_too(read):
    data = read("1::\t1193::5\n1::661::3\n2::661::4\n", "ratings.dat", format="movielens")
    assert data.item_ids.tolist() == ["\t1193", "661"]


@pytest.mark.parametrize(
    ("text", "sound"),
    [
        (b"", True),
        (b"a,b\n", True),
        (b'"a","b"\n', True),
        (b'"a""b",""""\n', True),
        (b'a,"b\nc"\r\n', True),
        (b'"a', False),
        (b'a"b,c"d\n', False),
        (b'"a"b,c\n', False),
        (b'"a" ,b\n', False),
    ],
)
def test_well_placed_quotes_are_detected(text, sound):
    assert well_quoted(text, ",") is sound


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("0 1 2\n1 2\n\ufeff 0 4 5", "ufeff"),
        ("0 1\n\n\ufeff3 4\n", "ufeff"),
        ("0 1\n1\r7\r\n", r"1\\r7"),
        ('0 1\n"word"\n', "word"),
        ("0 1\n\u2028 2\n", "u2028"),
        ("0 1\n2 3 x\n", "'x'"),
    ],
)
def test_lightgcn_lines_hold_whole_numbers_only_even_without_items(read, text, word):
    with pytest.raises(InvalidDataError, match=rf"line \d: .*{word}.* not a whole number"):
        read(text, "train.txt", format="lightgcn")


def test_lightgcn_users_without_items_and_odd_spaces_are_still_read(read):
    data = read("\ufeff7\n8 1  2 \r\n\n9\t1\n", "train.txt", format="lightgcn")
    assert data.user_ids.tolist() == [8, 9]
    assert data.matrix.toarray().tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize(
    "values",
    [
        np.array(["2020-01-01", "2020-01-02"], "M8[D]"),
        np.array([1, 2], "m8[s]"),
        np.array([1 + 2j, 3]),
        [1, 10**400],
        [dt.date(2020, 1, 1), dt.date(2020, 1, 2)],
    ],
)
def test_values_that_are_not_numbers_are_refused(values):
    with pytest.raises(InvalidDataError, match="values must be numbers"):
        Interactions.from_pairs([1, 2], [1, 2], values)


@pytest.mark.parametrize("ids", [[1, [1]], [[1], [2, 3]], [{1}, 2]])
def test_ids_that_cannot_be_looked_up_are_refused(ids):
    with pytest.raises(InvalidDataError, match=r"user ids (must be|of type)"):
        Interactions.from_pairs(ids, [1, 2])


def test_ids_with_half_a_surrogate_pair_are_ids():
    data = Interactions.from_pairs(["\ud800", "a", "\ud800"], [1, 1, 2])
    assert data.user_ids.tolist() == ["\ud800", "a"]
    assert data.matrix.toarray().tolist() == [[1, 1], [1, 0]]


@pytest.mark.parametrize("times", [[[1], [2, 3]], [pd.NA, 1], ["a", "b"]])
def test_times_that_cannot_be_ordered_are_refused(times):
    with pytest.raises(InvalidDataError, match="timestamps"):
        Interactions.from_pairs([1, 2], [1, 2], timestamps=times)
    matrix = Interactions.from_pairs([1, 2], [1, 2]).matrix
    with pytest.raises(InvalidDataError, match="timestamp"):
        Interactions(matrix, [1, 2], [1, 2], None, times)


def test_a_pandas_value_beyond_floating_point_is_refused():
    table = pd.DataFrame({"user": [1], "item": [1], "value": pd.Series([10**400], dtype=object)})
    with pytest.raises(InvalidDataError, match=r"\(value\): .*int too large"):
        Interactions.read(table)


def test_a_panic_of_polars_is_an_error_of_equipoise_or_read_by_the_csv_module(
    tmp_path, monkeypatch
):
    def panic(*_, **__):
        raise pl.exceptions.PanicException("slice index")

    path = tmp_path / "data.parquet"
    pl.DataFrame({"user": [1], "item": [1]}).write_parquet(path)
    monkeypatch.setattr(pl, "scan_parquet", panic)
    with pytest.raises(InvalidDataError, match=r"cannot be read as Parquet.*slice index"):
        Interactions.read(path)
    monkeypatch.setattr(pl, "read_csv", panic)
    (tmp_path / "data.csv").write_text("user,item\n1,x\n")
    assert Interactions.read(tmp_path / "data.csv").item_ids.tolist() == ["x"]

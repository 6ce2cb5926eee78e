"""Tables in memory that would be read as something else, or fail while they are read."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing

import numpy as np
import pandas as pd
import polars as pl
import pytest

from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError

DAYS = pd.to_datetime(["2020-01-01", "2020-01-02"])
LAZY = pl.DataFrame({"user": [1, 2], "item": [3, 4]}).lazy()


def timed(times):
    return pl.DataFrame({"user": [1, 2], "item": [3, 4], "timestamp": times})


class TestColumns:
    @pytest.mark.parametrize("kind", [set, frozenset])
    def test_a_set_has_no_order_to_pair_it_by(self, kind):
        some = kind(["ann", "bob"])
        message = rf"is a {kind.__name__}, .* no order .* Give a list"
        with pytest.raises(InvalidDataError, match=f"user ids {message}"):
            Interactions.from_pairs(some, [1, 2])
        with pytest.raises(InvalidDataError, match=f"item ids {message}"):
            Interactions.from_pairs([1, 2], some)
        matrix = Interactions.from_pairs([1, 2], [1, 2]).matrix
        with pytest.raises(InvalidDataError, match=f"item names {message}"):
            Interactions.from_sparse(matrix, item_names=some)
        assert Interactions.from_pairs(dict.fromkeys(["b", "a"]), [1, 2]).user_ids[0] == "b"

    @pytest.mark.parametrize(
        "values", [DAYS, DAYS.tz_localize("UTC"), pd.to_timedelta([1, 2]), [1j, 2]]
    )
    def test_times_and_complex_numbers_are_not_values(self, values):
        table = pd.DataFrame({"user": [1, 2], "item": [3, 4], "value": values})
        with pytest.raises(InvalidDataError, match=r"'value' \(value\): .* number"):
            Interactions.read(table)

    def test_two_columns_of_one_name_are_refused_where_they_would_be_used(self):
        rows = [[1, 2, 3, 3], [4, 5, 6, 6]]
        twice = pd.DataFrame(rows, columns=["user", "item", "user", "value"])
        with pytest.raises(InvalidDataError, match="more than one column 'user'"):
            Interactions.read(twice)
        idle = pd.DataFrame(rows, columns=["user", "item", "note", "note"])
        assert Interactions.read(idle, value="").nnz == 2

    def test_two_columns_of_one_name_are_refused_in_a_table_of_names(self):
        names = pd.DataFrame([[2, "x", "y"]], columns=["item", "name", "name"])
        with pytest.raises(InvalidDataError, match="same name: item, name, na"):
            Interactions.from_pairs([1], [2]).with_names(names)


class TestTimes:
    @pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
    def test_infinite_times_are_refused_like_missing_ones(self, bad, tmp_path):
        what = "missing" if math.isnan(bad) else "infinite"
        message = f"timestamp of row 1 .* is {what}"
        with pytest.raises(InvalidDataError, match=message):
            Interactions.from_pairs([1, 2], [3, 4], timestamps=[1.0, bad])
        with pytest.raises(InvalidDataError, match=message):
            Interactions.read(timed([1.0, bad]).to_pandas())
        with pytest.raises(InvalidDataError, match=rf"row 1 .*{bad} is not a time"):
            Interactions.read(timed([1.0, bad]))
        (tmp_path / "t.csv").write_text(f"user,item,time\n1,3,1\n\n2,4,{bad}\n")
        with pytest.raises(InvalidDataError, match=rf"line 4, .*'{bad}' is not a time"):
            Interactions.read(tmp_path / "t.csv")

    def test_a_bad_time_is_named_by_its_line_also_below_rows_of_value_0(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text(
            "user,item,value,time\n1,3,0,never\n2,4,0,never\n2,4,1,7\n2,5,1,x\n2,6,1,8\n2,7,1,9\n"
        )
        with pytest.raises(InvalidDataError, match=r"line 5, .*'x' is not a time"):
            Interactions.read(path)

    @pytest.mark.parametrize(
        "times",
        [
            pl.Series([0, 2**62]).cast(pl.Datetime("ms")),
            pl.Series([0, -(2**62)]).cast(pl.Datetime("ms")),
            pl.Series([0, 2**31 - 1], dtype=pl.Int32).cast(pl.Date),
        ],
    )
    def test_times_that_microseconds_cannot_count_are_refused(self, times):
        with pytest.raises(InvalidDataError, match=r"row 1 .*is not a time"):
            Interactions.read(timed(times))

    def test_nanoseconds_are_cut_to_microseconds(self):
        times = pl.Series([2**62 + 1, -(2**62)]).cast(pl.Datetime("ns"))
        found = Interactions.read(timed(times)).timestamps
        assert found.astype(np.int64).tolist() == [2**62 // 1000, -(2**62) // 1000]

    @pytest.mark.parametrize(
        "text", ["01/02/2020", "2020/01/02", "02-01-2020", "2 Jan 2020", "2020-01", "2020-01-021"]
    )
    def test_dates_that_are_not_iso_are_refused(self, text):
        for times in ([text, "2020-01-03"], [text, text], ["2020-01-03", text]):
            with pytest.raises(InvalidDataError, match=rf"'{text}' is not a time: .*YYYY-MM-DD"):
                Interactions.read(timed(times))

    @pytest.mark.parametrize(
        "text",
        [" 2020-01-02 ", "2020-01-02 00:00", "2020-01-02T00:00:00.000", "2020-01-02T00:00:00"],
    )
    def test_iso_dates_are_read_with_a_time_and_without(self, text):
        times = Interactions.read(timed([text, "2020-01-03"])).timestamps
        assert times.tolist() == np.array(["2020-01-02", "2020-01-03"], "M8[us]").tolist()


class TestFailing:
    @pytest.mark.parametrize(
        ("error", "told"),
        [
            (ZeroDivisionError("by zero"), "ZeroDivisionError: by zero"),
            (KeyError("x"), "KeyError: 'x'"),
            (RuntimeError(), "RuntimeError"),
            (ValueError("bad\nworse"), "bad"),
        ],
    )
    def test_what_fails_while_it_is_read_is_reported(self, error, told):
        arrow = pytest.importorskip("pyarrow")

        def fail(*_):
            raise error

        def parts():
            yield arrow.record_batch({"user": [1], "item": [2]})
            fail()

        class Stream:
            __arrow_c_stream__ = fail

        schema = arrow.schema({"user": arrow.int64(), "item": arrow.int64()})
        reader = arrow.RecordBatchReader.from_batches(schema, parts())
        known = {"user": pl.Int64, "item": pl.Int64}
        for source, kind in (
            (LAZY.map_batches(fail), "polars LazyFrame"),
            (LAZY.map_batches(fail, schema=known), "polars LazyFrame"),
            (reader, "pyarrow RecordBatchReader"),
            (Stream(), "Stream"),
        ):
            with pytest.raises(InvalidDataError, match=rf"{kind} cannot be read .*: {told}"):
                Interactions.read(source)

    def test_a_lazy_table_of_a_missing_file(self, tmp_path):
        with pytest.raises(InvalidDataError, match=r"LazyFrame cannot be read .*nosuch.csv"):
            Interactions.read(pl.scan_csv(tmp_path / "nosuch.csv"))

    def test_our_own_errors_stay_as_they_are(self):
        with pytest.raises(InvalidDataError, match=r"^the polars table: no column"):
            Interactions.read(LAZY.rename({"user": "who"}))


def test_a_damaged_database_whose_error_is_not_text_is_refused(tmp_path):
    path = tmp_path / "plays.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("create table plays (user, item)")
        connection.execute("insert into plays values (1, 2)")
        connection.commit()
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE", b"CREATE TABL\xe0"))
    with pytest.raises(InvalidDataError, match=r"the query on .* failed"):
        Interactions.read(path, query="select user, item from plays")


def test_times_of_128_bits_are_read_or_refused():
    table = pl.DataFrame(
        {"user": [1, 2], "item": [1, 1], "timestamp": pl.Series([5, 7], dtype=pl.Int128)}
    )
    assert Interactions.read(table).timestamps.tolist() == [5, 7]
    large = table.with_columns(timestamp=pl.Series([5, 2**70], dtype=pl.Int128))
    with pytest.raises(InvalidDataError, match="1180591620717411303424 is not a time"):
        Interactions.read(large)


def test_a_complex_id_that_is_not_a_number_is_missing():
    with pytest.raises(InvalidDataError, match=r"user id number 0 .* is missing"):
        Interactions.from_pairs([math.nan, 1j], [0, 0])

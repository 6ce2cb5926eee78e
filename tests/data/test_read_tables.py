"""pandas, polars, Arrow, SciPy and Parquet: the same rows give the same data."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import polars as pl
import pytest
from scipy import sparse

from equipoise.data import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

ROWS = {
    "user": ["b", "a", "b"],
    "item": [5, 5, 6],
    "value": [4.0, 2.0, 1.0],
    "timestamp": [30, 20, 10],
}
EXPECTED = Interactions.from_pairs(*ROWS.values())


class OnlyArrow:
    """A table of a library nobody knows, that speaks the Arrow C interface."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def arrow() -> pa.Table:
    return pa.table(ROWS)


SOURCES = {
    "pandas": lambda: pd.DataFrame(ROWS),
    "polars": lambda: pl.DataFrame(ROWS),
    "polars lazy": lambda: pl.LazyFrame(ROWS),
    "arrow table": arrow,
    "arrow batch": lambda: arrow().to_batches()[0],
    "arrow reader": lambda: pa.RecordBatchReader.from_batches(
        arrow().schema, arrow().to_batches(max_chunksize=1)
    ),
    "arrow capsule": lambda: OnlyArrow(arrow()),
    "pandas categories": lambda: pd.DataFrame(ROWS).astype({"user": "category"}),
    "pandas nullable": lambda: pd.DataFrame(ROWS).astype({"item": "Int64", "value": "Float64"}),
    "polars categories": lambda: pl.DataFrame(ROWS).cast({"user": pl.Categorical}),
    "polars decimals": lambda: pl.DataFrame(ROWS).cast({"value": pl.Decimal(10, 2)}),
    "other columns": lambda: pl.DataFrame(ROWS | {"note": [[1], [2], [3]]}).select(
        "note", "value", "item", "timestamp", "user"
    ),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_kind_of_table_gives_the_same_data(source):
    assert Interactions.read(source()) == EXPECTED


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
def test_every_kind_of_table_lists_its_columns_when_one_is_missing(source):
    with pytest.raises(InvalidDataError, match=r"'who' is not .*columns are: .*user.*--user"):
        Interactions.read(source(), user="who")


def test_sparse_matrices_and_interactions_are_read_too():
    matrix = sparse.coo_matrix(np.eye(2))
    assert Interactions.read(matrix) == Interactions.from_sparse(matrix)
    assert Interactions.read(EXPECTED) == EXPECTED


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"user": "a", "value": 2}, "user=, value="),
        ({"delimiter": ","}, "delimiter="),
        ({"format": "csv"}, "format="),
        ({"query": "SELECT 1"}, "query="),
    ],
)
def test_options_that_would_change_nothing_are_refused(options, named):
    for source, called in ((sparse.coo_array(np.eye(2)), "a sparse matrix"), (EXPECTED, "Interac")):
        with pytest.raises(
            InvalidParameterError, match=f"^{named} cannot be used when reading {called}"
        ):
            Interactions.read(source, **options)
    if "user" not in options:
        for library in (pd.DataFrame, pl.DataFrame, pa.table):
            with pytest.raises(
                InvalidParameterError, match=rf"^{named} cannot be used .* the p\w+ table"
            ):
                Interactions.read(library(ROWS), **options)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_numbers_that_may_be_the_value_are_not_passed_over(library):
    rows = {"user": [1, 2], "item": [3, 4], "genre_id": [5, 6], "note": ["a", "b"]}
    assert Interactions.read(library(rows)).matrix.data.tolist() == [1.0, 1.0]
    table = library(rows | {"bought": [7, 8], "price": [0.5, 1.5]})
    with pytest.raises(
        InvalidDataError,
        match=r"the \w+ table: .*'bought', 'price'.*value=",
    ):
        Interactions.read(table)
    assert Interactions.read(table, value="price").matrix.data.tolist() == [0.5, 1.5]
    assert Interactions.read(table, value="").matrix.data.tolist() == [1.0, 1.0]


class TestParquet:
    @pytest.fixture
    def folder(self, tmp_path):
        table = pl.DataFrame(ROWS | {"note": ["x", "y", "z"]})
        table.head(1).write_parquet(tmp_path / "part-0.parquet")
        table.tail(2).write_parquet(tmp_path / "part-1.parquet")
        table.write_parquet(tmp_path / "whole.pq")
        return tmp_path

    def test_file_glob_and_folder(self, folder):
        assert Interactions.read(folder / "whole.pq") == EXPECTED
        assert Interactions.read(f"{folder}/part-*.parquet") == EXPECTED
        (folder / "whole.pq").unlink()
        assert Interactions.read(folder) == EXPECTED

    def test_the_first_bytes_tell_parquet_whatever_the_name(self, folder):
        (folder / "whole.pq").rename(folder / "whole.data")
        assert Interactions.read(folder / "whole.data") == EXPECTED

    def test_rows_of_several_batches_are_all_read_in_order(self, tmp_path):
        rows = np.arange(1_100_000)
        table = {"user": rows // 200, "item": rows % 200}
        pl.DataFrame(table).write_parquet(tmp_path / "many.parquet")
        found = Interactions.read(tmp_path / "many.parquet")
        assert (found.nnz, found.n_users, found.n_items) == (1_100_000, 5500, 200)
        assert found.user_ids.tolist() == list(range(5500))

    def test_a_broken_file_is_refused(self, folder):
        whole = (folder / "whole.pq").read_bytes()
        (folder / "cut.parquet").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(InvalidDataError, match=r"cut.parquet cannot be read"):
            Interactions.read(folder / "cut.parquet")
        (folder / "fake.parquet").write_text("user,item\n1,2\n")
        with pytest.raises(InvalidDataError, match=r"fake.parquet cannot be read"):
            Interactions.read(folder / "fake.parquet")

    def test_an_empty_table_is_refused(self, folder):
        pl.DataFrame(ROWS).clear().write_parquet(folder / "none.parquet")
        with pytest.raises(InvalidDataError, match=r"none.parquet has no interactions"):
            Interactions.read(folder / "none.parquet")

    def test_whole_numbers_of_two_widths_are_one_kind_of_id(self, tmp_path):
        for name, kind in (("a", pl.Int32), ("b", pl.Int64)):
            frame = pl.DataFrame({"user": [1, 2], "item": [3, 4]}).cast({"user": kind})
            frame.write_parquet(tmp_path / f"{name}.parquet")
        assert Interactions.read(tmp_path).matrix.toarray().tolist() == [[2, 0], [0, 2]]

    def test_numbers_that_may_be_the_value_are_not_passed_over(self, folder):
        pl.DataFrame({"user": [1], "item": [3], "bought": [2]}).write_parquet(folder / "b.parquet")
        with pytest.raises(InvalidDataError, match=r"b.parquet: .* value='bought' \(--value\)"):
            Interactions.read(folder / "b.parquet")

    def test_unsigned_numbers_with_signed_ones_stay_exact(self, tmp_path):
        large = pl.Series([2**64 - 1], dtype=pl.UInt64)
        pl.DataFrame({"user": large, "item": [3]}).write_parquet(tmp_path / "a.parquet")
        pl.DataFrame({"user": [-1], "item": [3]}).write_parquet(tmp_path / "b.parquet")
        assert Interactions.read(tmp_path).user_ids.tolist() == [2**64 - 1, -1]

    def test_files_in_folders_are_read_by_a_glob(self, folder):
        for part in ("0", "1"):
            (folder / "nested" / part).mkdir(parents=True)
            (folder / f"part-{part}.parquet").rename(folder / "nested" / part / "rows.parquet")
        with pytest.raises(
            InvalidDataError,
            match=r"only folders: 0, 1\. .*nested/\*\*/\*.parquet'",
        ):
            Interactions.read(folder / "nested")
        assert Interactions.read(f"{folder}/nested/**/*.parquet") == EXPECTED

    def test_a_repeated_pair_is_refused_with_ids_and_file(self, folder):
        pl.concat([pl.DataFrame(ROWS)] * 2).write_parquet(folder / "twice.parquet")
        with pytest.raises(
            InvalidDataError,
            match=r"twice.parquet: user 'b' and item 5 .* 3 rows",
        ):
            Interactions.read(folder / "twice.parquet", duplicates="error")

    def test_ids_of_two_types_are_refused(self, tmp_path):
        pl.DataFrame({"user": [1], "item": [3]}).write_parquet(tmp_path / "a.parquet")
        pl.DataFrame({"user": ["1"], "item": [3]}).write_parquet(tmp_path / "b.parquet")
        with pytest.raises(InvalidDataError, match=r"user ids .*Int64 .*String"):
            Interactions.read(tmp_path)


class TestRefusing:
    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
    @pytest.mark.parametrize(
        ("column", "values", "complaint"),
        [
            ("value", [1.0, None, 2.0], r"(NaN|value is missing)"),
            ("value", [1.0, -3.0, 2.0], r"-3.0 .*is negative"),
            ("value", [1.0, float("inf"), 2.0], r"inf .*is infinite"),
            ("value", ["1", "lots", "2"], r"(could not convert|'lots' is not a number)"),
            ("user", ["a", None, "b"], r"(user id number 1|row 1 .*'user').* is missing"),
            ("item", [1.0, float("nan"), 2.0], r"(item id number 1|row 1 .*'item').* is missing"),
        ],
    )
    def test_a_bad_cell_is_named_by_row_or_ids(self, library, column, values, complaint):
        with pytest.raises(InvalidDataError, match=complaint):
            Interactions.read(library(ROWS | {column: values}))

    def test_empty_tables_are_refused(self):
        with pytest.raises(InvalidDataError, match="the pandas table is empty"):
            Interactions.read(pd.DataFrame(ROWS).iloc[:0])
        with pytest.raises(InvalidDataError, match="polars table has no interactions"):
            Interactions.read(pl.DataFrame(ROWS).clear())

    @pytest.mark.parametrize(
        ("column", "called"),
        [
            (pd.Series([1, 2]), "pandas Series"),
            (pl.Series([1, 2]), "polars Series"),
            (pa.array([1, 2]), "pyarrow Int64Array"),
            (pa.chunked_array([[1, 2]]), "pyarrow ChunkedArray"),
        ],
    )
    def test_a_column_is_not_a_table(self, column, called):
        with pytest.raises(
            InvalidDataError,
            # older pandas and polars tell less of what a single column is
            match=rf"{called} cannot be read .*\. Give|from Series\. Give",
        ):
            Interactions.read(column)

    def test_a_lazy_table_that_fails_is_refused(self):
        lazy = pl.LazyFrame(ROWS)
        with pytest.raises(InvalidDataError, match=r'the polars LazyFrame cannot .* column "nope"'):
            Interactions.read(lazy.select("nope"))
        with pytest.raises(InvalidDataError, match=r"the polars LazyFrame cannot .* conversion"):
            Interactions.read(lazy.with_columns(pl.col("user").cast(pl.Int64)))
        with pytest.raises(InvalidDataError, match=r'polars LazyFrame cannot .* column "nope"'):
            EXPECTED.with_names(lazy.select("nope"))

    def test_run_end_encoded_columns_are_refused(self):
        runs = pa.RunEndEncodedArray.from_arrays([2, 3], [7, 8])
        for column in ("user", "value"):
            with pytest.raises(InvalidDataError, match="pyarrow Table cannot be read"):
                Interactions.read(pa.table(ROWS | {column: runs}))

    def test_complex_values_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"'value' \(value\): .*complex128"):
            Interactions.read(pd.DataFrame(ROWS | {"value": [1 + 2j, 3, 4]}))

    def test_values_and_ids_of_unusable_types_are_refused(self):
        with pytest.raises(InvalidDataError, match=r"\(value\) is List\(Int64\), not a number"):
            Interactions.read(pl.DataFrame(ROWS | {"value": [[1], [2], [3]]}))
        with pytest.raises(InvalidDataError, match=r"user ids .*List\(Int64\)"):
            Interactions.read(pl.DataFrame(ROWS | {"user": [[1], [2], [3]]}))
        for values in ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]):  # with and without rows that count
            rows = ROWS | {"value": values, "timestamp": [[1], [2], [3]]}
            with pytest.raises(InvalidDataError, match=r"'timestamp'.*List\(Int64\) is not a time"):
                Interactions.read(pl.DataFrame(rows))


@pytest.mark.parametrize(
    ("ids", "kept"),
    [
        ([True, False, True], [True, False]),
        ([decimal.Decimal("1.5"), decimal.Decimal("2.5"), decimal.Decimal("1.5")], None),
        ([b"x", b"y", b"x"], None),
        ([dt.time(1), dt.time(2), dt.time(1)], None),
        (
            [dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2021, 1, 1, tzinfo=dt.UTC)] * 2,
            None,
        ),
    ],
)
def test_rarer_types_of_ids_stay_what_they_are(ids, kept):
    rows = {"user": ids, "item": list(range(len(ids)))}
    assert Interactions.read(pl.DataFrame(rows)).user_ids.tolist() == (kept or ids[:2])


def test_whole_numbers_of_128_bits_are_ids():
    for large, kind in ((2**100, object), (2**62, np.int64)):
        users = pl.Series([large, 5, large], dtype=pl.Int128)
        data = Interactions.read(pl.DataFrame({"user": users, "item": [1, 1, 2]}))
        assert data.user_ids.tolist() == [large, 5]
        assert data.user_ids.dtype == kind


def test_times_with_a_zone_are_kept_as_utc():
    moment = dt.datetime(2020, 1, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    frame = pl.DataFrame({"user": [1], "item": [2], "time": [moment]})
    assert Interactions.read(frame).timestamps.tolist() == [dt.datetime(2020, 1, 1, 10)]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pl.LazyFrame, pa.table])
def test_names_from_a_table(library):
    table = library({"item_id": [6, 5], "title": ["six", "five"]})
    assert EXPECTED.with_names(table).item_names.tolist() == ["five", "six"]


def test_times_of_pandas_in_every_form():
    moments = pd.to_datetime(["2020-01-01 12:00", "2020-01-02 00:00"])
    for column in (moments, moments.tz_localize("UTC"), moments.astype(str), list(moments)):
        table = pd.DataFrame({"user": [1, 2], "item": [1, 1], "time": column})
        times = Interactions.read(table).timestamps
        assert (times == np.array(["2020-01-01T12", "2020-01-02"], "M8[us]")).all()
    with pytest.raises(InvalidDataError, match=r"row 0 .*'time'.*'noon' is not a time"):
        Interactions.read(pd.DataFrame({"user": [1], "item": [1], "time": ["noon"]}))


def test_dates_in_a_list_are_timestamps_too():
    data = Interactions.from_pairs(
        [1, 1], [1, 1], timestamps=[dt.date(2020, 1, 2), dt.date(2019, 1, 1)]
    )
    assert data.timestamps.tolist() == [dt.date(2020, 1, 2)]

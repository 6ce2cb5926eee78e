"""Every input format keeps ids of every type."""

from __future__ import annotations

import datetime as dt
import gzip
import sqlite3
from contextlib import closing

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse

from equipoise.data import Interactions

pytestmark = pytest.mark.medium

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")

DETERMINISTIC = settings(
    derandomize=True,
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
# PostgreSQL aside, nothing stores NUL or a lone surrogate; a lone "\r" ends a line in a text file
TEXT = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\x00\r"), min_size=1
)
IDS = {
    "whole numbers": st.integers(-(2**63), 2**63 - 1),
    "text": TEXT,
    "dates": st.dates(dt.date(1700, 1, 1), dt.date(2200, 1, 1)),
    "times": st.datetimes(dt.datetime(1700, 1, 1), dt.datetime(2200, 1, 1)),
    "floats": st.floats(allow_nan=False, allow_infinity=False, width=32).map(lambda x: x + 0.0),
}
VALUES = st.floats(0.125, 1e6, width=32)


@st.composite
def tables(draw, ids):
    rows = draw(st.lists(st.tuples(ids, ids, VALUES), min_size=1, max_size=12))
    users, items, values = zip(*rows, strict=True)
    return {"user": list(users), "item": list(items), "value": list(values)}


def through_pandas(rows, _):
    return Interactions.read(pd.DataFrame(rows))


def through_polars(rows, _):
    return Interactions.read(pl.DataFrame(rows))


def through_polars_lazy(rows, _):
    return Interactions.read(pl.LazyFrame(rows))


def through_arrow(rows, _):
    return Interactions.read(pa.table(rows))


def through_parquet(rows, folder):
    pl.DataFrame(rows).write_parquet(folder / "table.parquet")
    return Interactions.read(folder / "table.parquet")


def same(one: Interactions, other: Interactions) -> bool:
    """Equal content; dates may differ in unit (pandas has no day)."""
    return (
        one.shape == other.shape
        and all(a == b for a, b in zip(one.user_ids, other.user_ids, strict=True))
        and all(a == b for a, b in zip(one.item_ids, other.item_ids, strict=True))
        and np.array_equal(one.matrix.toarray(), other.matrix.toarray())
    )


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize(
    "through",
    [through_pandas, through_polars, through_polars_lazy, through_arrow, through_parquet],
)
@DETERMINISTIC
@given(data=st.data())
def test_tables_keep_ids_of_every_type(kind, through, data, tmp_path):
    rows = data.draw(tables(IDS[kind]))
    assert same(through(rows, tmp_path), Interactions.from_pairs(*rows.values()))


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz"])
@pytest.mark.parametrize("kind", ["whole numbers", "text"])
@DETERMINISTIC
@given(data=st.data())
def test_text_files_keep_numbers_and_text(kind, ending, data, tmp_path):
    rows = data.draw(tables(IDS[kind]))
    path = tmp_path / f"table.{ending}"
    text = pl.DataFrame(rows).write_csv(
        separator="\t" if ending == "tsv" else ",", quote_style="non_numeric"
    )
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    read = Interactions.read(path)
    expected = Interactions.from_pairs(*rows.values())
    # text that spells whole numbers all the way down is read as whole numbers
    assert [str(user) for user in read.user_ids] == [str(user) for user in expected.user_ids]
    assert [str(item) for item in read.item_ids] == [str(item) for item in expected.item_ids]
    assert np.array_equal(read.matrix.toarray(), expected.matrix.toarray())


@pytest.mark.parametrize("kind", ["whole numbers", "text", "floats"])
@DETERMINISTIC
@given(data=st.data())
def test_sqlite_keeps_its_own_types(kind, data, tmp_path):
    rows = data.draw(tables(IDS[kind]))
    path = tmp_path / "table.db"
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE t (user, item, value)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", zip(*rows.values(), strict=True))
    read = Interactions.read(path, query="SELECT * FROM t ORDER BY rowid")
    assert read == Interactions.from_pairs(*rows.values())


@DETERMINISTIC
@given(rows=tables(st.integers(0, 50)))
def test_lightgcn_lines_give_the_same_pairs(rows, tmp_path):
    pairs = list(zip(rows["user"], rows["item"], strict=True))
    (tmp_path / "train.txt").write_text("".join(f"{user} {item}\n" for user, item in pairs))
    read = Interactions.read(tmp_path / "train.txt", format="lightgcn")
    assert read == Interactions.from_pairs(rows["user"], rows["item"])


@DETERMINISTIC
@given(rows=tables(st.integers(0, 9)))
def test_a_sparse_matrix_gives_back_itself(rows):
    data = Interactions.from_pairs(*rows.values())
    again = Interactions.read(sparse.coo_array(data.matrix))
    assert np.array_equal(again.matrix.toarray(), data.matrix.toarray())
    assert again.user_ids.tolist() == list(range(data.n_users))

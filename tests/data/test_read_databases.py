"""SQLite files and database URLs: rows of a query, and secrets that stay secret."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import sqlite3
import sys
import traceback
import uuid
from contextlib import closing
from decimal import Decimal

import numpy as np
import pytest

from equipoise.data import Interactions
from equipoise.data.readers import Columns, sql
from equipoise.exceptions import InvalidDataError, MissingExtraError

ALL = "SELECT * FROM ratings"


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE ratings (user_id, item_id, rating, timestamp)")
        rows = [("a", 1, 4, 30), ("b", 1, 2.5, 20), ("b", "x", 1, 10), (b"c", "y", 0, 5)]
        connection.executemany("INSERT INTO ratings VALUES (?, ?, ?, ?)", rows)
    return path


@pytest.fixture
def wal_database(database):
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert [path.name for path in database.parent.iterdir()] == ["shop.db"]
    return database


class TestSqlite:
    def test_the_rows_of_a_query_with_ids_of_mixed_types(self, database):
        data = Interactions.read(database, query=ALL)
        assert data.user_ids.tolist() == ["a", "b"]
        assert data.item_ids.tolist() == [1, "x"]
        assert data.matrix.toarray().tolist() == [[4.0, 0.0], [2.5, 1.0]]
        assert data.timestamps.tolist() == [30, 20, 10]

    def test_without_a_query_the_tables_are_listed(self, database):
        for query in (None, " "):
            with pytest.raises(InvalidDataError, match=r"--query.*ratings \(user_id, item_id"):
                Interactions.read(database, query=query)

    def test_a_second_query_returns_names(self, database):
        names = "SELECT item_id, 'item ' || item_id FROM ratings"
        data = Interactions.read(database, query=ALL, names=names)
        assert data.item_names.tolist() == ["item 1", "item x"]
        with pytest.raises(InvalidDataError, match=r"query of the names failed.*nowhere"):
            Interactions.read(database, query=ALL, names="SELECT id, name FROM nowhere")

    def test_path_url_and_format_mean_the_same(self, database):
        expected = Interactions.read(str(database), query=ALL)
        renamed = database.rename(database.with_name("no ending?"))
        assert Interactions.read(renamed, query=ALL) == expected
        assert Interactions.read(renamed, query=ALL, format="sqlite") == expected
        again = renamed.rename(database)
        assert Interactions.read(f"sqlite:///{again}", query=ALL) == expected

    @pytest.mark.medium
    def test_rows_of_several_batches_are_all_read_in_order(self, tmp_path):
        rows = [(k % 900, k // 900) for k in range(51_000)]
        with closing(sqlite3.connect(tmp_path / "many.db")) as connection, connection:
            connection.execute("CREATE TABLE ratings (user_id, item_id)")
            connection.executemany("INSERT INTO ratings VALUES (?, ?)", rows)
        found = Interactions.read(tmp_path / "many.db", query=ALL)
        assert found == Interactions.from_pairs(*zip(*rows, strict=True))

    def test_columns_are_named_like_anywhere_else(self, database):
        query = "SELECT user_id AS who, item_id AS what FROM ratings"
        with pytest.raises(InvalidDataError, match=r"columns are: who, what.*--user"):
            Interactions.read(database, query=query)
        assert Interactions.read(database, query=query, user="who", item="what").nnz == 4

    @pytest.mark.parametrize(
        ("query", "complaint"),
        [
            (None, r"needs query= \(--query\)"),
            ("  ", r"needs query= \(--query\)"),
            ("SELECT * FROM nowhere", "failed: no such table: nowhere"),
            ("DELETE FROM ratings", "readonly database"),
            ("PRAGMA user_version = 3", r"(readonly|no rows at all)"),
            (ALL + " WHERE rating > 99", "the query has no interactions"),
            ("SELECT user_id, NULL AS item_id FROM ratings", r"row 0 .*'item_id'.* is missing"),
            (
                "SELECT user_id, item_id, -rating AS rating FROM ratings",
                "-4.0 is negative",
            ),
            (
                "SELECT user_id, item_id, rating*2 FROM ratings",
                r"shop.db: .* numbers in 'rating\*2'.*--value",
            ),
            ("SELECT user_id, item_id, user_id AS rating FROM ratings", r"'a' is not a number"),
        ],
    )
    def test_queries_that_cannot_do_are_refused(self, database, query, complaint):
        with pytest.raises(InvalidDataError, match=complaint):
            Interactions.read(database, query=query)

    def test_a_query_cannot_change_the_database(self, database):
        with pytest.raises(InvalidDataError, match="readonly"):
            Interactions.read(database, query="DELETE FROM ratings")
        assert Interactions.read(database, query=ALL).nnz == 3

    @pytest.mark.parametrize("scheme", ["sqlite", "sqlite+pysqlite", "SQLite", "sqlite+aiosqlite"])
    @pytest.mark.parametrize("options", ["?timeout=5", "?mode=rwc&uri=true", "?"])
    def test_a_url_with_options_is_refused_whatever_the_driver(self, database, scheme, options):
        before = database.read_bytes()
        with pytest.raises(InvalidDataError, match=r"SQLite URL has .*no options"):
            Interactions.read(f"{scheme}:///{database}{options}", query="DROP TABLE ratings")
        with pytest.raises(InvalidDataError, match=r"SQLite URL has .*no options"):
            Interactions.read(f"{scheme}:///{database}.new{options}", query=ALL)
        assert database.read_bytes() == before
        assert [path.name for path in database.parent.iterdir()] == ["shop.db"]

    @pytest.mark.parametrize(
        "scheme", ["sqlite", "sqlite+pysqlite", "SQLITE", "sqlite+pysqlcipher"]
    )
    def test_every_sqlite_url_is_read_only(self, database, scheme):
        assert Interactions.read(f"{scheme}:///{database}", query=ALL).nnz == 3
        with pytest.raises(InvalidDataError, match="readonly"):
            Interactions.read(f"{scheme}:///{database}", query="DROP TABLE ratings")

    @pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite://host/shop.db"])
    def test_a_sqlite_url_without_a_file_is_refused(self, url):
        with pytest.raises(InvalidDataError, match=r"has a file .* like sqlite:///shop.db"):
            Interactions.read(url, query="SELECT 1 AS user, 2 AS item")

    @pytest.mark.parametrize("query", ["VACUUM INTO 'stolen.db'", "ATTACH 'stolen.db' AS n"])
    def test_a_query_creates_no_other_file(self, database, monkeypatch, query):
        monkeypatch.chdir(database.parent)
        with pytest.raises(InvalidDataError, match="too many attached databases"):
            Interactions.read(database, query=query)
        assert [path.name for path in database.parent.iterdir()] == ["shop.db"]

    def test_a_query_on_a_closed_wal_database_creates_no_other_file(self, wal_database):
        assert Interactions.read(wal_database, query=ALL).nnz == 3
        assert [path.name for path in wal_database.parent.iterdir()] == ["shop.db"]

    def test_committed_rows_of_an_open_wal_database_are_read(self, wal_database):
        with closing(sqlite3.connect(wal_database)) as writer:
            writer.execute("INSERT INTO ratings VALUES ('d', 1, 5, 40)")
            writer.commit()
            assert wal_database.with_name("shop.db-wal").stat().st_size > 0
            assert Interactions.read(wal_database, query=ALL).nnz == 4
            writer.execute("INSERT INTO ratings VALUES ('e', 1, 5, 40)")
            assert Interactions.read(wal_database, query=ALL).nnz == 4
        assert [path.name for path in wal_database.parent.iterdir()] == ["shop.db"]

    def test_a_wal_database_that_is_changed_while_it_is_read_is_refused(self, wal_database):
        batches = sql.batches(str(wal_database), ALL, Columns())
        next(batches)
        with closing(sqlite3.connect(wal_database)) as writer, writer:
            writer.execute("CREATE TABLE more AS SELECT zeroblob(100000) AS filler")
        with pytest.raises(InvalidDataError, match="changed while it was read"):
            list(batches)

    def test_a_query_that_is_not_text_or_two_queries_is_refused(self, database):
        with pytest.raises(InvalidDataError, match="surrogates not allowed"):
            Interactions.read(database, query=ALL + " -- \ud800")
        with pytest.raises(InvalidDataError, match="one statement at a time"):
            Interactions.read(database, query=f"{ALL}; {ALL}")
        with pytest.raises(InvalidDataError, match="null character"):
            Interactions.read(database, query=ALL + "\0")

    def test_a_name_too_long_for_the_system_is_not_a_file(self):
        with pytest.raises(InvalidDataError, match="there is no file a"):
            Interactions.read("sqlite:///" + "a" * 5000, query=ALL)

    def test_a_missing_database_is_refused_and_not_created(self, tmp_path):
        with pytest.raises(InvalidDataError, match=r"there is no file .*new.db"):
            Interactions.read(f"sqlite:///{tmp_path / 'new.db'}", query=ALL)
        assert not (tmp_path / "new.db").exists()

    def test_a_file_that_is_not_a_database_is_refused(self, tmp_path):
        (tmp_path / "fake.db").write_text("not a database, but long enough to look like a file")
        with pytest.raises(InvalidDataError, match="file is not a database"):
            Interactions.read(tmp_path / "fake.db", query=ALL)

    def test_several_databases_are_refused(self, database):
        database.with_name("other.db").write_bytes(database.read_bytes())
        with pytest.raises(InvalidDataError, match="matches several databases"):
            Interactions.read(database.with_name("*.db"), query=ALL)


class TestUrls:
    def secret_free(self, error: BaseException) -> str:
        text = "".join(traceback.format_exception(error))
        assert "hunter2" not in text
        assert "alice" not in text
        return text

    def test_no_error_shows_a_password_or_a_user(self):
        pytest.importorskip("sqlalchemy")
        for url in (
            "postgresql+psycopg://alice:hunter2@127.0.0.1:1/shop",
            "postgresql://alice:hunter2@127.0.0.1:1/shop",
            "postgresql+psycopg://127.0.0.1:1/shop?user=alice&password=hunter2",
            "nosuchdb://alice:hunter2@host/shop",
            "postgresql+psycopg://alice:hunter2@host:port/shop",
        ):
            with pytest.raises(InvalidDataError) as caught:
                Interactions.read(url, query="SELECT 1")
            self.secret_free(caught.value)

    def test_an_unreachable_server_says_so(self):
        pytest.importorskip("sqlalchemy")
        with pytest.raises(
            InvalidDataError,
            match=r"postgresql database refused: .*Connection refused.*credentials",
        ):
            Interactions.read("postgresql+psycopg://a:n@127.0.0.1:1/x", query="SELECT 1")

    @pytest.mark.parametrize(
        ("url", "message", "shown"),
        [
            (
                "postgresql://a:c@host/x",
                'connection to "host" as a failed for user "a": Connection refused (c)',
                'connection to "host" as *** failed for user "***": Connection refused (***)',
            ),
            (
                "postgresql://al:p%40ss%2F1@host/x",
                "al:p@ss/1 also al:p%40ss%2F1@host",
                "***:*** also ***:***@host",
            ),
            (
                "postgresql://host/x?password=hunter2&password=other&user=al",
                "hunter2,other;al also",
                "***,***;*** also",
            ),
        ],
    )
    def test_secrets_are_masked_as_whole_words(self, url, message, shown):
        sqlalchemy = pytest.importorskip("sqlalchemy")
        assert sql._without_secrets(message, sqlalchemy.make_url(url), url) == shown

    def test_an_unknown_database_says_so(self):
        pytest.importorskip("sqlalchemy")
        with pytest.raises(InvalidDataError, match="not support the database 'nosuchdb'"):
            Interactions.read("nosuchdb://host/shop", query="SELECT 1")

    def test_without_the_extra_it_says_which_one_to_install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "sqlalchemy", None)
        url = "postgresql+psycopg://alice:hunter2@host/shop"
        with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[sql\]"') as caught:
            Interactions.read(url, query="SELECT 1")
        self.secret_free(caught.value)


N_ROWS = 51_000  # more than one batch


@pytest.fixture
def postgres():
    url = os.environ.get("EQUIPOISE_POSTGRES_URL")
    if not url:
        pytest.skip("EQUIPOISE_POSTGRES_URL is not set: start a server with .ci/postgres")
    sqlalchemy = pytest.importorskip("sqlalchemy")
    table = f"ratings_{uuid.uuid4().hex}"
    engine = sqlalchemy.create_engine(url)
    with engine.begin() as connection:
        connection.execute(
            sqlalchemy.text(
                f"CREATE TABLE {table} AS SELECT k AS row, k % 90 AS user_id,"
                " md5((k % 70)::text)::uuid AS item_id, (1 + k % 5)::numeric AS rating,"
                " date '2020-01-01' + (k % 30) AS day,"
                " timestamptz '2020-01-01 00:00+00' + k * interval '1 second' AS timestamp"
                f" FROM generate_series(0, {N_ROWS - 1}) AS k"
            )
        )
    yield url, table
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text(f"DROP TABLE {table}"))
    engine.dispose()


@pytest.mark.postgres
class TestPostgres:
    def test_streamed_rows_equal_the_same_rows_built_by_hand(self, postgres):
        url, table = postgres
        data = Interactions.read(
            url, query=f"SELECT user_id, item_id, rating, timestamp FROM {table} ORDER BY row"
        )
        rows = range(N_ROWS)
        expected = Interactions.from_pairs(
            [k % 90 for k in rows],
            [uuid.UUID(_md5(str(k % 70))) for k in rows],
            [float(Decimal(1 + k % 5)) for k in rows],
            timestamps=[_second(k) for k in rows],
        )
        assert data == expected

    def test_the_query_reaches_the_server_as_written(self, postgres):
        url, table = postgres
        query = f"SELECT user_id, item_id, ' :x' FROM {table} WHERE rating::text LIKE '%1%'"
        assert set(Interactions.read(url, query=query, duplicates="max").matrix.data) == {1.0}

    def test_without_a_query_the_tables_are_listed(self, postgres):
        url, table = postgres
        with pytest.raises(InvalidDataError, match=rf"--query.*{table} \(row, user_id, item_id"):
            Interactions.read(url)

    def test_dates_are_ids_too(self, postgres):
        url, table = postgres
        data = Interactions.read(
            url, query=f"SELECT day AS user_id, user_id AS item_id FROM {table} ORDER BY row"
        )
        assert data.user_ids.dtype == "datetime64[D]"
        assert data.user_ids[1].item() == dt.date(2020, 1, 2)

    def test_errors_of_the_server_are_shown_without_secrets(self, postgres):
        url, _ = postgres
        with pytest.raises(InvalidDataError, match=r'relation "nowhere" does not exist') as caught:
            Interactions.read(url, query="SELECT * FROM nowhere")
        password = url.split("://")[1].split("@")[0].split(":")[-1]
        assert password not in "".join(traceback.format_exception(caught.value))


def _md5(text: str) -> str:
    return hashlib.md5(text.encode()).hexdigest()


def _second(k: int) -> np.datetime64:
    return np.datetime64("2020-01-01T00:00:00", "us") + np.timedelta64(k, "s")

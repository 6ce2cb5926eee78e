"""Rows of an SQL query: SQLite with the standard library, other databases with SQLAlchemy."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from equipoise.data.readers.columns import Columns, Header
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, row_place
from equipoise.exceptions import EquipoiseError, InvalidDataError, require_extra

_ROWS_PER_BATCH = 50_000
_TABLES_SHOWN = 20
_SQLITE_COLUMNS = (
    "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c "
    "WHERE m.type IN ('table', 'view') AND m.name NOT LIKE 'sqlite_%' ORDER BY m.name, c.cid"
)
# Of any driver: SQLAlchemy would open the file for writing, and create a missing one
_SQLITE_URL = re.compile(r"^sqlite(?:\+[^:]*)?://(?P<rest>.*)$", flags=re.DOTALL | re.IGNORECASE)
_URL = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://")
# A URL that lacks a slash or the colon may contain a password all the same
_NEARLY_URL = re.compile(
    r"[A-Za-z][\w+.\-]+:/{1,3}|[A-Za-z][\w+.\-]*/{1,3}(?=[^@]*:.*@)", flags=re.DOTALL
)
_FILE_SCHEMES = {"http", "https", "ftp", "s3", "gs", "gcs", "az", "abfs", "hdfs"}


def is_url(source: str) -> bool:
    """Return whether a source is a URL and not a path."""
    return _URL.match(source) is not None


def without_credentials(source: str) -> str:
    """Return a source without the user, password and options of a URL.

    Examples
    --------
    >>> without_credentials("postgresql://ann:secret@host:5432/shop?sslmode=require")
    'postgresql://***@host:5432/shop'
    >>> without_credentials("data/plays.csv")
    'data/plays.csv'
    """
    scheme = _NEARLY_URL.match(source)
    if scheme is None:
        return source
    address, _, options = source[scheme.end() :].partition("?")
    if "@" in options:  # the question mark may be part of a password
        return f"{scheme[0]}***"
    _, at, host = address.rpartition("@")  # the last one: a password may contain others
    return f"{scheme[0]}***@{host}" if at else f"{scheme[0]}{host}"


def batches(source: str, query: str | None, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a query on a SQLite file or a database URL.

    Errors contain neither the URL nor its user name and password.
    """
    in_file = _SQLITE_URL.match(source)
    is_server = is_url(source) and not in_file
    scheme = source.partition("://")[0]
    if is_server and scheme.lower() in _FILE_SCHEMES:
        raise InvalidDataError(
            f"{scheme}:// addresses are not read. Download the file and read that; database URLs "
            "such as postgresql+psycopg://... need query=."
        )
    path = _sqlite_path(in_file["rest"]) if in_file else Path(source)
    query = query if query and query.strip() else None
    yield from _from_url(source, query, asked) if is_server else _from_sqlite(path, query, asked)


def _needs_query(what: object, columns: Iterable[Sequence[Any]]) -> InvalidDataError:
    """Return the error of a database without a query; `columns` are pairs of table and column."""
    tables: dict[str, list[str]] = {}
    for table, column in columns:
        tables.setdefault(str(table), []).append(str(column))
    shown = [f"{table} ({', '.join(names)})" for table, names in tables.items()]
    more = f", and {len(shown) - _TABLES_SHOWN} more" if len(shown) > _TABLES_SHOWN else ""
    listed = "; ".join(shown[:_TABLES_SHOWN]) + more
    return InvalidDataError(
        f"{what} needs query= (--query): a SELECT of user, item and, if there are any, value and "
        f"timestamp. {f'Its tables are: {listed}.' if tables else 'It has no tables.'}"
    )


def _sqlite_path(address: str) -> Path:
    if "?" in address or not (address.startswith("/") and address[1:]):
        raise InvalidDataError(
            "a SQLite URL has a file and no options: it should look like sqlite:///shop.db, or "
            "sqlite:////home/ann/shop.db for a path from the root (%3F is a question mark)."
        )
    return Path(unquote(address[1:]))


def _from_sqlite(path: Path, query: str | None, asked: Columns) -> Iterator[Batch]:
    if not os.path.isfile(path):  # Path.is_file raises for names that the system does not allow
        raise InvalidDataError(f"there is no file {path}. Check the path of the database.")
    file = path.resolve()
    # mode=ro: a query cannot change the file
    address = f"file:{quote(os.fsencode(file))}?mode=ro"
    try:
        before, immutable = _version(file), _is_closed_wal(file)
        if immutable:
            address += "&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # ATTACH and VACUUM INTO could create other files
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            if query is None:
                raise _needs_query(path, connection.execute(_SQLITE_COLUMNS))
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description or ()]
            parts = iter(lambda: cursor.fetchmany(_ROWS_PER_BATCH), [])
            yield from _batches_of_rows(parts, names, asked, f"the query on {path}")
        changed = immutable and _version(file) != before
    # two statements raise a Warning; text of a damaged file may not be UTF-8
    except (sqlite3.Error, sqlite3.Warning, UnicodeError, OSError) as error:
        raise InvalidDataError(f"the query on {path} failed: {error}.") from error
    if changed:
        raise InvalidDataError(f"{path} was changed while it was read. Read it again.")


def _is_closed_wal(file: Path) -> bool:
    """Return whether a database is in WAL mode and its log is merged into the file.

    SQLite creates files next to a WAL database, even to read it. Without a log, all data are in the
    file, and SQLite creates no files if it may assume that nobody writes.
    """
    with file.open("rb") as database:
        header = database.read(20)
    in_wal_mode = header[18:20] == b"\x02\x02"  # https://www.sqlite.org/fileformat.html
    return in_wal_mode and not os.path.exists(f"{file}-wal")


def _version(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _from_url(source: str, query: str | None, asked: Columns) -> Iterator[Batch]:
    sql = require_extra("sqlalchemy", "sql", "reading from a database URL")
    url = _parsed_url(sql, source)
    try:
        engine = sql.create_engine(url)
    except sql.exc.NoSuchModuleError:
        raise InvalidDataError(
            f"SQLAlchemy does not support the database {url.drivername!r}. Use e.g. "
            "postgresql+psycopg://... or install the driver."
        ) from None
    except ImportError as error:
        require_extra(str(error.name), "sql", f"reading from {url.drivername}")
        raise
    # no_parameters: % and : in the query are sent unchanged
    streamed = {"stream_results": True, "yield_per": _ROWS_PER_BATCH, "no_parameters": True}
    try:
        with engine.connect().execution_options(**streamed) as connection:
            if query is None:
                raise _needs_query("the database", _server_columns(sql.inspect(connection)))
            result = connection.exec_driver_sql(query)
            names = list(result.keys())
            yield from _batches_of_rows(result.partitions(), names, asked, "the query")
    except EquipoiseError:
        raise
    except (sql.exc.SQLAlchemyError, TypeError, ValueError, OSError) as error:
        # `from None`: the text and arguments of the original may contain secrets
        reason = _without_secrets(str(getattr(error, "orig", None) or error), url, source)
        raise InvalidDataError(
            f"the {url.get_backend_name()} database refused: {reason}. Check the address, the "
            "credentials and the query."
        ) from None
    finally:
        engine.dispose()


def _server_columns(inspector: Any) -> Iterator[tuple[str, str]]:
    for table in [*inspector.get_table_names(), *inspector.get_view_names()]:
        yield from ((table, column["name"]) for column in inspector.get_columns(table))


def _parsed_url(sql: Any, source: str) -> Any:
    try:
        url = sql.make_url(source)
    except (sql.exc.ArgumentError, ValueError):
        raise InvalidDataError(
            "the database URL cannot be parsed; it should look like "
            "postgresql+psycopg://user:password@host:port/database. (It is not shown here, as it "
            "may contain a password.)"
        ) from None
    # without a driver SQLAlchemy uses psycopg2; the extra installs psycopg 3
    short = url.drivername in ("postgres", "postgresql")
    return url.set(drivername="postgresql+psycopg") if short else url


def _without_secrets(message: str, url: Any, source: str) -> str:
    secrets = [url.password, url.username]
    for option in url.query.values():
        secrets += [option] if isinstance(option, str) else option
    if source.count("@") > 1 or "@" in source.partition("?")[2]:
        # a password that contains @ is cut there, and its end is parsed as part of the host
        secrets += [url.host, url.database, *(url.host or "").split("@")]
    for secret in filter(None, secrets):
        # plain and as written in a URL; whole words only: the user "a" is not every letter a
        spellings = "|".join(map(re.escape, {str(secret), quote(str(secret), safe="")}))
        message = re.sub(rf"(?<!\w)(?:{spellings})(?!\w)", "***", message)
    return " ".join(message.split())


def _batches_of_rows(
    parts: Iterator[Sequence[Sequence[Any]]], names: list[str], asked: Columns, source: str
) -> Iterator[Batch]:
    if not names:
        raise InvalidDataError(f"{source} returns no rows: it must be a SELECT.")
    first, start = next(parts, []), 0
    numeric = [k for k, column in enumerate(zip(*first, strict=True)) if _all_numbers(column)]
    header = Header(source, names, len(names), numeric)
    places = header.resolve(asked)
    for rows in chain([first], parts) if first else ():
        columns = list(zip(*rows, strict=True))
        frame = pl.DataFrame({role: _series(columns[k], role) for role, k in places.items()})
        yield Batch(frame, source, partial(row_place, start), header.called(places))
        start += len(rows)


def _all_numbers(values: Sequence[Any]) -> bool:
    kinds = {type(value) for value in values} - {type(None)}
    return bool(kinds) and all(issubclass(k, int | float | Decimal) for k in kinds - {bool})


def _series(values: Sequence[Any], role: str) -> pl.Series:
    if role in ("user", "item"):
        # objects: a database may return UUIDs, decimals, or several types
        return pl.Series(role, values, dtype=pl.Object)
    try:
        return pl.Series(role, values)
    except (TypeError, OverflowError, *POLARS_ERRORS):
        # a SQLite column may contain several types: the encoder finds the numbers in text
        texts = [None if value is None else str(value) for value in values]
        return pl.Series(role, texts, dtype=pl.String)

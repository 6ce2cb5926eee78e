"""Rows of an SQL query: SQLite through the standard library, the rest through SQLAlchemy."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import polars as pl

from equipoise.data.readers.columns import Columns, refuse_idle_numbers, resolve
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch
from equipoise.exceptions import EquipoiseError, InvalidDataError, require_extra

_ROWS_AT_A_TIME = 50_000
# Of any driver: SQLAlchemy would open the file for writing, and create one that is not there
_SQLITE_URL = re.compile(r"^sqlite(?:\+[^:]*)?://(?P<rest>.*)$", flags=re.DOTALL | re.IGNORECASE)
_URL = re.compile(r"^(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*)://")
# A scheme; with a slash or the colon too few it is none, and what follows no less secret
_NEARLY_URL = re.compile(
    r"[A-Za-z][\w+.\-]+:/{1,3}|[A-Za-z][\w+.\-]*/{1,3}(?=[^@]*:.*@)", flags=re.DOTALL
)
_FILE_SCHEMES = {"http", "https", "ftp", "s3", "gs", "gcs", "az", "abfs", "hdfs"}


def is_url(source: str) -> bool:
    """Tell a URL from a path."""
    return _URL.match(source) is not None


def without_credentials(source: str) -> str:
    """Return how a source may be shown: no user, no password, no options of a URL.

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
    if "@" in options:  # it may end a password that the question mark is a part of
        return f"{scheme[0]}***"
    _, at, host = address.rpartition("@")  # the last one: a password may hold others
    return f"{scheme[0]}***@{host}" if at else f"{scheme[0]}{host}"


def batches(source: str, query: str | None, asked: Columns) -> Iterator[Batch]:
    """Yield the rows of a query on a SQLite file or a database URL, as they arrive.

    Neither the URL nor the user name and password in it ever get into an error message.
    """
    in_file = _SQLITE_URL.match(source)
    if is_url(source) and not in_file:
        _refuse_remote_file(source)
        _require_query(query, "the database")
        yield from _from_url(source, query or "", asked)
        return
    path = _sqlite_path(in_file["rest"]) if in_file else Path(source)
    _require_query(query, str(path))
    yield from _from_sqlite(path, query or "", asked)


def _require_query(query: str | None, source: str) -> None:
    if not (query and query.strip()):
        raise InvalidDataError(
            f"{source} needs query= (--query) to say which rows: a SELECT of user, item and, if "
            "there are any, value and timestamp."
        )
    try:
        query.encode()
    except UnicodeEncodeError as error:
        raise InvalidDataError(
            f"the query holds {query[error.start]!r}, which is no UTF-8 text. "
            "Write the query as UTF-8."
        ) from error


def _sqlite_path(address: str) -> Path:
    """Return the file of a SQLite URL, of which nothing but a path is understood."""
    if "?" in address:
        raise InvalidDataError(
            "a SQLite URL takes no options here: the file is opened for reading only, and there "
            "is nothing to set. Leave out what follows the question mark (one in the name of the "
            "file is written %3F)."
        )
    if not (address.startswith("/") and address[1:]):
        raise InvalidDataError(
            "the SQLite URL names no file: it should look like sqlite:///shop.db, or "
            "sqlite:////home/ann/shop.db for a path from the root."
        )
    return Path(unquote(address[1:]))


def _refuse_remote_file(source: str) -> None:
    scheme = source.partition("://")[0]
    if scheme.lower() in _FILE_SCHEMES:
        raise InvalidDataError(
            f"{scheme}:// addresses are not read. Download the file and read that; database URLs "
            "such as postgresql+psycopg://... go with query=."
        )


def _from_sqlite(path: Path, query: str, asked: Columns) -> Iterator[Batch]:
    if not os.path.isfile(path):  # False, where Path's own would fail on an odd name
        raise InvalidDataError(f"there is no file {path}. Check the path of the database.")
    file = path.resolve()
    # mode=ro: a query cannot change the file, and a mistyped name cannot create one
    address = f"file:{quote(os.fsencode(file))}?mode=ro"
    try:
        before = _version(file)
        unlocked = _is_closed_wal(file)
        if unlocked:
            address += "&immutable=1"
        with closing(sqlite3.connect(address, uri=True)) as connection:
            # ATTACH and VACUUM INTO would create other files: no room for them
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            cursor = connection.execute(query)
            names = [column[0] for column in cursor.description or ()]
            parts = iter(lambda: cursor.fetchmany(_ROWS_AT_A_TIME), [])
            yield from _batches_of_rows(parts, names, asked, f"the query on {path}")
        changed = unlocked and _version(file) != before
    # two statements in one are a Warning; text of a damaged file may be no UTF-8
    except (sqlite3.Error, sqlite3.Warning, UnicodeDecodeError, OSError) as error:
        raise InvalidDataError(f"the query on {path} failed: {error}.") from error
    if changed:
        raise InvalidDataError(f"{path} was changed while it was read. Read it again.")


def _is_closed_wal(file: Path) -> bool:
    """Tell whether a database is in WAL mode and its log is merged into the file.

    SQLite creates files next to a WAL database, also to read it. Without a log, everything is in
    the file itself, and SQLite creates nothing if it may assume that nobody writes to the file.
    """
    with file.open("rb") as database:
        header = database.read(20)
    in_wal_mode = header[18:20] == b"\x02\x02"  # https://www.sqlite.org/fileformat.html
    return in_wal_mode and not os.path.exists(f"{file}-wal")


def _version(file: Path) -> tuple[int, int]:
    status = file.stat()
    return status.st_mtime_ns, status.st_size


def _from_url(source: str, query: str, asked: Columns) -> Iterator[Batch]:
    sql = require_extra("sqlalchemy", "sql", "reading from a database URL")
    url = _parsed_url(sql, source)
    try:
        engine = sql.create_engine(url)
    except sql.exc.NoSuchModuleError:
        raise InvalidDataError(
            f"{url.drivername!r} is no database SQLAlchemy knows. Use e.g. "
            "postgresql+psycopg://... or install the driver."
        ) from None
    except ImportError as error:
        require_extra(str(error.name), "sql", f"reading from {url.drivername}")
        raise
    # no_parameters: the query goes to the server as it is written, with its % and its :
    streamed = {"stream_results": True, "yield_per": _ROWS_AT_A_TIME, "no_parameters": True}
    try:
        with engine.connect().execution_options(**streamed) as connection:
            result = connection.exec_driver_sql(query)
            names = list(result.keys())
            yield from _batches_of_rows(result.partitions(), names, asked, "the query")
    except EquipoiseError:
        raise
    except (sql.exc.SQLAlchemyError, TypeError, ValueError, OSError) as error:
        # `from None`: the original's text and arguments may hold what `_without_secrets` takes out
        reason = _without_secrets(str(getattr(error, "orig", None) or error), url, source)
        raise InvalidDataError(
            f"the {url.get_backend_name()} database refused: {reason}. Check the address, the "
            "credentials and the query."
        ) from None
    finally:
        engine.dispose()


def _parsed_url(sql: Any, source: str) -> Any:
    try:
        url = sql.make_url(source)
    except (sql.exc.ArgumentError, ValueError):
        raise InvalidDataError(
            "the database URL cannot be parsed; it should look like "
            "postgresql+psycopg://user:password@host:port/database. (It is not shown here, as it "
            "may hold a password.)"
        ) from None
    # without a driver SQLAlchemy takes psycopg2; the extra brings its successor
    short = url.drivername in ("postgres", "postgresql")
    return url.set(drivername="postgresql+psycopg") if short else url


def _without_secrets(message: str, url: Any, source: str) -> str:
    secrets = [url.password, url.username, *_flat(url.query.values())]
    if source.count("@") > 1 or "@" in source.partition("?")[2]:
        # a password with an @ in it is cut there, and its end taken for a part of the host
        secrets += [url.host, url.database, *(url.host or "").split("@")]
    for secret in filter(None, secrets):
        # as it is and as the URL writes it; whole words, for a user "a" is not every letter a
        spellings = "|".join(map(re.escape, {str(secret), quote(str(secret), safe="")}))
        message = re.sub(rf"(?<!\w)(?:{spellings})(?!\w)", "***", message)
    return " ".join(message.split())


def _flat(values: Iterable[str | tuple[str, ...]]) -> Iterator[str]:
    """Yield the values of a URL's options, of which one may come several times."""
    for value in values:
        yield from (value,) if isinstance(value, str) else value


def _batches_of_rows(
    parts: Iterator[Sequence[Sequence[Any]]], names: list[str], asked: Columns, source: str
) -> Iterator[Batch]:
    if not names:
        raise InvalidDataError(f"{source} returns no rows at all: it must be a SELECT.")
    found = resolve(names, len(names), asked, source)
    start = 0
    for rows in parts:
        columns = list(zip(*rows, strict=True))
        if not start:
            numeric = [place for place, column in enumerate(columns) if _all_numbers(column)]
            refuse_idle_numbers(found, names, asked, numeric, source)
        frame = pl.DataFrame(
            {role: _series(columns[place], role) for role, place in found.taken().items()}
        )
        called = {role: repr(names[place]) for role, place in found.taken().items()}
        yield Batch(frame, source, _row_after(start), called)
        start += len(rows)


def _all_numbers(values: Sequence[Any]) -> bool:
    there = [value for value in values if value is not None]
    return bool(there) and all(
        isinstance(value, int | float | Decimal) and not isinstance(value, bool) for value in there
    )


def _row_after(start: int) -> Any:
    return lambda row: f"row {start + row} (counted from 0)"


def _series(values: Sequence[Any], role: str) -> pl.Series:
    if role in ("user", "item"):
        # objects, not a polars type: a database may return UUIDs, decimals, or mix types
        return pl.Series(role, values, dtype=pl.Object)
    try:
        return pl.Series(role, values)
    except (TypeError, OverflowError, *POLARS_ERRORS):
        # SQLite lets one column mix types: as text, the encoder tells numbers from the rest
        texts = [None if value is None else str(value) for value in values]
        return pl.Series(role, texts, dtype=pl.String)

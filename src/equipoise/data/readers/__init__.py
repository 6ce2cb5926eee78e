"""One way in for every kind of data: guess the kind, read in batches, encode, assemble."""

from __future__ import annotations

import csv
import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse

from equipoise.data.assembly import Duplicates
from equipoise.data.forks import require_polars_threads
from equipoise.data.interactions import Interactions
from equipoise.data.readers import databases, delimited, files, lightgcn, parquet, tables
from equipoise.data.readers.columns import Columns
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, Encoder
from equipoise.data.readers.vocabulary import (
    ColumnVocabulary,
    ObjectVocabulary,
    TextVocabulary,
    Vocabulary,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError, first_line
from equipoise.progress import Progress, task

__all__ = [
    "Columns",
    "Opened",
    "Options",
    "counted",
    "open_files",
    "read",
    "words_without_header",
]


class Options(NamedTuple):
    """How to read; see `Interactions.read`."""

    columns: Columns = Columns()
    delimiter: str | None = None
    duplicates: Duplicates = "sum"
    format: str | None = None
    query: str | None = None


def read(source: Any, options: Options, progress: Progress | None = None) -> Interactions:
    """Read from whatever `source` is."""
    if sparse.issparse(source):
        _refuse_idle_options(options, "a sparse matrix", has_columns=False)
        return Interactions.from_sparse(source, duplicates=options.duplicates)
    if isinstance(source, Interactions):
        _refuse_idle_options(options, "Interactions", has_columns=False)
        return source
    require_polars_threads()
    if tables.is_pandas(source) or tables.is_table(source):
        _refuse_idle_options(options, tables.called(source), has_columns=True)
    if tables.is_pandas(source):
        return tables.from_pandas(source, options.columns, options.duplicates)
    if tables.is_table(source):
        batches = tables.batches(source, options.columns)
        with task(progress, f"Reading {tables.called(source)}") as reading:
            return _encode(batches, ColumnVocabulary, options, tables.called(source), reading)
    if isinstance(source, str) and databases.is_url(source):
        return _read_database(source, options, progress)
    if isinstance(source, str | os.PathLike):
        return _read_files(source, options, progress)
    raise InvalidDataError(
        f"cannot read from {type(source).__name__}. Give a path, a folder, a glob, a pandas, "
        "polars or Arrow table, a SciPy sparse matrix, or a database URL with query=."
    )


def _read_files(
    source: str | os.PathLike[str], options: Options, progress: Progress | None
) -> Interactions:
    found = files.find(source, options.format)
    if found.format == "sqlite":
        if len(found.paths) > 1:
            raise InvalidDataError(f"{source} matches several databases; name one.")
        return _read_database(str(found.paths[0]), options, progress)
    _refuse_query(options, source)
    opened = _open(found, options)
    with task(progress, f"Reading {source}", opened.n_rows) as reading:
        loaded = _encode(opened.batches, opened.vocabulary, options, str(source), reading)
    return loaded if found.names is None else loaded.with_names(found.names)


class Opened(NamedTuple):
    """Files about to be read: their rows in batches, and how their ids are to be coded."""

    batches: Iterable[Batch]
    vocabulary: Callable[[str], Vocabulary]
    n_bytes: int
    n_rows: int | None  # where the files say so


def open_files(source: str | os.PathLike[str], options: Options) -> Opened:
    """Open text or Parquet files for reading batch by batch, for who does not keep them whole."""
    found = files.find(source, options.format)
    if found.format == "sqlite":
        raise InvalidDataError(
            f"{source} is a database, which is read whole. Export the query as Parquet first."
        )
    _refuse_query(options, source)
    require_polars_threads()
    return _open(found, options)


def words_without_header(source: str, options: Options) -> list[str] | None:
    """Return the first line of a delimited file where it holds words and is taken for no header."""
    if databases.is_url(source):
        return None
    found = files.find(source, options.format)
    if found.format != "csv":
        return None
    form = delimited.layout(found.paths[0], options.delimiter, options.columns)
    first = form.first_rows[0] if form.names is None else []
    return first if first and not any(map(delimited.is_number, first)) else None


def _open(found: files.Files, options: Options) -> Opened:
    n_bytes = sum(_size(path) for path in found.paths)
    if found.format == "parquet":
        rows = parquet.row_count(found.paths)
        batches = parquet.batches(found.paths, options.columns)
        return Opened(batches, ColumnVocabulary, n_bytes, rows)
    text = (batch for path in found.paths for batch in _readable(path, found.format, options))
    return Opened(text, TextVocabulary, n_bytes, None)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError as error:
        raise _unreadable(path, error) from error


def _readable(path: Path, kind: str, options: Options) -> Iterator[Batch]:
    """Yield batches; say which file it was if the system or the packing fails."""
    try:
        yield from _text_batches(path, kind, options)
    except (OSError, EOFError, csv.Error, zlib.error, *POLARS_ERRORS) as error:
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: BaseException) -> InvalidDataError:
    return InvalidDataError(
        f"{path} cannot be read to its end; it may be broken or cut off. ({error})"
    )


def _text_batches(path: Path, kind: str, options: Options) -> Iterable[Batch]:
    if kind == "lightgcn":
        return lightgcn.batches(path)
    # MovieLens and Last.fm files are never quoted: a quote in them is a quote
    fixed = {"movielens": "::", "lastfm": "\t"}.get(kind)
    form = delimited.layout(path, options.delimiter or fixed, options.columns, quoted=fixed is None)
    return delimited.batches(path, form, options.columns)


def _read_database(source: str, options: Options, progress: Progress | None) -> Interactions:
    with task(progress, f"Reading {databases.without_credentials(source)}") as reading:
        batches = databases.batches(source, options.query, options.columns)
        return _encode(batches, ObjectVocabulary, options, "the query", reading)


def _refuse_idle_options(options: Options, source: str, *, has_columns: bool) -> None:
    """Refuse what would change nothing: the caller expects that it does."""
    given = {} if has_columns else options.columns._asdict()
    given |= {"delimiter": options.delimiter, "format": options.format, "query": options.query}
    idle = [f"{name}=" for name, value in given.items() if value is not None]
    if idle:
        raise InvalidParameterError(
            f"{', '.join(idle)} cannot be used when reading {source}. Leave it out."
        )


def _refuse_query(options: Options, source: Any) -> None:
    if options.query is not None:
        raise InvalidDataError(
            f"query= is for databases, and {source} is not one. Leave it out, or give a SQLite "
            "file or a database URL."
        )


def counted(batches: Iterable[Batch], reading: Progress) -> Iterator[Batch]:
    """Pass batches on, each of which advances the task by its rows."""
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch.rows)
        reading.note(f"{rows:,} rows")
        reading.advance(len(batch.rows))


def _encode(
    batches: Iterable[Batch],
    vocabulary: Callable[[str], Vocabulary],
    options: Options,
    source: str,
    reading: Progress,
) -> Interactions:
    encoder = Encoder(vocabulary("user"), vocabulary("item"))
    try:
        for batch in counted(batches, reading):
            encoder.add(batch)
        return encoder.finish(options.duplicates, source)
    except POLARS_ERRORS as error:
        raise InvalidDataError(f"{source} cannot be read: {first_line(error)}.") from error

"""Read interactions: detect the format, read in batches, encode, assemble."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse

from equipoise.data.assembly import Duplicates
from equipoise.data.forks import require_polars_threads
from equipoise.data.interactions import Interactions
from equipoise.data.readers import delimited, files, lightgcn, parquet, sql, tables
from equipoise.data.readers.columns import Columns
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, Encoder
from equipoise.data.readers.ids import (
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


class Opened(NamedTuple):
    """Rows in batches, how their ids are encoded, and the size of the files."""

    batches: Iterable[Batch]
    vocabulary: Callable[[str], Vocabulary]
    n_bytes: int = 0
    n_rows: int | None = None  # if the files contain it


def read(source: Any, options: Options, progress: Progress | None = None) -> Interactions:
    """Read any source that `Interactions.read` accepts."""
    if sparse.issparse(source):
        _refuse_unused_options(options, "a sparse matrix", has_columns=False)
        return Interactions.from_sparse(source, duplicates=options.duplicates)
    if isinstance(source, Interactions):
        _refuse_unused_options(options, "Interactions", has_columns=False)
        return source
    require_polars_threads()
    if tables.is_pandas(source) or tables.is_table(source):
        return _read_table(source, options, progress)
    if isinstance(source, str) and sql.is_url(source):
        return _read_database(source, options, progress)
    if isinstance(source, str | os.PathLike):
        return _read_files(source, options, progress)
    raise InvalidDataError(
        f"cannot read from {type(source).__name__}. Give a path, a folder, a glob, a pandas, "
        "polars or Arrow table, a SciPy sparse matrix, or a database URL with query=."
    )


def _read_table(table: Any, options: Options, progress: Progress | None) -> Interactions:
    library = tables.library_of(table)
    _refuse_unused_options(options, library, has_columns=True)
    if tables.is_pandas(table):
        return tables.from_pandas(table, options.columns, options.duplicates)
    opened = Opened(tables.batches(table, options.columns), ColumnVocabulary)
    with task(progress, f"Reading {library}") as reading:
        return _encode(opened, options, library, reading)


def _read_database(source: str, options: Options, progress: Progress | None) -> Interactions:
    with task(progress, f"Reading {sql.without_credentials(source)}") as reading:
        opened = Opened(sql.batches(source, options.query, options.columns), ObjectVocabulary)
        return _encode(opened, options, "the query", reading)


def _read_files(
    source: str | os.PathLike[str], options: Options, progress: Progress | None
) -> Interactions:
    found = files.find(source, options.format)
    if found.format == "sqlite":
        if len(found.paths) > 1:
            raise InvalidDataError(f"{source} matches several databases. Choose one.")
        return _read_database(str(found.paths[0]), options, progress)
    opened = _open(found, source, options)
    with task(progress, f"Reading {source}", opened.n_rows) as reading:
        loaded = _encode(opened, options, str(source), reading)
    return loaded if found.names is None else loaded.with_names(found.names)


def open_files(source: str | os.PathLike[str], options: Options) -> Opened:
    """Open text or Parquet files for streaming callers."""
    found = files.find(source, options.format)
    if found.format == "sqlite":
        raise InvalidDataError(
            f"{source} is a database, which cannot be streamed. Export the query as Parquet first."
        )
    require_polars_threads()
    return _open(found, source, options)


def words_without_header(source: str, options: Options) -> list[str] | None:
    """Return the first line of a delimited file if it is words but not read as a header."""
    found = None if sql.is_url(source) else files.find(source, options.format)
    if found is None or found.format != "csv":
        return None
    form = delimited.layout(found.paths[0], options.delimiter, options.columns)
    first = form.first_rows[0] if form.names is None else []
    return first if first and not any(map(delimited.is_number, first)) else None


def _open(found: files.Files, source: str | os.PathLike[str], options: Options) -> Opened:
    if options.query is not None:
        raise InvalidDataError(
            f"query= is for databases, and {source} is not one. Leave it out, or give a SQLite "
            "file or a database URL."
        )
    try:
        n_bytes = sum(path.stat().st_size for path in found.paths)
    except OSError as error:
        raise InvalidDataError(f"{source} cannot be read: {error}.") from error
    if found.format == "parquet":
        rows = parquet.row_count(found.paths)
        batches = parquet.batches(found.paths, options.columns)
        return Opened(batches, ColumnVocabulary, n_bytes, rows)
    text = (batch for path in found.paths for batch in _text_batches(path, found.format, options))
    return Opened(text, TextVocabulary, n_bytes)


def _text_batches(path: Path, kind: str, options: Options) -> Iterator[Batch]:
    """Yield batches; add the path to errors of the system and of decompression."""
    try:
        if kind == "lightgcn":
            yield from lightgcn.batches(path)
            return
        # MovieLens and Last.fm files are not quoted: a quote is part of a name
        fixed = {"movielens": "::", "lastfm": "\t"}.get(kind)
        delimiter = options.delimiter or fixed
        form = delimited.layout(path, delimiter, options.columns, quoted=fixed is None)
        yield from delimited.batches(path, form, options.columns)
    except UnicodeEncodeError as error:
        raise InvalidParameterError(f"the delimiter is not UTF-8 text: {error}.") from error
    except (OSError, EOFError, zlib.error, *POLARS_ERRORS) as error:
        raise InvalidDataError(
            f"{path} cannot be read to its end; it may be damaged or truncated. ({error})"
        ) from error


def _refuse_unused_options(options: Options, source: str, *, has_columns: bool) -> None:
    """Refuse options that have no effect on this source."""
    given = {} if has_columns else options.columns._asdict()
    given |= {"delimiter": options.delimiter, "format": options.format, "query": options.query}
    unused = [f"{name}=" for name, value in given.items() if value is not None]
    if unused:
        raise InvalidParameterError(
            f"{', '.join(unused)} cannot be used when reading {source}. Leave it out."
        )


def counted(batches: Iterable[Batch], reading: Progress) -> Iterator[Batch]:
    """Pass batches on, each of which advances the task by its rows."""
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch.rows)
        reading.note(f"{rows:,} rows")
        reading.advance(len(batch.rows))


def _encode(opened: Opened, options: Options, source: str, reading: Progress) -> Interactions:
    encoder = Encoder(opened.vocabulary("user"), opened.vocabulary("item"))
    try:
        for batch in counted(opened.batches, reading):
            encoder.add(batch)
        return encoder.finish(options.duplicates, source)
    except POLARS_ERRORS as error:
        raise InvalidDataError(f"{source} cannot be read: {first_line(error)}.") from error

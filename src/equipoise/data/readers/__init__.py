"""Read interactions: detect the format, read in batches, encode, assemble."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from scipy import sparse

from equipoise.checks import check_unused
from equipoise.data.interactions import Interactions
from equipoise.data.readers import delimited, files, lightgcn, parquet, sql, tables
from equipoise.data.readers.columns import Columns, recorded
from equipoise.data.readers.encoder import (
    POLARS_ERRORS,
    Batch,
    Encoder,
    joined,
)
from equipoise.data.readers.ids import (
    ColumnVocabulary,
    ObjectVocabulary,
    TextVocabulary,
    Vocabulary,
)
from equipoise.data.readers.text import prefetch
from equipoise.data.validation import CodedPairs, Duplicates
from equipoise.exceptions import InvalidDataError, InvalidParameterError, explained
from equipoise.parallel import require_polars_threads
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


_PAIR_COLUMNS = ("users", "items", "values", "timestamps")
# The least bytes that a row of text takes: bounds the number of rows of a file
_LEAST_ROW = 4


class Options(NamedTuple):
    """How to read; see `Interactions.read`."""

    columns: Columns = Columns()
    delimiter: str | None = None
    duplicates: Duplicates = "sum"
    format: str | None = None
    query: str | None = None
    decimal: str | None = None
    date_format: str | None = None

    def find(self, source: str | os.PathLike[str]) -> files.Files:
        """Return the files of a path; requested columns rule out LightGCN text."""
        return files.find(source, self.format, has_columns=any(c is not None for c in self.columns))

    def of_text(self) -> dict[str, Any]:
        """Return the options of files and databases, which tables in memory do not need."""
        names = ("delimiter", "format", "query", "decimal", "date_format")
        return {name: getattr(self, name) for name in names}

    def record(self, data: Interactions, columns: Mapping[str, str | int]) -> Interactions:
        """Return the data with a record of how, and from which columns, they were read."""
        return data.with_step("read", **recorded(self.columns, columns), duplicates=self.duplicates)


class Opened(NamedTuple):
    """Rows in batches, and how their ids are encoded."""

    source: str
    batches: Iterable[Batch]
    vocabulary: Callable[[str], Vocabulary]
    most_rows: int = 0
    work: float | None = None  # of the progress: rows, or bytes of text; None if unknown
    names: Path | None = None  # a file of item names next to the data


def read(source: Any, options: Options, progress: Progress | None = None) -> Interactions:
    """Read any source that `Interactions.read` accepts."""
    rule = options.duplicates
    if isinstance(source, Interactions):
        _refuse_unused_options(options, "Interactions", has_columns=False)
        return source
    if sparse.issparse(source):
        _refuse_unused_options(options, "a sparse matrix", has_columns=False)
        loaded = Interactions.from_sparse(source, duplicates=rule)
        return loaded.with_step("read", duplicates=rule)
    if isinstance(source, list) and source and isinstance(source[0], tuple):
        _refuse_unused_options(options, "a list of tuples", has_columns=False)
        columns = dict(zip(_PAIR_COLUMNS, zip(*source, strict=True), strict=False))
        loaded = Interactions.from_pairs(**columns, duplicates=rule)
        return loaded.with_step("read", duplicates=rule)
    require_polars_threads()
    if isinstance(source, dict):
        source = tables.frame_of(source)
    if tables.is_pandas(source):
        _refuse_unused_options(options, tables.library_of(source), has_columns=True)
        return tables.from_pandas(source, options.columns, rule)
    opened = _open(source, options)
    title = f"Reading {sql.without_credentials(opened.source)}"
    with task(progress, title, opened.work) as reading:
        loaded = _encode(opened, options, reading)
    return loaded if opened.names is None else loaded.with_names(opened.names)


def _open(source: Any, options: Options) -> Opened:
    """Open anything whose rows come in batches."""
    if tables.is_table(source):
        library = tables.library_of(source)
        _refuse_unused_options(options, library, has_columns=True)
        return Opened(library, tables.batches(source, options.columns), ColumnVocabulary)
    if not isinstance(source, str | os.PathLike):
        raise InvalidDataError(
            f"cannot read from {type(source).__name__}. Give a path, a folder, a glob, a pandas, "
            "polars or Arrow table, a dict of columns, a list of (user, item) tuples, a SciPy "
            "sparse matrix, or a database URL with query=."
        )
    address = os.fspath(source)
    if not (isinstance(source, str) and sql.is_url(source)):
        found = options.find(source)
        if found.format != "sqlite":
            return _open_files(found, source, options)
        if len(found.paths) > 1:
            raise InvalidDataError(f"{source} matches several databases. Choose one.")
        address = str(found.paths[0])
    rows = sql.batches(address, options.query, options.columns)
    return Opened(address, rows, ObjectVocabulary)


def open_files(source: str | os.PathLike[str], options: Options) -> Opened:
    """Open text or Parquet files for streaming callers."""
    found = options.find(source)
    if found.format == "sqlite":
        raise InvalidDataError(
            f"{source} is a database, which cannot be streamed. Export the query as Parquet first."
        )
    require_polars_threads()
    return _open_files(found, source, options)


def words_without_header(source: str, options: Options) -> list[str] | None:
    """Return the first line of a delimited file if it is words but not read as a header."""
    found = None if sql.is_url(source) else options.find(source)
    if found is None or found.format != "csv":
        return None
    form = delimited.layout(
        found.paths[0], options.delimiter, options.columns, decimal=options.decimal
    )
    first = form.first_rows[0] if form.names is None else []
    return first if first and not any(map(delimited.is_number, first)) else None


def _open_files(found: files.Files, source: str | os.PathLike[str], options: Options) -> Opened:
    if options.query is not None:
        raise InvalidDataError(
            f"query= is for databases, and {source} is not one. Leave it out, or give a SQLite "
            "file or a database URL."
        )
    with explained(f"{source} cannot be read", OSError):
        n_bytes = sum(path.stat().st_size for path in found.paths)
    if found.format == "parquet":
        rows = parquet.row_count(found.paths)
        batches = prefetch(parquet.batches(found.paths, options.columns))
        return Opened(str(source), batches, ColumnVocabulary, rows, rows)
    text = prefetch(
        batch for path in found.paths for batch in _text_batches(path, found.format, options)
    )
    is_plain = found.format != "lightgcn" and not any(map(files.is_compressed, found.paths))
    work = n_bytes if is_plain else None
    return Opened(str(source), text, TextVocabulary, n_bytes // _LEAST_ROW, work, found.names)


def _text_batches(path: Path, kind: str, options: Options) -> Iterator[Batch]:
    """Yield batches; add the path to errors of the system and of decompression."""
    problem = f"{path} cannot be read to its end; it may be damaged or truncated"
    with (
        explained(
            "the delimiter is not UTF-8 text", UnicodeEncodeError, kind=InvalidParameterError
        ),
        explained(problem, OSError, EOFError, zlib.error, *POLARS_ERRORS),
    ):
        if kind == "lightgcn":
            yield from lightgcn.batches(path)
            return
        # MovieLens and Last.fm files are not quoted: a quote is part of a name
        fixed = {"movielens": "::", "lastfm": "\t"}.get(kind)
        delimiter = options.delimiter or fixed
        form = delimited.layout(
            path,
            delimiter,
            options.columns,
            quoted=fixed is None,
            decimal=options.decimal,
            date_format=options.date_format,
        )
        yield from delimited.batches(path, form, options.columns)


def _refuse_unused_options(options: Options, source: str, *, has_columns: bool) -> None:
    """Refuse options that have no effect on this source."""
    given = {} if has_columns else options.columns._asdict()
    given |= options.of_text()
    check_unused(given, f"cannot be used when reading {source}. Leave it out.")


def counted(batches: Iterable[Batch], reading: Progress) -> Iterator[Batch]:
    """Pass batches on, each of which advances the task by its bytes of text, or by its rows."""
    rows = 0
    for batch in batches:
        yield batch
        rows += len(batch.rows)
        reading.note(f"{rows:,} rows")
        reading.advance(len(batch.rows) if batch.n_bytes is None else batch.n_bytes)


def _encode(opened: Opened, options: Options, reading: Progress) -> Interactions:
    source = "the query" if opened.vocabulary is ObjectVocabulary else opened.source
    users, items = opened.vocabulary("user"), opened.vocabulary("item")
    encoder = Encoder(users, items, options.decimal, options.date_format)
    with explained(f"{source} cannot be read", *POLARS_ERRORS):
        parts = [encoder.encode(batch) for batch in counted(opened.batches, reading)]
    if not any(len(part["user"]) for part in parts):
        raise InvalidDataError(f"{source} has no interactions: no rows, or no value above 0.")
    pairs = CodedPairs(joined(parts), users.ids(), items.ids(), source)
    loaded = Interactions.from_codes(pairs, options.duplicates)
    return options.record(loaded, encoder.columns)

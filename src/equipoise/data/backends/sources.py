"""Parquet files anywhere, in parts that one task can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from equipoise.data.readers.columns import Columns
from equipoise.data.readers.sql import without_credentials
from equipoise.exceptions import InvalidDataError, explained, require_extra

# Rows that a task reads at a time, at least a row group: some 100 MB of table
ROWS_AT_A_TIME = 1 << 22
_ENDINGS = (".parquet", ".pq")


class ParquetPart(NamedTuple):
    """Adjacent row groups of one file.

    Attributes
    ----------
    path : str
        The path in its file system.
    url : str
        The name in error messages.
    groups : tuple of int
        Which row groups.
    first_row, n_rows : int
        Where they begin in the file, and how long they are.
    options : mapping
        Of the file system (fsspec's storage_options).
    """

    path: str
    url: str
    groups: tuple[int, ...]
    first_row: int
    n_rows: int
    options: Mapping[str, Any]


def parquet_parts(
    source: str, options: Mapping[str, Any] | None = None, rows: int = ROWS_AT_A_TIME
) -> list[ParquetPart]:
    """Return the parts of a file, a folder or a glob, local or on an object store.

    Parameters
    ----------
    source : str
        A path, or a URL that fsspec supports (``s3://``, ``gs://``, ``abfs://``, ``memory://`` …).
    options : mapping, optional
        fsspec's storage_options: endpoint, credentials.
    rows : int
        Approximate number of rows per part.
    """
    options = dict(options or {})
    shown = without_credentials(str(source))
    fsspec = require_extra("fsspec", "dask", f"reading {shown}")
    try:
        system, path = fsspec.core.url_to_fs(str(source), **options)
        paths = _paths(system, path)
    except (OSError, ValueError, ImportError) as error:
        reason = str(error).replace(str(source), shown)
        raise InvalidDataError(f"{shown} cannot be listed: {reason}.") from None
    if not paths:
        raise InvalidDataError(
            f"there is no Parquet file at {shown}. Check the path; files end in "
            f"{' or '.join(_ENDINGS)}."
        )
    return [part for each in paths for part in _parts_of(system, each, options, rows)]


def _paths(system: Any, path: str) -> list[str]:
    if "*" in path:
        return sorted(system.glob(path))
    if system.isdir(path):
        there = sorted(system.ls(path, detail=False))
        return [each for each in there if each.endswith(_ENDINGS)]
    return [path] if system.exists(path) else []


def _parts_of(
    system: Any, path: str, options: Mapping[str, Any], rows: int
) -> Iterator[ParquetPart]:
    url = system.unstrip_protocol(path)
    metadata = _opened(system, path, url).metadata
    groups: list[int] = []
    first = length = 0
    for group in range(metadata.num_row_groups):
        groups.append(group)
        length += metadata.row_group(group).num_rows
        if length >= rows or group == metadata.num_row_groups - 1:
            yield ParquetPart(path, url, tuple(groups), first, length, options)
            groups, first, length = [], first + length, 0


def _opened(system: Any, path: str, url: str) -> Any:
    parquet = require_extra("pyarrow.parquet", "dask", f"reading {url}")
    import pyarrow as pa

    gone = f"{url} no longer exists. Restore it, or read the data again from their new path"
    broken = f"{url} cannot be read as Parquet; it may be broken or another kind of file"
    with explained(broken, pa.ArrowException, OSError), explained(gone, FileNotFoundError):
        return parquet.ParquetFile(system.open(path, "rb"))


def read_part(part: ParquetPart, asked: Columns) -> Any:
    """Return the part's rows as a `Batch`; only the columns needed are read."""
    import polars as pl
    import pyarrow as pa

    from equipoise.data.readers.tables import batch_of, column_names

    fsspec = require_extra("fsspec", "dask", f"reading {part.url}")
    system, _ = fsspec.core.url_to_fs(part.url, **part.options)
    file = _opened(system, part.path, part.url)
    schema = pl.DataFrame(file.schema_arrow.empty_table()).schema
    names = column_names(schema, asked, part.url)
    broken = f"{part.url} cannot be read to its end; it may be broken or cut off"
    with explained(broken, pa.ArrowException, OSError):
        table = file.read_row_groups(list(part.groups), columns=list(names.values()))
    return batch_of(pl.DataFrame(table), names, part.url, part.first_row)


def frame_batch(frame: Any, number: int, asked: Columns) -> Any:
    """Return a partition of a Dask DataFrame (a pandas table) as a `Batch`."""
    import polars as pl

    from equipoise.data.readers.tables import batch_of, column_names

    source = f"partition {number} of the Dask DataFrame"
    table = pl.from_pandas(frame)
    return batch_of(table, column_names(table.schema, asked, source), source, 0)

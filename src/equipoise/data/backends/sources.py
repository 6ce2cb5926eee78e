"""Parquet files anywhere, in parts that one task can read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from typing import Any, NamedTuple

import polars as pl

from equipoise.data.readers.columns import Columns
from equipoise.data.readers.encoder import Batch
from equipoise.data.readers.sql import without_credentials
from equipoise.data.readers.tables import batch_of, column_names
from equipoise.exceptions import InvalidDataError, explained, require_extra

# Rows that a task reads at a time, at least a row group: some 100 MB of table
ROWS_AT_A_TIME = 1 << 22
_ENDINGS = (".parquet", ".pq")


class ParquetPart(NamedTuple):
    """Adjacent row groups of one file.

    Attributes
    ----------
    fragment : pyarrow.dataset.ParquetFileFragment
        The row groups, and the file system that has them.
    url : str
        The name in error messages.
    first_row, n_rows : int
        Where they begin in the file, and how long they are.
    """

    fragment: Any
    url: str
    first_row: int
    n_rows: int


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
    return [part for each in paths for part in _parts_of(system, each, rows)]


def _paths(system: Any, path: str) -> list[str]:
    if "*" in path:
        return sorted(system.glob(path))
    if system.isdir(path):
        there = sorted(system.ls(path, detail=False))
        return [each for each in there if each.endswith(_ENDINGS)]
    return [path] if system.exists(path) else []


def _parts_of(system: Any, path: str, rows: int) -> Iterator[ParquetPart]:
    url = system.unstrip_protocol(path)
    dataset = require_extra("pyarrow.dataset", "dask", f"reading {url}")
    with _naming(url):
        (whole,) = dataset.dataset(path, format="parquet", filesystem=system).get_fragments()
        lengths = [group.num_rows for group in whole.row_groups]
    first = begun = 0
    for number, end in enumerate(accumulate(lengths), 1):
        if end - begun >= rows or number == len(lengths):
            groups = whole.subset(row_group_ids=[*range(first, number)])
            yield ParquetPart(groups, url, begun, end - begun)
            first, begun = number, end


@contextmanager
def _naming(url: str) -> Iterator[None]:
    """Add the URL to errors."""
    import pyarrow as pa

    gone = f"{url} no longer exists. Restore it, or read the data again from their new path"
    broken = f"{url} cannot be read as Parquet, the only format on a cluster; it may be broken"
    with explained(broken, pa.ArrowException, OSError), explained(gone, FileNotFoundError):
        yield


def read_part(part: ParquetPart, asked: Columns) -> Batch:
    """Return the part's rows as a `Batch`; only the columns needed are read."""
    with _naming(part.url):
        schema = part.fragment.physical_schema
        names = column_names(pl.DataFrame(schema.empty_table()).schema, asked, part.url)
        table = part.fragment.to_table(columns=list(names.values()))
    return batch_of(pl.DataFrame(table), names, part.url, part.first_row)


def frame_batch(frame: Any, number: int, asked: Columns) -> Batch:
    """Return a partition of a Dask DataFrame (a pandas table) as a `Batch`."""
    source = f"partition {number} of the Dask DataFrame"
    table = pl.from_pandas(frame)
    return batch_of(table, column_names(table.schema, asked, source), source, 0)

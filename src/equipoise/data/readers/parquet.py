"""Parquet files, in batches of the columns needed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import polars as pl

from equipoise.data.readers.columns import Columns
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch
from equipoise.data.readers.tables import batch_of, column_names
from equipoise.exceptions import explained

# Rows in memory at a time
_ROWS_PER_BATCH = 1 << 19


def batches(paths: Sequence[Path], asked: Columns) -> Iterator[Batch]:
    """Yield the rows of the files in batches; only the columns needed are read."""
    for path in paths:
        with _naming(path):
            yield from _one_file(path, asked)


def row_count(paths: Sequence[Path]) -> int:
    """Return the number of rows of all files, from their footers."""
    total = 0
    for path in paths:
        with _naming(path):
            total += pl.scan_parquet(path, glob=False).select(pl.len()).collect().item()
    return total


def read_table(path: Path) -> pl.DataFrame:
    """Return a whole file, e.g. a small one of names or factors."""
    with _naming(path):
        return pl.scan_parquet(path, glob=False).collect()


def _one_file(path: Path, asked: Columns) -> Iterator[Batch]:
    scan = pl.scan_parquet(path, glob=False)
    names = column_names(scan.collect_schema(), asked, str(path))
    narrow = scan.select(names.values())
    n_rows = scan.select(pl.len()).collect().item()
    for start in range(0, n_rows, _ROWS_PER_BATCH):
        frame = narrow.slice(start, _ROWS_PER_BATCH).collect()
        yield batch_of(frame, names, str(path), start)


def _naming(path: Path) -> AbstractContextManager[None]:
    """Add the path to errors."""
    problem = f"{path} cannot be read as Parquet; it may be damaged or another kind of file"
    return explained(problem, *POLARS_ERRORS, OSError)

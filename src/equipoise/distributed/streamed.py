"""`StreamedInteractions`: users × items on the disk of one machine, larger than its memory."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from equipoise.data.assembly import Duplicates, check_duplicates_policy
from equipoise.distributed.blocked import BlockedInteractions
from equipoise.distributed.disk import DiskBlocks, Scratch
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import parse_bytes, require
from equipoise.progress import Progress, task

# What a row takes at most while its block is put together: codes, value, time, sorted copies.
_BYTES_PER_ROW = 100
# The share of the memory that a block may take; batches, ids and vectors need the rest.
_SHARE = 0.25
# Less is a slip of the pen: a number alone counts bytes.
_LEAST_MEMORY = 1_000_000
# The least that a row of text or of packed Parquet takes: so many rows can a file hold.
_LEAST_ROW = 4


@dataclass(frozen=True, eq=False, repr=False)
class StreamedInteractions(BlockedInteractions):
    """Users × items on disk, in blocks of users that are read one after the other.

    Examples
    --------
    >>> import tempfile, polars as pl
    >>> path = tempfile.mkdtemp() + "/plays.parquet"
    >>> pl.DataFrame({"user": [7, 7, 8], "item": ["a", "b", "b"]}).write_parquet(path)
    >>> plays = StreamedInteractions.read(path, memory="1GB")
    >>> plays
    StreamedInteractions(2 users x 2 items, 3 interactions in 1 blocks)
    >>> plays.popularity("count").tolist()
    [1.0, 2.0]
    """

    @classmethod
    def read(
        cls,
        source: str | os.PathLike[str],
        *,
        memory: str | int = "4GB",
        scratch: str | os.PathLike[str] | None = None,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | None = None,
        timestamp: str | int | None = None,
        delimiter: str | None = None,
        duplicates: Duplicates = "sum",
        format: str | None = None,  # noqa: A002 - the word every reader uses
        n_blocks: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> Self:
        """Read files once, batch by batch, into blocks on disk.

        Parameters
        ----------
        source : path or URL
            Parquet or text files, a folder or a glob; Parquet also at a URL that fsspec knows.
        memory : str or int
            What this process may take beside the ids of users and items: decides how large a
            block is, and is checked against the vectors of a fit before it begins.
        scratch : path, optional
            Folder for the blocks, some 16 bytes an interaction. By default the system's for
            temporary files. Emptied when the data are no longer used.
        user, item, value, timestamp, delimiter, duplicates, format
            As in `Interactions.read`.
        n_blocks : int, optional
            Instead of as many as `memory` asks for.
        storage_options : mapping, optional
            fsspec's, for a URL.
        progress : Progress, optional
            Receives the number of rows read so far; silent by default.
        """
        from equipoise.data.readers import Columns, Options, counted
        from equipoise.data.readers.databases import without_credentials
        from equipoise.distributed.spooling import spool

        check_duplicates_policy(duplicates)
        limit = parse_bytes(memory)
        require(
            _LEAST_MEMORY,
            "streaming from disk",
            "A number alone counts bytes: write it like '4GB' or '512MB'.",
            available=limit,
            error=InvalidParameterError,
        )
        options = Options(Columns(user, item, value, timestamp), delimiter, duplicates, format)
        batches, vocabulary, most_rows = _batches(source, options, storage_options)
        wanted = -(-most_rows * _BYTES_PER_ROW // int(limit * _SHARE))
        folder = Scratch(scratch)
        parts = n_blocks or max(1, wanted)
        with task(progress, f"Reading {without_credentials(str(source))} in blocks") as reading:
            rows = counted(batches, reading)
            spooled = spool(rows, vocabulary, folder.path, parts, duplicates, str(source))
        blocks = DiskBlocks(folder.path, spooled.n_blocks, limit, folder)
        return cls._of(blocks, spooled.item_ids)


def _batches(
    source: str | os.PathLike[str], options: Any, storage_options: Mapping[str, Any] | None
) -> tuple[Iterable[Any], Any, int]:
    """Rows in batches, how their ids are coded, and how many rows there can be at most."""
    from equipoise.data import readers
    from equipoise.data.readers.vocabulary import ColumnVocabulary
    from equipoise.distributed import sources

    if "://" in str(source):
        parts = sources.parquet_parts(str(source), storage_options, rows=1)
        batches = (sources.read_part(part, options.columns) for part in parts)
        return batches, ColumnVocabulary, sum(part.n_rows for part in parts)
    opened = readers.open_files(source, options)
    rows = opened.n_bytes // _LEAST_ROW if opened.n_rows is None else opened.n_rows
    if not opened.n_bytes:
        raise InvalidDataError(f"{Path(source)} is empty.")
    return opened.batches, opened.vocabulary, rows

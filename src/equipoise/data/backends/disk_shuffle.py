"""Shuffle to disk: from batches of rows to blocks, with one batch and one block in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from equipoise.data.backends import sources
from equipoise.data.backends.disk import DiskRows, Scratch, append_arrays, read_arrays, write_blocks
from equipoise.data.block_ops import assemble_block, divide
from equipoise.data.interactions import Interactions
from equipoise.data.readers import Opened, Options, counted, open_files
from equipoise.data.readers.encoder import POLARS_ERRORS, Encoder, joined
from equipoise.data.readers.ids import ColumnVocabulary
from equipoise.data.readers.sql import without_credentials
from equipoise.data.rows import BlockSize
from equipoise.data.validation import CodedColumns
from equipoise.exceptions import InvalidDataError, InvalidParameterError, OutputError, explained
from equipoise.memory import parse_bytes, require
from equipoise.progress import Progress, task

# Peak memory of a row while its block is assembled: codes, value, time, sorted copies.
_BYTES_PER_ROW = 100
# The share of the memory that a block may take; batches, ids and vectors need the rest.
_SHARE = 0.25
# Less is a typing error: a number alone counts bytes.
_LEAST_MEMORY = 1_000_000


def read(
    source: str | os.PathLike[str],
    options: Options,
    memory: str | int,
    *,
    n_blocks: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Interactions:
    """Read files once, batch by batch, into blocks on disk; see `Interactions.read`."""
    limit = parse_bytes(memory)
    require(
        _LEAST_MEMORY,
        "streaming from disk",
        "A number alone counts bytes: write it like '4GB' or '512MB'.",
        available=limit,
        error=InvalidParameterError,
    )
    opened = _opened(source, options, storage_options)
    wanted = -(-opened.most_rows * _BYTES_PER_ROW // int(limit * _SHARE))
    folder = Scratch(scratch)
    name = f"Reading {without_credentials(str(source))} in blocks"
    with task(progress, name, opened.work) as reading:
        opened = opened._replace(batches=counted(opened.batches, reading))
        sizes, item_ids, columns = shuffle(opened, options, folder.path, n_blocks or max(1, wanted))
    rows = DiskRows(folder.path, sizes, limit, folder)
    return options.record(Interactions.from_rows(rows, item_ids), columns)


def _opened(
    source: str | os.PathLike[str], options: Options, storage_options: Mapping[str, Any] | None
) -> Opened:
    if not isinstance(source, str | os.PathLike):
        raise InvalidDataError(
            f"memory= is for files, and {type(source).__name__} is in memory already. Leave it out."
        )
    if "://" not in str(source):
        return open_files(source, options)
    parts = sources.parquet_parts(str(source), storage_options, rows=1)
    batches = (sources.read_part(part, options.columns) for part in parts)
    n_rows = sum(part.n_rows for part in parts)
    return Opened(str(source), batches, ColumnVocabulary, n_rows, n_rows)


def shuffle(
    opened: Opened, options: Options, folder: Path, n_blocks: int
) -> tuple[list[BlockSize], NDArray[Any], Mapping[str, str | int]]:
    """Read all batches once and write blocks of users; return sizes, item ids and columns."""
    source = opened.source
    users, items = opened.vocabulary("user"), opened.vocabulary("item")
    encoder = Encoder(users, items, options.decimal, options.date_format)
    files = [folder / f"shuffle-{number:05}" for number in range(n_blocks)]
    problem = f"the blocks of {source} could not be written to {folder}; free space there, or name "
    problem += "another folder with scratch="
    with (
        explained(f"{source} cannot be read", *POLARS_ERRORS),
        explained(problem, OSError, kind=OutputError),
    ):
        for batch in opened.batches:
            for file, rows in zip(files, divide(encoder.encode(batch), n_blocks), strict=True):
                if len(rows["user"]):
                    append_arrays(file, rows)
        user_ids, item_ids = users.ids(), items.ids()
        if not len(user_ids):
            raise InvalidDataError(
                f"{source} contains no interaction: no rows, or no value above 0."
            )
        # fewer users than blocks: no block stays without any
        own = [user_ids[number::n_blocks] for number in range(min(n_blocks, len(user_ids)))]
        blocks = (
            assemble_block(_taken(file), (i, n_blocks), ids, item_ids, options.duplicates, source)
            for i, (file, ids) in enumerate(zip(files, own, strict=False))
        )
        sizes = write_blocks(folder, blocks)
    return sizes, item_ids, encoder.columns


def _taken(path: Path) -> CodedColumns:
    """Return all rows of a file and remove it."""
    rows = joined(read_arrays(path))
    path.unlink()
    return rows

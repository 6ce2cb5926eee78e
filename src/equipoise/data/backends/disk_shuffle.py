"""Shuffle to disk: from batches of rows to blocks, with one batch and one block in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.assembly import CodedPairs, Duplicates, assemble
from equipoise.data.backends import sources
from equipoise.data.backends.disk import DiskRows, Scratch, block_folder, write_block
from equipoise.data.block_ops import size_of
from equipoise.data.readers import Options, counted, open_files
from equipoise.data.readers.encoder import POLARS_ERRORS, Batch, Encoder
from equipoise.data.readers.ids import ColumnVocabulary, Vocabulary
from equipoise.data.readers.sql import without_credentials
from equipoise.data.rows import BlockSize, RowBlock
from equipoise.exceptions import InvalidDataError, InvalidParameterError, OutputError, first_line
from equipoise.memory import parse_bytes, require
from equipoise.progress import Progress, task

# Peak memory of a row while its block is assembled: codes, value, time, sorted copies.
_BYTES_PER_ROW = 100
# The share of the memory that a block may take; batches, ids and vectors need the rest.
_SHARE = 0.25
# Less is a typing error: a number alone counts bytes.
_LEAST_MEMORY = 1_000_000
# The least that a row of text or of packed Parquet takes: bounds the number of rows of a file.
_LEAST_ROW = 4


class DiskShuffle(Encoder):
    """Writes coded rows to one file per column and block; user c belongs to block c mod K."""

    def __init__(self, users: Vocabulary, items: Vocabulary, folder: Path, n_blocks: int) -> None:
        super().__init__(users, items)
        self.folder = folder
        self.n_blocks = n_blocks
        self.types: dict[str, np.dtype[Any]] = {}
        self.rows = 0

    def _keep(self, columns: dict[str, NDArray[Any]]) -> None:
        self.rows += len(columns["user"])
        for role, column in columns.items():
            if self.types.setdefault(role, column.dtype) != column.dtype:
                raise InvalidDataError(
                    f"the {role} column is {self.types[role]} in one part and {column.dtype} in "
                    "another. Give every part the same type."
                )
        block_of_row = columns["user"] % self.n_blocks
        order = np.argsort(block_of_row, kind="stable")
        bounds = np.searchsorted(block_of_row[order], np.arange(self.n_blocks + 1))
        for role, column in columns.items():
            ordered = column[order]
            for block in range(self.n_blocks):
                rows = ordered[bounds[block] : bounds[block + 1]]
                if len(rows):
                    with self._file(block, role).open("ab") as file:
                        rows.tofile(file)

    def _file(self, block: int, role: str) -> Path:
        return self.folder / f"shuffle-{block:05}.{role}"

    def take(self, block: int, role: str) -> NDArray[Any] | None:
        """Return a column of a block and remove its file; None if no part has such a column."""
        if role not in self.types:
            return None
        path = self._file(block, role)
        if not path.exists():
            return np.zeros(0, self.types[role])
        column = np.fromfile(path, self.types[role])
        path.unlink()
        return column


def read(
    source: str | os.PathLike[str],
    options: Options,
    memory: str | int,
    *,
    n_blocks: int | None = None,
    scratch: str | os.PathLike[str] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> tuple[DiskRows, NDArray[Any]]:
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
    count = n_blocks or max(1, wanted)
    with task(progress, f"Reading {without_credentials(str(source))} in blocks") as reading:
        opened = opened._replace(batches=counted(opened.batches, reading))
        sizes, item_ids = shuffle(opened, folder.path, count, options.duplicates, str(source))
    return DiskRows(folder.path, sizes, limit, folder), item_ids


class _Opened(NamedTuple):
    """Rows in batches, how their ids are coded, and how many rows there can be at most."""

    batches: Iterable[Batch]
    vocabulary: Callable[[str], Vocabulary]
    most_rows: int


def _opened(
    source: str | os.PathLike[str], options: Options, storage_options: Mapping[str, Any] | None
) -> _Opened:
    if not isinstance(source, str | os.PathLike):
        raise InvalidDataError(
            f"memory= is for files, and {type(source).__name__} is in memory already. Leave it out."
        )
    if "://" in str(source):
        parts = sources.parquet_parts(str(source), storage_options, rows=1)
        batches = (sources.read_part(part, options.columns) for part in parts)
        return _Opened(batches, ColumnVocabulary, sum(part.n_rows for part in parts))
    opened = open_files(source, options)
    if not opened.n_bytes:
        raise InvalidDataError(f"{Path(source)} is empty.")
    rows = opened.n_bytes // _LEAST_ROW if opened.n_rows is None else opened.n_rows
    return _Opened(opened.batches, opened.vocabulary, rows)


def shuffle(
    opened: _Opened, folder: Path, n_blocks: int, duplicates: Duplicates, source: str
) -> tuple[list[BlockSize], NDArray[Any]]:
    """Read all batches once and write blocks of users; return their sizes and the item ids."""
    users, items = opened.vocabulary("user"), opened.vocabulary("item")
    encoder = DiskShuffle(users, items, folder, n_blocks)
    sizes = []
    try:
        for batch in opened.batches:
            encoder.add(batch)
        if not encoder.rows:
            raise InvalidDataError(
                f"{source} contains no interaction: no rows, or no value above 0."
            )
        user_ids, item_ids = users.ids(), items.ids()
        # fewer users than blocks: no block stays without any
        for number in range(min(n_blocks, len(user_ids))):
            block = _assembled(encoder, number, user_ids, item_ids, duplicates, source)
            write_block(block_folder(folder, number), block)
            sizes.append(size_of(block))
    except POLARS_ERRORS as error:
        raise InvalidDataError(f"{source} cannot be read: {first_line(error)}.") from error
    except OSError as error:
        raise OutputError(
            f"the blocks of {source} could not be written to {folder}: {error.strerror or error}. "
            "Free space there, or name another folder with scratch=."
        ) from error
    return sizes, item_ids


def _assembled(
    encoder: DiskShuffle,
    block: int,
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    duplicates: Duplicates,
    source: str,
) -> RowBlock:
    own = np.arange(block, len(user_ids), encoder.n_blocks)
    codes, columns = encoder.take(block, "user"), encoder.take(block, "item")
    if codes is None or columns is None:
        raise InvalidDataError(f"{source} has no column of users or of items.")
    values = encoder.take(block, "value")
    pairs = CodedPairs(
        users=codes // encoder.n_blocks,
        items=columns,
        values=np.ones(len(codes)) if values is None else values,
        timestamps=encoder.take(block, "timestamp"),
        user_ids=user_ids[own],
        item_ids=item_ids,
        source=source,
    )
    built = assemble(pairs, duplicates)
    return RowBlock(built.matrix, pairs.user_ids, own.astype(np.int64), built.timestamps)

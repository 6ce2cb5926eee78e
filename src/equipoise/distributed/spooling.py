"""From batches of rows to blocks on disk, with one batch and one block in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.assembly import CodedPairs, Duplicates, assemble
from equipoise.data.readers.encoder import Batch, Encoder
from equipoise.data.readers.vocabulary import Vocabulary
from equipoise.distributed.blocks import RowBlock
from equipoise.distributed.disk import write_block
from equipoise.exceptions import InvalidDataError, OutputError, first_line


class Spooled(NamedTuple):
    """What was written."""

    n_blocks: int
    item_ids: NDArray[Any]


class SpoolEncoder(Encoder):
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
        home = columns["user"] % self.n_blocks
        order = np.argsort(home, kind="stable")
        bounds = np.searchsorted(home[order], np.arange(self.n_blocks + 1))
        for role, column in columns.items():
            ordered = column[order]
            for block in range(self.n_blocks):
                rows = ordered[bounds[block] : bounds[block + 1]]
                if len(rows):
                    with self._file(block, role).open("ab") as file:
                        rows.tofile(file)

    def _file(self, block: int, role: str) -> Path:
        return self.folder / f"spool-{block:05}.{role}"

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


def spool(
    batches: Iterable[Batch],
    vocabulary: Callable[[str], Vocabulary],
    folder: Path,
    n_blocks: int,
    duplicates: Duplicates,
    source: str,
) -> Spooled:
    """Read all batches once and leave blocks of users in the folder."""
    import polars as pl

    users, items = vocabulary("user"), vocabulary("item")
    encoder = SpoolEncoder(users, items, folder, n_blocks)
    try:
        for batch in batches:
            encoder.add(batch)
        if not encoder.rows:
            raise InvalidDataError(
                f"{source} holds no interaction: no rows, or not one value above 0."
            )
        user_ids, item_ids = users.ids(), items.ids()
        # fewer users than blocks: no block without any
        n_blocks = min(n_blocks, len(user_ids))
        for block in range(n_blocks):
            made = _assembled(encoder, block, user_ids, item_ids, duplicates, source)
            write_block(folder / f"block-{block:05}", made)
    except pl.exceptions.PolarsError as error:
        raise InvalidDataError(f"{source} cannot be read: {first_line(error)}.") from error
    except OSError as error:
        raise OutputError(
            f"the blocks of {source} could not be written to {folder}: {error.strerror or error}. "
            "Free space there, or name another folder with scratch=."
        ) from error
    return Spooled(n_blocks, item_ids)


def _assembled(
    encoder: SpoolEncoder,
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

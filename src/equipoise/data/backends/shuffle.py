"""Shuffle rows to the blocks of their users: ids to codes, without a list of all users.

Each part codes its own ids, and a tree merges the vocabularies in the order of the parts. So ids
stay in order of first appearance, the order of a read into memory. A hash of the user id decides
the block, so all rows of a user are in one block.
"""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.assembly import CodedPairs, Duplicates, assemble
from equipoise.data.readers.encoder import Batch, Encoder
from equipoise.data.readers.ids import ColumnVocabulary
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidDataError

# A position is the number of the part and the row within it, in one sortable integer.
_ROW_BITS = 40

# 2⁶⁴ divided by the golden ratio: spreads consecutive numbers
_MIX = np.uint64(0x9E3779B97F4A7C15)


class Names(NamedTuple):
    """The items of a part (or of all parts up to here), and the type of its users."""

    items: pl.Series
    users: pl.Series  # empty: only the type matters
    roles: frozenset[str]
    rows: int


class Piece(NamedTuple):
    """Rows of one part that go to one block; `users` are positions in `user_ids`."""

    user_ids: pl.Series
    first: NDArray[np.int64]
    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.float64] | None
    timestamps: NDArray[Any] | None


class PartEncoder(Encoder):
    """Codes one batch by itself: codes count the ids of this batch alone."""

    def __init__(self, batch: Batch) -> None:
        self.user_names, self.item_names = ColumnVocabulary("user"), ColumnVocabulary("item")
        super().__init__(self.user_names, self.item_names)
        self.columns: dict[str, NDArray[Any]] = {}
        self.roles = frozenset(batch.rows.columns)
        self.add(batch)

    def _keep(self, columns: dict[str, NDArray[Any]]) -> None:
        self.columns = columns


def names_in(batch: Batch) -> Names:
    """Return the items of a part in order of appearance, and the type of its users."""
    coded = PartEncoder(batch)
    users = coded.user_names.known.clear()
    return Names(coded.item_names.known, users, coded.roles, len(coded.columns["user"]))


def merge_names(*parts: Names) -> Names:
    """Return the names of adjacent parts together, in order of first appearance."""
    users, items = ColumnVocabulary("user"), ColumnVocabulary("item")
    for part in parts:
        if part.roles != parts[0].roles:
            raise InvalidDataError(
                f"one part has the columns {sorted(part.roles)}, an earlier one "
                f"{sorted(parts[0].roles)}. Give every part the same columns."
            )
        users.encode(part.users)
        items.encode(part.items)
    rows = sum(part.rows for part in parts)
    return Names(items.known, users.known, parts[0].roles, rows)


def split_rows(batch: Batch, part: int, n_blocks: int, names: Names) -> list[Piece]:
    """Return the rows of a part, divided among the blocks."""
    coded = PartEncoder(batch)
    columns = coded.columns
    codes = columns["user"]
    ids = ColumnVocabulary.of("user", names.users).typed(coded.user_names.known)
    first = np.empty(len(ids), np.int64)
    first[codes[::-1]] = np.arange(len(codes) - 1, -1, -1)  # the earliest row is written last
    first += np.int64(part) << _ROW_BITS
    item_code = ColumnVocabulary.of("item", names.items).encode(coded.item_names.known)
    items = item_code[columns["item"]] if len(codes) else columns["item"]
    block_of_user = hash_partition(ids, n_blocks)
    block_of_row = block_of_user[codes]
    order = np.argsort(block_of_row, kind="stable")
    bounds = np.searchsorted(block_of_row[order], np.arange(n_blocks + 1))
    place = np.empty(len(ids), np.int32)
    pieces = []
    for block in range(n_blocks):
        there = np.flatnonzero(block_of_user == block)
        place[there] = np.arange(len(there), dtype=np.int32)
        rows = order[bounds[block] : bounds[block + 1]]
        values, times = columns.get("value"), columns.get("timestamp")
        pieces.append(
            Piece(
                ids.gather(there),
                first[there],
                place[codes[rows]],
                items[rows],
                None if values is None else values[rows],
                None if times is None else times[rows],
            )
        )
    return pieces


def hash_partition(ids: pl.Series, n_blocks: int) -> NDArray[np.intp]:
    """Return the block of each id: by a hash that is the same in every process and version.

    Examples
    --------
    >>> hash_partition(pl.Series([3, 4, 5, 3]), 4).tolist()
    [0, 1, 3, 0]
    """
    kind = ids.dtype
    if kind.is_integer() and str(kind) not in ("Int128", "UInt128"):
        mixed = ids.to_numpy().astype(np.uint64) * _MIX
        return ((mixed >> np.uint64(32)) % np.uint64(n_blocks)).astype(np.intp)
    texts = ids.cast(pl.String).to_list()
    sums = np.fromiter((zlib.crc32(text.encode()) for text in texts), np.int64, len(texts))
    return (sums % n_blocks).astype(np.intp)


def merge_pieces(pieces: list[Piece], names: Names, duplicates: Duplicates) -> RowBlock:
    """Return the block made from the pieces of all parts, in their order."""
    vocabulary = ColumnVocabulary.of("user", names.users)
    users, first = [], []
    for piece in pieces:
        known = len(vocabulary.known)
        codes = vocabulary.encode(piece.user_ids)
        first.append(piece.first[codes >= known])
        users.append(codes[piece.users])
    _refuse_mixed_times(pieces)
    items = np.concatenate([piece.items for piece in pieces])
    item_ids = ColumnVocabulary.of("item", names.items).ids()
    if not len(items):
        empty = sp.csr_array((0, len(item_ids)), dtype=np.float64)
        return RowBlock(
            empty, vocabulary.ids(), np.zeros(0, np.int64), _joined(pieces, "timestamps")
        )
    values = _joined(pieces, "values")
    pairs = CodedPairs(
        users=np.concatenate(users),
        items=items,
        values=np.ones(len(items)) if values is None else values,
        timestamps=_joined(pieces, "timestamps"),
        user_ids=vocabulary.ids(),
        item_ids=item_ids,
        source="the data",
    )
    built = assemble(pairs, duplicates)
    return RowBlock(built.matrix, pairs.user_ids, np.concatenate(first), built.timestamps)


def _joined(pieces: list[Piece], field: str) -> NDArray[Any] | None:
    parts = [getattr(piece, field) for piece in pieces]
    return None if parts[0] is None else np.concatenate(parts)


def _refuse_mixed_times(pieces: list[Piece]) -> None:
    times = [piece.timestamps for piece in pieces if piece.timestamps is not None]
    if len({each.dtype.kind == "M" for each in times if len(each)}) > 1:
        raise InvalidDataError("timestamps are numbers in one part and dates in another.")

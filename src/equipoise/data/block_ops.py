"""Pure functions of one block of users: every backend runs the same ones."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import reduce
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.identifiers import as_column
from equipoise.data.rows import BlockSize, Prepare, RowBlock
from equipoise.data.validation import (
    CodedColumns,
    CodedPairs,
    Duplicates,
    assemble,
)
from equipoise.spectral.gram import GramProduct, multiply_rows
from equipoise.spectral.norms import column_sums, squared_column_norms

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def whole(block: RowBlock) -> RowBlock:
    """Return the block unchanged."""
    return block


def size_of(block: RowBlock) -> BlockSize:
    """Return the counts of a block."""
    X, times = block.matrix, block.timestamps
    n_bytes = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    n_bytes += 0 if times is None else times.nbytes
    return BlockSize(X.shape[0], int(X.nnz), int(n_bytes), times is not None, X.dtype)


def of_matrix(block: RowBlock, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return a function of the block's matrix."""
    return function(block.matrix, *arguments)


def column_powers(block: RowBlock, power: int) -> Floats:
    """Σ_i X_ij^power of the stored entries, for every item j; the power is 0, 1 or 2."""
    return squared_column_norms(block.matrix) if power == 2 else column_sums(block.matrix, power)


def largest_value(block: RowBlock) -> float:
    """Return the largest entry, 0 if there is none."""
    return float(block.matrix.data.max(initial=0.0))


def entries_per_user(block: RowBlock) -> NDArray[np.int64]:
    """Return how many interactions each user has."""
    return np.diff(block.matrix.indptr).astype(np.int64)


def items_kept_per_user(block: RowBlock, items: Mask, users: Mask) -> NDArray[np.intp]:
    """Count the kept items of each kept user."""
    X = block.matrix
    if items.all():
        return np.where(users, np.diff(X.indptr), 0)
    ends = np.append(0, np.cumsum(items[X.indices]))[X.indptr]
    return np.where(users, np.diff(ends), 0)


def users_kept_per_item(block: RowBlock, items: Mask, users: Mask) -> NDArray[np.intp]:
    """Count the kept users of each kept item."""
    X = block.matrix
    if users.all():
        return np.where(items, np.bincount(X.indices, minlength=X.shape[1]), 0)
    there = np.repeat(users, np.diff(X.indptr)) & items[X.indices]
    return np.bincount(X.indices[there], minlength=X.shape[1])


def binarized(block: RowBlock) -> RowBlock:
    """Set every value to 1."""
    return _with_values(block, np.ones_like(block.matrix.data))


def normalized(block: RowBlock) -> RowBlock:
    """Divide each row by its sum; entries that round to zero are dropped."""
    X = block.matrix
    if not X.nnz:
        return block
    # a power of two brings each row's maximum to about 1: exact, and no sum can overflow
    _, exponents = np.frexp(X.max(axis=1).toarray().ravel())
    counts = np.diff(X.indptr)
    scaled = np.ldexp(X.data, -np.repeat(exponents, counts))
    totals = np.asarray(_with_values(block, scaled).matrix.sum(axis=1)).ravel()
    shares = _with_values(block, scaled / np.repeat(totals, counts).astype(X.dtype))
    vanished = shares.matrix.data == 0
    return kept(shares, ~vanished) if vanished.any() else shares


def taken(
    block: RowBlock,
    items: NDArray[np.intp] | slice,
    users: NDArray[np.intp] | slice = slice(None),
    order: NDArray[np.int64] | None = None,
) -> RowBlock:
    """Keep these columns and rows, in this order; `order` are new ranks of the rows.

    Examples
    --------
    >>> users = np.arange(2)
    >>> part = taken(RowBlock(sp.csr_array([[5.0, 6.0], [0.0, 7.0]]), users, users), [1, 0])
    >>> part.matrix.toarray().tolist()
    [[6.0, 5.0], [7.0, 0.0]]
    """
    X = block.matrix
    entries = sp.csr_array((np.arange(X.nnz), X.indices, X.indptr), shape=X.shape)
    part = _picked(block, entries[users][:, items])
    ranks = block.order[users] if order is None else order
    return part._replace(user_ids=block.user_ids[users], order=ranks)


def rows_at(block: RowBlock, users: NDArray[np.intp]) -> sp.csr_array:
    """Return some rows of the matrix."""
    return block.matrix[users]


def aligned(block: RowBlock, places: NDArray[np.intp], n_items: int) -> RowBlock:
    """Move every column to its place among so many, or leave it out where that is −1."""
    X = block.matrix
    columns = places.astype(X.indices.dtype)[X.indices]
    kept = np.flatnonzero(columns >= 0)
    ends = np.append(0, np.cumsum(columns >= 0))[X.indptr].astype(X.indptr.dtype)
    return _picked(block, sp.csr_array((kept, columns[kept], ends), shape=(X.shape[0], n_items)))


def with_users(block: RowBlock, positions: NDArray[np.intp], user_ids: NDArray[Any]) -> RowBlock:
    """Return rows in this order, an empty one where the position is −1, with new ranks."""
    X = block.matrix
    n, m = X.shape
    ends = np.append(X.indptr, X.indptr[-1])
    entries = sp.csr_array((np.arange(X.nnz), X.indices, ends), shape=(n + 1, m))
    part = _picked(block, entries[np.where(positions < 0, n, positions)])
    return part._replace(user_ids=user_ids, order=np.arange(len(user_ids)))


def as_table(block: RowBlock, item_ids: NDArray[Any]) -> pl.DataFrame:
    """Return one row per entry: user, item, value and, if there are any, timestamp."""
    import polars as pl

    X = block.matrix
    columns = {
        "user": as_column(np.repeat(block.user_ids, np.diff(X.indptr))),
        "item": as_column(item_ids[X.indices]),
        "value": pl.Series(X.data),
    }
    if block.timestamps is not None:
        columns["timestamp"] = as_column(block.timestamps)
    return pl.DataFrame(columns)


def kept(block: RowBlock, mask: Mask) -> RowBlock:
    """Keep the entries where the mask is true; all users and items stay."""
    X = block.matrix
    ends = np.append(0, np.cumsum(mask))[X.indptr]
    matrix = sp.csr_array((X.data[mask], X.indices[mask], ends), shape=X.shape)
    return block._replace(matrix=_marked(matrix), timestamps=_at(block, mask))


def without_timestamps(block: RowBlock) -> RowBlock:
    """Drop the times."""
    return block._replace(timestamps=None)


def union(block: RowBlock, *others: RowBlock) -> RowBlock:
    """Return the entries of several parts of the same users; no entry is in two of them."""
    parts = (block, *others)
    coordinates = [part.matrix.tocoo() for part in parts]
    times = [part.timestamps for part in parts if part.timestamps is not None]
    columns = {
        "user": np.concatenate([each.row for each in coordinates]),
        "item": np.concatenate([each.col for each in coordinates]),
        "value": np.concatenate([each.data for each in coordinates]),
    }
    if times:
        columns["timestamp"] = np.concatenate(times)
    items = np.arange(block.matrix.shape[1])
    built = assemble(CodedPairs(columns, block.user_ids, items), "error")
    return block._replace(matrix=_marked(built.matrix), timestamps=built.timestamps)


def row_digests(block: RowBlock) -> NDArray[np.void]:
    """Return a hash of the entries of each row: columns and values."""
    X = block.matrix
    items = memoryview(X.indices.astype("<i8").tobytes())
    values = memoryview(X.data.astype(X.dtype.newbyteorder("<"), copy=False).tobytes())
    width = X.dtype.itemsize
    digests = [
        hashlib.sha256(
            b"".join((items[8 * first : 8 * last], values[width * first : width * last]))
        ).digest()
        for first, last in pairwise(X.indptr.tolist())
    ]
    return np.frombuffer(b"".join(digests), dtype="V32") if digests else np.empty(0, "V32")


def fingerprint(
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    row_digests: NDArray[np.void],
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
) -> str:
    """Return the SHA-256 of the hashes of all rows and the ids of rows and columns.

    Index width and byte order do not count; the type of the values and of the ids does.
    """
    digest = hashlib.sha256(f"{shape} {dtype.name}".encode())
    digest.update(row_digests.tobytes())
    for ids in (user_ids, item_ids):
        digest.update(_id_bytes(ids))
    return digest.hexdigest()


def same_optional(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    """Whether both are None, or both are equal arrays."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _id_bytes(ids: NDArray[Any]) -> bytes:
    if ids.dtype.kind != "O":
        little = ids.astype(ids.dtype.newbyteorder("<"), copy=False)
        return f"\n{ids.dtype.name}\n".encode() + little.tobytes()
    # repr keeps 1 and "1" apart; "\n" cannot occur in the repr of a str
    return ("\nobject\n" + "\n".join(map(repr, ids))).encode()


def block_product(block: RowBlock, wanted: GramProduct) -> NDArray[Any]:
    """Return the block's part of the product XᵀXV."""
    return multiply_rows(block.matrix, wanted)


def prepared_block(block: RowBlock, prepares: Iterable[Prepare]) -> RowBlock:
    """Apply functions to the matrix, one after the other."""
    return reduce(lambda made, prepare: made._replace(matrix=prepare(made.matrix)), prepares, block)


def _with_values(block: RowBlock, values: NDArray[Any]) -> RowBlock:
    X = block.matrix
    matrix = sp.csr_array((values, X.indices, X.indptr), shape=X.shape)
    return block._replace(matrix=_marked(matrix))


def _marked(matrix: sp.csr_array) -> sp.csr_array:
    """Mark indices as sorted and unique, which SciPy would otherwise check."""
    matrix.has_canonical_format = True
    return matrix


def _picked(block: RowBlock, entries: sp.csr_array) -> RowBlock:
    """Return the entries of a block by their numbers, which are the values of a matrix."""
    entries.sort_indices()
    parts = (block.matrix.data[entries.data], entries.indices, entries.indptr)
    matrix = _marked(sp.csr_array(parts, shape=entries.shape))
    return block._replace(matrix=matrix, timestamps=_at(block, entries.data))


def _at(block: RowBlock, entries: NDArray[Any]) -> NDArray[Any] | None:
    return None if block.timestamps is None else block.timestamps[entries]


# ---------------------------------------- shuffle: rows to blocks of users
# The user of code c belongs to block c mod K. Codes count users in order of first appearance, the
# order of a read into memory.


def divide(columns: CodedColumns, n_blocks: int) -> list[CodedColumns]:
    """Return the rows of each block, in their order.

    Examples
    --------
    >>> parts = divide({"user": np.array([0, 1, 2]), "item": np.array([7, 8, 9])}, 2)
    >>> [part["item"].tolist() for part in parts]
    [[7, 9], [8]]
    """
    block_of_row = columns["user"] % n_blocks
    order = np.argsort(block_of_row, kind="stable")
    bounds = np.searchsorted(block_of_row[order], np.arange(n_blocks + 1))
    return [
        {role: column[order[first:last]] for role, column in columns.items()}
        for first, last in pairwise(bounds)
    ]


def assemble_block(
    columns: CodedColumns,
    block: tuple[int, int],
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
    duplicates: Duplicates,
    source: str,
) -> RowBlock:
    """Return a block of users.

    Parameters
    ----------
    columns : mapping
        All rows of the block, with the codes of all data.
    block : pair of int
        Its number, and the number of blocks.
    user_ids : ndarray
        Ids of the users of this block.
    item_ids : ndarray
        Ids of all items.
    duplicates, source
        As in `assemble`.
    """
    number, n_blocks = block
    within = {**columns, "user": columns["user"] // n_blocks}
    built = assemble(CodedPairs(within, user_ids, item_ids, source), duplicates)
    ranks = number + n_blocks * np.arange(len(user_ids), dtype=np.int64)
    return RowBlock(built.matrix, user_ids, ranks, built.timestamps)

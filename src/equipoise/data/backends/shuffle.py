"""Divide rows among blocks of users: the user of code c belongs to block c mod K.

Codes count users in order of first appearance, the order of a read into memory.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise.data.readers.encoder import CodedColumns, coded_pairs
from equipoise.data.rows import RowBlock
from equipoise.data.validation import Duplicates, assemble


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
    built = assemble(coded_pairs(within, user_ids, item_ids, source), duplicates)
    ranks = number + n_blocks * np.arange(len(user_ids), dtype=np.int64)
    return RowBlock(built.matrix, user_ids, ranks, built.timestamps)

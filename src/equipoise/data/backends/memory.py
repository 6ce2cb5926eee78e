"""Rows in memory: exactly one block."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from equipoise.data.block_ops import prepared_block, size_of
from equipoise.data.rows import BlockSize, Prepare, RowBlock, Rows


class MemoryRows(Rows):
    """One block in this process. Its arrays become read-only."""

    def __init__(self, block: RowBlock) -> None:
        X = block.matrix
        for array in (X.data, X.indices, X.indptr, block.user_ids, block.order, block.timestamps):
            if array is not None:
                array.flags.writeable = False
        self._block = block

    def __len__(self) -> int:
        return 1

    def sizes(self) -> list[BlockSize]:
        """Return the counts of the block."""
        return [size_of(self._block)]

    def whole(self) -> RowBlock | None:
        """Return the block."""
        return self._block

    def handles(self) -> list[Any]:
        """Return the block itself as its placeholder."""
        return [self._block]

    def stored(self, blocks: Iterable[RowBlock]) -> MemoryRows:
        """Return rows of a new block."""
        return MemoryRows(*blocks)

    def prepared(self, prepare: Prepare) -> MemoryRows:
        """Return the block with a function applied to its matrix."""
        return MemoryRows(prepared_block(self._block, (prepare,)))

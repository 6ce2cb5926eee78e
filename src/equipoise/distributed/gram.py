"""G(V) = XᵀXV of data in blocks: one map over the blocks and one sum."""

from __future__ import annotations

from typing import Any

import numpy as np

from equipoise.distributed.blocks import BlockSet, Prepare, Sweep, block_product, column_powers
from equipoise.spectral.gram import COMPILED_FROM, Gram, Product
from equipoise.spectral.tall import Block, Floats


class BlockedGram(Gram):
    """XᵀX of blocks of users, never formed.

    Parameters
    ----------
    blocks : BlockSet
        Who holds the data.
    n_items, nnz : int
        Number of columns and of interactions.
    prepare : callable, optional
        From the rows as they are stored to those that are projected; applied as they are read.
    threads : int, optional
        Threads within a block. One on a cluster, so that the sum has the same order on every
        machine; all cores where one process reads block by block.
    """

    def __init__(
        self,
        blocks: BlockSet,
        n_items: int,
        nnz: int,
        *,
        prepare: Prepare | None = None,
        threads: int | None = None,
    ) -> None:
        self.blocks = blocks
        self.n_items = n_items
        self.prepare = prepare
        self.threads = threads
        self.squared_norms = blocks.total(column_powers, 2, prepare)
        self.scale = float(self.squared_norms.max())
        self.compiled = nnz >= COMPILED_FROM
        self.working_dtype: np.dtype[Any] = np.dtype(np.float32 if self.compiled else np.float64)

    def product(self, V: Block) -> Block:
        """Return XᵀXV / scale in V's dtype: one pass over the data."""
        return self._sweep(V, None)

    def weighted_product(self, weights: Floats) -> Product:
        """Return V ↦ ½(w∘XᵀXV + XᵀX(w∘V)) / scale, one pass over the data per call."""
        return lambda V: self._sweep(V, weights)

    def _sweep(self, V: Block, weights: Floats | None) -> Block:
        w = None if weights is None else weights.astype(V.dtype)
        ask = Sweep(
            np.ascontiguousarray(V), w, self.scale, self.prepare, self.compiled, self.threads
        )
        answer: Block = self.blocks.total(block_product, ask)
        return answer

"""Groups of users as groups of rows, for the solver: in memory, on disk or on a cluster."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp

from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.spectral.gram import BlockGram, Gram, GramProduct, multiply_rows
from equipoise.spectral.groups.families import (
    MatrixRowGroups,
    RowGroups,
    compress_rows,
    group_totals,
)
from equipoise.spectral.matmul import Block, Floats


def row_groups(data: Interactions, membership: sp.csr_array) -> RowGroups:
    """Return the rows of the data and their groups.

    Parameters
    ----------
    data : Interactions
        As projected (see `Interactions.prepared`), on any backend.
    membership : csr_array of shape (n_users, k)
        How much each user counts in each group, in the order of the data.
    """
    block = data.rows.whole()
    if block is not None:
        return MatrixRowGroups(block.matrix, membership)
    return _BlockRowGroups(data, membership)


class _BlockRowGroups:
    """Groups of rows in blocks: every question is one pass over the data."""

    def __init__(self, data: Interactions, membership: sp.csr_array) -> None:
        self.data = data
        self.n_items, self.k = data.n_items, membership.shape[1]
        by_block = sp.csr_array(membership)[np.argsort(data.user_order, kind="stable")]
        ends = np.cumsum([size.users for size in data.rows.sizes()]).tolist()
        starts = [0, *ends[:-1]]
        self._each = [
            (sp.csc_array(by_block[start:end]),) for start, end in zip(starts, ends, strict=True)
        ]
        totals = data.total(_block_totals, each=self._each)
        self.sizes, self.sums, self.energies = totals
        self._squared_norms = data.popularity("norm") ** 2

    def gram(self, y: Floats) -> Gram:
        """Return products with Xᵀ diag(Sy) X."""
        largest = max(float(np.abs(y).max()), np.finfo(np.float64).tiny)
        return BlockGram(
            partial(_total, self.data, self._each, y / largest),
            self._squared_norms,
            self.data.nnz,
            threads=self.data.rows.threads_per_block,
            row_scale=largest,
        )

    def select(self, group: int) -> Gram:
        """Return products with C_g."""
        return self.gram(np.eye(self.k)[group])

    def image(self, V: Floats) -> Floats:
        """Return V: XV would have one row per user in this process."""
        return V

    def compress(self, V: Floats, image: Floats) -> Floats:  # noqa: ARG002
        """Return Y_gᵀ diag(s_g) Y_g with Y = XV."""
        return self.data.total(_block_compress, np.ascontiguousarray(V), each=self._each)


def _total(data: Interactions, each: Any, y: Floats, wanted: GramProduct) -> Block:
    return data.total(_block_product, wanted, y, each=each)


def _block_product(block: RowBlock, wanted: GramProduct, y: Floats, S: sp.csc_array) -> Block:
    return multiply_rows(block.matrix, wanted, S @ y)


def _block_totals(block: RowBlock, S: sp.csc_array) -> tuple[Floats, Floats, Floats]:
    return group_totals(block.matrix, S)


def _block_compress(block: RowBlock, V: Floats, S: sp.csc_array) -> Floats:
    return compress_rows(np.asarray(block.matrix @ V, dtype=np.float64), S)

"""One block in, one block out: the verbs of `Interactions` for a block of users."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data import selection
from equipoise.data.interactions import Interactions
from equipoise.distributed.blocks import RowBlock


class Rows(NamedTuple):
    """A matrix and the times of its entries."""

    matrix: sp.csr_array
    timestamps: NDArray[Any] | None


def whole(block: RowBlock) -> RowBlock:
    """Return the block as it is."""
    return block


def binarized(block: RowBlock) -> RowBlock:
    """Set every value to 1."""
    return _with_values(block, np.ones_like(block.matrix.data))


def normalized(block: RowBlock) -> RowBlock:
    """Divide each row by its sum, by the same arithmetic as `Interactions.normalize_rows`."""
    if not block.matrix.nnz:
        return block
    return block._replace(matrix=as_interactions(block).normalize_rows().matrix)


def taken(block: RowBlock, items: NDArray[np.intp], users: NDArray[np.intp]) -> RowBlock:
    """Keep these columns, and these rows of the block."""
    part = selection.take(block.matrix, users, items)
    times = None if block.timestamps is None else block.timestamps[part.positions]
    return RowBlock(part.matrix, block.user_ids[users], block.order[users], times)


def kept_entries(block: RowBlock, mask: NDArray[np.bool_]) -> RowBlock:
    """Keep the entries where the mask is true; all users and items stay."""
    X = block.matrix
    ends = np.append(0, np.cumsum(mask))[X.indptr]
    matrix = sp.csr_array((X.data[mask], X.indices[mask], ends), shape=X.shape)
    times = None if block.timestamps is None else block.timestamps[mask]
    return block._replace(matrix=matrix, timestamps=times)


def row_taken(
    matrix: sp.csr_array, timestamps: NDArray[Any] | None, rows: NDArray[np.intp]
) -> Rows:
    """Return rows in another order, the times with them."""
    part = selection.take(sp.csr_array(matrix), rows)
    return Rows(part.matrix, None if timestamps is None else timestamps[part.positions])


def as_interactions(block: RowBlock) -> Interactions:
    """Return the block as a table of its own, items named by their columns."""
    return Interactions(
        block.matrix, block.user_ids, np.arange(block.matrix.shape[1]), None, block.timestamps
    )


def _with_values(block: RowBlock, values: NDArray[Any]) -> RowBlock:
    X = block.matrix
    return block._replace(matrix=sp.csr_array((values, X.indices, X.indptr), shape=X.shape))

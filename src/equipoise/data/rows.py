"""Rows of users in blocks: one block in memory, many on disk or on a cluster, one protocol."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Prepare = Callable[[sp.csr_array], sp.csr_array]
Each = Sequence[tuple[Any, ...]]


class RowBlock(NamedTuple):
    """Some users with all their interactions.

    Attributes
    ----------
    matrix : csr_array of shape (users, n_items)
        Canonical, positive.
    user_ids : ndarray
        One id per row.
    order : ndarray of int64
        Rank of each user in the data, ascending within a block. The rows of all blocks, sorted by
        it, are the rows of the matrix in memory.
    timestamps : ndarray or None
        Aligned with ``matrix.data``.
    """

    matrix: sp.csr_array
    user_ids: NDArray[Any]
    order: NDArray[np.int64]
    timestamps: NDArray[Any] | None = None

    def __sizeof__(self) -> int:
        # Dask estimates transfer costs from this; the default does not count sparse arrays
        X = self.matrix
        return tuple.__sizeof__(self) + int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


class BlockSize(NamedTuple):
    """Counts of one block."""

    users: int
    nnz: int
    n_bytes: int
    has_timestamps: bool
    dtype: np.dtype[Any]


class Rows(ABC):
    """Blocks of users, and how to run functions on them.

    A function gets the block, then `shared`, the same for all blocks, then ``each[i]``,
    for block i only.
    """

    # Threads within a block during a product; None: all cores
    threads_per_block: int | None = None
    # Bytes that this process may take for these data; None: whatever is free
    memory: int | None = None
    # Applied to each matrix as a block is read
    _prepares: tuple[Prepare, ...] = ()

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of blocks."""

    @abstractmethod
    def sizes(self) -> list[BlockSize]:
        """Return the counts of every block; computed once."""

    def whole(self) -> RowBlock | None:
        """Return the block where all rows are one block in this process, otherwise None."""
        return None

    @abstractmethod
    def handles(self) -> list[Any]:
        """Return a placeholder per block, for `each` of other rows with the same users."""

    def map(
        self, function: Callable[..., Any], *shared: Any, each: Each | None = None
    ) -> list[Any]:
        """Return the result for every block, in the order of the blocks."""
        return list(self.results(function, shared, each))

    def total(self, function: Callable[..., Any], *shared: Any, each: Each | None = None) -> Any:
        """Return the sum of the results, by default from the first to the last: two at a time."""
        total: Any = None
        for number, part in enumerate(self.results(function, shared, each)):
            if number == 0:
                total = part
            elif isinstance(total, np.ndarray):
                total += part  # no other code uses this array
            else:
                total = pairwise_sum(total, part)
        return total

    def results(
        self, function: Callable[..., Any], shared: tuple[Any, ...], each: Each | None
    ) -> Iterator[Any]:
        """Yield the result for every block, computed in this process."""
        for number, handle in enumerate(self.handles()):
            own_arguments = () if each is None else each[number]
            block, *others = map(self.loaded, (handle, *own_arguments))
            yield function(block, *shared, *others)

    def loaded(self, value: Any) -> Any:
        """Return the block of a placeholder in this process; anything else unchanged."""
        return value

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Each | None = None
    ) -> Rows:
        """Return new blocks."""
        return self.stored(self.results(function, shared, each))

    def stored(self, blocks: Iterable[RowBlock]) -> Rows:
        """Return rows of new blocks, each stored as it comes; for rows in this process."""
        raise NotImplementedError

    def prepared(self, prepare: Prepare) -> Self:
        """Return the same rows with a function applied to each matrix as it is read."""
        view = copy(self)
        view._prepares = (*self._prepares, prepare)
        return view

    def check_memory(self, n_items: int, width: int, columns: int) -> None:  # noqa: B027
        """Refuse a fit whose vectors do not fit: `width` per pass, `columns` in the basis."""


def pairwise_sum(*parts: Any) -> Any:
    """Add results from left to right: arrays, numbers, or tuples of them."""
    first, *others = parts
    if isinstance(first, tuple):
        return tuple(pairwise_sum(*column) for column in zip(*parts, strict=True))
    total = first
    for other in others:
        total = total + other
    return total


def worker_bytes(n_items: int, width: int, threads: int = 1) -> int:
    """Memory of a worker during one pass, without its blocks: V, and three m × b sums per thread.

    A thread holds the sum that it computes and, while it adds two, those two and their total.
    V is weighted in place instead of being sent twice. The last pass is in float64: 8 bytes.
    """
    return 8 * n_items * width * (1 + 3 * threads)


def driver_bytes(n_items: int, columns: int, width: int) -> int:
    """Memory of the process that calls `fit`: the Krylov basis in float32, and working copies."""
    return 4 * n_items * (columns + width) + 8 * n_items * 4 * width

"""A block of users, and what is asked of it: pure functions that any machine can run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.spectral.norms import column_norms, squared_column_norms

Floats = NDArray[np.float64]
Prepare = Callable[[sp.csr_array], sp.csr_array]


class RowBlock(NamedTuple):
    """Some users with all their interactions.

    Attributes
    ----------
    matrix : csr_array of shape (users, n_items)
        Canonical, positive.
    user_ids : ndarray
        Of the rows.
    order : ndarray of int64
        Where each user first appeared in the data: rows of all blocks, sorted by it, are the rows
        of the local matrix.
    timestamps : ndarray or None
        Aligned with ``matrix.data``.
    """

    matrix: sp.csr_array
    user_ids: NDArray[Any]
    order: NDArray[np.int64]
    timestamps: NDArray[Any] | None = None

    def __sizeof__(self) -> int:
        # a scheduler that takes a sparse matrix for a small object moves it about for nothing
        X = self.matrix
        return tuple.__sizeof__(self) + int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


class BlockSet(Protocol):
    """Blocks somewhere, and who runs functions on them. A function gets the block first."""

    def __len__(self) -> int:
        """Return the number of blocks."""

    def handles(self) -> list[Any]:
        """Return what stands for each block in the `each` of a question about others."""

    def collect(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> list[Any]:
        """Return what the function says of every block, in their order.

        `shared` goes to all blocks, ``each[i]`` (a tuple) to block i alone.
        """

    def total(
        self, function: Callable[..., Any], *shared: Any, each: Sequence[Any] | None = None
    ) -> Any:
        """Return the sum of what the function says of every block, in one fixed order."""

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Sequence[Any] | None = None
    ) -> BlockSet:
        """Return new blocks."""

    def check_room(self, n_items: int, width: int, columns: int) -> None:
        """Refuse a fit whose vectors will not fit, with the number of bytes needed."""


def worker_bytes(n_items: int, width: int, threads: int = 1) -> int:
    """Memory of a worker during one pass, without its blocks: V, and three m × b sums per thread.

    A thread holds the sum that it computes and, while it adds two, those two and their total.
    V is weighted in place instead of being sent twice. The last pass is in float64: 8 bytes.
    """
    return 8 * n_items * width * (1 + 3 * threads)


def driver_bytes(n_items: int, columns: int, width: int) -> int:
    """Memory of the process that calls `fit`: the Krylov basis in float32, and working copies."""
    return 4 * n_items * (columns + width) + 8 * n_items * 4 * width


class Shape(NamedTuple):
    """Sizes of a block."""

    users: int
    nnz: int
    has_times: bool


def shape_of(block: RowBlock) -> Shape:
    """Return how large a block is."""
    return Shape(block.matrix.shape[0], block.matrix.nnz, block.timestamps is not None)


def column_powers(block: RowBlock, power: int, prepare: Prepare | None = None) -> Floats:
    """Σ_i X_ij^power over the block's users, of stored entries, for every item j; 0, 1 or 2."""
    X = signal(block, prepare)
    if power == 2:
        return squared_column_norms(X)
    return np.bincount(X.indices, X.data if power else None, X.shape[1]).astype(np.float64)


def norms_of_columns(block: RowBlock) -> Floats:
    """Return ‖X_·j‖₂ of the block's rows, for every item j."""
    return column_norms(block.matrix)


def largest_value(block: RowBlock, prepare: Prepare | None = None) -> float:
    """Return the largest entry, 0 if there is none."""
    return float(signal(block, prepare).data.max(initial=0.0))


def signal(block: RowBlock, prepare: Prepare | None) -> sp.csr_array:
    """Return the block as the model sees it."""
    return block.matrix if prepare is None else prepare(block.matrix)


class Sweep(NamedTuple):
    """One question to the data: V, how M is weighted, and in which units to answer."""

    V: NDArray[Any]
    weights: NDArray[Any] | None
    scale: float
    prepare: Prepare | None
    compiled: bool
    threads: int | None


def block_product(block: RowBlock, ask: Sweep) -> NDArray[Any]:
    """XᵀXV / scale of the block's rows, or ½(w∘XᵀXV + XᵀX(w∘V)) / scale with weights."""
    X = _in_units(signal(block, ask.prepare), ask.V.dtype, ask.scale)
    if ask.compiled:
        from equipoise.spectral import kernels

        V = _read_only(np.ascontiguousarray(ask.V))
        return kernels.sweep(X, V, ask.weights, threads=ask.threads)
    if ask.weights is None:
        plain: NDArray[Any] = X.T @ (X @ ask.V)
        return plain
    w, width = ask.weights[:, None], ask.V.shape[1]
    both = X.T @ (X @ np.hstack([ask.V, w * ask.V]))
    weighted: NDArray[Any] = (w * both[:, :width] + both[:, width:]) / 2
    return weighted


def _in_units(X: sp.csr_array, dtype: np.dtype[Any], scale: float) -> sp.csr_array:
    """Divide by √scale, so that float32 neither over- nor underflows; nothing of it is kept."""
    values = (X.data / np.sqrt(scale)).astype(dtype)
    parts = (_read_only(values), _read_only(X.indices), _read_only(X.indptr))
    return sp.csr_array(parts, shape=X.shape, copy=False)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    """A view nobody can write to: what came over the network is, and loops compile for one kind."""
    view = array.view()
    view.flags.writeable = False
    return view


def pairwise_sum(*parts: Any) -> Any:
    """Add results left to right: arrays, numbers, or tuples of them."""
    first, *others = parts
    if isinstance(first, tuple):
        return tuple(pairwise_sum(*column) for column in zip(*parts, strict=True))
    total = first
    for other in others:
        total = total + other
    return total

"""Item metrics of users in blocks: sums over blocks, by the formulas of the metrics in memory.

An item ranks all users, and they are in many blocks. For its AUC each block returns the scores of
its users with the item; those scores, sorted, go back to all blocks, and each block counts its
users below them. The sums are whole numbers: the result does not depend on the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.exceptions import InvalidDataError
from equipoise.metrics._ties import (
    factor_limits,
    row_norms,
    settled,
    significant_bits,
    splitter,
)
from equipoise.metrics.projection import weighted_basis
from equipoise.metrics.reconstruction import item_error_from_products
from equipoise.metrics.results import FloatArray

# Scores that a block may hold at a time: 64 MB
_SCORES_AT_ONCE = 2**23


class Block(Protocol):
    """Some users: `equipoise.data.rows.RowBlock`."""

    @property
    def matrix(self) -> sp.csr_array:
        """Users × items."""


class Blocks(Protocol):
    """Users in blocks: `equipoise.data.Interactions`, or anything with the same sums."""

    @property
    def n_users(self) -> int:
        """Number of rows."""

    @property
    def n_items(self) -> int:
        """Number of columns."""

    def map(self, function: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return the result for every block, in order."""

    def total(self, function: Callable[..., Any], *shared: Any) -> Any:
        """Return the sum over all blocks."""

    def gram(self) -> Any:
        """Return the products XᵀXV."""


class _Ask(NamedTuple):
    """Which items are scored, and how: X U diag(f) u_j minus P_jj X_·j."""

    left: FloatArray
    right: FloatArray  # of the items to score
    items: NDArray[np.intp]
    limits: FloatArray  # of the items to score, per ‖x_i‖
    factor: Any  # keeps the significant bits of a score


class _Sorted(NamedTuple):
    """Ascending scores of the positives of all items, one after the other, and where they end."""

    scores: FloatArray
    ends: NDArray[np.intp]


def item_auc_by_block(
    data: Blocks,
    item_factors: ArrayLike,
    *,
    spectrum: ArrayLike | None = None,
    items: ArrayLike | None = None,
) -> FloatArray:
    """In-sample item AUC with the diagonal zeroed; as `equipoise.metrics.item_auc`.

    Scores every user for every item, users × items × rank multiplications in all: for a large
    catalog, pass a sample of `items`.

    Parameters
    ----------
    data : Interactions
        The users, from which scores are computed; labels are X > 0.
    item_factors : array-like of shape (n_items, R)
        Orthonormal: ``model.components_.T``.
    spectrum : array-like of shape (R,), optional
        Weights of the components.
    items : array-like of int, optional
        Columns; all by default.

    Returns
    -------
    ndarray of shape (items,)
        nan for an item without users, or with all of them.
    """
    factors = np.asarray(item_factors)
    basis = weighted_basis(factors, spectrum)
    if len(basis.left) != data.n_items:
        raise InvalidDataError(
            f"the data have {data.n_items} items, item_factors has {len(basis.left)} rows."
        )
    chosen = np.arange(data.n_items) if items is None else np.asarray(items, dtype=np.intp)
    if len(chosen) and not (chosen.min() >= 0 and chosen.max() < data.n_items):
        raise InvalidDataError(f"items must be columns, 0 to {data.n_items - 1}.")
    largest = max(data.map(_count_users))
    step = max(1, _SCORES_AT_ONCE // max(1, largest))
    rank = np.array([basis.left.shape[1]])
    limits = factor_limits(basis.right, rank, factors.dtype)[0]
    factor = splitter(significant_bits(factors.dtype), np.float64)
    parts = [
        _few(data, _Ask(basis.left, basis.right[some], some, limits[some], factor))
        for some in np.split(chosen, range(step, len(chosen), step))
    ]
    return np.concatenate(parts)


def item_error_by_block(
    data: Blocks,
    item_factors: ArrayLike,
    ranks: Sequence[int] | None = None,
    *,
    spectrum: ArrayLike | None = None,
) -> FloatArray:
    """Normalized item error at every rank, from one pass; as `equipoise.metrics.item_error`.

    Parameters
    ----------
    data : Interactions
        The users, as they were projected.
    item_factors : array-like of shape (n_items, R)
        Orthonormal: ``model.components_.T``.
    ranks, spectrum
        As there.
    """
    U = np.asarray(item_factors, dtype=np.float64)
    if U.ndim != 2 or len(U) != data.n_items:
        raise InvalidDataError(
            f"item_factors must be {data.n_items} items × components, got shape {U.shape}."
        )
    gram = data.gram()
    products = gram.product(U) * gram.scale
    return item_error_from_products(products, gram.squared_norms, U, ranks, spectrum=spectrum)


def _count_users(block: Block) -> int:
    return int(block.matrix.shape[0])


def _few(data: Blocks, ask: _Ask) -> FloatArray:
    positives = _merged(data.map(_positive_scores, ask))
    twice = data.total(_not_beaten, ask, positives)
    n_positive = np.diff(np.append(0, positives.ends))
    n_negative = data.n_users - n_positive
    # every positive was counted against the positives too: n_positive² / 2 pairs in all
    won = 2 * n_positive * data.n_users - twice - n_positive**2
    defined = (n_positive > 0) & (n_negative > 0)
    pairs = np.where(defined, 2.0 * n_positive * n_negative, np.nan)
    auc: FloatArray = won / pairs
    return auc


def _merged(parts: list[list[FloatArray]]) -> _Sorted:
    by_item = [np.sort(np.concatenate(scores)) for scores in zip(*parts, strict=True)]
    return _Sorted(np.concatenate(by_item), np.cumsum([len(scores) for scores in by_item]))


def _scores(block: Block, ask: _Ask) -> Iterator[tuple[FloatArray, NDArray[Any]]]:
    """Scores of the block's users for each item, and which of them have it."""
    X = block.matrix
    scores = ask.right @ (X @ ask.left).T
    columns = X[:, ask.items].tocsc()
    diagonal = np.einsum("ij,ij->i", ask.left[ask.items], ask.right)
    sizes = row_norms(X)
    for item, (first, last) in enumerate(pairwise(columns.indptr)):
        row, users = scores[item], columns.indices[first:last]
        row[users] -= diagonal[item] * columns.data[first:last]
        yield settled(row, ask.limits[item] * sizes, ask.factor), users


def _positive_scores(block: Block, ask: _Ask) -> list[FloatArray]:
    return [row[users] for row, users in _scores(block, ask)]


def _not_beaten(block: Block, ask: _Ask, positives: _Sorted) -> NDArray[np.int64]:
    """Σ over users of positives below them, and of those not above them: ties count half."""
    counts = np.zeros(len(ask.items), np.int64)
    by_item = np.split(positives.scores, positives.ends[:-1])
    for place, (row, _) in enumerate(_scores(block, ask)):
        ranked = by_item[place]
        counts[place] = np.searchsorted(ranked, row).sum()
        counts[place] += np.searchsorted(ranked, row, side="right").sum()
    return counts

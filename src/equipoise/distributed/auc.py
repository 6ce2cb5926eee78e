"""Item AUC of data in blocks, exact: positives are gathered and sorted, everybody is counted.

An item ranks all users, and they are in many blocks. Each block says how its users with the item
score; those scores, sorted, go back to all blocks, and each counts its users into them. What is
added up are whole numbers: the result does not depend on the blocks.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.distributed.blocks import Floats, Prepare, RowBlock, shape_of, signal
from equipoise.exceptions import InvalidDataError
from equipoise.metrics._ties import (
    factor_limits,
    row_norms,
    settled,
    significant_bits,
    splitter,
)
from equipoise.metrics.projection import weighted_basis

if TYPE_CHECKING:
    from equipoise.distributed.blocked import BlockedInteractions

# Scores that a block may hold at a time: 64 MB
_SCORES_AT_ONCE = 2**23


class _Ask(NamedTuple):
    """Which items are scored, and how: X U diag(f) u_j less P_jj X_·j."""

    left: Floats
    right: Floats  # of the items asked for
    items: NDArray[np.intp]
    prepare: Prepare | None
    limits: Floats  # of the items asked for, per ‖x_i‖
    factor: Any  # keeps the bits of a score that count


class _Sorted(NamedTuple):
    """Ascending scores of the positives of all items, one after the other, and where they end."""

    scores: Floats
    ends: NDArray[np.intp]


def item_auc(
    data: BlockedInteractions,
    item_factors: ArrayLike,
    *,
    spectrum: ArrayLike | None = None,
    items: ArrayLike | None = None,
    prepare: Prepare | None = None,
) -> Floats:
    """In-sample item AUC with the diagonal zeroed; as `equipoise.metrics.item_auc`.

    Scores every user for every item asked for, users × items × rank multiplications in all: on a
    large catalogue, ask for a sample of `items`.

    Parameters
    ----------
    data : BlockedInteractions
        The users; labels are X > 0.
    item_factors : array-like of shape (n_items, R)
        Orthonormal: ``model.components_.T``.
    spectrum : array-like of shape (R,), optional
        Weights of the components.
    items : array-like of int, optional
        Columns; all by default.
    prepare : callable, optional
        From rows as they are stored to those that scores are computed from.

    Returns
    -------
    ndarray of shape (items,)
        nan for an item that nobody or everybody touched.
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
    largest = max(shape.users for shape in data.blocks.collect(shape_of))
    step = max(1, _SCORES_AT_ONCE // max(1, largest))
    rank = np.array([basis.left.shape[1]])
    limits = factor_limits(basis.right, rank, factors.dtype)[0]
    factor = splitter(significant_bits(factors.dtype), np.float64)
    parts = [
        _few(data, _Ask(basis.left, basis.right[some], some, prepare, limits[some], factor))
        for some in np.split(chosen, range(step, len(chosen), step))
    ]
    return np.concatenate(parts)


def _few(data: BlockedInteractions, ask: _Ask) -> Floats:
    positives = _merged(data.blocks.collect(_positive_scores, ask))
    twice = data.blocks.total(_not_beaten, ask, positives)
    n_positive = np.diff(np.append(0, positives.ends))
    n_negative = data.n_users - n_positive
    # every positive was counted against the positives too: n_positive² / 2 pairs in all
    won = 2 * n_positive * data.n_users - twice - n_positive**2
    defined = (n_positive > 0) & (n_negative > 0)
    pairs = np.where(defined, 2.0 * n_positive * n_negative, np.nan)
    auc: Floats = won / pairs
    return auc


def _merged(parts: list[list[Floats]]) -> _Sorted:
    by_item = [np.sort(np.concatenate(scores)) for scores in zip(*parts, strict=True)]
    return _Sorted(np.concatenate(by_item), np.cumsum([len(scores) for scores in by_item]))


def _scores(block: RowBlock, ask: _Ask) -> Iterator[tuple[Floats, NDArray[Any]]]:
    """Scores of the block's users for each item, and which of them have it."""
    X = signal(block, ask.prepare)
    scores = ask.right @ (X @ ask.left).T
    columns = X[:, ask.items].tocsc()
    diagonal = np.einsum("ij,ij->i", ask.left[ask.items], ask.right)
    sizes = row_norms(X)
    for item, (first, last) in enumerate(pairwise(columns.indptr)):
        row, users = scores[item], columns.indices[first:last]
        row[users] -= diagonal[item] * columns.data[first:last]
        yield settled(row, ask.limits[item] * sizes, ask.factor), users


def _positive_scores(block: RowBlock, ask: _Ask) -> list[Floats]:
    return [row[users] for row, users in _scores(block, ask)]


def _not_beaten(block: RowBlock, ask: _Ask, positives: _Sorted) -> NDArray[np.int64]:
    """Σ over users of positives below them, and of those not above them: ties count half."""
    counts = np.zeros(len(ask.items), np.int64)
    by_item = np.split(positives.scores, positives.ends[:-1])
    for place, (row, _) in enumerate(_scores(block, ask)):
        ranked = by_item[place]
        counts[place] = np.searchsorted(ranked, row).sum()
        counts[place] += np.searchsorted(ranked, row, side="right").sum()
    return counts

"""Scores (XP′)_·j without the diagonal, block of items by block of items."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

import numpy as np
import scipy.sparse as sp

from equipoise.metrics._ties import (
    factor_limits,
    row_norms,
    settled,
    significant_bits,
    smallest_share,
    splitter,
)
from equipoise.metrics.projection import Basis
from equipoise.metrics.results import FloatArray, IntArray
from equipoise.parallel import one_blas_thread

# A block of scores takes 8 MB, which stays in the cache while it is counted; more, up to 32 MB,
# where BLAS would have fewer items than this to work on.
_SCORES_AT_ONCE, _MOST_SCORES = 2**20, 2**22
_FEWEST_ITEMS = 32

# Below this many scores NumPy is done (a quarter of a second) before numba is imported. They are
# counted over all calls, because many small calls are worth the import too. If numba is loaded,
# far fewer are worth a compiled loop. No result depends on it.
_COMPILED_FROM, _COMPILED_FROM_WHEN_LOADED = 2**22, 2**18


class ScoreBlock(NamedTuple):
    """Scores of a block of items at one rank, the diagonal still in them."""

    block: slice  # positions in the items to score
    rank: int  # position in the ranks
    scores: FloatArray  # items × users
    diagonal: FloatArray  # P_jj, to subtract where the user has an entry
    limits: FloatArray  # times ‖x_i‖: below it a score without the diagonal is rounding


class Scorer(Protocol):
    """Anything that scores all users for a block of items."""

    n_ranks: int
    bits: int  # of a score that count

    def blocks(self, items: IntArray) -> Iterator[ScoreBlock]:
        """Yield every block of items at every rank."""
        ...


class FactorScorer:
    """Scores X U diag(f) u_j at several ranks, each from the one before."""

    def __init__(self, X: sp.csr_array, basis: Basis, ranks: IntArray, dtype: Any) -> None:
        self.n_ranks = len(ranks)
        self._order = np.argsort(ranks, kind="stable")
        self._ranks = ranks
        self._users = np.asarray(X @ basis.left[:, : ranks.max()])
        self._items = basis.right
        self._diagonal = basis.diagonal(ranks)
        self._limits = factor_limits(basis.right, ranks, dtype)
        self.bits = significant_bits(dtype)

    def blocks(self, items: IntArray) -> Iterator[ScoreBlock]:
        """Yield every block of items, ranks ascending within it."""
        n_users = len(self._users)
        # only rank 0 reads the initial values; untouched memory costs nothing
        blank = np.empty if self._ranks.min() > 0 else np.zeros
        for block in _item_blocks(len(items), n_users):
            chosen = items[block]
            scores, done = blank((len(chosen), n_users)), 0
            for position in self._order:
                rank = self._ranks[position]
                if rank > done:
                    added = self._items[chosen, done:rank] @ self._users[:, done:rank].T
                    scores = added if done == 0 else np.add(scores, added, out=scores)
                    done = rank
                diagonal, limits = (t[position, chosen] for t in (self._diagonal, self._limits))
                yield ScoreBlock(block, int(position), scores, diagonal, limits)


class SimilarityScorer:
    """Scores X S_·j of a full item-item matrix, such as EASE's."""

    n_ranks = 1
    bits = significant_bits(np.float64)  # the matrix counts as exact, whatever its type

    def __init__(self, X: sp.csr_array, similarity: FloatArray) -> None:
        self._X = X
        self._similarity = similarity

    def blocks(self, items: IntArray) -> Iterator[ScoreBlock]:
        """Yield every block of items; the diagonal is left out from the start."""
        for block in _item_blocks(len(items), self._X.shape[0]):
            chosen = items[block]
            columns = self._similarity[:, chosen]
            columns[chosen, np.arange(len(chosen))] = 0.0
            scores = np.ascontiguousarray((self._X @ columns).T)
            limits = smallest_share(np.float64) * np.linalg.norm(columns, axis=0)
            yield ScoreBlock(block, 0, scores, np.zeros(len(chosen)), limits)


class ItemScores(NamedTuple):
    """AUC and precision, (ranks × items) each; precision is nan for k = 0."""

    auc: FloatArray
    precision: FloatArray


class Users(NamedTuple):
    """All users by item, and what decides ties of their scores; see `equipoise.metrics._ties`."""

    inputs: Any  # CSC matrix that scores are computed from
    labels: Any  # CSC matrix of the users who have an item
    sizes: FloatArray  # ‖x_i‖ of every user
    factor: Any  # keeps the bits that count

    @classmethod
    def of(cls, labels: sp.csr_array, inputs: sp.csr_array, bits: int) -> Users:
        """Return the users of two users × items matrices."""
        columns = labels.tocsc()
        own = columns if inputs is labels else inputs.tocsc()
        return cls(own, columns, row_norms(inputs), splitter(bits, np.float64))


class _Tally:
    """Counts the scores that were ranked without numba."""

    def __init__(self) -> None:
        self._so_far = 0

    def is_large(self, n_scores: int) -> bool:
        """Return whether to use the compiled loop for so many more scores."""
        if "numba" in sys.modules:
            return n_scores >= _COMPILED_FROM_WHEN_LOADED
        self._so_far += n_scores
        return self._so_far >= _COMPILED_FROM


_tally = _Tally()


def score_labels(
    scorer: Scorer, labels: sp.csr_array, inputs: sp.csr_array, items: IntArray, k: int
) -> ItemScores:
    """Rank each item's users by score and compare with their labels; k = 0 skips precision."""
    users = Users.of(labels, inputs, scorer.bits)
    result = ItemScores(*(np.empty((scorer.n_ranks, len(items))) for _ in range(2)))
    n_scores = labels.shape[0] * len(items) * scorer.n_ranks
    count = _count_compiled if _tally.is_large(n_scores) else _count_plain
    # items are divided among our own threads; threads of BLAS would spin in between
    with one_blas_thread():
        for part in scorer.blocks(items):
            found = ItemScores(*(table[part.rank, part.block] for table in result))
            count(part, items[part.block], users, k, found)
    return result


def _count_compiled(
    part: ScoreBlock, items: IntArray, users: Users, k: int, found: ItemScores
) -> None:
    from equipoise.metrics._kernels import score_items

    inputs, labels = users.inputs, users.labels
    columns = (inputs.indptr, inputs.indices, inputs.data, labels.indptr, labels.indices)
    scores = (part.scores, part.diagonal, part.limits, items)
    score_items(*scores, users.sizes, users.factor, *columns, k, **found._asdict())


def _count_plain(
    part: ScoreBlock, items: IntArray, users: Users, k: int, found: ItemScores
) -> None:
    for b, (ranked, positives) in enumerate(ranked_rows(part, items, users)):
        found.auc[b] = _auc(ranked, np.sort(ranked[positives]))
        found.precision[b] = np.nan
        if k and len(positives):
            found.precision[b] = np.isin(top_users(ranked, k), positives).sum() / k


def ranked_rows(
    part: ScoreBlock, items: IntArray, users: Users
) -> Iterator[tuple[FloatArray, IntArray]]:
    """Yield for each item the users' scores without the diagonal, and the users who have it."""
    own, labels = users.inputs[:, items], users.labels
    row = np.empty(part.scores.shape[1])
    for b, j in enumerate(items):
        row[:] = part.scores[b]
        entries = slice(own.indptr[b], own.indptr[b + 1])
        row[own.indices[entries]] -= part.diagonal[b] * own.data[entries]
        ranked = settled(row, part.limits[b] * users.sizes, users.factor)
        yield ranked, labels.indices[labels.indptr[j] : labels.indptr[j + 1]]


def _auc(scores: FloatArray, positives: FloatArray) -> float:
    twice = np.array(positives_below(scores, positives))
    return float(auc_from_counts(twice, np.array(len(positives)), len(scores)))


def positives_below(scores: FloatArray, positives: FloatArray) -> int:
    """Σ over users of sorted positives below the user, plus of those not above: ties count once.

    O(n log n_pos).
    """
    below = positives.searchsorted(scores)
    # nothing equals an entry beyond the last positive, so clipping makes no ties
    tied = below[positives.take(below, mode="clip") == scores] if len(positives) else below[:0]
    not_above = positives.searchsorted(positives[tied], side="right")
    return 2 * int(below.sum()) + int(not_above.sum()) - int(tied.sum())


def auc_from_counts(below: IntArray, n_positive: IntArray, n_users: int) -> FloatArray:
    """AUC from the sums of `positives_below` over all users."""
    n_negative = n_users - n_positive
    # every positive was counted against the positives too: n_positive² / 2 pairs in all
    won = 2 * n_positive * n_users - below - n_positive**2
    pairs = np.where((n_positive > 0) & (n_negative > 0), 2.0 * n_positive * n_negative, np.nan)
    return np.asarray(won / pairs)


def top_users(scores: FloatArray, k: int) -> IntArray:
    """Return the k users with the highest scores; of equal scores the smaller index stays."""
    lowest = np.partition(scores, len(scores) - k)[len(scores) - k]
    above = np.flatnonzero(scores > lowest)
    level = np.flatnonzero(scores == lowest)[: k - len(above)]
    return np.concatenate([above, level])


def _item_blocks(n_items: int, n_users: int) -> Iterator[slice]:
    fewest = min(_FEWEST_ITEMS, _MOST_SCORES // max(1, n_users))
    step = max(1, fewest, _SCORES_AT_ONCE // max(1, n_users))
    for start in range(0, n_items, step):
        yield slice(start, min(start + step, n_items))

"""Item AUC and item precision: how well other items predict an item's users.

A score is (XP′)_ij = Σ_{j′≠j} X_ij′ P_j′j: the prediction from the user's *other* items. Every
item ranks all users by score; the users who touched it should come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import (
    check_items,
    check_matrix,
    check_ranks,
    check_whole_number,
)
from equipoise.defaults import MEASURED_K
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import slices
from equipoise.metrics.metric import declared
from equipoise.metrics.projection import (
    Basis,
    Block,
    Blocks,
    ItemView,
    check_n_items,
    column_slices,
    in_blocks,
    weighted_basis,
)
from equipoise.metrics.results import FloatArray, IntArray
from equipoise.metrics.ties import (
    factor_limits,
    row_norms,
    settled,
    significant_bits,
    smallest_share,
    splitter,
)
from equipoise.parallel import Tally, map_in_threads, thread_count

# Scores that blocks send at a time: 128 MB for those of the positives.
_SCORES_SENT = 2**24

# A block of scores takes 16 MB, which stays in the cache while it is counted; more, up to 32 MB,
# where BLAS would have fewer items than this to work on.
_SCORES_AT_ONCE, _MOST_SCORES = 2**21, 2**22
_FEWEST_ITEMS = 32

# Below this many scores NumPy is done (a quarter of a second) before numba is imported: `Tally`.
_COMPILED_FROM, _COMPILED_FROM_WHEN_LOADED = 2**22, 2**18


class ItemCollaboration(NamedTuple):
    """Item AUC and item precision from one pass over the scores."""

    ranks: IntArray | None
    items: IntArray
    auc: FloatArray
    precision: FloatArray
    k: int


def item_auc(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    component_weights: ArrayLike | None = None,
    ranks: Sequence[int] | IntArray | None = None,
    items: ArrayLike | None = None,
) -> FloatArray:
    """In-sample item AUC with the diagonal zeroed.

        AUC_j = (#{(a, b) : s_a > s_b} + ½ #{(a, b) : s_a = s_b}) / (n⁺ n⁻),   s = (XP′)_·j

    where

    - a runs over the n⁺ users with X_aj > 0 and b over the n⁻ others;
    - P′ is P = U Uᵀ (or the similarity matrix) with its diagonal set to zero.

    Scores that differ by rounding alone count as equal: a score is compared to 39 significant bits
    (19 for float32 factors), and is zero below 2^-39 of the length of the user's row. Otherwise
    equal to `sklearn.metrics.roc_auc_score` item by item, at O(n log n⁺) each; memory is X, the
    n × r user factors and one block of scores, never n × m.

    Parameters
    ----------
    X : sparse matrix (n, m) or Interactions
        Users × items; labels are X > 0. `Interactions` may be on disk or on a cluster.
    item_factors : array-like of shape (m, R), optional
        Orthonormal, or any factors: their column space is taken.
    similarity : array-like of shape (m, m), optional
        A full item-item matrix instead of factors, such as EASE's; scores are X S.
    inputs : sparse matrix (n, m) or callable, optional
        The matrix that scores are computed from, X by default: for Normalized PCA X diag(1/p).
        For `Interactions`, a function from a CSR matrix of some rows to that matrix.
    component_weights : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ, for models that weigh their components.
    ranks : sequence of int, optional
        Numbers of leading factors to score with. All R by default.
    items : array-like of int, optional
        Only these items.

    Returns
    -------
    ndarray of shape (items,), or (len(ranks), items) if ranks are given
        nan for an item without users, or with all of them.

    Examples
    --------
    P is 1/2 everywhere, so a user scores 1/2 for an item if they have the other one, else 0.
    Item 0 has positives at 1/2, 1/2, 0 and negatives at 1/2, 0: of six pairs two are won,
    three are tied, one is lost.

    >>> X = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
    >>> U = [[2**-0.5], [2**-0.5]]
    >>> item_auc(X, U).round(4).tolist()
    [0.5833, 0.5833]
    """
    return item_collaboration(
        X,
        item_factors,
        k=None,
        similarity=similarity,
        inputs=inputs,
        component_weights=component_weights,
        ranks=ranks,
        items=items,
    ).auc


def item_precision(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int = MEASURED_K,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    component_weights: ArrayLike | None = None,
    ranks: Sequence[int] | IntArray | None = None,
    items: ArrayLike | None = None,
) -> FloatArray:
    """In-sample item precision at k with the diagonal zeroed.

        Precision_j@k = (1/k) #{i ∈ T_j : X_ij > 0}

    where T_j are the k users with the highest scores (XP′)_·j. Of users with equal scores the
    one with the smaller index comes first.

    Parameters
    ----------
    X, item_factors, similarity, inputs, component_weights, ranks, items
        As in `item_auc`.
    k : int, default 20
        How many users, at most n.

    Returns
    -------
    ndarray of shape (items,), or (len(ranks), items) if ranks are given
        nan for an item without users.

    Examples
    --------
    >>> X = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
    >>> item_precision(X, [[2**-0.5], [2**-0.5]], k=2).tolist()
    [1.0, 1.0]
    """
    return item_collaboration(
        X,
        item_factors,
        k=k,
        similarity=similarity,
        inputs=inputs,
        component_weights=component_weights,
        ranks=ranks,
        items=items,
    ).precision


def item_collaboration(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int | None = MEASURED_K,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    component_weights: ArrayLike | None = None,
    ranks: Sequence[int] | IntArray | None = None,
    items: ArrayLike | None = None,
) -> ItemCollaboration:
    """Item AUC and item precision in one pass; see `item_auc` and `item_precision`.

    Parameters
    ----------
    X, item_factors, similarity, inputs, component_weights, ranks, items
        As in `item_auc`.
    k : int or None, default 20
        As in `item_precision`; None leaves the precision out, as nan.

    Examples
    --------
    >>> X = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
    >>> both = item_collaboration(X, [[2**-0.5], [2**-0.5]], k=2, ranks=[0, 1])
    >>> both.auc.round(4).tolist()
    [[0.5, 0.5], [0.5833, 0.5833]]
    """
    if (item_factors is None) == (similarity is None):
        raise InvalidParameterError("pass either item_factors (m × r) or similarity (m × m).")
    data, prepare = in_blocks(X, inputs)
    if k is not None:
        check_whole_number("k", k, 1, data.n_users)
    chosen = check_items(items, data.n_items)
    model: ItemModel
    if similarity is None:
        factors = np.asarray(item_factors)
        basis = weighted_basis(factors, component_weights)
        check_n_items(data.n_items, basis)
        rank = basis.left.shape[1]
        sizes = check_ranks([rank] if ranks is None else ranks, rank)
        model = Factors(basis, sizes, factors.dtype, prepare)
    elif component_weights is None and ranks is None:
        model = Similarity(_check_similarity(similarity, data.n_items), prepare)
    else:
        raise InvalidParameterError(
            "component_weights and ranks need item_factors: a similarity matrix has neither."
        )
    auc, precision = collaboration_by_block(data, model, chosen, k or 0)
    if ranks is None:
        return ItemCollaboration(None, chosen, auc[0], precision[0], k or 0)
    return ItemCollaboration(model.sizes, chosen, auc, precision, k or 0)


def _check_similarity(similarity: ArrayLike, n_items: int) -> FloatArray:
    S = check_matrix(similarity, "similarity")
    if S.shape != (n_items, n_items):
        raise InvalidDataError(
            f"similarity must be items × items, {n_items} × {n_items}, got {S.shape}."
        )
    return S


class ScoreBlock(NamedTuple):
    """Scores of a block of items at one rank; the diagonal is to be taken off them, in place."""

    block: slice  # positions in the items to score
    rank: int  # position in the ranks
    scores: FloatArray  # items × users; the next rank adds to them
    diagonal: FloatArray  # what this rank adds to P_jj, to subtract where the user has an entry
    limits: FloatArray  # times ‖x_i‖: below it a score without the diagonal is rounding


#: from items and a block of them to its scores at every rank; the array may be used again
Scorer = Callable[[IntArray, slice], Iterator[ScoreBlock]]


class Factors(NamedTuple):
    """The part of an `ItemView` that is sent to the blocks: scores X U diag(f) u_j at each size."""

    basis: Basis
    sizes: IntArray
    dtype: np.dtype[Any]
    inputs: Callable[[Any], Any]

    @property
    def bits(self) -> int:
        """Those of the factors' precision."""
        return significant_bits(self.dtype)

    def scorer(self, X: Any) -> Scorer:
        """Return what scores the users of these rows, each rank from the one before."""
        from equipoise.metrics.growing import growing_scores

        left, right = self.basis
        order = np.argsort(self.sizes, kind="stable")
        edges = [0, *self.sizes[order]]
        users = np.empty((edges[-1], X.shape[0]))
        for columns in column_slices(edges[-1]):
            users[columns] = (X @ np.ascontiguousarray(left[:, columns])).T
        limits = factor_limits(right, self.sizes, self.dtype)
        diagonal = np.diff(self.basis.diagonal(np.array(edges)), axis=0)

        def score(items: IntArray, block: slice) -> Iterator[ScoreBlock]:
            chosen = items[block]
            growing = growing_scores(right[chosen], users, edges[1:])
            for position, added, scores in zip(order, diagonal, growing, strict=True):
                yield ScoreBlock(
                    block, int(position), scores, added[chosen], limits[position, chosen]
                )

        return score


class Similarity(NamedTuple):
    """A full item × item matrix S of float64, such as EASE's: scores X S_·j, and one size."""

    matrix: FloatArray
    inputs: Callable[[Any], Any]

    @property
    def sizes(self) -> IntArray:
        """One, the number of items."""
        return np.array([len(self.matrix)])

    @property
    def bits(self) -> int:
        """Those of float64: the matrix counts as exact, whatever its type was."""
        return significant_bits(np.float64)

    def scorer(self, X: Any) -> Scorer:
        """Return what scores the users of these rows; the diagonal is left out from the start."""

        def score(items: IntArray, block: slice) -> Iterator[ScoreBlock]:
            chosen = items[block]
            columns = self.matrix[:, chosen]
            columns[chosen, np.arange(len(chosen))] = 0.0
            scores = np.ascontiguousarray((X @ columns).T)
            limits = smallest_share(np.float64) * np.linalg.norm(columns, axis=0)
            yield ScoreBlock(block, 0, scores, np.zeros(len(chosen)), limits)

        return score


#: what is sent to the blocks, to score their users
ItemModel = Factors | Similarity


class ItemScores(NamedTuple):
    """AUC and precision, (ranks × items) each; precision is nan for k = 0."""

    auc: FloatArray
    precision: FloatArray


def collaboration_of_view(view: ItemView, k: int) -> ItemScores:
    """Item AUC and item precision of users in any number of blocks, (sizes × items) each.

    The view keeps them: metrics of one view share the pass over the scores.
    """
    if k not in view.kept:
        model = Factors(view.basis, view.sizes, view.factors.dtype, view.prepare)
        view.kept[k] = collaboration_by_block(view.data, model, view.items, k)
    found: ItemScores = view.kept[k]
    return found


def collaboration_by_block(
    data: Blocks, model: ItemModel, items: IntArray, k: int, *, scores_sent: int = _SCORES_SENT
) -> ItemScores:
    """Item AUC and item precision of users in any number of blocks, (sizes × items) each.

    One block is ranked at once. Of several blocks, each first sends the scores of its positives
    and its k highest; then each counts its users into the sorted positives of all blocks. Counts
    are whole numbers, so the result does not depend on the blocks.
    """
    if k:
        check_whole_number("k", k, 1, data.n_users)
    if len(data.rows) == 1:
        scores: list[ItemScores] = data.map(score_labels, model, items, k)
        return scores[0]
    n_positive = np.asarray(data.total(_users_per_item), np.int64)[items]
    # an item's share of what is sent: its positives, and k candidates of every block
    sent = len(model.sizes) * (n_positive + 3 * k * len(data.rows))
    edges = np.flatnonzero(np.diff(np.cumsum(sent) // scores_sent)) + 1
    parts = [_score_items(data, model, some, k) for some in np.split(items, edges)]
    return ItemScores(*(np.concatenate(tables, axis=1) for tables in zip(*parts, strict=True)))


class _Candidates(NamedTuple):
    """What one block contributes to the ranking of some items' users.

    Attributes
    ----------
    positives : ndarray
        Scores of the users who have an item, item by item and size by size.
    counts : ndarray of shape (sizes, items)
        How many of them there are.
    scores, order, labels : ndarray of shape (sizes, items, k)
        The highest scores, the ranks of these users in the data, and whether they have the item.
    """

    positives: FloatArray
    counts: NDArray[np.int64]
    scores: FloatArray
    order: NDArray[np.int64]
    labels: NDArray[np.bool_]


def _score_items(data: Blocks, model: ItemModel, items: IntArray, k: int) -> ItemScores:
    found: list[_Candidates] = data.map(_candidates, model, items, k)
    counts = np.stack([one.counts for one in found])
    split = [np.split(one.positives, np.cumsum(one.counts)[:-1]) for one in found]
    positives = [np.sort(np.concatenate(scores)) for scores in zip(*split, strict=True)]
    below = data.total(_count_below, model, items, positives)
    n_positive = counts.sum(axis=0)
    auc = auc_from_counts(below, n_positive, data.n_users)
    precision = np.full(auc.shape, np.nan)
    if k:
        scores, order, labels = (
            np.concatenate(tables, axis=2) for tables in list(zip(*found, strict=True))[2:]
        )
        best = np.lexsort((order, -scores), axis=2)[:, :, :k]
        precision = np.take_along_axis(labels, best, axis=2).sum(axis=2) / k
    return ItemScores(auc, np.where(n_positive > 0, precision, np.nan))


def _ranked(
    block: Block, model: ItemModel, items: IntArray
) -> Iterator[tuple[int, int, UserScores, IntArray]]:
    """Yield (size, item, scores of the block's users, those who have it); items by position."""
    scorer, users = _prepared(block, model)
    for some in _item_blocks(len(items), block.matrix.shape[0]):
        for part in scorer(items, some):
            rows = ranked_rows(part, items[some], users)
            for place, (ranked, positives) in enumerate(rows, start=some.start):
                yield part.rank, place, ranked, positives


def _candidates(block: Block, model: ItemModel, items: IntArray, k: int) -> _Candidates:
    shape = (len(model.sizes), len(items))
    positives: dict[tuple[int, int], FloatArray] = {}
    scores = np.full((*shape, k), -np.inf)
    order = np.full((*shape, k), np.iinfo(np.int64).max)
    labels = np.zeros((*shape, k), np.bool_)
    kept = min(k, block.matrix.shape[0])
    for size, place, ranked, users in _ranked(block, model, items):
        positives[size, place] = ranked.settled(users)
        if kept:
            compared = ranked.settled()
            best = top_users(compared, kept)
            scores[size, place, :kept] = compared[best]
            order[size, place, :kept] = block.order[best]
            labels[size, place, :kept] = np.isin(best, users)
    by_item = [positives.get(at, np.zeros(0)) for at in np.ndindex(*shape)]
    counts = np.array([len(one) for one in by_item], np.int64).reshape(shape)
    return _Candidates(np.concatenate([*by_item, np.zeros(0)]), counts, scores, order, labels)


def _count_below(
    block: Block, model: ItemModel, items: IntArray, positives: list[FloatArray]
) -> NDArray[np.int64]:
    shape = (len(model.sizes), len(items))
    below = np.zeros(shape, np.int64)
    longest = max(map(len, positives))
    count = _counter(block.matrix.shape[0], longest) if _is_large(block, shape) else _count_plain
    for size, place, ranked, _ in _ranked(block, model, items):
        below[size, place] = count(ranked, positives[size * shape[1] + place])
    return below


def _counter(n_users: int, n_positive: int) -> Callable[[UserScores, FloatArray], int]:
    """Return the compiled form of `_count_plain`."""
    from equipoise.metrics import kernels

    room, nobody = kernels.make_room(n_users, n_positive), np.empty(0, np.int32)

    def count(scores: UserScores, positives: FloatArray) -> int:
        raw, limit, sizes, factor = scores
        largest = float(sizes.max(initial=0.0))
        rules = raw, limit, sizes, largest, factor
        return int(kernels.positives_below(*rules, positives, nobody, room))

    return count


def _users_per_item(block: Block) -> IntArray:
    return np.bincount(block.matrix.indices, minlength=block.matrix.shape[1])


class Users(NamedTuple):
    """All users by item, and what decides ties of their scores; see `equipoise.metrics.ties`."""

    inputs: Any  # CSC matrix that scores are computed from
    labels: Any  # CSC matrix of the users who have an item
    sizes: FloatArray  # ‖x_i‖ of every user
    factor: Any  # keeps the bits that count

    @classmethod
    def of(cls, labels: sp.csr_array, inputs: sp.csr_array, bits: int) -> Users:
        """Return the users of two users × items matrices."""
        columns = labels.tocsc()
        own = columns if inputs is labels else inputs.tocsc()
        # one type of values, or else each would compile its own loops
        own = own.astype(np.float64, copy=False)
        return cls(own, columns, row_norms(inputs), splitter(bits, np.float64))


class UserScores(NamedTuple):
    """Scores of all users for an item, and what decides their ties."""

    raw: FloatArray
    limit: float  # times the sizes
    sizes: FloatArray
    factor: Any

    def settled(self, users: Any = slice(None)) -> FloatArray:
        """Return the scores that are compared, of these users."""
        return settled(self.raw[users], self.limit * self.sizes[users], self.factor)


_tally = Tally()


def _is_large(block: Block, shape: tuple[int, int]) -> bool:
    """Whether compiled loops pay for the scores of all users at (sizes × items)."""
    return _tally.is_large(
        block.matrix.shape[0] * shape[0] * shape[1],
        at_first=_COMPILED_FROM,
        when_loaded=_COMPILED_FROM_WHEN_LOADED,
    )


def _prepared(block: Block, model: ItemModel) -> tuple[Scorer, Users]:
    inputs = model.inputs(block.matrix)
    return model.scorer(inputs), Users.of(block.matrix, inputs, model.bits)


def score_labels(block: Block, model: ItemModel, items: IntArray, k: int) -> ItemScores:
    """Rank each item's users by score and compare with their labels; k = 0 skips precision."""
    scorer, users = _prepared(block, model)
    n_users, shape = block.matrix.shape[0], (len(model.sizes), len(items))
    result = ItemScores(np.empty(shape), np.empty(shape))
    large = _is_large(block, shape)
    rank = _rank_compiled if large else _rank_plain

    def work(some: slice) -> None:
        for part in scorer(items, some):
            found = ItemScores(*(table[part.rank, some] for table in result))
            rank(part, items[some], users, k, found)

    threads = thread_count() if large else 1
    blocks = list(_item_blocks(len(items), n_users, threads))
    for _ in map_in_threads(work, blocks, threads):
        pass
    return result


def _rank_compiled(
    part: ScoreBlock, items: IntArray, users: Users, k: int, found: ItemScores
) -> None:
    from equipoise.metrics.kernels import fill_auc, fill_precision, make_room

    inputs, labels, n_users = users.inputs, users.labels, part.scores.shape[1]
    rules = (part.scores, part.limits, users.sizes, users.factor)
    largest = float(users.sizes.max(initial=0.0))
    own, have = (inputs.indptr, inputs.indices, inputs.data), (labels.indptr, labels.indices)
    values, room = np.empty(n_users), make_room(n_users, n_users)
    fill_auc(*rules, largest, part.diagonal, items, *own, *have, found.auc, values, room)
    if k:
        best = np.empty(k, np.int64), np.empty(k)
        fill_precision(*rules, items, *have, found.precision, values, *best)
    else:
        found.precision[:] = np.nan


def _rank_plain(part: ScoreBlock, items: IntArray, users: Users, k: int, found: ItemScores) -> None:
    for b, (scores, positives) in enumerate(ranked_rows(part, items, users)):
        below = _count_plain(scores, np.sort(scores.settled(positives)))
        found.auc[b] = auc_from_counts(below, len(positives), len(scores.raw))
        found.precision[b] = np.nan
        if k and len(positives):
            found.precision[b] = np.isin(top_users(scores.settled(), k), positives).sum() / k


def _count_plain(scores: UserScores, positives: FloatArray) -> int:
    return positives_below(scores.settled(), positives)


def ranked_rows(
    part: ScoreBlock, items: IntArray, users: Users
) -> Iterator[tuple[UserScores, IntArray]]:
    """Yield for each item the users' scores without the diagonal, and the users who have it."""
    own, labels = users.inputs[:, items], users.labels
    for b, j in enumerate(items):
        entries, raw = slice(own.indptr[b], own.indptr[b + 1]), part.scores[b]
        raw[own.indices[entries]] -= part.diagonal[b] * own.data[entries]
        scores = UserScores(raw, part.limits[b], users.sizes, users.factor)
        yield scores, labels.indices[labels.indptr[j] : labels.indptr[j + 1]]


def positives_below(scores: FloatArray, positives: FloatArray) -> int:
    """Σ over users of sorted positives below the user, plus of those not above: ties count once.

    O(n log n_pos).
    """
    below = positives.searchsorted(scores)
    # nothing equals an entry beyond the last positive, so clipping makes no ties
    tied = below[positives.take(below, mode="clip") == scores] if len(positives) else below[:0]
    not_above = positives.searchsorted(positives[tied], side="right")
    return 2 * int(below.sum()) + int(not_above.sum()) - int(tied.sum())


def auc_from_counts(below: Any, n_positive: Any, n_users: int) -> FloatArray:
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


def _item_blocks(n_items: int, n_users: int, threads: int = 1) -> Iterator[slice]:
    fewest = min(_FEWEST_ITEMS, _MOST_SCORES // max(1, n_users))
    step = max(1, fewest, _SCORES_AT_ONCE // max(1, n_users))
    return slices(n_items, max(1, min(step, -(-n_items // threads))))


def _measure_auc(view: ItemView, *_: Any) -> FloatArray:
    return collaboration_of_view(view, view.k).auc


def _measure_precision(view: ItemView, _: Any, k: int, __: str) -> FloatArray:
    return collaboration_of_view(view, k).precision


METRICS = declared(item_auc=_measure_auc, item_precision=_measure_precision)

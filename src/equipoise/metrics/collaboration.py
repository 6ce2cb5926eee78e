"""Item AUC and item precision: how well other items predict an item's users.

A score is (XP′)_ij = Σ_{j′≠j} X_ij′ P_j′j: the prediction from the user's *other* items. Every
item ranks all users by score; the users who touched it should come first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics._checks import (
    check_items,
    check_k,
    check_matrix,
    check_ranks,
    check_same_shape,
    check_user_items,
)
from equipoise.metrics._offdiagonal import (
    FactorScorer,
    ItemScores,
    Scorer,
    SimilarityScorer,
    Users,
    auc_from_counts,
    positives_below,
    ranked_rows,
    score_labels,
    top_users,
)
from equipoise.metrics.metric import Metric
from equipoise.metrics.projection import (
    Basis,
    Block,
    Blocks,
    ItemView,
    Whole,
    check_n_items,
    weighted_basis,
)
from equipoise.metrics.results import FloatArray, IntArray

DEFAULT_K = 20

# Scores that blocks send at a time: 128 MB for those of the positives.
_SCORES_SENT = 2**24


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
    return _collaborate(
        X, item_factors, similarity, inputs, component_weights, ranks, items, None
    ).auc


def item_precision(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int = DEFAULT_K,
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
    return _collaborate(
        X, item_factors, similarity, inputs, component_weights, ranks, items, k
    ).precision


def item_collaboration(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int = DEFAULT_K,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    component_weights: ArrayLike | None = None,
    ranks: Sequence[int] | IntArray | None = None,
    items: ArrayLike | None = None,
) -> ItemCollaboration:
    """Item AUC and item precision in one pass; see `item_auc` and `item_precision`.

    Examples
    --------
    >>> X = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
    >>> both = item_collaboration(X, [[2**-0.5], [2**-0.5]], k=2, ranks=[0, 1])
    >>> both.auc.round(4).tolist()
    [[0.5, 0.5], [0.5833, 0.5833]]
    """
    return _collaborate(X, item_factors, similarity, inputs, component_weights, ranks, items, k)


def _collaborate(
    X: Any,
    item_factors: ArrayLike | None,
    similarity: ArrayLike | None,
    inputs: Any,
    component_weights: ArrayLike | None,
    ranks: Sequence[int] | IntArray | None,
    items: ArrayLike | None,
    k: int | None,
) -> ItemCollaboration:
    if (item_factors is None) == (similarity is None):
        raise InvalidParameterError("pass either item_factors (m × r) or similarity (m × m).")
    data, prepare = _in_blocks(X, inputs)
    if k is not None:
        check_k(k, data.n_users, "k", "the number of users")
    chosen = check_items(items, data.n_items)
    model: ItemModel
    if similarity is None:
        factors = np.asarray(item_factors)
        basis = weighted_basis(factors, component_weights)
        check_n_items(data.n_items, basis)
        n_components = basis.left.shape[1]
        sizes = check_ranks([n_components] if ranks is None else ranks, n_components)
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


def _in_blocks(X: Any, inputs: Any) -> tuple[Blocks, Callable[[Any], Any]]:
    """Return the users, and the function from their rows to those that are scored."""
    if isinstance(X, Blocks):
        if not (inputs is None or callable(inputs)):
            raise InvalidParameterError(
                "inputs of Interactions must be a function of a CSR matrix."
            )
        return X, inputs or _unchanged
    labels = check_user_items(X)
    if inputs is None:
        return Whole(labels), _unchanged
    scored = check_user_items(inputs, "inputs")
    check_same_shape(labels, scored, ("X", "inputs"))
    return Whole(labels), lambda _: scored


def _unchanged(labels: Any) -> Any:
    return labels


def _check_similarity(similarity: ArrayLike, n_items: int) -> FloatArray:
    S = check_matrix(similarity, "similarity")
    if S.shape != (n_items, n_items):
        raise InvalidDataError(
            f"similarity must be items × items, {n_items} × {n_items}, got {S.shape}."
        )
    return S


class ItemModel(Protocol):
    """A model that can be sent to the blocks."""

    @property
    def sizes(self) -> IntArray:
        """Its sizes."""

    @property
    def inputs(self) -> Callable[[Any], Any]:
        """From rows of labels to the rows that the model scores."""

    def scorer(self, inputs: Any) -> Scorer:
        """Return what scores the users of these rows."""


class Factors(NamedTuple):
    """The part of an `ItemView` that is sent to the blocks."""

    basis: Basis
    sizes: IntArray
    dtype: np.dtype[Any]
    inputs: Callable[[Any], Any]

    def scorer(self, inputs: Any) -> Scorer:
        """Return what scores the users of these rows."""
        return FactorScorer(inputs, self.basis, self.sizes, self.dtype)


class Similarity(NamedTuple):
    """A full item × item matrix of float64; it has one size."""

    matrix: FloatArray
    inputs: Callable[[Any], Any]

    @property
    def sizes(self) -> IntArray:
        """One, the number of items."""
        return np.array([len(self.matrix)])

    def scorer(self, inputs: Any) -> Scorer:
        """Return what scores the users of these rows."""
        return SimilarityScorer(inputs, self.matrix)


def collaboration_of_view(view: ItemView, k: int) -> ItemScores:
    """Item AUC and item precision of users in any number of blocks, (sizes × items) each."""
    model = Factors(view.basis, view.sizes, view.factors.dtype, view.prepare or _unchanged)
    return collaboration_by_block(view.data, model, view.items, k)


def collaboration_by_block(data: Blocks, model: ItemModel, items: IntArray, k: int) -> ItemScores:
    """Item AUC and item precision of users in any number of blocks, (sizes × items) each.

    One block is ranked at once. Of several blocks, each first sends the scores of its positives
    and its k highest; then each counts its users into the sorted positives of all blocks. Counts
    are whole numbers, so the result does not depend on the blocks.
    """
    if k:
        check_k(k, data.n_users, "k", "the number of users")
    if len(data.rows) == 1:
        (found,) = data.map(_score_block, model, items, k)
        return ItemScores(*found)
    n_positive = np.asarray(data.total(_users_per_item), np.int64)[items]
    # an item's share of what is sent: its positives, and k candidates of every block
    sent = len(model.sizes) * (n_positive + 3 * k * len(data.rows))
    edges = np.flatnonzero(np.diff(np.cumsum(sent) // _SCORES_SENT)) + 1
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
    found = [_Candidates(*one) for one in data.map(_candidates, model, items, k)]
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


def _score_block(block: Block, model: ItemModel, items: IntArray, k: int) -> ItemScores:
    inputs = model.inputs(block.matrix)
    return score_labels(model.scorer(inputs), block.matrix, inputs, items, k)


def _ranked(
    block: Block, model: ItemModel, items: IntArray
) -> Iterator[tuple[int, int, FloatArray, IntArray]]:
    """Yield (size, item, scores of the block's users, those who have it); items by position."""
    inputs = model.inputs(block.matrix)
    scorer = model.scorer(inputs)
    users = Users.of(block.matrix, inputs, scorer.bits)
    for part in scorer.blocks(items):
        rows = ranked_rows(part, items[part.block], users)
        for place, (ranked, positives) in enumerate(rows, start=part.block.start):
            yield part.rank, place, ranked, positives


def _candidates(block: Block, model: ItemModel, items: IntArray, k: int) -> _Candidates:
    shape = (len(model.sizes), len(items))
    positives: dict[tuple[int, int], FloatArray] = {}
    scores = np.full((*shape, k), -np.inf)
    order = np.full((*shape, k), np.iinfo(np.int64).max)
    labels = np.zeros((*shape, k), np.bool_)
    kept = min(k, block.matrix.shape[0])
    for size, place, ranked, users in _ranked(block, model, items):
        positives[size, place] = ranked[users]
        if kept:
            best = top_users(ranked, kept)
            scores[size, place, :kept] = ranked[best]
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
    for size, place, ranked, _ in _ranked(block, model, items):
        below[size, place] = positives_below(ranked, positives[size * shape[1] + place])
    return below


def _users_per_item(block: Block) -> IntArray:
    return np.bincount(block.matrix.indices, minlength=block.matrix.shape[1])


def _measure_auc(view: ItemView, _: Any, k: int | None, __: str) -> FloatArray:
    return collaboration_of_view(view, k or 0).auc


def _measure_precision(view: ItemView, _: Any, k: int, __: str) -> FloatArray:
    return collaboration_of_view(view, k).precision


METRICS = (
    Metric(
        "item_auc",
        "Item AUC",
        "share of pairs (user with the item, user without) that the other items rank right",
        _measure_auc,
        needs=("factors", "groups"),
        direction="higher",
        has_k=False,
    ),
    Metric(
        "item_precision",
        "Item precision",
        "share of users with the item among the k users that the other items rank highest",
        _measure_precision,
        needs=("factors", "groups"),
        direction="higher",
    ),
)

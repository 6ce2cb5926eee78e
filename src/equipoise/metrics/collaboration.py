"""Do items help each other? Item AUC and precision from the off-diagonal of the model.

A score is (XP′)_ij = Σ_{j′≠j} X_ij′ P_j′j: what the user's *other* items say about item j. Every
item then ranks all users, and the users who did touch it should stand first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from equipoise.metrics._checks import (
    check_items,
    check_k,
    check_same_shape,
    check_user_items,
)
from equipoise.metrics._offdiagonal import make_scorer, score_labels
from equipoise.metrics.results import FloatArray, IntArray

DEFAULT_K = 20


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
    spectrum: ArrayLike | None = None,
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
    equal to `sklearn.metrics.roc_auc_score` item by item, at O(n log n⁺) each; memory is one
    block of scores beside X and the n × r user factors, never n × m.

    Parameters
    ----------
    X : sparse matrix (n, m)
        Users × items; labels are X > 0.
    item_factors : array-like of shape (m, R), optional
        Orthonormal, or any factors: their column space is taken.
    similarity : array-like of shape (m, m), optional
        A full item-item matrix instead of factors, EASE's for one; scores are X S.
    inputs : sparse matrix (n, m), optional
        What the scores are computed from, X itself by default. Normalized PCA scores with
        X diag(1/p): give that here, and X for the labels.
    spectrum : array-like of shape (R,), optional
        Weights f of P = U diag(f) Uᵀ, for models that grade their components.
    ranks : sequence of int, optional
        Score at these prefixes of the factors, each from the one before. All R by default.
    items : array-like of int, optional
        Only these items.

    Returns
    -------
    ndarray of shape (items,), or (len(ranks), items) if ranks are given
        nan for an item that nobody or everybody touched.

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
    return _collaborate(X, item_factors, similarity, inputs, spectrum, ranks, items, None).auc


def item_precision(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int = DEFAULT_K,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    spectrum: ArrayLike | None = None,
    ranks: Sequence[int] | IntArray | None = None,
    items: ArrayLike | None = None,
) -> FloatArray:
    """In-sample item precision at k with the diagonal zeroed.

        Precision_j@k = (1/k) #{i ∈ T_j : X_ij > 0}

    where T_j are the k users with the highest scores (XP′)_·j. Of users with equal scores the
    one with the smaller index comes first.

    Parameters
    ----------
    X, item_factors, similarity, inputs, spectrum, ranks, items
        As in `item_auc`.
    k : int, default 20
        How many users, at most n.

    Returns
    -------
    ndarray of shape (items,), or (len(ranks), items) if ranks are given
        nan for an item that nobody touched.

    Examples
    --------
    >>> X = [[1, 1], [1, 1], [1, 0], [0, 1], [0, 0]]
    >>> item_precision(X, [[2**-0.5], [2**-0.5]], k=2).tolist()
    [1.0, 1.0]
    """
    return _collaborate(X, item_factors, similarity, inputs, spectrum, ranks, items, k).precision


def item_collaboration(
    X: Any,
    item_factors: ArrayLike | None = None,
    *,
    k: int = DEFAULT_K,
    similarity: ArrayLike | None = None,
    inputs: Any = None,
    spectrum: ArrayLike | None = None,
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
    return _collaborate(X, item_factors, similarity, inputs, spectrum, ranks, items, k)


def _collaborate(
    X: Any,
    item_factors: ArrayLike | None,
    similarity: ArrayLike | None,
    inputs: Any,
    spectrum: ArrayLike | None,
    ranks: Sequence[int] | IntArray | None,
    items: ArrayLike | None,
    k: int | None,
) -> ItemCollaboration:
    labels = check_user_items(X)
    scored = labels if inputs is None else check_user_items(inputs, "inputs")
    check_same_shape(labels, scored, ("X", "inputs"))
    if k is not None:
        check_k(k, labels.shape[0], "k", "the number of users")
    chosen = check_items(items, labels.shape[1])
    scorer = make_scorer(scored, item_factors, similarity, spectrum, ranks)
    auc, precision = score_labels(scorer, labels, scored, chosen, k or 0)
    if ranks is None:
        return ItemCollaboration(None, chosen, auc[0], precision[0], k or 0)
    return ItemCollaboration(np.asarray(ranks, dtype=np.intp), chosen, auc, precision, k or 0)

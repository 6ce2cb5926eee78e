"""Novelty: how unlikely users are to have known what they are shown (Vargas & Castells 2011)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics._checks import (
    check_choice,
    check_same_shape,
    check_top_items,
    check_user_items,
)
from equipoise.metrics._hits import Hits
from equipoise.metrics._pairs import Pairs, user_mean
from equipoise.metrics.results import FloatArray, MetricResult

#: convention of `epc` and `efd` -> what it computes
NOVELTY_CONVENTIONS: Mapping[str, str] = {
    "standard": "places discounted by 1 / log2(rank + 1), held-out items only (Elliot, WarpRec)",
    "flat": "every place and every item counts alike",
}


def epc(
    top_items: ArrayLike, train: Any, test: Any = None, *, convention: str = "standard"
) -> MetricResult:
    """Expected popularity complement.

        (1/n) Σ_u [ Σ_t d(t) · ρ_{u,j_t} · (1 − n_{j_t}/n) / Σ_t d(t) ]

    where

    - j_t is the item at rank t, n_j the number of the n training users who touched item j;
    - d(t) = 1 / log2(t + 1), and ρ is 1 for a held-out item of the user, else 0. Under
      ``"flat"`` both are 1.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    train : sparse matrix (n, m)
        What users had touched.
    test : sparse matrix (n, m)
        Held-out positives; needed by ``"standard"``, not used by ``"flat"``.
    convention : str
        A key of ``NOVELTY_CONVENTIONS``.

    Returns
    -------
    MetricResult
        A user without a list is nan and left out; so is, under ``"standard"``, a user
        without held-out items.

    Examples
    --------
    >>> epc([[1, 2], [2, -1]], [[1, 1, 0], [1, 0, 0]], convention="flat").value
    0.875
    """
    X = check_user_items(train, "train")
    novelty = 1 - _user_counts(X) / max(1, X.shape[0])
    return _discounted(top_items, X, test, novelty, "epc", convention)


def efd(
    top_items: ArrayLike, train: Any, test: Any = None, *, convention: str = "standard"
) -> MetricResult:
    """Expected free discovery: mean self-information of the recommended items, in bits.

    As `epc`, with the novelty −log2(n_j / Σ n) of an item. An item that nobody touched counts
    as the rarest that somebody did: its own would be infinite.

    Examples
    --------
    Item 0 has half of the four interactions, items 1 and 2 a quarter each.

    >>> efd([[1], [0]], [[1, 1, 0], [1, 0, 1]], convention="flat").value
    1.5
    """
    X = check_user_items(train, "train")
    counts = _user_counts(X)
    seen = counts > 0
    if not seen.any():
        raise InvalidDataError("train has no positive entry: novelty needs what users know.")
    known = np.where(seen, counts, counts[seen].min())
    return _discounted(top_items, X, test, -np.log2(known / counts.sum()), "efd", convention)


def _user_counts(X: sp.csr_array) -> FloatArray:
    return np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64)


def _discounted(
    top_items: ArrayLike,
    train: sp.csr_array,
    test: Any,
    novelty: FloatArray,
    metric: str,
    convention: str,
) -> MetricResult:
    check_choice(convention, NOVELTY_CONVENTIONS, f"convention of {metric}")
    lists = check_top_items(top_items, train.shape)
    users, places = np.nonzero(lists >= 0)
    pairs = Pairs(users, lists[users, places].astype(np.intp), len(lists))
    values = novelty[pairs.items]
    if convention == "flat":
        return user_mean(metric, pairs.mean_by_user(values), convention)
    if test is None:
        raise InvalidParameterError(
            f"{metric} needs test (held-out positives): it counts relevant items only. "
            'Give test, or choose convention="flat".'
        )
    hits = Hits(lists, test)
    check_same_shape(train, hits.test, ("train", "test"))
    weights = 1 / np.log2(places + 2.0)
    per_user = pairs.mean_by_user(values * hits.matrix[users, places], weights)
    per_user[hits.relevant == 0] = np.nan
    return user_mean(metric, per_user, convention)

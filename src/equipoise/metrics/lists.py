"""Lists on their own: diversity, calibration, and whether popular items rank higher."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.checks import check_choice, check_top_items
from equipoise.exceptions import InvalidDataError
from equipoise.memory import slices
from equipoise.metrics.fairness import correlation
from equipoise.metrics.groups import ItemGroups
from equipoise.metrics.metric import (
    Context,
    Partial,
    Request,
    Totals,
    UserBlock,
    declared,
    user_mean,
)
from equipoise.metrics.popularity import average_ranks, group_shares, kl_divergence
from equipoise.metrics.results import FloatArray, Result

# Pairs of items of a block of users, times features, held at a time
_NUMBERS = 2**22
# Steck's value: it keeps the divergence finite where a group is missing from the list
_SMOOTHING = 0.01


def intra_list_diversity(
    top_items: ArrayLike, features: Any, *, convention: str = "cosine"
) -> Result:
    """Intra-list diversity: the mean distance of two items of a list.

        (1/n) Σ_u [ Σ_{i<j ∈ L_u} dist(x_i, x_j) / (|L_u| (|L_u| − 1) / 2) ]

    where x_i are the features of item i: groups, genres, or vectors of a model.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    features : ndarray or sparse matrix of shape (m, d), or ItemGroups
        One row per item.
    convention : str
        One of ``find_metric("intra_list_diversity").conventions``.

    Examples
    --------
    Distances of 0 (items 0 and 1), 1 and 1:

    >>> round(intra_list_diversity([[0, 1, 2]], [[1, 0], [2, 0], [0, 1]]).value, 4)
    0.6667
    """
    check_choice("convention", convention, METRICS["intra_list_diversity"].conventions)
    given = features.membership if isinstance(features, ItemGroups) else features
    F = np.asarray(given.toarray() if sp.issparse(given) else given, dtype=np.float64)
    if F.ndim != 2 or not np.isfinite(F).all():
        raise InvalidDataError(f"features must be finite, one row per item, got shape {F.shape}.")
    lists = check_top_items(top_items, (None, len(F)))
    return user_mean("intra_list_diversity", _diversity(lists, F, convention), convention)


def _diversity(lists: Any, F: FloatArray, convention: str) -> FloatArray:
    if convention == "cosine":
        norms = np.linalg.norm(F, axis=1, keepdims=True)
        F = np.divide(F, norms, out=np.zeros_like(F), where=norms > 0)
    n, k = lists.shape
    values = np.full(n, np.nan if convention == "cosine" else 0.0)
    step = max(1, _NUMBERS // max(1, k * F.shape[1] * (1 if convention == "cosine" else k)))
    for rows in slices(n, step):
        known = lists[rows] >= 0
        x = np.where(known[:, :, None], F[lists[rows]], 0.0)
        count = known.sum(axis=1)
        pairs = count * (count - 1) / 2
        if convention == "cosine":  # Σ_{i<j} x_i·x_j from the length of the sum
            total = x.sum(axis=1)
            own = (x * x).sum(axis=(1, 2))
            distance = pairs - ((total * total).sum(axis=1) - own) / 2
        else:
            both = known[:, :, None] & known[:, None, :]
            differ = (x[:, :, None, :] != x[:, None, :, :]).sum(axis=3)
            distance = (differ * both).sum(axis=(1, 2)) / 2
        np.divide(distance, pairs, out=values[rows], where=pairs > 0)
    return values


def calibration(top_items: ArrayLike, train: Any, groups: ItemGroups) -> Result:
    """Miscalibration by the Kullback–Leibler divergence (Steck 2018).

        (1/n) Σ_u KL(p_u ‖ q̃_u),   q̃ = (1 − a) q + a p,   a = 0.01

    where p_u and q_u are the shares of the groups in the history and in the list of user u, and KL
    has the natural logarithm. 0 is calibrated. `popularity_miscalibration` is the same with
    Jensen–Shannon's divergence in bits. Users without list or history are left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items.
    train : sparse matrix (n, m)
        The users' histories.
    groups : ItemGroups
        By popularity, or genres, providers, …

    Examples
    --------
    Half of the history is in a group that the list lacks: q̃ = (.995, .005), and
    KL = ½ log(.5 / .995) + ½ log(.5 / .005).

    >>> groups = ItemGroups(("head", "tail"), [0, 1])
    >>> round(calibration([[0]], [[1, 1]], groups).value, 4)
    1.9585
    """
    return METRICS["calibration"].of_arrays(top_items, train=train, groups=groups)


def _measure_calibration(block: UserBlock, context: Context, k: int | None, _: str) -> FloatArray:
    p, q = (group_shares(pairs, context.groups) for pairs in (block.history, block.pairs(k)))
    return kl_divergence(p, (1 - _SMOOTHING) * q + _SMOOTHING * p, np.log)


def pru(top_items: ArrayLike, test: Any, popularity: ArrayLike) -> Result:
    """Popularity-rank correlation of users (Zhu et al. 2021).

        −(1/n) Σ_u SRC_{i ∈ R_u}(φ_i, rank_u(i))

    where SRC is Spearman's rank correlation over the user's held-out items R_u, φ is popularity,
    and rank is the place in the list. Held-out items that are not listed share the place after the
    last; with lists of all items this is the paper's definition. Near 1: popular items rank higher
    than equally relevant others. Users with fewer than two held-out items, and those whose ranks or
    popularities are all equal, are left out.

    Parameters
    ----------
    top_items : array-like of int, shape (n, k)
        Recommended items of each user, -1 where a list is shorter.
    test : sparse matrix (n, m)
        Held-out positives.
    popularity : array-like of shape (m,)
        φ, usually the number of training users of each item.

    Examples
    --------
    The more popular of two held-out items ranks higher.

    >>> round(pru([[0, 1, 2]], [[1, 0, 1]], [9, 5, 1]).value, 6)
    1.0
    """
    return METRICS["pru"].of_arrays(top_items, test=test, popularity=popularity)


def pri(top_items: ArrayLike, test: Any, popularity: ArrayLike) -> Result:
    """Popularity-rank correlation of items (Zhu et al. 2021).

        −SRC_i(φ_i, mean over the users u who hold i out of rank_u(i))

    where φ is popularity and rank as in `pru`. Items that nobody holds out are left out.

    Parameters
    ----------
    top_items, test, popularity
        As in `pru`.

    Examples
    --------
    >>> round(pri([[0, 1], [1, 0]], [[1, 1], [1, 0]], [1, 9]).value, 6)
    -1.0
    """
    return METRICS["pri"].of_arrays(top_items, test=test, popularity=popularity)


def _ranks(block: UserBlock, k: int | None) -> tuple[FloatArray, Any]:
    """Return the place of every held-out item in its user's list, and the held-out matrix.

    A held-out item that is not in the list has the place after the last.
    """
    entries = block.hit_entries[:, :k]
    ranks = np.full(block.held_out.nnz, entries.shape[1] + 1.0)
    users, places = np.nonzero(entries >= 0)
    ranks[entries[users, places]] = places + 1.0
    return ranks, block.held_out


def _measure_pru(block: UserBlock, context: Context, k: int | None, _: str) -> FloatArray:
    ranks, held_out = _ranks(block, k)
    phi = context.popularity[held_out.indices]
    values = np.full(held_out.shape[0], np.nan)
    for user in np.flatnonzero(np.diff(held_out.indptr) > 1):
        own = slice(held_out.indptr[user], held_out.indptr[user + 1])
        values[user] = -correlation(average_ranks(phi[own]), average_ranks(ranks[own]))
    return values


def _measure_pri(block: UserBlock, context: Context, k: int | None, _: str) -> Partial:
    ranks, held_out = _ranks(block, k)
    sums = np.bincount(held_out.indices, weights=ranks, minlength=context.n_items)
    counts = np.bincount(held_out.indices, minlength=context.n_items).astype(np.float64)
    return Partial((sums, counts))


def _finish_pri(totals: Totals, context: Context, request: Request) -> Result:
    sums, counts = totals
    rated = counts > 0
    phi = context.popularity[rated]
    value = -correlation(average_ranks(phi), average_ranks(sums[rated] / counts[rated]))
    return request.result(value, rated.sum(), context)


def _measure_diversity(
    block: UserBlock, context: Context, k: int | None, convention: str
) -> FloatArray:
    features = context.groups.membership.toarray()
    return _diversity(block.lists[:, :k], features, convention)


METRICS = declared(
    intra_list_diversity=_measure_diversity,
    calibration=_measure_calibration,
    pru=_measure_pru,
    pri=(_measure_pri, _finish_pri),
)

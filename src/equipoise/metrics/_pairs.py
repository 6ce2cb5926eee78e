"""Lists and matrices as (user, item) pairs: what popularity metrics average over."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from equipoise.metrics._checks import check_top_items, check_user_items
from equipoise.metrics.groups import nan_mean
from equipoise.metrics.results import FloatArray, IntArray, MetricResult


class Pairs(NamedTuple):
    """Who got what: one entry per place of a list, or per positive entry of a matrix."""

    users: IntArray
    items: IntArray
    n_users: int

    def mean_by_user(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Mean value of each user's pairs; nan for a user who has none."""
        if weights is None:
            weights = np.ones(len(values))
        total = np.bincount(self.users, weights=weights, minlength=self.n_users)
        summed = np.bincount(self.users, weights=weights * values, minlength=self.n_users)
        mean = np.full(self.n_users, np.nan)
        np.divide(summed, total, out=mean, where=total > 0)
        return mean


def pairs_of_lists(top_items: ArrayLike, n_items: int, n_users: int | None = None) -> Pairs:
    """Return the pairs of recommended lists, padding left out."""
    lists = check_top_items(top_items, (n_users, n_items))
    users, places = np.nonzero(lists >= 0)
    return Pairs(users, lists[users, places].astype(np.intp), len(lists))


def pairs_of_matrix(X: Any, name: str) -> Pairs:
    """Return the positive entries of a users × items matrix."""
    csr = check_user_items(X, name)
    users = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    return Pairs(users, csr.indices.astype(np.intp), csr.shape[0])


def pairs_of(items: Any, n_items: int) -> Pairs:
    """Return the pairs of lists (a dense integer array) or of a sparse matrix."""
    return pairs_of_matrix(items, "items") if sp.issparse(items) else pairs_of_lists(items, n_items)


def user_mean(metric: str, per_user: FloatArray, convention: str) -> MetricResult:
    """Return the mean over the users the metric is defined for."""
    return MetricResult(metric, nan_mean(per_user), convention, per_user=per_user)

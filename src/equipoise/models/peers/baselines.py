"""Two baselines that every model should beat: the most popular items, and random ones."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.models.base import Recommender
from equipoise.models.parameters import RandomState

# Constants of SplitMix64: the increment of its counter (2⁶⁴ by the golden ratio), and the shifts
# and multipliers of its finalizer.
_INCREMENT = np.uint64(0x9E3779B97F4A7C15)
_ROUNDS = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)
_LAST_SHIFT = np.uint64(31)

# Scores computed at a time: they stay in the cache of a core during a dozen passes.
_CHUNK = 2**15


class Popularity(Recommender):
    """Recommend the items with the most users, to everybody.

    The score of item j is s_j = |{u : X_uj > 0}|.

    where

    - X is users × items, and values above zero count once, however large they are.

    Attributes
    ----------
    user_counts_ : ndarray of int64, shape (n_items,)
        s, the number of users of each item.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    Equally popular items are ranked by position in the catalog. The model has no similarity
    between items, so `similar_items` lists none (−1, or None for ids that are text, and NaN).
    A score does not depend on the user's items: `explain` reports a contribution of 0 for each
    and the whole score as `rest`.

    References
    ----------
    Paolo Cremonesi, Yehuda Koren and Roberto Turrin, "Performance of recommender algorithms on
    top-n recommendation tasks", RecSys 2010 (there: TopPop).

    Examples
    --------
    >>> X = np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 2.0, 1.0]])
    >>> model = Popularity().fit(X)
    >>> model.user_counts_.tolist()
    [1, 3, 1]
    >>> model.recommend(np.zeros(3), k=3)
    Ranking(ids=array([1, 0, 2]), scores=array([3., 1., 1.]))
    """

    ranks_without_items = True

    def _fit(self, data: Interactions) -> None:
        """Count the users of each item."""
        self.user_counts_ = data.popularity("count").astype(np.int64)

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        return np.broadcast_to(self.user_counts_.astype(np.float64), user_items.shape)


@dataclass(eq=False, repr=False)
class Random(Recommender):
    """Recommend random items: uniform scores, determined by the seed and the user's own row.

    The score of item j for a row x is h(t(x) + (j + 1)·φ) / 2⁵³, in [0, 1), with

        t(x) = h(seed + Σ_{i : x_i > 0} h(h(i) + bits(x_i))).

    where

    - h is the finalizer of SplitMix64, a bijection of 64-bit integers, of which the last step
      takes the upper 53 bits; all sums are modulo 2⁶⁴,
    - φ = 2⁶⁴ / golden ratio, the generator's increment: each row has the stream of SplitMix64 that
      starts at t(x),
    - bits(x_i) are those of the value as a float64.

    A score depends only on the seed, the row and the item's column. It is the same in a batch as
    alone, in any order of the users, in float32 as in float64, and after loading. Users with equal
    rows get equal lists; other rows get unrelated ones.

    Parameters
    ----------
    random_state : int, RandomState instance or None, default=None
        Draws the seed when the model is fitted. None means a fixed seed.

    Attributes
    ----------
    seed_ : int
        The seed that was drawn.
    n_features_in_ : int
        Number of items.
    item_ids_ : ndarray or None
        Ids of the items, where the model was fitted on `Interactions`.

    Notes
    -----
    As for `Popularity`, `similar_items` lists none, and `explain` reports the whole score as
    `rest`.

    References
    ----------
    Guy Steele, Doug Lea and Christine Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014.

    Examples
    --------
    >>> X = np.array([[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 0.0]])
    >>> model = Random(random_state=0).fit(X)
    >>> batch, single = model.recommend(X, k=2), model.recommend(X[1], k=2)
    >>> bool(np.all(batch.scores[1] == single.scores))
    True
    """

    ranks_without_items = True

    random_state: RandomState = None

    def _fit(self, data: Interactions) -> None:  # noqa: ARG002
        """Draw the seed."""
        self.seed_ = int(self._generator().integers(2**63))

    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        n_users, n_items = user_items.shape
        starts = hash_rows(user_items, self.seed_)[:, None]
        steps = _INCREMENT * np.arange(1, n_items + 1, dtype=np.uint64)
        scores = np.empty((n_users, n_items))
        chunk = max(1, _CHUNK // n_items)
        for first in range(0, n_users, chunk):
            rows = slice(first, first + chunk)
            np.multiply(_mix(starts[rows] + steps) >> np.uint64(11), 2.0**-53, out=scores[rows])
        return scores


def _mix(z: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64's finalizer, in place: every bit of the input moves about half of the output."""
    for shift, multiplier in _ROUNDS:
        z ^= z >> shift
        z *= multiplier
    z ^= z >> _LAST_SHIFT
    return z


def hash_rows(user_items: sp.csr_array, seed: int = 0) -> NDArray[np.uint64]:
    """Hash each row: t(x) of `Random`. Sums over rows are differences of one running sum.

    64 bits: among 100 million rows, two different ones share a hash with probability 0.0003.

    Examples
    --------
    >>> a, b, c = hash_rows(sp.csr_array([[1.0, 0, 2], [1, 0, 2], [1, 0, 0]]))
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    values = user_items.data.astype(np.float64).view(np.uint64)
    entries = _mix(_mix(user_items.indices.astype(np.uint64)) + values)
    running = np.zeros(user_items.nnz + 1, dtype=np.uint64)
    np.cumsum(entries, out=running[1:])
    hashes: NDArray[np.uint64] = running[user_items.indptr[1:]] - running[user_items.indptr[:-1]]
    hashes += np.uint64(seed)
    return _mix(hashes)

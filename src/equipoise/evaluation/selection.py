"""Top-k again and again: for scores that changed a little, the last list is a good guess.

From rank to rank and from filter to filter this is several times faster than starting anew. The
selection itself is that of `equipoise.models.ranking`: higher scores first, then the lower item
index.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.models.ranking import Scored, best_of_rows, rank_items

Lists = NDArray[np.int32]


def top_items(
    scores: NDArray[Any],
    seen: sp.csr_array,
    k: int,
    guess: Lists | None = None,
    *,
    limits: NDArray[Any] | None = None,
    compiled: bool = False,
) -> Lists:
    """Return the k best unseen items of each row of scores, -1 where fewer are left.

    Parameters
    ----------
    scores : ndarray of shape (n, n_items)
        Finite; C-contiguous float32 or float64.
    seen : csr_array of shape (n, n_items)
        What to leave out.
    k : int
        Length of the lists.
    guess : ndarray of shape (n, k), optional
        Lists of unseen items from similar scores; the result does not depend on them.
    limits : ndarray of shape (n,), optional
        How far the scores of a row are rounded; see `equipoise.models.ranking.Scored`.
    compiled : bool
        Pays from some million scores on; the result does not depend on it.

    Examples
    --------
    >>> scores = np.array([[0.5, 2.0, 2.0, 1.0]])
    >>> top_items(scores, sp.csr_array([[0, 1.0, 0, 0]]), 2).tolist()
    [[2, 3]]
    """
    if compiled:
        return _top_compiled(scores, seen, k, guess, limits)
    return _top_plain(scores, seen, k, limits)


def _top_plain(
    scores: NDArray[Any], seen: sp.csr_array, k: int, limits: NDArray[Any] | None
) -> Lists:
    whole = max(1, scores.size * 8)  # one block, as rank_items counts its bytes
    n_users, n_items = scores.shape
    given = scores if limits is None else Scored(scores, limits)
    ranked = rank_items(
        lambda _: given, n_users, n_items, k, seen=seen, excluded=None, block_bytes=whole
    )
    return ranked.ids.astype(np.int32)


def _top_compiled(
    scores: NDArray[Any],
    seen: sp.csr_array,
    k: int,
    guess: Lists | None,
    limits: NDArray[Any] | None,
) -> Lists:
    lists = np.full((len(scores), k), -1, np.int32)
    kept = min(k, scores.shape[1])
    lists[:, :kept] = best_of_rows(scores, seen, kept, guess, limits).ids
    return lists

"""Every rank from one fit: scores grow from rank to rank, and top-k is taken along the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import DTypeLike, NDArray

from equipoise.evaluation.selection import Lists, top_items
from equipoise.metrics._ties import row_norms, user_limits
from equipoise.models.projection import ProjectionModel
from equipoise.parallel import map_in_threads, thread_count

# A block of scores that stays in a core's own cache from the product to the selection.
_BLOCK_BYTES = 2**21

# Fewer rows at a time would leave BLAS nothing to do but read the components again and again.
_FEWEST_ROWS = 64

# From about this many scores on, loading and running the compiled selection pays.
_COMPILED_FROM = 8_000_000


class Prefixes(NamedTuple):
    """A fitted low-rank model as arrays: the score of item j for user u is Σ_i E_ui f_i U_ij.

    Attributes
    ----------
    components : ndarray of shape (R, n_items)
        Uᵀ, most important component first.
    strengths : ndarray of shape (R,)
        f; it does not depend on the rank, so that a prefix of U scores with a prefix of f.
    signal : callable
        From rows of data to what the model multiplies with U.
    """

    components: NDArray[Any]
    strengths: NDArray[Any]
    signal: Callable[[sp.csr_array], sp.csr_array]

    @classmethod
    def of(cls, model: ProjectionModel, dtype: DTypeLike | None = None) -> Self:
        """Read a fitted model, as it is or in another precision."""
        return cls(
            model.components_.astype(dtype or model.components_.dtype, copy=False),
            model.strengths().astype(dtype or model.components_.dtype, copy=False),
            model.preprocess,
        )

    def graded(self, strengths: NDArray[Any]) -> Self:
        """The same components under another spectral filter."""
        return self._replace(strengths=strengths.astype(self.components.dtype))

    def coordinates(self, user_items: sp.csr_array) -> NDArray[Any]:
        """E = X U, one row a user."""
        signal = self.signal(user_items).astype(self.components.dtype, copy=False)
        return np.asarray(signal @ self.components.T)


def growing_scores(
    coordinates: NDArray[Any], components: NDArray[Any], ranks: Sequence[int]
) -> Iterator[NDArray[Any]]:
    """Yield E[:, :r] U[:r] for rising ranks r, in one array that grows from each to the next.

    Where there are fewer components than r, all of them count.

    Examples
    --------
    >>> E, U = np.array([[1.0, 2.0]]), np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> [scores.tolist() for scores in growing_scores(E, U, [1, 2])]
    [[[1.0, 0.0]], [[1.0, 2.0]]]
    """
    scores = np.zeros((len(coordinates), components.shape[1]), coordinates.dtype)
    update = np.empty_like(scores)
    for low, high in pairwise([0, *ranks]):
        if low < len(components) and high > low:
            np.matmul(coordinates[:, low:high], components[low:high], out=update)
            scores += update
        yield scores


def top_items_by_rank(
    prefixes: Prefixes,
    user_items: sp.csr_array,
    ranks: Sequence[int],
    k: int,
    *,
    coordinates: NDArray[Any] | None = None,
    near: Lists | None = None,
    advance: Callable[[int], None] | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Lists:
    """Return the k best unseen items of every user at every rank, shape (ranks, n, k).

    Parameters
    ----------
    prefixes : Prefixes
        The model.
    user_items : csr_array of shape (n, n_items)
        What the users are scored from; also what is left out of their lists.
    ranks : sequence of int
        In rising order.
    k : int
        Length of the lists; -1 fills the places that no item is left for.
    coordinates : ndarray of shape (n, R), optional
        ``prefixes.coordinates(user_items)``, where it is at hand.
    near : ndarray of shape (ranks, n, k), optional
        Lists of a similar model, to start from; the result does not depend on them.
    advance : callable, optional
        Called with the number of users done since the last call.
    block_bytes : int
        Size of one block of scores, or of 64 rows where those are more.
    """
    n_users, n_items = user_items.shape
    lists = np.empty((len(ranks), n_users, k), np.int32)
    weighted = prefixes.strengths[:, None] * prefixes.components
    compiled = n_users * n_items * len(ranks) >= _COMPILED_FROM

    def work(rows: slice) -> int:
        seen = user_items[rows]
        E = prefixes.coordinates(seen) if coordinates is None else coordinates[rows]
        limits = user_limits(row_norms(prefixes.signal(seen)), E, prefixes.strengths)
        last = None
        for position, scores in enumerate(growing_scores(E, weighted, ranks)):
            guess = last if near is None else near[position, rows]
            last = top_items(scores, seen, k, guess, limits=limits, compiled=compiled)
            lists[position, rows] = last
        return len(E)

    step = max(_FEWEST_ROWS, block_bytes // (weighted.itemsize * n_items))
    blocks = [slice(start, min(start + step, n_users)) for start in range(0, n_users, step)]
    for done in map_in_threads(work, blocks, thread_count() if compiled else 1):
        if advance is not None:
            advance(done)
    return lists

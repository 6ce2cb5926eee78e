"""Lists of a low-rank model at every size and under every filter, from one fit.

Scores grow from size to size. The lists of the size or filter before are a good start for the
next selection, which is then several times faster; the result does not depend on them. The
selection is that of `equipoise.models.ranking`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.memory import slices
from equipoise.metrics.growing import growing_scores
from equipoise.metrics.projection import column_slices
from equipoise.metrics.ties import row_norms, user_limits
from equipoise.models.item_vectors import LowRank
from equipoise.models.ranking import best_of_rows
from equipoise.parallel import Tally, map_in_threads, thread_count

Lists = NDArray[np.int32]

# Scores of one thread at a time. Larger blocks make fewer, wider products; 8 MB bounds the memory.
_BLOCK_BYTES = 2**23

# With fewer rows at a time BLAS would mostly read the components again and again.
_FEWEST_ROWS = 64

# From about this many scores on, loading and running the compiled selection pays; see `Tally`.
_COMPILED_FROM, _COMPILED_FROM_WHEN_LOADED = 8_000_000, 2**19
_tally = Tally()


class NestedLists(NamedTuple):
    """Recommends at several sizes and under several filters; can be sent to other processes.

    Attributes
    ----------
    model : LowRank
        At its largest size.
    sizes : tuple of int
        Numbers of components, ascending. Beyond the last component, all of them count.
    weights : tuple of ndarray
        Component weights of each filter.
    """

    model: LowRank
    sizes: tuple[int, ...]
    weights: tuple[NDArray[Any], ...]

    @classmethod
    def of(
        cls, model: LowRank, sizes: Sequence[int], weights: Sequence[NDArray[Any]] = ()
    ) -> NestedLists:
        """Recommend with the model's own weights, or with several others."""
        return cls(model, tuple(sizes), tuple(weights) or (model.component_weights,))

    def in_single_precision(self) -> NestedLists:
        """Return the same in float32: half the memory traffic; ties that it makes are rare."""
        weights = tuple(each.astype(np.float32) for each in self.weights)
        model = self.model._replace(components=self.model.components.astype(np.float32))
        return NestedLists(model, self.sizes, weights)

    @property
    def n_variants(self) -> int:
        """Number of filters × number of sizes: how many lists each user gets."""
        return len(self.weights) * len(self.sizes)

    def lists(self, seen: sp.csr_array, k: int, _: Any = None) -> Iterator[Lists]:
        """Yield the k best unseen items of every user, filter by filter and size by size."""
        several = len(self.weights) > 1
        coordinates = self.model.coordinates(seen) if several else None
        near = None
        for weights in self.weights:
            model = self.model._replace(component_weights=weights)
            near = nested_lists(model, seen, self.sizes, k, coordinates=coordinates, near=near)
            yield from near


def nested_lists(
    model: LowRank,
    seen: sp.csr_array,
    sizes: Sequence[int],
    k: int,
    *,
    coordinates: NDArray[Any] | None = None,
    near: Lists | None = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Lists:
    """Return the k best unseen items of every user at every size, shape (sizes, n, k).

    Parameters
    ----------
    model : LowRank
        The model at its largest size.
    seen : csr_array of shape (n, n_items)
        What users are scored from, and what is left out of their lists.
    sizes : sequence of int
        Ascending.
    k : int
        Length of the lists; -1 where no item is left.
    coordinates : ndarray of shape (n, R), optional
        ``model.coordinates(seen)``, if it is known.
    near : ndarray of shape (sizes, n, k), optional
        Lists of a similar model to start from; the result does not depend on them.
    block_bytes : int
        Size of one block of scores, or of 64 rows if those are more.
    """
    n_users, n_items = seen.shape
    lists = np.empty((len(sizes), n_users, k), np.int32)
    weighted = model.component_weights.astype(model.components.dtype)[:, None] * model.components
    compiled = _tally.is_large(
        n_users * n_items * len(sizes),
        at_first=_COMPILED_FROM,
        when_loaded=_COMPILED_FROM_WHEN_LOADED,
    )

    parts = [
        (columns, np.ascontiguousarray(model.components[columns].T))
        for columns in column_slices(len(model.components))
    ]

    def work(rows: slice) -> None:
        own = seen[rows]
        prepared = model.prepare(own)
        if coordinates is None:
            scored = prepared.astype(weighted.dtype, copy=False)
            E = np.empty((own.shape[0], len(weighted)), weighted.dtype)
            for columns, vectors in parts:
                E[:, columns] = scored @ vectors
        else:
            E = coordinates[rows]
        limits = user_limits(row_norms(prepared), E, model.component_weights)
        left_out = np.repeat(np.arange(len(E)), np.diff(own.indptr)), own.indices
        last = None
        for position, scores in enumerate(growing_scores(E, weighted, sizes)):
            if position == 0:
                scores[left_out] = -np.inf  # and stay so, whatever is added
            guess = last if near is None else near[position, rows]
            best = best_of_rows(scores, k, guess, limits, compiled=compiled)
            lists[position, rows] = best.ids
            last = lists[position, rows]

    step = max(_FEWEST_ROWS, block_bytes // (weighted.itemsize * n_items))
    for _ in map_in_threads(work, slices(n_users, step), thread_count() if compiled else 1):
        pass
    return lists

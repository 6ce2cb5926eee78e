"""What is audited: a projection, or a full item × item matrix, asked the same questions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Floats, Kind
from equipoise.evaluation.nested import Lists, nested_lists
from equipoise.metrics import (
    components_to_reach,
    item_collaboration,
    item_error,
    self_reconstruction,
)
from equipoise.models.item_vectors import is_present
from equipoise.models.low_rank import LowRank
from equipoise.models.ranking import rank_items
from equipoise.spectral.norms import squared_column_norms

# An item owns a component if more than half of the component's squared length is its own. Of two
# items that share one equally, neither does, whatever the rounding.
OWNED_ABOVE = 0.5 + 1e-6

# Columns of X B formed at a time, as values: 128 MB.
_VALUES_AT_ONCE = 2**24


class Errors(NamedTuple):
    """Normalised item error at some ranks, and how many components halve it (inf: not enough)."""

    by_rank: Floats
    halving: Floats


class Collaboration(NamedTuple):
    """Item AUC and item precision, of shape (ranks, items asked for)."""

    auc: Floats
    precision: Floats


class Owner(NamedTuple):
    """A component, the column of the item that owns it, and the item's share of it."""

    component: int
    column: int
    weight: float


@dataclass(frozen=True, eq=False)
class Subject(ABC):
    """One model to be measured; ranks are handed in rising order."""

    key: str
    label: str
    kind: Kind
    gamma: float | None

    @abstractmethod
    def ranks(self, common: Sequence[int]) -> tuple[int, ...]:
        """Which ranks this model is measured at, given those that all have in common."""

    @property
    @abstractmethod
    def depth(self) -> int:
        """How many components there are."""

    @abstractmethod
    def diagonal(self, ranks: Sequence[int]) -> Floats:
        """How much of each item is rebuilt from itself, of shape (ranks, items)."""

    @abstractmethod
    def errors(self, X: sp.csr_array, ranks: Sequence[int]) -> Errors:
        """How much of each item is not rebuilt."""

    @abstractmethod
    def collaboration(
        self, X: sp.csr_array, ranks: Sequence[int], items: NDArray[np.intp], k: int
    ) -> Collaboration:
        """How well the other items tell who touched an item."""

    @abstractmethod
    def lists(self, seen: sp.csr_array, ranks: Sequence[int], k: int) -> Lists:
        """The k best unseen items of every user, of shape (ranks, users, k)."""

    @abstractmethod
    def similar(self, columns: NDArray[np.int64], rank: int, count: int) -> NDArray[np.int32]:
        """Nearest of the given items to each of them, by position; −1 where there are no more."""

    @abstractmethod
    def contributions(self, row: sp.csr_array, column: int, rank: int) -> Floats:
        """What each stored entry of a one-row matrix adds to an item's score."""

    def owners(self, rank: int) -> list[Owner]:  # noqa: ARG002
        """Components that one item has for itself; a matrix without components has none."""
        return []


@dataclass(frozen=True, eq=False)
class Projection(Subject):
    """P = U diag(f) Uᵀ on the rows that `model.prepare` returns.

    Attributes
    ----------
    model : LowRank
        Components, their weights, and the preparation of rows.
    own_rank : bool
        Whether to measure it at all its components too, besides the common ranks.
    vectors : ndarray of shape (items, any), optional
        Item vectors whose cosine is what their owner calls similar; rows of U f^½ by default.
    """

    model: LowRank
    own_rank: bool = False
    vectors: NDArray[Any] | None = None

    @property
    def depth(self) -> int:
        """How many components there are."""
        return len(self.model.components)

    def ranks(self, common: Sequence[int]) -> tuple[int, ...]:
        """Common ranks; of somebody's factors those that there are, and all of them."""
        if not self.own_rank:
            return tuple(common)
        return tuple(sorted({rank for rank in common if rank < self.depth} | {self.depth}))

    def diagonal(self, ranks: Sequence[int]) -> Floats:
        """How much of each item is rebuilt from itself, of shape (ranks, items)."""
        kept = self._kept(ranks)
        weights = self._weights(kept[-1])
        return self_reconstruction(self._basis(kept[-1]), kept, component_weights=weights)

    def errors(self, X: sp.csr_array, ranks: Sequence[int]) -> Errors:
        """How much of each item is not rebuilt, and how many components halve it."""
        U, f = self._basis(self.depth), self._weights(self.depth)
        by_rank = item_error(self.model.prepare(X), U, component_weights=f)
        halving = components_to_reach(by_rank, 0.5, unreached=np.inf)
        return Errors(by_rank[self._kept(ranks)], halving)

    def collaboration(
        self, X: sp.csr_array, ranks: Sequence[int], items: NDArray[np.intp], k: int
    ) -> Collaboration:
        """How well the other items tell who touched an item."""
        kept = self._kept(ranks)
        found = item_collaboration(
            X,
            self._basis(kept[-1]),
            k=k,
            inputs=self.model.prepare(X),
            component_weights=self._weights(kept[-1]),
            ranks=kept,
            items=items,
        )
        return Collaboration(found.auc, found.precision)

    def lists(self, seen: sp.csr_array, ranks: Sequence[int], k: int) -> Lists:
        """The k best unseen items of every user, of shape (ranks, users, k)."""
        return nested_lists(self.model, seen, ranks, k)

    def similar(self, columns: NDArray[np.int64], rank: int, count: int) -> NDArray[np.int32]:
        """Nearest items by the cosine of their vectors."""
        factors = self.vectors
        if factors is None:
            kept = min(rank, self.depth)
            weights = np.sqrt(self.model.component_weights[:kept])
            factors = self.model.components[:kept].T * weights
        norms = np.linalg.norm(factors, axis=1)
        present = is_present(norms)
        unit = factors[columns] / np.where(present, norms, 1.0)[columns, None]
        absent = ~present[columns]

        def cosines(rows: slice) -> NDArray[Any]:
            values: NDArray[Any] = unit[rows] @ unit.T
            values[absent[rows]] = -np.inf
            values[:, absent] = -np.inf
            return values

        return _nearest(cosines, len(columns), count)

    def contributions(self, row: sp.csr_array, column: int, rank: int) -> Floats:
        """What each stored entry of a one-row matrix adds to an item's score."""
        kept = slice(0, min(rank, self.depth))
        U, signal = self.model.components[kept], self.model.prepare(row)
        weighted = U[:, column] * self.model.component_weights[kept]
        return np.asarray(signal.data * (weighted @ U[:, signal.indices]), dtype=np.float64)

    def owners(self, rank: int) -> list[Owner]:
        """Components at a rank that one item has for itself."""
        squares = np.square(self.model.components[:rank], dtype=np.float64)
        columns = squares.argmax(axis=1)
        weights = squares[np.arange(len(squares)), columns]
        return [
            Owner(int(i), int(columns[i]), float(weights[i]))
            for i in np.flatnonzero(weights > OWNED_ABOVE)
        ]

    def _kept(self, ranks: Sequence[int]) -> NDArray[np.intp]:
        """Ranks that exist: where there are fewer components, all of them count."""
        return np.minimum(ranks, self.depth).astype(np.intp)

    def _basis(self, rank: int) -> Floats:
        # in their own precision, by which the metrics decide ties
        return np.ascontiguousarray(self.model.components[:rank].T)

    def _weights(self, rank: int) -> NDArray[Any] | None:
        weights = self.model.component_weights[:rank]
        return None if np.all(weights == 1) else weights


@dataclass(frozen=True, eq=False)
class ScoreMatrix(Subject):
    """Scores X B of a full item × item matrix, as it is: EASE, neighbours, graph filters.

    Attributes
    ----------
    scores : ndarray of shape (items, items)
        B: what an entry 1 at item i adds to the score of item j.
    signal : callable
        From rows of data to what is multiplied with B.
    """

    scores: NDArray[Any]
    signal: Any

    @property
    def depth(self) -> int:
        """Its only rank: the number of items."""
        return len(self.scores)

    def ranks(self, common: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002
        """One: the number of items."""
        return (self.depth,)

    def diagonal(self, ranks: Sequence[int]) -> Floats:  # noqa: ARG002
        """B_jj."""
        return np.asarray(self.scores.diagonal(), dtype=np.float64)[None]

    def errors(self, X: sp.csr_array, ranks: Sequence[int]) -> Errors:  # noqa: ARG002
        """‖X_·j − (XB)_·j‖² / ‖X_·j‖²; there are no components to count."""
        inputs, n_items = self.signal(X), self.depth
        left = np.empty(n_items)
        step = max(1, _VALUES_AT_ONCE // max(1, X.shape[0]))
        columns = sp.csc_array(inputs)
        for start in range(0, n_items, step):
            block = slice(start, min(start + step, n_items))
            difference = inputs @ self.scores[:, block] - columns[:, block].toarray()
            left[block] = np.einsum("ij,ij->j", difference, difference)
        total = squared_column_norms(inputs)
        relative = np.divide(left, total, out=np.full(n_items, np.nan), where=total > 0)
        return Errors(relative[None], np.full(n_items, np.nan))

    def collaboration(
        self,
        X: sp.csr_array,
        ranks: Sequence[int],  # noqa: ARG002
        items: NDArray[np.intp],
        k: int,
    ) -> Collaboration:
        """How well the other items tell who touched an item."""
        found = item_collaboration(
            X, similarity=self.scores, k=k, inputs=self.signal(X), items=items
        )
        return Collaboration(found.auc[None], found.precision[None])

    def lists(self, seen: sp.csr_array, ranks: Sequence[int], k: int) -> Lists:  # noqa: ARG002
        """The k best unseen items of every user, of shape (1, users, k)."""
        n_users, n_items = seen.shape

        def score(rows: slice) -> NDArray[Any]:
            return np.asarray(self.signal(seen[rows]) @ self.scores)

        ranked = rank_items(score, n_users, n_items, k, seen=seen, excluded=None)
        return ranked.ids.astype(np.int32)[None]

    def similar(self, columns: NDArray[np.int64], rank: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Items whose score an entry at the item raises most."""

        def weights(rows: slice) -> NDArray[Any]:
            values = self.scores[np.ix_(columns[rows], columns)]
            return np.where(values == 0, -np.inf, values)

        return _nearest(weights, len(columns), count)

    def contributions(self, row: sp.csr_array, column: int, rank: int) -> Floats:  # noqa: ARG002
        """What each stored entry of a one-row matrix adds to an item's score."""
        signal = self.signal(row)
        return np.asarray(signal.data * self.scores[signal.indices, column], dtype=np.float64)


def _nearest(values: Any, n: int, count: int) -> NDArray[np.int32]:
    """Largest values of each row without the item itself; −inf means that there is none."""
    ranked = rank_items(values, n, n, count, seen=sp.eye_array(n, format="csr"), excluded=None)
    return np.where(np.isfinite(ranked.scores), ranked.ids, -1).astype(np.int32)

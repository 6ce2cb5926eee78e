"""A model as the audit measures it: a projection, an item × item matrix, or any recommender."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Floats
from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare, RowBlock
from equipoise.evaluation.nested import Lists, NestedLists
from equipoise.evaluation.scoring import Lister
from equipoise.metrics import ItemView, components_to_reach, find_metric
from equipoise.metrics.collaboration import (
    Similarity,
    collaboration_by_block,
    collaboration_of_view,
)
from equipoise.models import Recommender
from equipoise.models.item_vectors import is_present
from equipoise.models.low_rank import LowRank
from equipoise.models.ranking import rank_items
from equipoise.spectral.norms import squared_column_norms

# An item owns a component if it has more than half of the component's squared length. If two
# items have exactly half each, neither owns it, despite rounding.
OWNED_ABOVE = 0.5 + 1e-6

# Columns of X B computed at a time, as values: 128 MB.
_VALUES_AT_ONCE = 2**24

# A model ranks this many times the wanted neighbors, of which those outside the sample are dropped.
_SPARE_NEIGHBORS = 10


class ItemNumbers(NamedTuple):
    """In-sample numbers of every item.

    Attributes
    ----------
    self_reconstruction, error : ndarray of shape (sizes, n_items)
        nan where they are not defined.
    components_to_half : ndarray of shape (n_items,)
        inf where all components do not halve the error.
    auc, precision : ndarray of shape (sizes, sampled items)
        How well other items predict the users of an item.
    """

    self_reconstruction: Floats
    error: Floats
    components_to_half: Floats
    auc: Floats
    precision: Floats


class Owner(NamedTuple):
    """A component, the column of the item that owns it, and the item's share of it."""

    component: int
    column: int
    weight: float


class Explained(NamedTuple):
    """A score, and what each stored entry of the user's row adds to it."""

    score: float
    parts: Floats


@dataclass(frozen=True, eq=False)
class AuditedModel(ABC):
    """One variant to be measured; sizes are given in ascending order."""

    key: str
    label: str
    kind: str
    settings: Mapping[str, Any]

    @property
    @abstractmethod
    def depth(self) -> int:
        """Number of components; the number of items if there are none."""

    def sizes(self, common: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Return the sizes to measure, given those of our own models; one without components."""
        return (self.depth,)

    @abstractmethod
    def measure_items(
        self, data: Interactions, sizes: Sequence[int], sample: NDArray[np.intp], k: int
    ) -> ItemNumbers:
        """Return the in-sample numbers of the items; AUC and precision of a sample."""

    @abstractmethod
    def lister(self, sizes: Sequence[int]) -> Lister:
        """Return the recommender of lists at every size."""

    @abstractmethod
    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:
        """Return the nearest of the given items to each of them, by position; −1 for none."""

    @abstractmethod
    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:
        """Return the score of an item for the user of a one-row matrix, with its parts."""

    def owners(self, size: int) -> list[Owner]:  # noqa: ARG002
        """Return the components that one item owns."""
        return []


@dataclass(frozen=True, eq=False)
class Projection(AuditedModel):
    """P = U diag(f) Uᵀ on prepared rows.

    Attributes
    ----------
    model : LowRank
        Components, their weights, and the preparation of rows.
    given : bool
        A model passed by the user: measured at its own number of components, too.
    vectors : ndarray of shape (n_items, any), optional
        Item vectors whose cosines define similar items; rows of U f^½ by default.
    """

    model: LowRank
    given: bool = False
    vectors: NDArray[Any] | None = None

    @property
    def depth(self) -> int:
        """Number of components."""
        return len(self.model.components)

    def sizes(self, common: Sequence[int]) -> tuple[int, ...]:
        """Return the common sizes; for a given model those that it has, and its own."""
        if not self.given:
            return tuple(common)
        return tuple(sorted({size for size in common if size < self.depth} | {self.depth}))

    def measure_items(
        self, data: Interactions, sizes: Sequence[int], sample: NDArray[np.intp], k: int
    ) -> ItemNumbers:
        """Return the in-sample numbers of the items; beyond the last component, all count."""
        kept = np.minimum(sizes, self.depth).astype(np.intp)
        every = self._view(data, np.arange(self.depth + 1), sample, self.depth)
        error = _measured("item_error", every)
        # at the largest size only: the precision of its scores decides ties
        view = self._view(data, kept, sample, int(kept[-1]))
        together = collaboration_of_view(view, k)
        return ItemNumbers(
            _measured("self_reconstruction", view),
            error[kept],
            components_to_reach(error, 0.5, unreached=np.inf),
            together.auc,
            together.precision,
        )

    def _view(
        self, data: Interactions, sizes: NDArray[np.intp], sample: NDArray[np.intp], depth: int
    ) -> ItemView:
        weights = self.model.component_weights[:depth]
        factors = np.ascontiguousarray(self.model.components[:depth].T)
        weighted = None if np.all(weights == 1) else weights
        return ItemView(data, self.model.prepare, factors, weighted, sizes, sample)

    def lister(self, sizes: Sequence[int]) -> Lister:
        """Return the recommender of lists at every size."""
        return NestedLists.of(self.model, sizes)

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:
        """Return the nearest items by the cosine of their vectors."""
        vectors = self.vectors
        if vectors is None:
            kept = min(size, self.depth)
            scale = np.sqrt(self.model.component_weights[:kept])
            vectors = self.model.components[:kept].T * scale
        norms = np.linalg.norm(vectors, axis=1)
        present = is_present(norms)
        unit = vectors[columns] / np.where(present, norms, 1.0)[columns, None]
        absent = ~present[columns]

        def cosines(rows: slice) -> NDArray[Any]:
            values: NDArray[Any] = unit[rows] @ unit.T
            values[absent[rows]] = -np.inf
            values[:, absent] = -np.inf
            return values

        return _nearest(cosines, len(columns), count)

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:
        """Return a score as the sum of what each entry adds."""
        kept = slice(0, min(size, self.depth))
        U, inputs = self.model.components[kept], self.model.prepare(row)
        weighted = U[:, column] * self.model.component_weights[kept]
        parts = np.asarray(inputs.data * (weighted @ U[:, inputs.indices]), dtype=np.float64)
        return Explained(float(parts.sum()), parts)

    def owners(self, size: int) -> list[Owner]:
        """Return the components at a size that one item owns."""
        squares = np.square(self.model.components[:size], dtype=np.float64)
        columns = squares.argmax(axis=1)
        weights = squares[np.arange(len(squares)), columns]
        return [
            Owner(int(i), int(columns[i]), float(weights[i]))
            for i in np.flatnonzero(weights > OWNED_ABOVE)
        ]


def _measured(metric: str, view: ItemView) -> Floats:
    return np.asarray(find_metric(metric).measure(view, None, None, "standard"))


@dataclass(frozen=True, eq=False)
class ScoreMatrix(AuditedModel):
    """Scores X B of an item × item matrix: EASE, nearest neighbors, graph filters.

    Attributes
    ----------
    scores : ndarray of shape (n_items, n_items)
        B: what an entry 1 at item i adds to the score of item j.
    prepare : callable
        From rows of data to the rows that are multiplied with B.
    """

    scores: NDArray[Any]
    prepare: Prepare

    @property
    def depth(self) -> int:
        """Number of items."""
        return len(self.scores)

    def measure_items(
        self,
        data: Interactions,
        sizes: Sequence[int],  # noqa: ARG002
        sample: NDArray[np.intp],
        k: int,
    ) -> ItemNumbers:
        """Return B_jj, ‖X_·j − (XB)_·j‖² / ‖X_·j‖², AUC and precision; no components to count."""
        left, total = data.total(_squared_errors, self.scores, self.prepare)
        error = np.divide(left, total, out=np.full(self.depth, np.nan), where=total > 0)
        model = Similarity(np.asarray(self.scores, dtype=np.float64), self.prepare)
        together = collaboration_by_block(data, model, sample, k)
        return ItemNumbers(
            np.asarray(self.scores.diagonal(), dtype=np.float64)[None],
            error[None],
            np.full(self.depth, np.nan),
            together.auc,
            together.precision,
        )

    def lister(self, sizes: Sequence[int]) -> Lister:  # noqa: ARG002
        """Return the recommender of lists."""
        return _MatrixLists(self.scores, self.prepare)

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Return the items whose score an entry at the item raises most."""

        def weights(rows: slice) -> NDArray[Any]:
            values = self.scores[np.ix_(columns[rows], columns)]
            return np.where(values == 0, -np.inf, values)

        return _nearest(weights, len(columns), count)

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:  # noqa: ARG002
        """Return a score as the sum of what each entry adds."""
        inputs = self.prepare(row)
        parts = np.asarray(inputs.data * self.scores[inputs.indices, column], dtype=np.float64)
        return Explained(float(parts.sum()), parts)


def _squared_errors(block: RowBlock, B: NDArray[Any], prepare: Prepare) -> tuple[Floats, Floats]:
    inputs = prepare(block.matrix)
    n_users, n_items = inputs.shape
    left = np.empty(n_items)
    step = max(1, _VALUES_AT_ONCE // max(1, n_users))
    columns = sp.csc_array(inputs)
    for start in range(0, n_items, step):
        part = slice(start, min(start + step, n_items))
        difference = inputs @ B[:, part] - columns[:, part].toarray()
        left[part] = np.einsum("ij,ij->j", difference, difference)
    return left, squared_column_norms(inputs)


class _MatrixLists(NamedTuple):
    """Lists of an item × item matrix."""

    scores: NDArray[Any]
    prepare: Prepare
    n_variants: int = 1

    def lists(self, seen: sp.csr_array, k: int, _: Any = None) -> Iterator[Lists]:
        """Yield the k best unseen items of every user."""
        n_users, n_items = seen.shape

        def score(rows: slice) -> NDArray[Any]:
            return np.asarray(self.prepare(seen[rows]) @ self.scores)

        yield rank_items(score, n_users, n_items, k, seen=seen, excluded=None).ids.astype(np.int32)


@dataclass(frozen=True, eq=False)
class AnyRecommender(AuditedModel):
    """A fitted model through its public methods: lists, similar items and explanations.

    The in-sample numbers of items need components or an item × item matrix, and are nan.

    Attributes
    ----------
    model : Recommender
        Fitted; takes and returns column numbers.
    order : ndarray of shape (n_items,) or None
        Columns of the model for the data's items; None if they are the same.
    """

    model: Recommender
    order: NDArray[np.intp] | None

    @classmethod
    def of(
        cls, key: str, label: str, model: Recommender, order: NDArray[np.intp] | None
    ) -> AnyRecommender:
        """Return a model that takes and returns column numbers."""
        anonymous = copy.copy(model)
        anonymous.item_ids_ = None
        anonymous.__dict__.pop("_item_lookup", None)
        return cls(key, label, "model", {}, anonymous, order)

    @property
    def depth(self) -> int:
        """Number of items."""
        return self.model.n_features_in_

    def measure_items(
        self,
        data: Interactions,
        sizes: Sequence[int],
        sample: NDArray[np.intp],
        k: int,  # noqa: ARG002
    ) -> ItemNumbers:
        """Return nan."""
        items = np.full((len(sizes), data.n_items), np.nan)
        sampled = np.full((len(sizes), len(sample)), np.nan)
        return ItemNumbers(items, items, items[0], sampled, sampled)

    def lister(self, sizes: Sequence[int]) -> Lister:  # noqa: ARG002
        """Return the recommender of lists."""
        return _RecommenderLists(self.model, self.order)

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Return the nearest items by the model's own similarity."""
        own = columns if self.order is None else self.order[columns]
        position = np.full(self.depth, -1, dtype=np.int32)
        position[own] = np.arange(len(own))
        wanted = min(self.depth, count if len(own) == self.depth else _SPARE_NEIGHBORS * count)
        found = np.full((len(own), count), -1, dtype=np.int32)
        for row, column in enumerate(own):
            ids = np.asarray(self.model.similar_items(int(column), wanted).ids)
            near = position[ids[ids >= 0]]
            near = near[near >= 0][:count]
            found[row, : len(near)] = near
        return found

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:  # noqa: ARG002
        """Return the model's own explanation of a score."""
        own = np.arange(self.depth) if self.order is None else self.order
        explained = self.model.explain(_reordered(row, self.order), int(own[column]), None)
        by_column = np.zeros(self.depth)
        by_column[np.asarray(explained.ids)] = explained.contributions
        return Explained(float(explained.score), by_column[own[row.indices]])


class _RecommenderLists(NamedTuple):
    """Lists of any model, whose columns may be in another order than those of the data."""

    model: Recommender
    order: NDArray[np.intp] | None
    n_variants: int = 1

    def lists(self, seen: sp.csr_array, k: int, _: Any = None) -> Iterator[Lists]:
        """Yield the model's recommendations as columns of the data."""
        rows = _reordered(seen, self.order)
        columns = self.model.rank(rows, k, seen=rows).ids
        if self.order is not None:  # -1, for no item, reads the last entry
            columns = np.append(np.argsort(self.order), -1)[columns]
        yield columns.astype(np.int32)


def _reordered(rows: sp.csr_array, order: NDArray[np.intp] | None) -> sp.csr_array:
    """Return rows with the columns of a model."""
    if order is None:
        return rows
    moved = sp.csr_array(rows[:, np.argsort(order)])
    moved.sort_indices()
    return moved


def prepare_reordered(
    rows: sp.csr_array, prepare: Prepare, order: NDArray[np.intp]
) -> sp.csr_array:
    """Prepare rows like a model whose columns are in another order than those of the data."""
    prepared = sp.csr_array(prepare(_reordered(rows, order))[:, order])
    prepared.sort_indices()
    return prepared


def _nearest(values: Callable[[slice], NDArray[Any]], n: int, count: int) -> NDArray[np.int32]:
    """Return the largest values of each row without the item itself; −inf if there is none."""
    ranked = rank_items(values, n, n, count, seen=sp.eye_array(n, format="csr"), excluded=None)
    return np.where(np.isfinite(ranked.scores), ranked.ids, -1).astype(np.int32)

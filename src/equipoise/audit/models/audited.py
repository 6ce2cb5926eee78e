"""A model as the audit measures it.

By its components (`Projection`), its item × item matrix (`ScoreMatrix`), or by its lists only:
those of a model (`AnyRecommender`), of user and item vectors (`UserVectors`), of a table (`Lists`).
`OwnScores` has the components of item vectors and the lists of the model itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Floats, OwnedComponent
from equipoise.data.identifiers import Lookup
from equipoise.data.interactions import Interactions
from equipoise.data.rows import Prepare, RowBlock
from equipoise.evaluation.nested import Lists as Lists32
from equipoise.evaluation.nested import NestedLists
from equipoise.evaluation.scoring import Lister
from equipoise.metrics import ItemView, components_to_reach, find_metric
from equipoise.metrics.collaboration import (
    Similarity,
    collaboration_by_block,
    collaboration_of_view,
)
from equipoise.metrics.groups import ratio
from equipoise.models import Recommender
from equipoise.models.item_vectors import ItemItem, LowRank, is_present
from equipoise.models.ranking import rank_items
from equipoise.spectral.norms import squared_column_norms

# An item owns a component if it has more than half of the component's squared length. If two
# items have exactly half each, neither owns it, despite rounding.
OWNED_ABOVE = 0.5 + 1e-6

# Factors that were saved in float16 are orthonormal to about 1e-3.
_ORTHONORMAL_WITHIN = 2e-3

# Columns of X B computed at a time, as values: 128 MB.
_VALUES_AT_ONCE = 2**24

# Cosines of more items are compared in float32: half the time, the same order but for near ties.
_EXACT_NEIGHBORS = 4000

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


class Explained(NamedTuple):
    """A score, and what each stored entry of the user's row adds to it."""

    score: float
    parts: Floats


@dataclass(frozen=True, eq=False)
class AuditedModel:
    """One variant to be measured; sizes are given in ascending order.

    A model without components and without an item × item matrix is measured by its lists only: its
    in-sample numbers are nan, and it has neither similar items nor explanations.

    Attributes
    ----------
    n_items : int
        Of the data.
    key, label, kind, settings
        As in `equipoise.audit.findings.Variant`.
    given : bool
        A model passed by the user: measured at its own number of components, too.
    notes : tuple of str
        How its items and users were matched with the data, and what is missing.
    """

    n_items: int
    _: KW_ONLY
    key: str = ""
    label: str = ""
    kind: str = "model"
    settings: Mapping[str, Any] = field(default_factory=dict)
    given: bool = False
    notes: tuple[str, ...] = ()

    #: lists per user of `lists`
    n_variants: ClassVar[int] = 1

    @property
    def depth(self) -> int:
        """Number of components; the number of items if there are none."""
        return self.n_items

    def sizes(self, common: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Return the sizes to measure, given those of our own models; one without components."""
        return (self.depth,)

    def measure_items(
        self,
        data: Interactions,
        sizes: Sequence[int],
        sample: NDArray[np.intp],
        k: int,  # noqa: ARG002
    ) -> ItemNumbers:
        """Return the in-sample numbers of the items; AUC and precision of a sample."""
        items = np.full((len(sizes), data.n_items), np.nan)
        sampled = np.full((len(sizes), len(sample)), np.nan)
        return ItemNumbers(items, items, items[0], sampled, sampled)

    def lister(self, sizes: Sequence[int]) -> Lister:  # noqa: ARG002
        """Return the recommender of lists at every size: the model itself if it has one."""
        return self

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists32]:
        """Yield the lists of all users at the only size of the model."""
        raise NotImplementedError

    def for_users(self, user_ids: NDArray[Any]) -> NDArray[Any] | None:  # noqa: ARG002
        """Return what the lister needs of these users, one row each; None: only their data."""
        return None

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Return the nearest of the given items to each of them, by position; −1 for none."""
        return np.full((len(columns), count), -1, dtype=np.int32)

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:  # noqa: ARG002
        """Return the score of an item for the user of a one-row matrix, with its parts."""
        return Explained(float("nan"), np.zeros(row.nnz))

    def owners(self, size: int) -> list[OwnedComponent]:  # noqa: ARG002
        """Return the components that one item owns."""
        return []

    def embeddings(self) -> Floats | None:
        """Return item vectors whose lengths mean something; None without any."""
        return None


@dataclass(frozen=True, eq=False)
class Projection(AuditedModel):
    """P = U diag(f) Uᵀ on prepared rows.

    Attributes
    ----------
    model : LowRank
        Components, their weights, and the preparation of rows.
    vectors : ndarray of shape (n_items, any), optional
        Item vectors whose cosines define similar items; rows of U f^½ by default.
    """

    model: LowRank
    vectors: NDArray[Any] | None = None
    kind: str = field(default="factors", kw_only=True)

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
            every.basis.diagonal(kept),
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
        return ItemView(data, self.model.prepare, factors, weights, sizes, sample)

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
        at = np.flatnonzero(is_present(norms)[columns]).astype(np.int32)
        unit = vectors[columns[at]] / norms[columns[at], None]
        if len(columns) > _EXACT_NEIGHBORS:
            unit = unit.astype(np.float32)
        near = nearest(lambda rows: unit[rows] @ unit.T, len(unit), count)
        found = np.full((len(columns), count), -1, np.int32)
        found[at] = np.where(near >= 0, at[near], -1)
        return found

    def embeddings(self) -> Floats | None:
        """Return the given vectors; None if they are orthonormal: no direction leads."""
        V = self.vectors
        if V is None or np.allclose(V.T @ V, np.eye(V.shape[1]), atol=_ORTHONORMAL_WITHIN):
            return None
        return V

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:
        """Return a score as the sum of what each entry adds."""
        kept = slice(0, min(size, self.depth))
        U, inputs = self.model.components[kept], self.model.prepare(row)
        weighted = U[:, column] * self.model.component_weights[kept]
        parts = np.asarray(inputs.data * (weighted @ U[:, inputs.indices]), dtype=np.float64)
        return Explained(float(parts.sum()), parts)

    def owners(self, size: int) -> list[OwnedComponent]:
        """Return the components at a size that one item owns."""
        squares = np.square(self.model.components[:size], dtype=np.float64)
        columns = squares.argmax(axis=1)
        weights = squares[np.arange(len(squares)), columns]
        return [
            OwnedComponent(int(i), int(columns[i]), float(weights[i]))
            for i in np.flatnonzero(weights > OWNED_ABOVE)
        ]


def _measured(metric: str, view: ItemView) -> Floats:
    return np.asarray(find_metric(metric).measure(view, None, None, "standard"))


@dataclass(frozen=True, eq=False)
class ScoreMatrix(AuditedModel):
    """Scores X B of an item × item matrix: EASE, nearest neighbors, graph filters.

    Attributes
    ----------
    model : ItemItem
        B, as float64, and the preparation of rows.
    """

    model: ItemItem
    kind: str = field(default="scores", kw_only=True)

    def measure_items(
        self,
        data: Interactions,
        sizes: Sequence[int],  # noqa: ARG002
        sample: NDArray[np.intp],
        k: int,
    ) -> ItemNumbers:
        """Return B_jj, ‖X_·j − (XB)_·j‖² / ‖X_·j‖², AUC and precision; no components to count."""
        error = ratio(*data.total(squared_errors, *self.model))
        together = collaboration_by_block(data, Similarity(*self.model), sample, k)
        own = self.model.coefficients.diagonal()[None]
        unknown = np.full(self.n_items, np.nan)
        return ItemNumbers(own, error[None], unknown, together.auc, together.precision)

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists32]:  # noqa: ARG002
        """Yield the k best unseen items of every user."""
        n_users, n_items = seen.shape

        def score(rows: slice) -> NDArray[Any]:
            return np.asarray(self.model.prepare(seen[rows]) @ self.model.coefficients)

        yield rank_items(score, n_users, n_items, k, seen=seen).ids.astype(np.int32)

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Return the items whose score an entry at the item raises most."""

        def weights(rows: slice) -> NDArray[Any]:
            values = self.model.coefficients[np.ix_(columns[rows], columns)]
            return np.where(values == 0, -np.inf, values)

        return nearest(weights, len(columns), count)

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:  # noqa: ARG002
        """Return a score as the sum of what each entry adds."""
        inputs = self.model.prepare(row)
        parts = inputs.data * self.model.coefficients[inputs.indices, column]
        return Explained(float(parts.sum()), parts)


def squared_errors(block: RowBlock, B: NDArray[Any], prepare: Prepare) -> tuple[Floats, Floats]:
    """Return ‖X_·j − (XB)_·j‖² and ‖X_·j‖² of prepared rows."""
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


@dataclass(frozen=True, eq=False)
class Lists(AuditedModel):
    """Lists from another system.

    Attributes
    ----------
    by_user : ndarray of shape (known users + 1, any)
        Items, best first; −1 for none or for an item that the data lack. The last row is of users
        without a list.
    users : Lookup
        From user ids to rows.
    """

    by_user: NDArray[Any]
    users: Lookup
    kind: str = field(default="lists", kw_only=True)

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists32]:
        """Yield the first k items; shorter lists are filled with −1."""
        found = np.full((seen.shape[0], k), -1, dtype=np.int32)
        found[:, : own.shape[1]] = own[:, :k]
        yield found

    def for_users(self, user_ids: NDArray[Any]) -> NDArray[Any]:
        """Return the rows of these users; the last one (−1) for a user without."""
        return self.by_user[self.users.find(user_ids)]


@dataclass(frozen=True, eq=False)
class UserVectors(Lists):
    """Inner products of user and item vectors, which are the model's own scores.

    Attributes
    ----------
    by_user, users
        User vectors; the last row is nan.
    items : ndarray of shape (n_items, r)
        Item vectors, in the order of the data.
    absent : ndarray of bool, shape (n_items,)
        Items without a vector, which are never recommended.
    """

    items: Floats
    absent: NDArray[np.bool_]

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists32]:
        """Yield the k best unseen items of every user; none for users without a vector."""
        known = ~np.isnan(own).any(axis=1)
        vectors = own[known]

        def score(rows: slice) -> NDArray[Any]:
            return np.asarray(vectors[rows] @ self.items.T)

        found = np.full((len(own), k), -1, dtype=np.int32)
        ranked = rank_items(
            score, len(vectors), len(self.items), k, seen=seen[known], excluded=self.absent
        )
        found[known] = ranked.ids
        yield found


@dataclass(frozen=True, eq=False)
class AnyRecommender(AuditedModel):
    """A fitted model through its public methods: lists, similar items and explanations.

    Attributes
    ----------
    model : Recommender
        Fitted; takes and returns column numbers.
    order : ColumnOrder
        Columns of the model for the data's items.
    """

    model: Recommender
    order: ColumnOrder

    def lists(self, seen: sp.csr_array, k: int, own: Any = None) -> Iterator[Lists32]:  # noqa: ARG002
        """Yield the model's recommendations as columns of the data."""
        rows = self.order.rows(seen)
        columns = self.model.rank(rows, k, seen=rows).ids
        # -1, for no item, reads the last entry
        yield np.append(self.order.data, -1)[columns].astype(np.int32)

    def similar(self, columns: NDArray[np.int64], size: int, count: int) -> NDArray[np.int32]:  # noqa: ARG002
        """Return the nearest items by the model's own similarity."""
        own = self.order.model[columns]
        n_known = self.model.n_features_in_
        position = np.full(n_known, -1, dtype=np.int32)
        position[own[own >= 0]] = np.flatnonzero(own >= 0)
        wanted = min(n_known, count if len(own) >= n_known else _SPARE_NEIGHBORS * count)
        found = np.full((len(own), count), -1, dtype=np.int32)
        for row, column in enumerate(own):
            if column >= 0:
                ids = np.asarray(self.model.similar_items(int(column), wanted).ids)
                near = position[ids[ids >= 0]]
                near = near[near >= 0][:count]
                found[row, : len(near)] = near
        return found

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:  # noqa: ARG002
        """Return the model's own explanation of a score."""
        own = self.order.model
        explained = self.model.explain(self.order.rows(row), int(own[column]), None)
        by_column = np.zeros(self.model.n_features_in_ + 1)  # the last for items it does not have
        by_column[np.asarray(explained.ids)] = explained.contributions
        return Explained(float(explained.score), by_column[own[row.indices]])


@dataclass(frozen=True, eq=False)
class ColumnOrder:
    """Columns of a model that has the items of the data, or some of them, in any order.

    Attributes
    ----------
    model : ndarray of shape (n_items,)
        The model's column of each item of the data; −1 if it has none.
    data : ndarray of shape (items of the model,)
        The data's column of each item of the model.
    """

    model: NDArray[np.intp]
    data: NDArray[np.intp]

    @classmethod
    def of(cls, columns: NDArray[np.intp], n_items: int) -> ColumnOrder:
        """Return the order of a model from the data's column of each of its items."""
        own = np.full(n_items, -1)
        own[columns] = np.arange(len(columns))
        return cls(own, columns)

    @cached_property
    def is_same(self) -> bool:
        """Whether the columns are those of the data."""
        return np.array_equal(self.model, np.arange(len(self.model)))

    def rows(self, rows: sp.csr_array) -> sp.csr_array:
        """Return rows with the columns of the model."""
        if self.is_same:
            return rows
        moved = sp.csr_array(rows[:, self.data])
        moved.sort_indices()
        return moved

    def take(self, values: NDArray[Any], *axes: int) -> NDArray[Any]:
        """Return values of the model's items in the order of the data; 0 where it has none."""
        if self.is_same:
            return values
        for axis in axes:
            known = np.expand_dims(self.model >= 0, [a for a in range(values.ndim) if a != axis])
            values = np.where(known, np.take(values, self.model, axis=axis), 0)
        return np.ascontiguousarray(values)

    def preparation(self, prepare: Prepare) -> Prepare:
        """Return a model's preparation of rows for those of the data; can be sent to processes."""
        return prepare if self.is_same else partial(_prepare_reordered, prepare=prepare, order=self)


def _prepare_reordered(rows: sp.csr_array, prepare: Prepare, order: ColumnOrder) -> sp.csr_array:
    """Prepare rows like a model whose columns are in another order than those of the data."""
    prepared = prepare(order.rows(rows))
    parts = (prepared.data, order.data[prepared.indices], prepared.indptr)
    moved = sp.csr_array(parts, shape=rows.shape)
    moved.sort_indices()
    return moved


@dataclass(frozen=True, eq=False)
class OwnScores(Projection):
    """Item vectors by the space that they span; lists and explanations by the model itself.

    Attributes
    ----------
    scoring : AuditedModel
        Whose lists are the model's own: `UserVectors` or `AnyRecommender`.
    """

    scoring: AuditedModel = field(kw_only=True)
    kind: str = field(default="embeddings", kw_only=True)

    def sizes(self, common: Sequence[int]) -> tuple[int, ...]:  # noqa: ARG002
        """Return the number of directions: the model has no lists at smaller sizes."""
        return (self.depth,)

    def lister(self, sizes: Sequence[int]) -> Lister:
        """Return the recommender of lists."""
        return self.scoring.lister(sizes)

    def for_users(self, user_ids: NDArray[Any]) -> NDArray[Any] | None:
        """Return what the lister needs of these users."""
        return self.scoring.for_users(user_ids)

    def explain(self, row: sp.csr_array, column: int, size: int) -> Explained:
        """Return the model's own explanation of a score, if it has one."""
        return self.scoring.explain(row, column, size)


def nearest(values: Callable[[slice], NDArray[Any]], n: int, count: int) -> NDArray[np.int32]:
    """Return the columns of the largest values of each row of a square matrix, −1 for none.

    Leaves out the row itself and values of −inf. Of equal values, the smaller column comes first.

    Parameters
    ----------
    values : callable
        From a slice of rows to their values.
    n : int
        Rows and columns.
    count : int
        Columns of each row.

    Examples
    --------
    >>> unit = np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]])
    >>> nearest(lambda rows: unit[rows] @ unit.T, 3, 1).tolist()
    [[1], [2], [1]]
    """
    ranked = rank_items(values, n, n, count, seen=sp.eye_array(n, format="csr"))
    return np.where(np.isfinite(ranked.scores), ranked.ids, -1).astype(np.int32)

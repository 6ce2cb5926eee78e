"""Vectors for approximate nearest-neighbor search: inner products that are the model's scores.

An index is fast and sometimes misses an item. What it finds is scored again by the vectors, and
`AnnVectors.recall_of` measures how much it misses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.defaults import SERVED_K
from equipoise.exceptions import InvalidDataError, InvalidParameterError, require_extra
from equipoise.models.base import Recommender
from equipoise.models.estimator import check_is_fitted
from equipoise.models.item_vectors import Factors
from equipoise.models.ranking import Ranking
from equipoise.models.user_rows import UserItems, ids_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# Scores are sums in float32 here and in the model's precision there: relative to the row's
# largest score, a rounding error of some hundred terms stays below this.
_SAME_SCORE = 1e-5


class Index(Protocol):
    """The method that usearch and faiss indexes share, and that other indexes must have."""

    def search(self, queries: NDArray[np.float32], count: int, /) -> Any:
        """Return keys and distances: usearch's matches, or faiss's pair of arrays."""


def to_ann(model: Recommender) -> AnnVectors:
    """Return vectors whose inner products are the scores of a fitted model.

    Models without such vectors (EASE, ItemKNN, GF-CF, the baselines) are refused.

    Parameters
    ----------
    model : Recommender
        Fitted.
    """
    check_is_fitted(model)
    vectors = _factors(model)
    items = np.ascontiguousarray(vectors.items, dtype=np.float32)
    ids = np.arange(len(items)) if model.item_ids_ is None else model.item_ids_
    return AnnVectors(items, ids, model)


def _factors(model: Recommender) -> Factors:
    vectors = model.factors()
    if vectors is None:
        raise InvalidParameterError(
            f"{type(model).__name__} has no item vectors whose inner products are its scores, so "
            "an index cannot hold it. Use recommend, which is exact, or a model with factors, such "
            "as ItemWeightedPCA."
        )
    return vectors


@dataclass(frozen=True, eq=False)
class AnnVectors:
    """A fitted model as vectors for maximum inner-product search; made by `to_ann`.

    Attributes
    ----------
    item_vectors : ndarray of float32, shape (n_items, n_components)
        C-contiguous. Row j is item j of the catalog, the key of that item in an index.
    item_ids : ndarray of shape (n_items,)
        Ids of the rows; their numbers for a model that was fitted on a matrix.
    metric : str
        ``"ip"``: a score is the inner product of `user_vectors` and `item_vectors`.
    model : Recommender
        Computes user vectors from rows, of known and of new users.
    block_bytes : int
        The vectors that `search` compares for a block of users take at most this.

    Examples
    --------
    >>> from equipoise import ItemWeightedPCA
    >>> X = np.array([[5, 4, 0, 0], [4, 5, 0, 0], [5, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> vectors = to_ann(ItemWeightedPCA(n_components=2).fit(X))
    >>> vectors.item_vectors.shape, vectors.metric
    ((4, 2), 'ip')
    >>> scores = vectors.user_vectors(X[2:3]) @ vectors.item_vectors.T
    >>> scores.round(2).astype(float).round(2).tolist()
    [[2.88, 2.47, 0.0, 0.0]]
    """

    item_vectors: NDArray[np.float32]
    item_ids: NDArray[Any]
    model: Recommender = field(repr=False)
    metric: str = "ip"
    block_bytes: int = field(default=32 * 2**20, repr=False)

    def user_vectors(self, user_items: Any) -> NDArray[np.float32]:
        """Return one query for each row: float32 of shape (n_users, n_components).

        Parameters
        ----------
        user_items : Interactions, or sparse or dense matrix of shape (n_users, n_items)
            The users' interactions, as in `Recommender.recommend`.
        """
        return self._embed(self.model.read_rows(user_items))

    def usearch(self, *, threads: int = 0, **options: Any) -> Any:
        """Build a usearch index; needs the extra ``ann``.

        Parameters
        ----------
        threads : int
            Threads that build it; 0 uses all cores. 1 gives the same index every time.
        **options
            Of ``usearch.index.Index``: `connectivity`, `expansion_add`, `expansion_search`, …
        """
        usearch = require_extra("usearch.index", "ann", "Building a usearch index")
        index = usearch.Index(
            **{"ndim": self._width, "metric": self.metric, "dtype": "f32"} | options
        )
        index.add(np.arange(len(self.item_vectors)), self.item_vectors, threads=threads)
        return index

    def faiss(self, factory: str = "HNSW32") -> Any:
        """Build a faiss index; needs the extra ``ann``.

        Parameters
        ----------
        factory : str
            Argument of ``faiss.index_factory``: ``"Flat"`` is exact, ``"IVF256,Flat"`` and
            others are trained on the item vectors.
        """
        faiss = require_extra("faiss", "ann", "Building a faiss index")
        index = faiss.index_factory(self._width, factory, faiss.METRIC_INNER_PRODUCT)
        if not index.is_trained:
            index.train(self.item_vectors)
        index.add(self.item_vectors)
        return index

    def search(
        self,
        index: Index,
        user_items: UserItems,
        k: int = SERVED_K,
        *,
        filter_already_liked_items: bool = True,
        unknown: Literal["error", "drop"] = "error",
        fallback: Literal["popularity"] | Iterable[Any] | None = "popularity",
    ) -> Ranking:
        """Recommend as `Recommender.recommend` does, through an index instead of scoring all items.

        k items and as many as the user has seen are fetched, the seen ones are left out, and the
        rest is ranked by its scores.

        Parameters
        ----------
        index : Index
            Over `item_vectors`, with the row numbers as keys: what `usearch` or `faiss` built, or
            the same loaded from a file.
        user_items : Interactions, matrix, one dense row, or the ids of one user
            The users' interactions, as in `Recommender.recommend`.
        k : int
            Number of items per user.
        filter_already_liked_items : bool
            Leave out the items of the row.
        unknown, fallback
            As in `Recommender.recommend`.

        Returns
        -------
        Ranking
            `(ids, scores)`, best first, padded as in `Recommender.recommend`.
        """
        check_whole_number("k", k, least=1)
        rows = self.model.read_rows(user_items, unknown=unknown)
        search = self._search_one if rows.shape[0] == 1 else self._search_many
        found = search(index, rows, k, filter_already_liked_items)
        one = self.model.is_one_user(user_items)
        cold = rows.indptr[1:] == rows.indptr[:-1]
        if fallback is None or not cold.any():
            return Ranking(found.ids[0], found.scores[0]) if one else found
        # the users without items do not need the index
        lists = self.model.recommend(rows[cold], k, fallback=fallback)
        if one:
            found = Ranking(lists.ids[0], lists.scores[0])
        else:
            found.ids[cold], found.scores[cold] = lists
        found.fallback = cold[0] if one else cold
        return found

    def _search_many(self, index: Index, rows: csr_array, k: int, leave_out: bool) -> Ranking:
        queries, (n_users, n_items) = self._embed(rows), rows.shape
        held = np.diff(rows.indptr) if leave_out else np.zeros(n_users, int)
        counts = np.minimum(k + held, n_items)
        # entries by their place in the whole matrix, in order; the last is beyond all others
        starts = n_items * np.arange(n_users + 1)
        seen = np.full(held.sum() + 1, starts[-1])
        seen[:-1] = rows.indices if leave_out else []
        seen[:-1] += np.repeat(starts[:-1], held)
        columns = np.full((n_users, k), -1, dtype=np.int64)
        scores = np.full((n_users, k), np.nan, dtype=np.float32)
        for group in _alike(counts, 4 * self._width, self.block_bytes):
            keys = _keys(index.search(queries[group], int(counts[group].max())), len(group))
            self._check_largest(keys.max(initial=-1))
            places = starts[group][:, None] + keys
            keys[seen[np.searchsorted(seen, places)] == places] = -1
            best, values = self._best(queries[group], keys, k)
            columns[group, : best.shape[1]], scores[group, : best.shape[1]] = best, values
        return Ranking(ids_of(columns, self.item_ids), scores)

    def _search_one(self, index: Index, rows: csr_array, k: int, leave_out: bool) -> Ranking:
        """Search for one user: the same in fewer and smaller steps, which take most of the time."""
        query, left_out = self._embed(rows)[0], {-1}
        if leave_out:
            left_out.update(rows.indices.tolist())
        count = min(k + len(left_out) - 1, len(self.item_vectors))
        keys = _keys(index.search(query[None], count), 1)[0].tolist()
        self._check_largest(max(keys, default=-1))
        left = np.array([key for key in keys if key not in left_out], dtype=np.int64)
        scores = self.item_vectors[left] @ query
        order = np.lexsort((left, -scores))[:k]
        columns, values = left[order], scores[order]
        if len(order) < k:
            missing = (0, k - len(order))
            columns = np.pad(columns, missing, constant_values=-1)
            values = np.pad(values, missing, constant_values=np.nan)
        return Ranking(ids_of(columns[None], self.item_ids), values[None])

    def recall_of(
        self,
        index: Index,
        user_items: Any,
        k: int = SERVED_K,
        *,
        filter_already_liked_items: bool = True,
    ) -> float:
        """Return the share of the k best items that `search` finds, over all these users.

        Items that tie with the k-th best count as found. Users without items are left out: their
        lists do not come from the index.

        Parameters
        ----------
        index, user_items, k, filter_already_liked_items
            As in `search`.
        """
        wanted: dict[str, Any] = {"k": k, "filter_already_liked_items": filter_already_liked_items}
        wanted["fallback"] = None
        known = np.diff(self.model.read_rows(user_items).indptr) > 0
        exact = np.atleast_2d(self.model.recommend(user_items, **wanted).scores)[known]
        found = np.atleast_2d(self.search(index, user_items, **wanted).scores)[known]
        there_are = int(np.count_nonzero(~np.isnan(exact)))
        if there_are == 0:
            raise InvalidDataError(
                "recall_of has no item to search for: these users have seen all items, or none. "
                "Pass other users, or filter_already_liked_items=False."
            )
        with np.errstate(invalid="ignore"):
            largest = np.nanmax(np.abs(exact), axis=1, keepdims=True, initial=0.0)
            last = np.nanmin(exact, axis=1, keepdims=True, initial=np.inf)
            hits = found >= last - _SAME_SCORE * largest
        return int(np.count_nonzero(hits)) / there_are

    @property
    def _width(self) -> int:
        return int(self.item_vectors.shape[1])

    def _embed(self, rows: csr_array) -> NDArray[np.float32]:
        return np.ascontiguousarray(self._users(rows), dtype=np.float32)

    @cached_property
    def _users(self) -> Callable[[csr_array], NDArray[Any]]:
        low_rank = self.model.low_rank()
        if low_rank is None:
            return _factors(self.model).users
        # from the rows of item_vectors: a column of the components is spread over all pages
        return low_rank._replace(components=self.item_vectors.T).user_vectors

    def _check_largest(self, key: int) -> None:
        if key >= len(self.item_vectors):
            raise InvalidDataError(
                f"the index contains the key {key}, but the model has "
                f"{len(self.item_vectors)} items: it is an index of another model. "
                "Build it again from these vectors."
            )

    def _best(
        self, queries: NDArray[np.float32], keys: NDArray[np.int64], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """The k best of the keys that are left, by score and then by position in the catalog."""
        scores = np.einsum("ur,ukr->uk", queries, self.item_vectors[keys])
        scores[keys < 0] = -np.inf
        order = np.lexsort((keys, -scores), axis=1)[:, :k]
        rows = np.arange(len(keys))[:, None]
        best, values = keys[rows, order], scores[rows, order]
        values[best < 0] = np.nan
        return best, values


def _alike(
    counts: NDArray[np.intp], item_bytes: int, block_bytes: int
) -> Iterator[NDArray[np.intp]]:
    """Yield groups of users who need about the same number of items.

    Otherwise one user who has seen nearly all items makes the whole group fetch the catalog.
    """
    sizes = np.ceil(np.log2(counts)).astype(int)
    for size in np.unique(sizes):
        users = np.flatnonzero(sizes == size)
        block = max(1, block_bytes // (item_bytes * 2 ** int(size)))
        yield from np.split(users, range(block, len(users), block))


def _keys(found: Any, n_queries: int) -> NDArray[np.int64]:
    """Return the keys that an index found, −1 where it found nothing: one row per query."""
    if isinstance(found, tuple):  # faiss: distances and keys
        return np.array(found[1], dtype=np.int64).reshape(n_queries, -1)
    keys = np.array(found.keys, dtype=np.int64).reshape(n_queries, -1)
    # usearch's result of a single query has no counts, except in some versions with longer arrays
    counts = np.asarray(getattr(found, "counts", keys.shape[1])).reshape(-1, 1)
    keys[np.arange(keys.shape[1]) >= counts] = -1  # usearch does not overwrite the rest
    return keys

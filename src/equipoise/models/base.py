"""The base class of every model, of this package and of others.

A model fitted on `Interactions` takes and returns ids. A model fitted on a matrix takes and returns
column numbers. Rows are users everywhere.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.data.interactions import Interactions
from equipoise.defaults import SERVED_K
from equipoise.display import Shown
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import require
from equipoise.models.estimator import check_is_fitted, clone
from equipoise.models.explanations import (
    Explanation,
    Explanations,
    PaddedRows,
    largest_contributions,
)
from equipoise.models.item_vectors import Factors, ItemItem, LowRank, itself_first
from equipoise.models.parameters import check_parameters
from equipoise.models.persistence import (
    SavedModel,
    class_name,
    read_model,
    refuse_damaged_model,
    write_model,
)
from equipoise.models.ranking import ItemMask, Ranking, Scored, rank_items, top_items
from equipoise.models.registry import RANKS, entry_of
from equipoise.models.user_rows import (
    VALUE_TRANSFORMS,
    RowReader,
    UserItems,
    has_different_values,
)
from equipoise.progress import NoProgress, Progress, task

_LEARNED_NAME = re.compile(r"[a-zA-Z]\w*_")


class Recommender(RowReader, ABC):
    """Base class of models that learn from users × items and score items for users.

    The public methods are `fit`, `score_items`, `rank`, `recommend`, `similar_items`, `explain`,
    `save` and `load`. Code that uses models, here and elsewhere, calls only these.

    A subclass must provide

    - ``__init__``, which only stores its arguments, as in scikit-learn;
    - `_fit`, which learns from checked data. `save` writes what it learned: the attributes whose
      names end in an underscore, which are numbers, text, arrays or CSR matrices;
    - `_scores`, which scores all items for some users.

    A subclass may provide

    - `_similarities` (default: no item is similar to another);
    - `_contributions` (default: `explain` reports the whole score as `rest`);
    - `factors` or `item_item`, if scores are inner products of vectors, or X B;
    - ``_parameter_constraints``, scikit-learn's declaration of valid parameters; those of a
      dataclass are checked by the types of its fields;
    - ``about``, the fields of `equipoise.models.registry.ModelEntry` for ``equipoise models``;
    - ``ranks_without_items``, True if its scores mean something for a user without items.

    `equipoise.testing.check_recommender` tests all of this.

    Examples
    --------
    >>> class MostPlayed(Recommender):
    ...     ranks_without_items = True
    ...     def _fit(self, data):
    ...         self.plays_ = data.popularity("sum")
    ...     def _scores(self, user_items):
    ...         return np.tile(self.plays_, (user_items.shape[0], 1))
    >>> MostPlayed().fit(np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 1.0]])).recommend(np.zeros(3), k=2)
    Ranking(ids=array([0, 1]), scores=array([9., 2.]))
    """

    about: ClassVar[Mapping[str, Any]] = {}
    ranks_without_items: ClassVar[bool] = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}

    _progress: Progress = NoProgress()

    # ---------------------------------------------------------------- what a subclass provides

    @abstractmethod
    def _fit(self, data: Interactions) -> None:
        """Learn from checked data.

        A model reads rows by block (`map`, `total`) and the product XᵀXV (`gram`). A model that
        needs the whole matrix calls `data.require_matrix`, which refuses data beyond memory.
        """

    @abstractmethod
    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Return float scores of all items for these users, one row per user."""

    def _scorer(self, user_items: sp.csr_array) -> Callable[[slice], NDArray[Any] | Scored]:
        """Return a function from a slice of these users to their scores.

        Override it to prepare once for many slices, or to return `Scored`, with the rounding of the
        scores. Several threads may call the function in parallel.
        """
        return lambda block: self._scores(user_items[block])

    def _similarities(self, item: int) -> NDArray[Any]:  # noqa: ARG002
        """Return the similarity of every item to one; −inf where it is undefined."""
        return np.full(self.n_features_in_, -np.inf)

    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:  # noqa: ARG002
        """Return what each stored entry of a one-row matrix adds to the score of `item`."""
        return np.zeros(user_items.nnz)

    def _contributions_to(self, user_items: sp.csr_array, lists: NDArray[np.intp]) -> NDArray[Any]:
        """Return the contributions to each item of the users' lists, padded as `PaddedRows` is.

        Override it to compute them for all users at once.
        """
        stored = PaddedRows.of(user_items).stored
        parts = np.zeros((*lists.shape, stored.shape[1]))
        for user, columns in enumerate(lists):
            row = user_items[[user]]
            for place, item in enumerate(columns):
                parts[user, place, : row.nnz] = self._contributions(row, int(item))
        return parts

    def factors(self) -> Factors | None:
        """Return vectors whose inner products are the scores; None if there are none."""
        return None

    def item_item(self) -> ItemItem | None:
        """Return the item × item matrix that gives the scores; None if there is none."""
        return None

    # -------------------------------------------------------------- what evaluation uses

    @property
    def free_parameters(self) -> frozenset[str]:
        """Parameters that may be changed after the fit, without refitting."""
        return frozenset()

    @property
    def size_parameter(self) -> str | None:
        """The parameter that bounds the rank; None for models without."""
        return "n_components" if "n_components" in self.get_params(deep=False) else None

    @property
    def nested_parameter(self) -> str | None:
        """The size parameter if `truncate` gives every smaller size from one fit, else None."""
        return None

    @property
    def shared_parameters(self) -> frozenset[str]:
        """Parameters along which `fit_many` shares work."""
        return frozenset()

    def fit_many(
        self, X: Any, settings: Sequence[Mapping[str, Any]], *, progress: Progress | None = None
    ) -> list[Self]:
        """Fit one model per mapping of parameters; where possible, the fits share work."""
        return [clone(self).set_params(**one).fit(X, progress=progress) for one in settings]

    def search_space(self, train: Interactions) -> list[dict[str, tuple[Any, ...]]]:
        """Return the grids that `tune` searches by default on these data; see the registry."""
        entry = entry_of(type(self))
        if entry is None and "search" not in self.about:
            raise InvalidParameterError(
                f"{type(self).__name__} has no default search space. "
                "Pass grid={parameter: [values, …]}."
            )
        space = dict(self.about["search"] if entry is None else entry.search)
        if self.size_parameter in space:
            space[self.size_parameter] = possible_sizes(train.n_items, space[self.size_parameter])
        if "value_transform" in self.get_params(deep=False) and has_different_values(train):
            # shares of the row: tune doubles its time for little beyond user_scaling
            searched = (one for one in VALUE_TRANSFORMS if one != "shares")
            space["value_transform"] = (None, *searched)
        return [space]

    def search_steps(
        self, train: Interactions
    ) -> Generator[list[dict[str, tuple[Any, ...]]], dict[str, Any], None]:
        """Yield the grids that `tune` searches by default, one step after the other.

        After each step, `tune` sends the best settings so far. By default `search_space` is the
        only step. Settings that occur in several steps are tried once.
        """
        yield self.search_space(train)

    def for_search(self) -> Self:
        """Return an unfitted copy for a search, less accurate where that is faster."""
        return clone(self)

    def for_evaluation(self) -> Self:
        """Return an unfitted copy that is accurate at all sizes up to its own."""
        return clone(self)

    def low_rank(self) -> LowRank | None:
        """Return the fitted model as a projection; None for all other models."""
        return None

    def stored_numbers(self) -> int:
        """Return how many learned numbers a saved model contains; of sparse arrays the entries."""
        other = ("item_ids_", "item_counts_")
        return sum(_count_numbers(v) for k, v in self._learned().items() if k not in other)

    # ------------------------------------------------------------------------------------- fit

    def fit(self, X: Any, y: Any = None, *, progress: Progress | None = None) -> Self:  # noqa: ARG002
        """Learn from users × items.

        Parameters
        ----------
        X : Interactions, or sparse or dense matrix of shape (n_users, n_items)
            Non-negative; an entry that is not stored means no interaction. `Interactions` may be in
            memory, on disk or on a cluster; a model that needs the whole matrix loads it if it
            fits.
        y : ignored
            For scikit-learn's pipelines.
        progress : Progress, optional
            Receives the progress; silent by default. See `equipoise.progress`.
        """
        self._validate_params()
        with self._reporting_to(progress, f"Fitting {type(self).__name__}"):
            self._fit(self._accept(X))
        return self

    @contextmanager
    def _reporting_to(
        self, progress: Progress | None, name: str, total: float | None = None
    ) -> Iterator[Progress]:
        """Set `_progress` during a fit; the fitted model does not keep it."""
        with task(progress, name, total) as self._progress:
            try:
                yield self._progress
            finally:
                del self._progress

    def _validate_params(self) -> None:
        """Check the constructor's arguments."""
        check_parameters(self, self._parameter_constraints)

    def _generator(self) -> np.random.Generator:
        """Return a new generator; None means a fixed seed, so equal fits give equal results."""
        seed = self.get_params(deep=False).get("random_state")
        if isinstance(seed, np.random.RandomState):
            return np.random.default_rng(seed.randint(2**31))
        return np.random.default_rng(0 if seed is None else seed)

    # ----------------------------------------------------------------------------------- serve

    def score_items(self, user_items: UserItems) -> NDArray[Any]:
        """Return the scores of all items for each row, as a dense array.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            The users' interactions, as in `recommend`.

        Returns
        -------
        ndarray of shape (n_users, n_items), or (n_items,) for one dense row
            Columns in the order of the model's items.
        """
        rows = self.read_rows(user_items)
        require(
            8 * rows.shape[0] * rows.shape[1],
            f"the scores of {rows.shape[0]:,} users for {rows.shape[1]:,} items",
            "Score fewer users at a time, or use recommend.",
        )
        scores = self._scores(rows)
        return scores[0] if self.is_one_user(user_items) else scores

    def rank(
        self,
        user_items: UserItems,
        k: int = SERVED_K,
        *,
        seen: sp.csr_array | None = None,
        filter_items: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
    ) -> Ranking:
        """Return column numbers and scores of the k best items for each row.

        This is `recommend` for callers with their own ids and their own rule of what to leave out.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            The users' interactions, as in `recommend`.
        k : int
            Number of items per user.
        seen : csr_array of shape (n_users, n_items), optional
            Entries to leave out, in the model's columns; by default nothing.
        filter_items, items : iterable, optional
            As in `recommend`.

        Returns
        -------
        Ranking
            Of shape (n_users, k); −1 and NaN where fewer than k items are left.
        """
        rows = self.read_rows(user_items)
        return self._rank(rows, k, seen, self._excluded(filter_items, items))

    def recommend(
        self,
        user_items: UserItems,
        k: int = SERVED_K,
        *,
        filter_already_liked_items: bool = True,
        filter_items: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
        unknown: Literal["error", "drop"] = "error",
        fallback: Literal["popularity"] | Iterable[Any] | None = "popularity",
    ) -> Ranking:
        """Recommend the k best items for each row, for known and for new users.

        Parameters
        ----------
        user_items : Interactions, matrix, one dense row, or the ids of one user
            The users' interactions. ``["a", "b"]`` and ``{"a": 3}`` are one user.
            `Interactions` are aligned by item id; a matrix must have the model's columns in the
            model's order.
        k : int
            Number of items per user: at most the number of items, or 10,000 if that is larger.
        filter_already_liked_items : bool
            Leave out the items of the row.
        filter_items : iterable, optional
            Items never to recommend.
        items : iterable, optional
            The only items to choose from.
        unknown : {"error", "drop"}
            What to do with items that the model lacks; see `prepare`.
        fallback : "popularity", iterable of items, or None
            The list of a user without any known item: the items with the most users in the
            training data, among all items or among these (a group). Such lists are marked, see
            `Ranking.fallback`; their scores are the numbers of users. With None, and for models
            that rank without items (`ranks_without_items`), scores are the model's own.

        Returns
        -------
        Ranking
            `(ids, scores)`, best first, 1-D for one user and 2-D otherwise. Equal scores are
            ranked by position in the catalog; the PCAs treat scores that differ by rounding alone
            as equal. Where fewer than k items are left, ids are −1 (None where an id cannot be
            negative: text, dates) and scores NaN.
        """
        rows = self.read_rows(user_items, unknown=unknown)
        seen = rows if filter_already_liked_items else None
        excluded = self._excluded(filter_items, items)
        ranking = self._rank(rows, k, seen, excluded)
        cold = np.diff(rows.indptr) == 0
        marked = fallback is not None and not self.ranks_without_items and bool(cold.any())
        if marked:
            among = None if isinstance(fallback, str) else fallback
            popular = self._most_popular(k, excluded, among)
            ranking.ids[cold], ranking.scores[cold] = popular
        ids, scores = self._named(ranking.ids), ranking.scores
        one = self.is_one_user(user_items)
        found = Ranking(ids[0], scores[0]) if one else Ranking(ids, scores)
        if marked:
            found.fallback = cold[0] if one else cold
        return found

    def _most_popular(self, k: int, excluded: ItemMask, among: Iterable[Any] | None) -> Ranking:
        left_out = self._excluded(None, among)
        if excluded is not None:
            left_out = excluded if left_out is None else excluded | left_out
        return top_items(self.item_counts_.astype(np.float64), k, excluded=left_out)

    def similar_items(
        self,
        item: Any,
        k: int = SERVED_K,
        *,
        include_itself: bool = False,
        filter_items: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
    ) -> Ranking:
        """Return the k items most similar to one.

        Parameters
        ----------
        item : id or column number
            The item.
        k : int
            Number of items to return.
        include_itself : bool
            Whether the item may be in its own list.
        filter_items, items : iterable, optional
            As in `recommend`.
        """
        check_is_fitted(self)
        if isinstance(item, list | set | np.ndarray):
            raise InvalidParameterError(
                f"similar_items takes one item, got {len(item)}. Call it for each of them."
            )
        column = self._column(item)
        similarities = self._similarities(column)
        left_out = np.isneginf(similarities)
        excluded = self._excluded(filter_items, items)
        if excluded is not None:
            left_out |= excluded
        if not include_itself:
            left_out[column] = True
        elif not left_out[column]:
            similarities = itself_first(similarities, column)
        ranking = top_items(similarities, k, excluded=left_out)
        return Ranking(self._named(ranking.ids), ranking.scores)

    def explain(
        self,
        user_items: UserItems,
        item: Any,
        k: int | None = SERVED_K,
        *,
        unknown: Literal["error", "drop"] = "error",
    ) -> Explanation:
        """Split one user's score for an item into the contributions of the user's items.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            Exactly one user.
        item : id or column number
            The item whose score is explained.
        k : int, optional
            Number of contributions to list; None lists all.
        unknown : {"error", "drop"}
            What to do with items of the user that the model lacks; see `prepare`.
        """
        row = self.read_rows(user_items, unknown=unknown)
        if row.shape[0] != 1:
            raise InvalidDataError(
                f"explain takes the items of one user, got {row.shape[0]} rows. "
                "Pass a single row, e.g. interactions.select_users([user])."
            )
        column = self._columns([item])
        found = self._explained(row, column[None], self._scores(row)[:, column], k)
        return found.of(0, 0)

    def explain_lists(
        self, user_items: UserItems, lists: Ranking, k: int | None = SERVED_K
    ) -> Explanations:
        """Explain every score of the lists that `recommend` returned.

        Parameters
        ----------
        user_items : Interactions, matrix, one dense row, or the ids of one user
            The users, as passed to `recommend`.
        lists : Ranking
            Their lists.
        k : int, optional
            As in `explain`.

        Returns
        -------
        Explanations
            Arrays with one row per user.
        """
        rows = self.read_rows(user_items)
        ids, scores = np.atleast_2d(lists.ids), np.atleast_2d(lists.scores)
        listed = ~np.isnan(scores)
        columns = np.full(ids.shape, -1, dtype=np.intp)
        columns[listed] = self._columns(ids[listed])
        return self._explained(rows, columns, scores, k)

    def _explained(
        self, rows: sp.csr_array, lists: NDArray[np.intp], scores: NDArray[Any], k: int | None
    ) -> Explanations:
        if k is not None:
            check_whole_number("k", k, least=1)
        columns, parts = largest_contributions(self._contributions_to, rows, lists, k)
        return Explanations(scores, self._named(columns), parts, scores - np.nansum(parts, axis=2))

    def _rank(
        self, rows: sp.csr_array, k: int, seen: sp.csr_array | None, excluded: ItemMask
    ) -> Ranking:
        n_users, n_items = rows.shape
        scorer = self._scorer(rows)
        ranking = rank_items(scorer, n_users, n_items, k, seen=seen, excluded=excluded)
        _refuse_overflow(ranking.scores)
        return ranking

    # ------------------------------------------------------------------------------- save, load

    def save(self, path: str | PathLike[str]) -> Path:
        """Save the fitted model to one file, without pickle. An old file is replaced at the end."""
        check_is_fitted(self)
        return write_model(path, **self.content_to_save(), preparation=self.preparation_)

    def content_to_save(self) -> dict[str, Any]:
        """Return class, parameters, learned numbers and arrays, for models that contain another."""
        parameters, learned = self._saved_parameters(), self._learned()
        arrays = {k: v for k, v in (parameters | learned).items() if _is_array(v)}
        return {
            "model": class_name(type(self)),
            "parameters": {k: v for k, v in parameters.items() if k not in arrays},
            "scalars": {k: v for k, v in learned.items() if k not in arrays},
            "arrays": arrays,
        }

    def _learned(self) -> dict[str, Any]:
        """Return what `fit` learned: the attributes whose names end in an underscore."""
        found = {k: v for k, v in vars(self).items() if k.endswith("_") and not k.startswith("_")}
        return {k: v for k, v in found.items() if k != "preparation_"}  # saved on its own

    @classmethod
    def load(cls, path: str | PathLike[str], *, mmap: bool = False, verify: bool = True) -> Self:
        """Read a model that `save` wrote; refuse a model of another class.

        Parameters
        ----------
        path, mmap, verify
            As in `equipoise.load`.
        """
        saved = read_model(path, mmap=mmap, verify=verify)
        if saved.model != class_name(cls):
            raise InvalidParameterError(
                f"{path} contains a {saved.model}, not a {class_name(cls)}. "
                "Use equipoise.load(path), which loads a model of any class."
            )
        with refuse_damaged_model(path):
            return cls._deserialize(saved)

    def _repr_html_(self) -> str:
        facts: dict[str, Any] = {"items": getattr(self, "n_features_in_", "not fitted")}
        certificate = getattr(self, "certificate_", None)
        if hasattr(self, "n_components_"):
            facts["rank"] = self.n_components_
        if certificate is not None:
            facts["relative gap to the optimum"] = certificate.gap
        return Shown(str(self), ["", ""], list(facts.items())).html()

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        """Return the model of a file."""
        learned = {"item_ids_": None, **saved.scalars, **saved.arrays}
        names = cls._get_param_names()
        model = cls(**saved.parameters, **{k: learned.pop(k) for k in names if k in learned})
        model._validate_params()
        model.preparation_ = saved.preparation
        for name, value in learned.items():
            if not _LEARNED_NAME.fullmatch(name) or hasattr(cls, name):
                raise ValueError(f"{name!r} is not a learned attribute of its class")
            setattr(model, name, value)
        if saved.verified:
            model._check_loaded()
        return model

    def _check_loaded(self) -> None:
        """Score one row: arrays that do not fit each other are found before compiled loops run."""
        m = self.n_features_in_
        scores = self._scores(sp.csr_array(([1.0], ([0], [m - 1])), shape=(1, m)))
        if scores.shape != (1, m) or (self.item_ids_ is not None and len(self.item_ids_) != m):
            raise ValueError(f"its arrays do not fit its {m} items")
        if self.item_ids_ is not None and self._item_lookup.has_duplicates:
            raise ValueError("item_ids_ contains an id twice")

    def _saved_parameters(self) -> dict[str, Any]:
        """Return the constructor parameters to save: JSON values and arrays."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        for name, value in parameters.items():
            given = callable(value) or isinstance(value, list | np.ndarray)
            if given and hasattr(self, f"{name}_"):  # e.g. item_weights: keep what fit made of it
                parameters[name] = getattr(self, f"{name}_")
        if isinstance(parameters.get("random_state"), np.random.RandomState):
            parameters["random_state"] = None  # the state of a generator is not part of a model
        return parameters


def grid_around(
    settings: Mapping[str, Any], **values: tuple[Any, ...]
) -> dict[str, tuple[Any, ...]]:
    """Return the grid of one setting, with several values of some of its parameters.

    Examples
    --------
    >>> grid_around({"gamma": -1.0, "n_components": 8}, n_components=(8, 16))
    {'gamma': (-1.0,), 'n_components': (8, 16)}
    """
    return {name: values.get(name, (value,)) for name, value in settings.items()}


def possible_sizes(n_items: int, sizes: Sequence[int] = RANKS) -> tuple[int, ...]:
    """Return the sizes up to the number of items; the number of items if all are larger.

    Examples
    --------
    >>> possible_sizes(1529), possible_sizes(3)
    ((4, 8, 16, 32, 64, 128), (3,))
    """
    return tuple(size for size in sizes if size <= n_items) or (n_items,)


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) or sp.issparse(value)


def _count_numbers(value: Any) -> int:
    values = value.data if sp.issparse(value) else value
    numeric = isinstance(values, np.ndarray) and np.issubdtype(values.dtype, np.number)
    return int(values.size) if numeric else 0


def _refuse_overflow(scores: NDArray[Any]) -> None:
    """Refuse lists that begin with infinite scores: all items beyond the largest number tie."""
    beyond = np.isinf(scores[:, 0])
    if beyond.any():
        raise InvalidDataError(
            f"the scores of user row {int(beyond.argmax())} are beyond {scores.dtype}, so its "
            "items have no order. Divide the data by a constant, or pass them as float64."
        )

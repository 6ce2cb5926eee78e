"""The base class of every model, of this package and of others.

A model fitted on `Interactions` takes and returns ids. A model fitted on a matrix takes and returns
column numbers. Rows are users everywhere.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, _fit_context, clone
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._tags import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from equipoise.checks import check_whole_number, is_whole_number
from equipoise.data.identifiers import Lookup
from equipoise.data.interactions import Interactions
from equipoise.data.sparse_checks import refuse_broken_structure
from equipoise.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    PreparationWarning,
    UnknownIdError,
)
from equipoise.memory import require
from equipoise.models.item_vectors import Factors, ItemItem
from equipoise.models.low_rank import LowRank
from equipoise.models.persistence import (
    SavedModel,
    check_contents,
    class_name,
    read_model,
    refuse_damaged_model,
    write_model,
)
from equipoise.models.ranking import Ranking, Scored, rank_items, top_items
from equipoise.models.registry import RANKS, entry_of
from equipoise.models.value_transforms import (
    VALUE_TRANSFORMS,
    Preparation,
    first_unprepared,
    has_different_values,
    preparation_of,
    prepared_row,
)
from equipoise.progress import NoProgress, Progress, task
from equipoise.spectral.solve import SOLVERS

#: valid values of the parameters that several models of this package have
COMMON_CONSTRAINTS: dict[str, list[Any]] = {
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "value_transform": [StrOptions(set(VALUE_TRANSFORMS)), None],
    "solver": [StrOptions(set(SOLVERS))],
    "tol": [Interval(Real, 1e-12, 1e-2, closed="both")],
    "regularization": [Interval(Real, 0, None, closed="neither")],
    "iterations": [Interval(Integral, 1, None, closed="left")],
    "random_state": ["random_state"],
}


class Explanation(NamedTuple):
    """The largest contributions of the user's own items to a score.

    Attributes
    ----------
    score : float
        The item's score for this user; equals ``contributions.sum() + rest``.
    ids : ndarray
        The user's items that contribute most, by absolute value.
    contributions : ndarray
        What each of them adds to the score.
    rest : float
        What all other items of the user add, and terms that do not depend on the user's items,
        such as the popularity of the item.
    """

    score: float
    ids: NDArray[Any]
    contributions: NDArray[Any]
    rest: float


class Recommender(BaseEstimator, ABC):
    """Base class of models that learn from users × items and score items for users.

    The public methods are `fit`, `score_items`, `rank`, `recommend`, `similar_items`, `explain`,
    `save` and `load`. Code that uses models, here and elsewhere, calls only these.

    A subclass must provide

    - ``__init__``, which only stores its arguments, as in scikit-learn;
    - `_fit`, which learns from checked data;
    - `_scores`, which scores all items for some users.

    A subclass may provide

    - `_similarities` (default: no item is similar to another);
    - `_contributions` (default: `explain` reports the whole score as `rest`);
    - `factors` or `item_item`, if scores are inner products of vectors, or X B;
    - ``_arrays`` and ``_scalars``, which declare the learned attributes that `save` writes. One
      letter per axis declares an array (m items, r components; equal letters, equal lengths), and
      after a colon the NumPy kinds of its type (default: f). A number is declared by its type;
    - ``_parameter_constraints``, scikit-learn's declaration of valid parameters;
    - ``about``, the fields of `equipoise.models.registry.ModelEntry` for ``equipoise models``.

    `equipoise.testing.check_recommender` tests all of this.

    Examples
    --------
    >>> class MostPlayed(Recommender):
    ...     _arrays = {**Recommender._arrays, "plays_": "m"}
    ...     def _fit(self, data):
    ...         self.plays_ = data.popularity("sum")
    ...     def _scores(self, user_items):
    ...         return np.tile(self.plays_, (user_items.shape[0], 1))
    >>> MostPlayed().fit(np.array([[9.0, 1.0, 0.0], [0.0, 1.0, 1.0]])).recommend(np.zeros(3), k=2)
    Ranking(ids=array([0, 1]), scores=array([9., 2.]))
    """

    about: ClassVar[Mapping[str, Any]] = {}

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {}
    _arrays: ClassVar[dict[str, str]] = {"feature_names_in_": "m:OU"}
    _scalars: ClassVar[dict[str, type]] = {"n_features_in_": int}

    item_ids_: NDArray[Any] | None
    n_features_in_: int
    _progress: Progress = NoProgress()

    # How the rows of the fit were prepared; None if unknown, and after a warning about it.
    # It is not saved: a loaded model gives no such warning.
    _preparation: Preparation | None = None

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

    def factors(self) -> Factors | None:
        """Return vectors whose inner products are the scores; None if there are none."""
        return None

    def item_item(self) -> ItemItem | None:
        """Return the item × item matrix that gives the scores; None if there is none."""
        return None

    # -------------------------------------------------------------- what evaluation uses

    #: parameters that may be changed after the fit, without refitting
    free_parameters: ClassVar[frozenset[str]] = frozenset()

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
            space["value_transform"] = (None, *VALUE_TRANSFORMS)
        return [space]

    def for_search(self) -> Self:
        """Return an unfitted copy for a search, less accurate where that is faster."""
        copied: Self = clone(self)
        return copied

    def for_evaluation(self) -> Self:
        """Return an unfitted copy that is accurate at all sizes up to its own."""
        copied: Self = clone(self)
        return copied

    def low_rank(self) -> LowRank | None:
        """Return the fitted model as a projection; None for all other models."""
        return None

    def stored_numbers(self) -> int:
        """Return how many learned numbers a saved model contains; of sparse arrays the entries."""
        arrays = [getattr(self, name) for name in self._arrays if hasattr(self, name)]
        return sum(map(_count_numbers, arrays))

    # ------------------------------------------------------------------------------------- fit

    @_fit_context(prefer_skip_nested_validation=True)
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
        """Check the constructor's arguments; errors are of this package's type."""
        try:
            super()._validate_params()
        except ValueError as error:
            raise InvalidParameterError(str(error)) from None
        rank = self.get_params(deep=False).get("n_components", 1)
        if not is_whole_number(rank):
            raise InvalidParameterError(
                f"The 'n_components' parameter of {type(self).__name__} must be a whole number, "
                f"got {rank!r}."
            )

    def _accept(self, X: Any) -> Interactions:
        """Check the training data; a matrix becomes `Interactions` of one block."""
        self.__dict__.pop("_item_lookup", None)
        self.__dict__.pop("feature_names_in_", None)
        if isinstance(X, Interactions):
            data = X
            self.item_ids_ = X.item_ids
            self.n_features_in_ = X.n_items
        else:
            self.item_ids_ = None
            data = Interactions.wrap(self._checked(X, reset=True))
        if data.nnz == 0:
            raise InvalidDataError(
                f"the {data.n_users} × {data.n_items} matrix passed to {type(self).__name__} "
                "contains no interaction: every entry is 0. Check which column contains the values."
            )
        rank = self.get_params(deep=False).get("n_components", 1)
        if rank > data.n_items:
            raise InvalidParameterError(
                f"n_components={rank} must be at most the number of items, "
                f"{data.n_items} (n_features={data.n_items}). Pass a smaller n_components (--rank)."
            )
        self._preparation = preparation_of(data)
        return data

    def _generator(self) -> np.random.Generator:
        """Return a new generator; None means a fixed seed, so equal fits give equal results."""
        seed = self.get_params(deep=False).get("random_state")
        if isinstance(seed, np.random.RandomState):
            return np.random.default_rng(seed.randint(2**31))
        return np.random.default_rng(0 if seed is None else seed)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.positive_only = True
        return tags

    # --------------------------------------------------------------------------- rows to serve

    def read_rows(self, user_items: Interactions | ArrayLike | sp.csr_array) -> sp.csr_array:
        """Return users' rows as the model reads them: checked CSR with the model's columns.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            `Interactions` are aligned by item id; a matrix must have the model's columns.
        """
        check_is_fitted(self)
        return self._read(_as_rows(user_items))

    def _read(self, user_items: Any) -> sp.csr_array:
        if isinstance(user_items, Interactions):
            if self.item_ids_ is not None:
                user_items = user_items.align_items(self.item_ids_)
            advice = "Select some users, or write all lists with equipoise.serving.write_lists."
            user_items = user_items.require_matrix(type(self).__name__, advice)
        return self._checked(user_items, reset=False)

    def _checked(self, matrix: Any, *, reset: bool) -> sp.csr_array:
        """Return canonical CSR, finite and non-negative."""
        if sp.issparse(matrix):
            refuse_broken_structure(matrix)
        checked = validate_data(
            self, matrix, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset
        )
        X = sp.csr_array(checked)
        if not X.has_canonical_format or (X.nnz and X.data.min() <= 0):
            X = X.copy()
            X.sum_duplicates()
            X.eliminate_zeros()
        if X.nnz and X.data.min() < 0:
            user = int(np.searchsorted(X.indptr, X.data.argmin(), side="right")) - 1
            raise InvalidDataError(
                f"Negative values in data passed to {type(self).__name__}: values must be "
                f"at least 0, got {X.data.min()} in row {user}. "
                "Shift or clip the values, or leave disliked items out."
            )
        return X

    def _warn_of_unprepared(self, rows: sp.csr_array) -> None:
        """Warn once if rows are not prepared like those of the fit, and that changes scores."""
        preparation = self._preparation
        if preparation is None:
            return
        first = first_unprepared(rows, preparation)
        if first is None:
            return
        row = rows[[first]]
        given, expected = self._scores(row), self._scores(prepared_row(row, preparation))
        if not expected.any():  # items without scores: another row will show it
            return
        self._preparation = None
        if np.allclose(given, expected, rtol=1e-4, atol=1e-6 * float(np.abs(expected).max())):
            return
        state = "values of 1" if preparation == "binarize" else "rows that sum to 1"
        warnings.warn(
            f"this {type(self).__name__} was fitted on {state}, and row {first} given here is not "
            "like that: scores differ from those of prepared rows, and lists may. Prepare the rows "
            f"as for the fit, e.g. model.recommend(interactions.{preparation}()).",
            PreparationWarning,
            stacklevel=3,
        )

    # ----------------------------------------------------------------------------------- serve

    def score_items(self, user_items: Interactions | ArrayLike | sp.csr_array) -> NDArray[Any]:
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
        self._warn_of_unprepared(rows)
        scores = self._scores(rows)
        return scores[0] if _is_row(user_items) else scores

    def rank(
        self,
        user_items: Interactions | ArrayLike | sp.csr_array,
        k: int = 10,
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
        self._warn_of_unprepared(rows)
        return self._rank(rows, k, seen, self._excluded(filter_items, items))

    def recommend(
        self,
        user_items: Interactions | ArrayLike | sp.csr_array,
        k: int = 10,
        *,
        filter_already_liked_items: bool = True,
        filter_items: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
    ) -> Ranking:
        """Recommend the k best items for each row, for known and for new users.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            The users' interactions. `Interactions` are aligned by item id; a matrix must
            have the model's columns in the model's order.
        k : int
            Number of items per user: at most the number of items, or 10,000 if that is larger.
        filter_already_liked_items : bool
            Leave out the items of the row.
        filter_items : iterable, optional
            Items never to recommend.
        items : iterable, optional
            The only items to choose from.

        Returns
        -------
        Ranking
            `(ids, scores)`, best first, 1-D for one dense row and 2-D otherwise. Equal scores
            are ranked by position in the catalog; the PCAs treat scores that differ by
            rounding alone as equal. Where fewer than k items are left, ids are
            −1 (None where an id cannot be negative: text, dates) and scores NaN.
        """
        rows = self.read_rows(user_items)
        self._warn_of_unprepared(rows)
        seen = rows if filter_already_liked_items else None
        ranking = self._rank(rows, k, seen, self._excluded(filter_items, items))
        ids, scores = self._named(ranking.ids), ranking.scores
        return Ranking(ids[0], scores[0]) if _is_row(user_items) else Ranking(ids, scores)

    def similar_items(
        self,
        item: Any,
        k: int = 10,
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
        column = self._column(item)
        similarities = self._similarities(column)
        left_out = np.isneginf(similarities)
        excluded = self._excluded(filter_items, items)
        if excluded is not None:
            left_out |= excluded
        if not include_itself:
            left_out[column] = True
        ranking = top_items(similarities, k, excluded=left_out)
        return Ranking(self._named(ranking.ids), ranking.scores)

    def explain(
        self, user_items: Interactions | ArrayLike | sp.csr_array, item: Any, k: int | None = 10
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
        """
        row = self.read_rows(user_items)
        if row.shape[0] != 1:
            raise InvalidDataError(
                f"explain takes the items of one user, got {row.shape[0]} rows. "
                "Pass a single row, e.g. interactions.select_users([user])."
            )
        if k is not None:
            check_whole_number("k", k, least=1)
        self._warn_of_unprepared(row)
        column = self._column(item)
        parts = self._contributions(row, column)
        order = np.argsort(-np.abs(parts), kind="stable")[:k]
        listed = parts[order]
        score = float(self._scores(row)[0, column])
        return Explanation(
            score, self._named(row.indices[order]), listed, score - float(listed.sum())
        )

    def _rank(
        self,
        rows: sp.csr_array,
        k: int,
        seen: sp.csr_array | None,
        excluded: NDArray[np.bool_] | None,
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
        parameters, arrays = self._saved_parameters()
        arrays |= {name: getattr(self, name) for name in self._arrays if hasattr(self, name)}
        if self.item_ids_ is not None:
            arrays["item_ids_"] = self.item_ids_
        return write_model(
            path,
            model=class_name(type(self)),
            parameters=parameters,
            scalars=self._learned_scalars(),
            arrays=arrays,
        )

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Self:
        """Read a model that `save` wrote; refuse a model of another class."""
        saved = read_model(path)
        if saved.model != class_name(cls):
            raise InvalidParameterError(
                f"{path} contains a {saved.model}, not a {class_name(cls)}. "
                "Use equipoise.load(path), which loads a model of any class."
            )
        with refuse_damaged_model(path):
            return cls._deserialize(saved)

    def _learned_scalars(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._scalars}

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        """Return the model of a file, after checking its contents."""
        check_contents(saved, cls._get_param_names(), cls._scalars, cls._arrays)
        arrays = dict(saved.arrays)
        parameters = dict(saved.parameters)
        for name in list(arrays):
            if name in cls._get_param_names():
                parameters[name] = arrays.pop(name)
        model = cls(**parameters)
        model._validate_params()
        model.item_ids_ = arrays.pop("item_ids_", None)
        for name, value in {**saved.scalars, **arrays}.items():
            setattr(model, name, value)
        return model

    def _saved_parameters(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the constructor parameters that are JSON values, and those that are arrays."""
        parameters = self.get_params(deep=False)
        arrays = {k: np.asarray(v) for k, v in parameters.items() if isinstance(v, np.ndarray)}
        plain = {k: v for k, v in parameters.items() if k not in arrays}
        if isinstance(plain.get("random_state"), np.random.RandomState):
            plain["random_state"] = None  # the state of a generator is not part of a model
        return plain, arrays

    # ------------------------------------------------------------------------------------- ids

    @cached_property
    def _item_lookup(self) -> Lookup:
        return Lookup(np.asarray(self.item_ids_), "item")

    def _column(self, item: Any) -> int:
        return int(self._columns([item])[0])

    def _columns(self, items: Iterable[Any]) -> NDArray[np.intp]:
        """Return the column numbers of items given by id, or by number without ids."""
        try:
            wanted = list(items)
        except TypeError:
            raise InvalidParameterError(
                f"items must be a list, got {items!r}. Pass [{items!r}]."
            ) from None
        if self.item_ids_ is not None:
            return self._item_lookup.require(wanted)
        for item in wanted:
            if not (is_whole_number(item) and 0 <= item < self.n_features_in_):
                raise UnknownIdError(
                    f"unknown item {item!r}: a model fitted on a matrix identifies items by their "
                    f"column numbers, 0 to {self.n_features_in_ - 1}. "
                    "Fit on Interactions to use ids."
                )
        return np.asarray(wanted, dtype=np.intp)

    def _excluded(
        self, filter_items: Iterable[Any] | None, items: Iterable[Any] | None
    ) -> NDArray[np.bool_] | None:
        if filter_items is None and items is None:
            return None
        excluded = np.full(self.n_features_in_, items is not None)
        if items is not None:
            excluded[self._columns(items)] = False
        if filter_items is not None:
            excluded[self._columns(filter_items)] = True
        return excluded

    def _named(self, columns: NDArray[Any]) -> NDArray[Any]:
        return columns if self.item_ids_ is None else ids_of(columns, self.item_ids_)


def ids_of(columns: NDArray[Any], item_ids: NDArray[Any]) -> NDArray[Any]:
    """Replace column numbers by ids; −1 stays −1, or becomes None if ids cannot be negative.

    Examples
    --------
    >>> ids_of(np.array([1, -1]), np.array([10, 20])).tolist()
    [20, -1]
    >>> ids_of(np.array([1, -1]), np.array(["a", "b"])).tolist()
    ['b', None]
    """
    signed = item_ids.dtype.kind in "if"
    ids: NDArray[Any] = item_ids[columns]
    ids = ids if signed else ids.astype(object)
    ids[columns < 0] = -1 if signed else None
    return ids


def possible_sizes(n_items: int, sizes: Sequence[int] = RANKS) -> tuple[int, ...]:
    """Return the sizes up to the number of items; the number of items if all are larger.

    Examples
    --------
    >>> possible_sizes(1529), possible_sizes(3)
    ((4, 8, 16, 32, 64, 128), (3,))
    """
    return tuple(size for size in sizes if size <= n_items) or (n_items,)


def _count_numbers(array: Any) -> int:
    values = array.data if sp.issparse(array) else np.asarray(array)
    return int(values.size) if np.issubdtype(values.dtype, np.number) else 0


def _refuse_overflow(scores: NDArray[Any]) -> None:
    """Refuse lists that begin with infinite scores: all items beyond the largest number tie."""
    beyond = np.isinf(scores[:, 0])
    if beyond.any():
        raise InvalidDataError(
            f"the scores of user row {int(beyond.argmax())} are beyond {scores.dtype}, so its "
            "items have no order. Divide the data by a constant, or pass them as float64."
        )


def _as_rows(user_items: Any) -> Any:
    if not _is_row(user_items):
        return user_items
    return user_items.reshape(1, -1) if sp.issparse(user_items) else np.atleast_2d(user_items)


def _is_row(user_items: Any) -> bool:
    return not isinstance(user_items, Interactions) and np.ndim(user_items) == 1

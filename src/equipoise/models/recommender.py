"""What every model can do once it is fitted: recommend, find similar items, explain, be saved.

A model fitted on `Interactions` speaks ids, in and out. One fitted on a matrix speaks column
numbers. Rows are users everywhere.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from equipoise.data.identifiers import Lookup
from equipoise.data.interactions import Interactions
from equipoise.exceptions import (
    InvalidDataError,
    InvalidParameterError,
    PreparationWarning,
    UnknownIdError,
)
from equipoise.models.ann import AnnVectors, FactorForm
from equipoise.models.estimator import Estimator
from equipoise.models.low_rank import LowRank
from equipoise.models.persistence import (
    SavedModel,
    check_contents,
    class_name,
    read_model,
    refuse_damaged_model,
    write_model,
)
from equipoise.models.preference import (
    VALUE_TRANSFORMS,
    first_unprepared,
    has_different_values,
    prepared_row,
)
from equipoise.models.ranking import Ranking, Scored, rank_items, top_items
from equipoise.models.registry import RANKS
from equipoise.progress import Progress


class Explanation(NamedTuple):
    """Why an item has the score it has: the largest contributions of the user's own items.

    Attributes
    ----------
    score : float
        The item's score for this user; equals ``contributions.sum() + rest``.
    ids : ndarray
        The user's items that contribute most, by absolute value.
    contributions : ndarray
        Preference for the item times its similarity to the explained one.
    rest : float
        What all other items of the user contribute together, and whatever the model adds to a
        score whoever asks (the popularity of the item, a user's own part).
    """

    score: float
    ids: NDArray[Any]
    contributions: NDArray[Any]
    rest: float


class Recommender(Estimator):
    """A fitted model that scores items for users.

    Subclasses learn (`_fit`) and answer three questions: the scores of a block of users, the
    similarity of all items to one, and what each item contributes to a score.
    """

    #: parameters that may be changed after the fit, without refitting
    free_parameters: ClassVar[frozenset[str]] = frozenset()

    @property
    def size_parameter(self) -> str | None:
        """The parameter that bounds the rank; None for models without."""
        return "n_components" if "n_components" in self.get_params(deep=False) else None

    @property
    def nested_parameter(self) -> str | None:
        """The size parameter where `truncate` gives every smaller size from one fit, else None."""
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
        from equipoise.models.registry import BY_CLASS

        name = type(self).__name__
        if name not in BY_CLASS:
            raise InvalidParameterError(
                f"{name} has no default search space. Pass grid={{parameter: [values, …]}}."
            )
        space = dict(BY_CLASS[name].search)
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
        """Return the fitted model as a projection; None for models that are not one."""
        return None

    def stored_numbers(self) -> int:
        """Return how many learned numbers a saved model contains; of sparse arrays the entries."""
        arrays = [getattr(self, name) for name in self._arrays if hasattr(self, name)]
        return sum(map(_count_numbers, arrays))

    @abstractmethod
    def _scores(self, user_items: sp.csr_array) -> NDArray[Any]:
        """Dense scores of a block of users for all items."""

    def _scorer(self, user_items: sp.csr_array) -> Callable[[slice], NDArray[Any] | Scored]:
        """From a slice of these users to their scores; for models that can prepare for many.

        It may be called from several threads at once. With `Scored` it states how far the scores
        are rounded.
        """
        return lambda block: self._scores(user_items[block])

    @abstractmethod
    def _similarities(self, item: int) -> NDArray[Any]:
        """Similarity of every item to one; −inf where it is undefined."""

    @abstractmethod
    def _contributions(self, user_items: sp.csr_array, item: int) -> NDArray[Any]:
        """What each stored entry of a one-row matrix adds to the score of `item`."""

    def recommend(
        self,
        user_items: Interactions | ArrayLike | sp.csr_array,
        N: int = 10,
        *,
        filter_already_liked_items: bool = True,
        filter_items: Iterable[Any] | None = None,
        items: Iterable[Any] | None = None,
    ) -> Ranking:
        """Recommend the N best items for each row, for known and for new users alike.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            What the users have touched. `Interactions` are aligned by item id; a matrix must
            have the model's columns in the model's order.
        N : int
            How many items per user: at most as many as the model has, or 10,000 if it has fewer.
        filter_already_liked_items : bool
            Leave out the items that the row holds.
        filter_items : iterable, optional
            Items never to recommend.
        items : iterable, optional
            The only items to choose from.

        Returns
        -------
        Ranking
            `(ids, scores)`, best first, 1-D for one dense row and 2-D otherwise. Equal scores
            are ranked by position in the catalogue; the PCAs treat scores that differ by
            rounding alone as equal. Where fewer than N items are left, ids are
            −1 (None where an id cannot be negative: text, dates) and scores NaN.
        """
        check_is_fitted(self)
        rows = self._read(_as_rows(user_items))
        self._warn_of_unprepared(rows)
        seen = rows if filter_already_liked_items else None
        ranking = self._rank(rows, N, seen, self._excluded(filter_items, items))
        ids, scores = self._named(ranking.ids), ranking.scores
        return Ranking(ids[0], scores[0]) if _is_row(user_items) else Ranking(ids, scores)

    def similar_items(self, item: Any, N: int = 10) -> Ranking:
        """Return the N items most similar to one, without the item itself."""
        check_is_fitted(self)
        column = self._column(item)
        itself = np.arange(self.n_features_in_) == column
        ranking = self._nearest([column], N, itself)
        return Ranking(self._named(ranking.ids[0]), ranking.scores[0])

    def _rank(
        self,
        rows: sp.csr_array,
        N: int,
        seen: sp.csr_array | None,
        excluded: NDArray[np.bool_] | None,
    ) -> Ranking:
        """Columns and scores of the N best for each row, less what it has seen."""
        n_users, n_items = rows.shape
        scorer = self._scorer(rows)
        ranking = rank_items(scorer, n_users, n_items, N, seen=seen, excluded=excluded)
        _refuse_overflow(ranking.scores)
        return ranking

    def _nearest(
        self, columns: Iterable[int], N: int, excluded: NDArray[np.bool_] | None
    ) -> Ranking:
        """Columns and similarities of the N most similar to each; itself too, unless excluded."""
        found = []
        for column in columns:
            similarities = self._similarities(column)
            undefined = np.isneginf(similarities)
            left_out = undefined if excluded is None else undefined | excluded
            found.append(top_items(similarities, N, excluded=left_out))
        return Ranking(*map(np.stack, zip(*found, strict=True)))

    def explain(
        self, user_items: Interactions | ArrayLike | sp.csr_array, item: Any, N: int | None = 10
    ) -> Explanation:
        """Split one user's score for an item into what each of the user's items contributes.

        Parameters
        ----------
        user_items : Interactions, sparse or dense matrix, or one dense row
            Exactly one user.
        item : id or column number
            The item whose score is explained.
        N : int, optional
            How many contributions to list; None lists all.
        """
        check_is_fitted(self)
        row = self._read(_as_rows(user_items))
        if row.shape[0] != 1:
            raise InvalidDataError(
                f"explain takes the items of one user, got {row.shape[0]} rows. "
                "Pass a single row, e.g. interactions.select_users([user])."
            )
        if N is not None and (not isinstance(N, int | np.integer) or N < 1):
            raise InvalidParameterError(
                f"N must be a whole number of at least 1, or None for all, got {N!r}."
            )
        self._warn_of_unprepared(row)
        column = self._column(item)
        parts = self._contributions(row, column)
        order = np.argsort(-np.abs(parts), kind="stable")[:N]
        listed = parts[order]
        score = float(self._scores(row)[0, column])
        return Explanation(
            score, self._named(row.indices[order]), listed, score - float(listed.sum())
        )

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

    def to_ann(self) -> AnnVectors:
        """Return vectors for an index of nearest neighbours: inner products that are the scores.

        Models whose scores are no such products (EASE, neighbours, GF-CF, the floors) refuse.
        """
        check_is_fitted(self)
        items = np.ascontiguousarray(self._factor_form().items, dtype=np.float32)
        ids = np.arange(len(items)) if self.item_ids_ is None else self.item_ids_
        return AnnVectors(items, ids, self)

    def _factor_form(self) -> FactorForm:
        """Item vectors, and the function from rows to user vectors, that scores are products of."""
        raise InvalidParameterError(
            f"{type(self).__name__} has no item vectors whose inner products are its scores, so "
            "there is nothing for an index to hold. Use recommend, which is exact, or a model "
            "with factors, such as ItemWeightedPCA."
        )

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
        """Read a model that `save` wrote; refuses one of another class."""
        saved = read_model(path)
        if saved.model != class_name(cls):
            raise InvalidParameterError(
                f"{path} holds a {saved.model}, not a {class_name(cls)}. "
                "Use equipoise.load(path), which loads a model of any class."
            )
        with refuse_damaged_model(path):
            return cls._deserialize(saved)

    def _learned_scalars(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self._scalars}

    @classmethod
    def _deserialize(cls, saved: SavedModel) -> Self:
        """Return the model that a file holds, after its contents were checked."""
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

    @cached_property
    def _item_lookup(self) -> Lookup:
        return Lookup(np.asarray(self.item_ids_), "item")

    def _column(self, item: Any) -> int:
        return int(self._columns([item])[0])

    def _columns(self, items: Iterable[Any]) -> NDArray[np.intp]:
        """Column numbers of items given as the model speaks of them."""
        try:
            wanted = list(items)
        except TypeError:
            raise InvalidParameterError(
                f"items are given as a list of them, got {items!r}. Pass [{items!r}]."
            ) from None
        if self.item_ids_ is not None:
            return self._item_lookup.require(wanted)
        for item in wanted:
            if not _is_column(item, self.n_features_in_):
                raise UnknownIdError(
                    f"unknown item {item!r}: a model fitted on a matrix knows its items by their "
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
        """Translate column numbers into ids; −1 stays −1, or None where ids cannot be negative."""
        if self.item_ids_ is None:
            return columns
        signed = self.item_ids_.dtype.kind in "if"
        ids: NDArray[Any] = self.item_ids_[columns]
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
    """Refuse lists headed by infinite scores: all items beyond the largest number tie there."""
    beyond = np.isinf(scores[:, 0])
    if beyond.any():
        raise InvalidDataError(
            f"the scores of user row {int(beyond.argmax())} are beyond {scores.dtype}, so that its "
            "items have no order. Divide the data by a constant, or pass them as float64."
        )


def _as_rows(user_items: Any) -> Any:
    if not _is_row(user_items):
        return user_items
    return user_items.reshape(1, -1) if sp.issparse(user_items) else np.atleast_2d(user_items)


def _is_row(user_items: Any) -> bool:
    return not isinstance(user_items, Interactions) and np.ndim(user_items) == 1


def _is_column(item: Any, n_items: int) -> bool:
    whole = isinstance(item, (int, np.integer)) and not isinstance(item, bool)
    return whole and bool(0 <= item < n_items)

"""Any model with the interface of implicit's models: same arguments, same arrays.

`implicit` itself is not needed. Its evaluation (`ranking_metrics_at_k`) accepts these models.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import IO, Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models import load as load_model
from equipoise.models.base import Recommender
from equipoise.models.estimator import check_is_fitted
from equipoise.models.item_vectors import cosines_to, itself_first
from equipoise.models.pca.projection import ProjectionModel
from equipoise.models.ranking import Ranking, top_items

# implicit's score of a position that it could not fill
_NO_SCORE = np.finfo(np.float32).min
# The training rows in a saved model, as one more learned attribute
_ROWS = "training_rows_"


class ImplicitLike:
    """A model with the methods of implicit's models.

    `fit`, `recommend`, `similar_items`, `similar_users`, `save` and `load`.

    Users and items are the row and column numbers of the matrix passed to `fit`.

    Parameters
    ----------
    model : Recommender
        Not fitted, or fitted on a matrix and used with `recalculate_user`.

    Notes
    -----
    implicit keeps a vector for each user of the training data. The models here keep none, so this
    class keeps the rows of the training data (the matrix itself, not a copy) and scores a user by
    the row of that number. With `recalculate_user` it uses the row that was passed, for new users
    too. Equal rows give equal results.

    Two things differ. Where fewer than N items of the catalog are left, implicit fills the list
    with items that should be left out, with the smallest float32 as score; here the number is −1,
    with that score. (A list that is restricted by `items` is filled as in implicit.) A model that
    is not fitted is not saved. implicit's own tests of its models pass otherwise.

    Examples
    --------
    >>> from equipoise import ItemWeightedPCA
    >>> X = sp.csr_matrix([[5, 4, 0, 0], [4, 5, 0, 0], [5, 0, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1.0]])
    >>> model = ImplicitLike(ItemWeightedPCA(n_components=2))
    >>> model.fit(X)
    >>> ids, scores = model.recommend(2, X[2], N=1)
    >>> ids
    array([1], dtype=int32)
    """

    def __init__(self, model: Recommender) -> None:
        self.model = model
        self._rows: sp.csr_array | None = None

    def fit(
        self,
        user_items: sp.spmatrix,
        show_progress: bool = True,  # noqa: ARG002
        callback: Callable[..., Any] | None = None,
    ) -> None:
        """Fit the model on users × items.

        Parameters
        ----------
        user_items : CSR matrix of shape (n_users, n_items)
            The training data.
        show_progress : bool
            Ignored.
        callback : callable, optional
            Called once after the fit, with 0, the seconds it took and None: the models have no
            iterations and no loss that implicit's callbacks would get.
        """
        if not sp.issparse(user_items) or user_items.format != "csr":
            _warn_of_conversion(user_items)
        started = time.perf_counter()
        self.model.fit(user_items)
        self._rows = sp.csr_array(user_items)
        self.__dict__.pop("_user_vectors", None)
        if callback is not None:
            callback(0, time.perf_counter() - started, None)

    def recommend(
        self,
        userid: int | ArrayLike,
        user_items: sp.spmatrix | None,
        N: int = 10,
        filter_already_liked_items: bool = True,
        filter_items: ArrayLike | None = None,
        recalculate_user: bool = False,
        items: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return item numbers and scores, best first: 1-D for one user, 2-D for an array of them.

        Parameters
        ----------
        userid : int or array of int
            Rows of the matrix that was fitted; not used with `recalculate_user`.
        user_items : CSR matrix with one row per user
            Items to leave out, and with `recalculate_user` the rows to score. None if neither is
            needed.
        N : int
            Number of items per user; at most the number of `items`.
        filter_already_liked_items : bool
            Leave out the items of `user_items`.
        filter_items : array of int, optional
            Items never to recommend.
        recalculate_user : bool
            Score the rows passed, not those of the training data.
        items : array of int, optional
            The only items to choose from; not together with `filter_items`.
        """
        check_is_fitted(self.model)
        users = np.atleast_1d(np.asarray(userid))
        given = None
        if filter_already_liked_items or recalculate_user:
            given = self.model.read_rows(_checked_rows(user_items, len(users)))
        rows = given if recalculate_user else self._known(users)
        k, candidates = self._candidates(N, filter_items, items)
        seen = given if filter_already_liked_items else None
        ids, scores = _as_implicit(self.model.rank(rows, k, seen=seen, **candidates))
        if items is not None:
            _fill(ids, candidates["items"] or [])
        return (ids[0], scores[0]) if np.ndim(userid) == 0 else (ids, scores)

    def similar_items(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        recalculate_item: bool = False,
        item_users: sp.spmatrix | None = None,
        filter_items: ArrayLike | None = None,
        items: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the items most similar to one, or to each of several, the item itself among them.

        Parameters
        ----------
        itemid : int or array of int
            Columns of the matrix that was fitted.
        N : int
            Number of items; at most the number of `items`.
        recalculate_item : bool
            Compute the item's vector from `item_users`, not from the fit; for the three PCAs.
        item_users : CSR matrix with one row per item and one column per user, optional
            Who interacted with the items; used with `recalculate_item`.
        filter_items, items : array of int, optional
            As in `recommend`.
        """
        check_is_fitted(self.model)
        k, candidates = self._candidates(N, filter_items, items)
        columns = self._columns(itemid)
        if recalculate_item:
            found = self._similar_to_new(
                columns, _checked_rows(item_users, len(columns)), k, candidates
            )
        else:
            found = [
                self.model.similar_items(column, k, include_itself=True, **candidates)
                for column in columns
            ]
        return _lists(found, itemid)

    def similar_users(
        self,
        userid: int | ArrayLike,
        N: int = 10,
        filter_users: ArrayLike | None = None,
        users: ArrayLike | None = None,
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the users most similar to one, or to each of several, the user among them.

        Similarity is the cosine of user vectors, for models whose scores are inner products.

        Parameters
        ----------
        userid : int or array of int
            Rows of the matrix that was fitted.
        N : int
            Number of users; at most the number of `users`.
        filter_users, users : array of int, optional
            Users to leave out, or the only users to choose from.
        """
        wanted = np.atleast_1d(np.asarray(userid))
        self._known(wanted)
        vectors, count = self._user_vectors, self._user_vectors.shape[0]
        only, never = (
            None if given is None else _numbers(np.atleast_1d(np.asarray(given)), count, "user")
            for given in (users, filter_users)
        )
        N = N if only is None else min(N, len(only))
        left_out = _left_out(count, only, never)
        found = [_nearest(cosines_to(u, vectors), u, N, left_out) for u in wanted.tolist()]
        return _lists(found, userid)

    @cached_property
    def _user_vectors(self) -> NDArray[Any]:
        factors = self.model.factors()
        if factors is None:
            raise NotImplementedError(f"{type(self.model).__name__} has no user vectors to compare")
        return np.asarray(factors.users(self.model.read_rows(self._rows)))

    def _similar_to_new(
        self, columns: list[int], item_users: sp.csr_array, k: int, candidates: dict[str, Any]
    ) -> list[Ranking]:
        if not isinstance(self.model, ProjectionModel) or self._rows is None:
            raise NotImplementedError(
                f"recalculate_item needs one of the PCAs, fitted here; this is a "
                f"{type(self.model).__name__}"
            )
        scale = np.sqrt(self.model.filter_factors())
        rows = self.model.read_rows(self._rows)
        projected = self.model.project_items(rows, sp.csr_array(item_users).T.tocsr()).vectors
        own = self.model.components_.T * scale
        left_out = _left_out(len(own), candidates.get("items"), candidates.get("filter_items"))
        every = [cosines_to(len(own), np.vstack([own, new * scale]))[:-1] for new in projected]
        return [_nearest(*pair, k, left_out) for pair in zip(every, columns, strict=True)]

    def save(self, file: str | PathLike[str] | IO[bytes]) -> None:
        """Save the model and the rows of the training data to one file, without pickle.

        Parameters
        ----------
        file : path, or binary file
            As in implicit.
        """
        check_is_fitted(self.model)
        model = copy.copy(self.model)
        if self._rows is not None:
            setattr(model, _ROWS, self._rows)
        if isinstance(file, str | PathLike):
            model.save(file)
            return
        with TemporaryDirectory() as folder:
            file.write(model.save(Path(folder) / "model").read_bytes())

    @classmethod
    def load(cls, file: str | PathLike[str] | IO[bytes]) -> Self:
        """Load what `save` wrote, from a path or a binary file."""
        if not isinstance(file, str | PathLike):
            with TemporaryDirectory() as folder:
                path = Path(folder) / "model"
                path.write_bytes(file.read())
                return cls.load(path)
        loaded = cls(load_model(file))
        loaded._rows = loaded.model.__dict__.pop(_ROWS, None)
        return loaded

    def _known(self, users: NDArray[Any]) -> sp.csr_array:
        if self._rows is None:
            raise InvalidParameterError(
                "ImplicitLike has no users of a model that was fitted elsewhere. Call its fit, "
                "or pass the users' rows with recalculate_user=True."
            )
        return self._rows[_numbers(users, self._rows.shape[0], "user")]

    def _columns(self, items: ArrayLike) -> list[int]:
        found = _numbers(np.atleast_1d(np.asarray(items)), self.model.n_features_in_, "item")
        return found.tolist()

    def _candidates(
        self, N: int, filter_items: ArrayLike | None, items: ArrayLike | None
    ) -> tuple[int, dict[str, list[int] | None]]:
        """Return the length of a list, and the arguments that restrict its items."""
        if filter_items is not None and items is not None:
            raise InvalidParameterError("Give items or filter_items, not both, as in implicit.")
        named = filter_items if items is None else items
        columns = None if named is None else self._columns(named)
        if items is None or columns is None:
            return N, {"filter_items": columns}
        return min(N, len(columns)), {"items": columns}


class _OutOfRangeError(UnknownIdError, IndexError):
    """implicit raises IndexError here."""


def _warn_of_conversion(user_items: Any) -> None:
    """Warn as implicit does, by its own class where it is installed."""
    try:
        from implicit.utils import ParameterWarning as Category
    except ImportError:
        Category = UserWarning
    kind = getattr(user_items, "format", type(user_items).__name__)
    warnings.warn(
        f"fit takes a CSR matrix; {kind} is converted, which takes time and memory.",
        Category,
        stacklevel=3,
    )


def _fill(ids: NDArray[np.int32], items: list[int]) -> None:
    """Put the items that were left out at the end of restricted lists, as implicit does."""
    for row in ids:
        left = [item for item in items if item not in set(row.tolist())]
        empty = np.flatnonzero(row < 0)
        row[empty] = left[: len(empty)]


def _left_out(count: int, only: Any, never: Any) -> NDArray[np.bool_]:
    """Return a mask of all but the only candidates, and of those that are never listed."""
    mask = np.full(count, only is not None)
    if only is not None:
        mask[only] = False
    mask[[] if never is None else never] = True
    return mask


def _nearest(cosines: NDArray[Any], own: int, k: int, left_out: NDArray[np.bool_]) -> Ranking:
    return top_items(itself_first(cosines, own), k, excluded=left_out)


def _numbers(given: NDArray[Any], count: int, kind: str) -> NDArray[np.intp]:
    """Return row or column numbers; refuse others, and negative ones."""
    whole = given.dtype.kind in "iu" or given.size == 0
    bad = np.ones(given.shape, bool) if not whole else (given < 0) | (given >= count)
    if bad.any():
        raise _OutOfRangeError(
            f"{kind}s are numbers from 0 to {count - 1} here, got {given[bad][0]!r}. "
            "Pass rows and columns of the matrix that was fitted."
        )
    return given.astype(np.intp)


def _checked_rows(user_items: Any, n_users: int) -> Any:
    if not sp.issparse(user_items) or user_items.format != "csr":
        raise InvalidDataError(
            f"user_items must be a CSR sparse matrix, got {type(user_items).__name__}. "
            "Pass the users' rows of it, as user_items[userid]."
        )
    if user_items.shape[0] != n_users:
        raise InvalidDataError(
            f"user_items must contain one row for each of the {n_users} users, got "
            f"{user_items.shape[0]}. Pass user_items[userid]."
        )
    return user_items


def _lists(
    found: list[Ranking], asked: int | ArrayLike
) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    """Return lists as implicit does: 1-D if one was asked for, else one row each."""
    ids, scores = _as_implicit(Ranking(*map(np.stack, zip(*found, strict=True))))
    return (ids[0], scores[0]) if np.ndim(asked) == 0 else (ids, scores)


def _as_implicit(ranking: Ranking) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    scores = np.where(ranking.ids < 0, _NO_SCORE, ranking.scores)
    return ranking.ids.astype(np.int32), scores.astype(np.float32)

"""Any model with the interface of implicit's models: same arguments, same arrays.

`implicit` itself is not needed. Its evaluation (`ranking_metrics_at_k`) accepts these models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models.base import Recommender
from equipoise.models.ranking import Ranking

# implicit's score of a position that it could not fill
_NO_SCORE = np.finfo(np.float32).min


class ImplicitLike:
    """A model with the methods of implicit's models: `fit`, `recommend`, `similar_items`.

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

    One thing differs. Where fewer than N items are left, implicit fills the list with items that
    should be left out, with the smallest float32 as score; here the number is −1, with that score.

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
        callback: Any = None,
    ) -> None:
        """Fit the model on users × items.

        Parameters
        ----------
        user_items : CSR matrix of shape (n_users, n_items)
            The training data.
        show_progress : bool
            Ignored.
        callback : None
            Must be None: the models do not report iterations.
        """
        if callback is not None:
            raise InvalidParameterError(
                "implicit calls callback after every iteration; these models do not report "
                "iterations. Leave it out."
            )
        self.model.fit(user_items)
        self._rows = sp.csr_array(user_items)

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
        return (ids[0], scores[0]) if np.ndim(userid) == 0 else (ids, scores)

    def similar_items(
        self,
        itemid: int | ArrayLike,
        N: int = 10,
        *,
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
        filter_items, items : array of int, optional
            As in `recommend`.
        """
        check_is_fitted(self.model)
        k, candidates = self._candidates(N, filter_items, items)
        found = [
            self.model.similar_items(column, k, include_itself=True, **candidates)
            for column in self._columns(itemid)
        ]
        ids, scores = _as_implicit(Ranking(*map(np.stack, zip(*found, strict=True))))
        return (ids[0], scores[0]) if np.ndim(itemid) == 0 else (ids, scores)

    def _known(self, users: NDArray[Any]) -> sp.csr_array:
        if self._rows is None:
            raise InvalidParameterError(
                "ImplicitLike has no users of a model that was fitted elsewhere. Call its fit, "
                "or pass the users' rows with recalculate_user=True."
            )
        return self._rows[_numbers(users, self._rows.shape[0], "user")]

    def _columns(self, items: ArrayLike) -> list[int]:
        found = _numbers(np.atleast_1d(np.asarray(items)), self.model.n_features_in_, "item")
        numbers: list[int] = found.tolist()
        return numbers

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


def _numbers(given: NDArray[Any], count: int, kind: str) -> NDArray[np.intp]:
    """Return row or column numbers; refuse others, and negative ones."""
    whole = given.dtype.kind in "iu" or given.size == 0
    bad = np.ones(given.shape, bool) if not whole else (given < 0) | (given >= count)
    if bad.any():
        raise UnknownIdError(
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


def _as_implicit(ranking: Ranking) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    scores = np.where(ranking.ids < 0, _NO_SCORE, ranking.scores)
    return ranking.ids.astype(np.int32), scores.astype(np.float32)

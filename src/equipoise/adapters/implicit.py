"""Any model of ours with the face of an implicit one: same arguments, same arrays back.

`implicit` itself is not needed. Its evaluation (`ranking_metrics_at_k`) takes these models.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.models.ranking import Ranking
from equipoise.models.recommender import Recommender

# implicit's score of a place that it could not fill
_NO_SCORE = np.finfo(np.float32).min


class ImplicitLike:
    """A model of ours behind the methods of implicit's: `fit`, `recommend`, `similar_items`.

    Users and items are numbers, those of the rows and columns of the matrix in `fit`.

    Parameters
    ----------
    model : Recommender
        Not fitted, or fitted on a matrix and used with `recalculate_user`.

    Notes
    -----
    implicit keeps a vector for each user of the training data. Our models keep none: the rows of
    the training data are kept here instead (the matrix itself, no copy), and a user is scored by
    the row of that number. With `recalculate_user` it is the row that was passed, for new
    users too; the results are the same where the rows are.

    One thing differs. Where fewer than N items are left, implicit fills up with items that were to
    be left out, at the smallest float32 as score; here the number is −1, at the same score.

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
            Whose stored values mean what they mean to the model inside.
        show_progress : bool
            Ignored: there is no loop to watch.
        callback : None
            Refused, for the same reason.
        """
        if callback is not None:
            raise InvalidParameterError(
                "callback is called after every iteration in implicit; this model has none to "
                "report. Leave it out."
            )
        self.model.fit(user_items)
        self._rows = self.model._read(user_items)

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
            Rows of the matrix that was fitted; with `recalculate_user` only their number counts.
        user_items : CSR matrix with a row for each of them
            Items to leave out, and with `recalculate_user` what the users are scored by. May be
            None where it serves neither.
        N : int
            How many items a user; at most `items`, where given.
        filter_already_liked_items : bool
            Leave out the items that `user_items` holds.
        filter_items : array of int, optional
            Items never to recommend.
        recalculate_user : bool
            Score the rows passed, not those of the training data.
        items : array of int, optional
            The only items to choose from; not together with `filter_items`.
        """
        _refuse_both(filter_items, items)
        check_is_fitted(self.model)
        users = np.atleast_1d(np.asarray(userid))
        given = None
        if filter_already_liked_items or recalculate_user:
            given = self.model._read(_checked_rows(user_items, len(users)))
        rows = given if recalculate_user else self._known(users)
        wanted = N if items is None else min(N, len(np.asarray(items)))
        seen = given if filter_already_liked_items else None
        ranking = self.model._rank(rows, wanted, seen, self._excluded(filter_items, items))
        ids, scores = _as_implicit(ranking)
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
            How many; at most `items`, where given.
        filter_items, items : array of int, optional
            As in `recommend`.
        """
        _refuse_both(filter_items, items)
        check_is_fitted(self.model)
        columns = self._columns(np.atleast_1d(np.asarray(itemid)))
        wanted = N if items is None else min(N, len(np.asarray(items)))
        excluded = self._excluded(filter_items, items)
        ids, scores = _as_implicit(self.model._nearest(columns.tolist(), wanted, excluded))
        return (ids[0], scores[0]) if np.ndim(itemid) == 0 else (ids, scores)

    def _known(self, users: NDArray[Any]) -> sp.csr_array:
        if self._rows is None:
            raise InvalidParameterError(
                "ImplicitLike keeps no users of a model that was fitted elsewhere. Call its fit, "
                "or pass the users' rows with recalculate_user=True."
            )
        return self._rows[_numbers(users, self._rows.shape[0], "user")]

    def _columns(self, items: NDArray[Any]) -> NDArray[np.intp]:
        return _numbers(items, self.model.n_features_in_, "item")

    def _excluded(
        self, filter_items: ArrayLike | None, items: ArrayLike | None
    ) -> NDArray[np.bool_] | None:
        named = filter_items if items is None else items
        if named is None:
            return None
        excluded = np.full(self.model.n_features_in_, items is not None)
        excluded[self._columns(np.asarray(named))] = items is None
        return excluded


def _refuse_both(filter_items: ArrayLike | None, items: ArrayLike | None) -> None:
    if filter_items is not None and items is not None:
        raise InvalidParameterError("Give items or filter_items, not both, as in implicit.")


def _numbers(given: NDArray[Any], count: int, kind: str) -> NDArray[np.intp]:
    """Row or column numbers; refuses others, and counting from the end."""
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
            f"user_items must hold one row for each of the {n_users} users, got "
            f"{user_items.shape[0]}. Pass user_items[userid]."
        )
    return user_items


def _as_implicit(ranking: Ranking) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
    scores = np.where(ranking.ids < 0, _NO_SCORE, ranking.scores)
    return ranking.ids.astype(np.int32), scores.astype(np.float32)

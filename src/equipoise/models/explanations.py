"""Scores split into the contributions of the user's own items, for all lists of a block at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

# The vectors and contributions of a block of users take about this.
_BLOCK_BYTES = 16 * 2**20

# A user has about this many numbers per entry and block: a vector of the item.
_NUMBERS_PER_ENTRY = 64

# Up to this many places, searching the maximum again and again is faster than sorting.
_FEW = 8


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


class Explanations(NamedTuple):
    """The largest contributions to every score of some lists; arrays in the shape of the lists.

    Attributes
    ----------
    scores : ndarray of shape (n_users, length)
        The scores of the lists; NaN where a list is shorter.
    ids : ndarray of shape (n_users, length, k)
        The user's items that contribute most, by absolute value. As in `Ranking`, −1 or None where
        the user has fewer items.
    contributions : ndarray of shape (n_users, length, k)
        What each of them adds to the score; NaN where `ids` has none.
    rest : ndarray of shape (n_users, length)
        As in `Explanation`.
    """

    scores: NDArray[Any]
    ids: NDArray[Any]
    contributions: NDArray[Any]
    rest: NDArray[Any]

    def of(self, user: int, place: int) -> Explanation:
        """Return one explanation."""
        some = ~np.isnan(self.contributions[user, place])
        return Explanation(
            float(self.scores[user, place]),
            self.ids[user, place][some],
            self.contributions[user, place][some],
            float(self.rest[user, place]),
        )


class PaddedRows(NamedTuple):
    """Rows of users as arrays of one width.

    Attributes
    ----------
    columns : ndarray of int, shape (n_users, width)
        Items of each user; 0 behind the last.
    stored : ndarray of bool, shape (n_users, width)
        Where there is an item.
    """

    columns: NDArray[np.intp]
    stored: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: csr_array) -> PaddedRows:
        """Pad the rows of a matrix.

        Examples
        --------
        >>> from scipy.sparse import csr_array
        >>> PaddedRows.of(csr_array([[0, 2, 3], [4, 0, 0]])).columns.tolist()
        [[1, 2], [0, 0]]
        """
        counts = np.diff(rows.indptr)
        stored = np.arange(counts.max(initial=0)) < counts[:, None]
        return cls(cls.spread(rows.indices, stored).astype(np.intp, copy=False), stored)

    @staticmethod
    def spread(entries: NDArray[Any], stored: NDArray[np.bool_]) -> NDArray[Any]:
        """Return the entries of the rows in the padded shape, with zeros behind them."""
        padded = np.zeros(stored.shape, dtype=entries.dtype)
        padded[stored] = entries
        return padded


def largest_contributions(
    contributions_of: Callable[[csr_array, NDArray[np.intp]], NDArray[Any]],
    rows: csr_array,
    lists: NDArray[np.intp],
    k: int | None,
    *,
    block_bytes: int = _BLOCK_BYTES,
) -> tuple[NDArray[np.intp], NDArray[Any]]:
    """Return columns and values of the k largest contributions to each score, by absolute value.

    Parameters
    ----------
    contributions_of : callable
        From rows and lists of some users to contributions of shape (users, length, width), in the
        order of `PaddedRows`.
    rows : csr_array of shape (n_users, n_items)
        Items of the users.
    lists : ndarray of shape (n_users, length)
        Columns to explain; −1 for none.
    k : int, optional
        Contributions to list; None lists all.
    block_bytes : int
        Upper limit of a block of users, about; one user is the least.

    Returns
    -------
    columns, values : ndarray of shape (n_users, length, k)
        −1 and NaN where a user has fewer items, and where a list has none.
    """
    counts = np.diff(rows.indptr)
    wide = int(counts.max(initial=0))
    width = wide if k is None else min(k, wide)
    columns = np.full((*lists.shape, width), -1, dtype=np.intp)
    values = np.full((*lists.shape, width), np.nan)
    per_entry = 8 * (_NUMBERS_PER_ENTRY + 2 * lists.shape[1])
    for users in alike(counts, lambda count: per_entry * count, block_bytes):
        some, wanted = rows[users], lists[users]
        padded = PaddedRows.of(some)
        parts = contributions_of(some, np.maximum(wanted, 0))
        order = _largest(parts, padded.stored, min(width, parts.shape[2]))
        listed = np.take_along_axis(padded.columns[:, None], order, 2)
        there = np.take_along_axis(padded.stored[:, None], order, 2) & (wanted >= 0)[..., None]
        taken = np.take_along_axis(parts, order, 2)
        columns[users, :, : order.shape[2]] = np.where(there, listed, -1)
        values[users, :, : order.shape[2]] = np.where(there, taken, np.nan)
    return columns, values


def alike(
    counts: NDArray[Any], bytes_of: Callable[[int], int], block_bytes: int
) -> Iterator[NDArray[np.intp]]:
    """Yield blocks of rows with about the same number of entries, the longest rows first.

    Parameters
    ----------
    counts : ndarray of int, shape (n,)
        Entries per row; rows without any are left out.
    bytes_of : callable
        From a number of entries to the memory that a row takes.
    block_bytes : int
        Upper limit of a block, about; one row is the least.

    Examples
    --------
    >>> [rows.tolist() for rows in alike(np.array([1, 0, 9, 2]), lambda count: count, 4)]
    [[2], [3, 0]]
    """
    order = np.argsort(-counts, kind="stable")
    order = order[: np.count_nonzero(counts)]
    start = 0
    while start < len(order):
        stop = start + max(1, block_bytes // bytes_of(int(counts[order[start]])))
        yield order[start:stop]
        start = stop


def _largest(parts: NDArray[Any], stored: NDArray[np.bool_], k: int) -> NDArray[np.intp]:
    """Return the places of the k largest magnitudes; the first of those that are equal."""
    sizes = np.where(stored[:, None], np.abs(parts), -1)
    if k > _FEW:
        return np.argsort(-sizes, axis=2, kind="stable")[..., :k]
    order = np.empty((*parts.shape[:2], k), dtype=np.intp)
    for place in range(k):
        best = sizes.argmax(axis=2)[..., None]
        np.put_along_axis(sizes, best, -2, axis=2)
        order[..., [place]] = best
    return order

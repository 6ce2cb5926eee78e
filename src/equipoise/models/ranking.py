"""Top-k selection: scores in blocks, seen items masked, one stated tie rule.

A higher score ranks first; among equal scores, the lower item index. -0.0 equals 0.0.
Where a model states how far its scores are rounded, scores that differ by rounding are equal too
(`equipoise.metrics.ties`).
Small problems are selected by NumPy, large ones by a compiled kernel in as many threads as there
are cores, each with its own block of scores; the result is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.display import Displayed, Shown
from equipoise.exceptions import InvalidDataError
from equipoise.metrics.ties import settled, significant_bits, splitter
from equipoise.parallel import map_in_threads, thread_count

if TYPE_CHECKING:
    import polars as pl
    from scipy.sparse import csr_array

# Longer lists are not printed in full.
_MOST_SHOWN = 50

# Below this many scores NumPy needs well under a second, less than importing numba and compiling
# the kernel. The result does not depend on the choice.
COMPILED_FROM = 2_000_000

# Each thread has one such block. In one thread, 32 to 64 MB differ by a few percent (64 ahead),
# and 8 to 16 MB are slower, as BLAS reads the components again for each; 32 bounds the memory.
_BLOCK_BYTES = 32 * 2**20

# Handing out a block takes some 50 µs; these are scored and selected in about 200.
THREADED_FROM = 2**18

# A list may be longer than a small catalog, to give every model lists of one length. Beyond this,
# it would be padding only, and soon exceed memory.
_LONGEST_PADDED_LIST = 10_000

# Most items per group when candidates are searched: few maxima to sort, few candidates.
_GROUP = 64

_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))

#: which items are left out for all users; None for none
ItemMask = NDArray[np.bool_] | None


class _Lists(NamedTuple):
    ids: NDArray[Any]
    scores: NDArray[Any]


class Ranking(_Lists, Displayed):
    """The best items of every row, best first: the tuple ``(ids, scores)``.

    Attributes
    ----------
    ids : ndarray of int64, shape (n, k) or (k,)
        Item indices; -1 where fewer than k items were left to recommend.
    scores : ndarray of float, shape (n, k) or (k,)
        Their scores; NaN where `ids` is -1.
    fallback : ndarray of bool, shape (n,), or bool
        Which lists are fallbacks for users without known items; their scores are popularities.
        False if no list is one.
    """

    fallback: Any = False

    def __repr__(self) -> str:
        if self.ids.size <= _MOST_SHOWN:
            return f"Ranking(ids={self.ids!r}, scores={self.scores!r})"
        return f"Ranking(ids and scores of shape {self.ids.shape})"

    def to_polars(self) -> pl.DataFrame:
        """Return one row per item of a list: row (of several users), rank from 1, item, score."""
        import polars as pl

        rows, ranks = np.indices(np.atleast_2d(self.ids).shape)
        columns = {"row": rows.ravel(), "rank": ranks.ravel() + 1}
        columns |= {"item": self.ids.ravel(), "score": self.scores.ravel()}
        if self.ids.ndim == 1:
            del columns["row"]
        frame = pl.DataFrame({name: column.tolist() for name, column in columns.items()})
        return frame.filter(pl.col("score").is_not_nan())

    def _shown(self) -> Shown:
        n_users = 1 if self.ids.ndim == 1 else len(self.ids)
        frame = self.to_polars()
        title = f"Ranking of {n_users:,} user(s), up to {self.ids.shape[-1]} items each"
        return Shown(title, frame.columns, frame.rows())


class Scored(NamedTuple):
    """Scores of some users and how far they are rounded.

    Attributes
    ----------
    scores : ndarray of shape (n, n_items)
        float32 or float64.
    limits : ndarray of shape (n,)
        A score of the row is zero if its magnitude is at most this.
    """

    scores: NDArray[Any]
    limits: NDArray[Any]


class _Mask(NamedTuple):
    """What must not be recommended: a CSR pattern for each user, a flag for each item."""

    indptr: NDArray[Any]
    indices: NDArray[Any]
    excluded: NDArray[np.bool_]

    def rows(self, rows: slice) -> _Mask:
        # One index width: scipy picks int32 or int64 by size, and each would compile its own
        # kernel. Converted block by block, so all indices are never in memory twice.
        indptr = self.indptr[rows.start : rows.stop + 1].astype(np.int64)
        indices = self.indices[indptr[0] : indptr[-1]].astype(np.int64)
        return _Mask(indptr - indptr[0], indices, self.excluded)


def rank_items(
    score_rows: Callable[[slice], NDArray[Any] | Scored],
    n_users: int,
    n_items: int,
    k: int,
    *,
    seen: csr_array | None = None,
    excluded: ItemMask = None,
    block_bytes: int = _BLOCK_BYTES,
) -> Ranking:
    """Rank the k best items of each user that are neither seen nor excluded.

    Parameters
    ----------
    score_rows : callable
        Gives the float32 or float64 scores of a slice of users, shape (users in it, `n_items`),
        or `Scored`; without limits only identical scores are equal.
        It is called once per block, from the first user to the last; where there are many
        scores, from several threads in parallel.
    n_users, n_items : int
        Shape of the whole score matrix, which is never in memory as a whole.
    k : int
        Items to give each user, at least 1. A row with fewer left is padded with -1 and NaN.
    seen : csr_array of shape (n_users, n_items), optional
        Entries not to recommend. Only where they are counts, not their values.
    excluded : ndarray of bool, shape (n_items,), optional
        Items not to recommend to any user.
    block_bytes : int
        Upper limit of one score block, counted as float64; one row is the least. Each thread
        has one such block at a time.

    Raises
    ------
    InvalidDataError
        If a score is NaN. Infinite scores are ranked like any other.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.5, 2.0, 2.0], [1.0, 0.0, -0.0]])
    >>> only_two = np.array([True, False, False])
    >>> rank_items(lambda rows: scores[rows], 2, 3, 2, excluded=only_two).ids
    array([[1, 2],
           [1, 2]])
    """
    check_whole_number("k", k, least=1, most=max(n_items, _LONGEST_PADDED_LIST))
    mask = _mask(seen, excluded, n_users, n_items)
    compiled = n_users * n_items >= COMPILED_FROM and n_users > 1
    select = _select_compiled if compiled else _select_numpy
    kept = min(k, n_items)

    def rank(rows: slice) -> Ranking:
        given = score_rows(rows)
        scores, limits = given if isinstance(given, Scored) else (given, None)
        block = _checked_block(scores, rows, n_items)
        return select(block, mask.rows(rows), kept, rows.start, _ties(block, limits))

    ids = np.full((n_users, k), -1, dtype=np.int64)
    scores = np.full((n_users, k), np.nan)
    blocks, threads = _plan(n_users, n_items, block_bytes, thread_count() if compiled else 1)
    shared = threads > 1  # or else the only thread's products are for BLAS to share
    tops = map_in_threads(rank, blocks, threads) if shared else map(rank, blocks)
    for rows, top in zip(blocks, tops, strict=True):
        if rows.start == 0:
            scores = scores.astype(top.scores.dtype, copy=False)
        ids[rows, :kept], scores[rows, :kept] = top
    return Ranking(ids, scores)


def top_items(scores: NDArray[Any], k: int, *, excluded: ItemMask = None) -> Ranking:
    """Rank the k best entries of one score vector, by the rule of `rank_items`.

    Examples
    --------
    >>> import numpy as np
    >>> top_items(np.array([0.25, 0.5, 0.5]), 2)
    Ranking(ids=array([1, 2]), scores=array([0.5, 0.5]))
    """
    found = rank_items(lambda _: scores[None], 1, len(scores), k, excluded=excluded)
    return Ranking(found.ids[0], found.scores[0])


def best_of_rows(
    scores: NDArray[Any],
    k: int,
    guess: NDArray[np.int32] | None = None,
    limits: NDArray[Any] | None = None,
    *,
    compiled: bool = True,
) -> Ranking:
    """Rank scores in memory, in this thread, from lists that may be near already.

    The k items of a similar ranking have k scores in this one, so nothing below the smallest of
    them can enter: one comparison dismisses nearly all items.

    Parameters
    ----------
    scores : ndarray of shape (n, n_items)
        C-contiguous float32 or float64. Items with the score -inf are left out.
    k : int
        Items to give each row; padded as in `rank_items`.
    guess : ndarray of int32, shape (n, k or more), optional
        Different items of each row, -1 for none; the result does not depend on them.
    limits : ndarray of shape (n,), optional
        As in `Scored`.
    compiled : bool
        Pays from some million scores on, and takes a guess; the result does not depend on it.

    Examples
    --------
    >>> import numpy as np
    >>> best_of_rows(np.array([[0.5, -np.inf, 2.0, 1.0]]), 2).ids
    array([[2, 3]])
    """
    n, m = scores.shape
    kept = min(k, m)
    ids, top = np.full((n, k), -1, dtype=np.int64), np.full((n, k), np.nan, scores.dtype)
    how = scores, _mask(None, None, n, m), kept, 0, _ties(scores, limits)
    ids[:, :kept], top[:, :kept] = (
        _select_compiled(*how, guess) if compiled else _select_numpy(*how)
    )
    left_out = ~(top > -np.inf)
    ids[left_out], top[left_out] = -1, np.nan
    return Ranking(ids, top)


def _mask(seen: csr_array | None, excluded: ItemMask, n_users: int, n_items: int) -> _Mask:
    if excluded is None:
        excluded = np.zeros(0, dtype=np.bool_)
    if seen is None:
        return _Mask(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int64), excluded)
    if seen.shape != (n_users, n_items) or seen.format != "csr":
        raise InvalidDataError(
            f"seen must be a CSR matrix of {n_users} users by {n_items} items, got "
            f"{seen.format} of shape {seen.shape}. Pass the rows of the users being ranked."
        )
    return _Mask(seen.indptr, seen.indices, excluded)


def _plan(n_users: int, n_items: int, block_bytes: int, threads: int) -> tuple[list[slice], int]:
    """Cut the users into blocks, one for each thread at least; one thread for few scores."""
    step = max(1, block_bytes // (8 * max(1, n_items)))
    share = min(step, -(-n_users // threads))
    if threads == 1 or share * n_items < THREADED_FROM:
        share, threads = step, 1
    starts = range(0, n_users, share)
    return [slice(start, min(start + share, n_users)) for start in starts], threads


def _checked_block(block: NDArray[Any], rows: slice, n_items: int) -> NDArray[Any]:
    expected = (rows.stop - rows.start, n_items)
    if block.shape != expected or block.dtype not in _FLOATS:
        raise InvalidDataError(
            f"the scores of user rows {rows.start} to {rows.stop - 1} must be float32 or float64 "
            f"of shape {expected}, got {block.dtype} of shape {block.shape}. "
            "Correct the function that scores them."
        )
    return np.ascontiguousarray(block)


def _refuse_nan(user: int, item: int) -> None:
    raise InvalidDataError(
        f"score of user row {user}, item {item} is NaN, so the items have no order. "
        "Look for NaN or overflow in the factors that were fitted, or fit the model again."
    )


class _Ties(NamedTuple):
    """What `settle` takes, in the type of the scores: another one would slow the loops down."""

    limits: NDArray[Any]
    factor: Any
    margin: Any  # settling changes a score by less, relatively


def _ties(block: NDArray[Any], limits: NDArray[Any] | None) -> _Ties:
    number = block.dtype.type
    if limits is None:  # settling changes nothing
        return _Ties(np.full(len(block), -1, block.dtype), number(1), np.finfo(number).eps)
    bits = significant_bits(block.dtype)
    rounded = limits.astype(block.dtype, copy=False)
    return _Ties(rounded, splitter(bits, block.dtype), number(2.0 ** (1 - bits)))


def _lowest_ties(worst: NDArray[Any], ties: _Ties) -> NDArray[Any]:
    """Return lower bounds of all scores that tie with the worst, as in the compiled kernel."""
    finite = np.where(np.isfinite(worst), worst, 0)
    below = np.maximum(np.abs(finite) * ties.margin, ties.limits[:, None])
    return np.asarray(np.where(np.isfinite(worst), finite - below, worst))


def _select_numpy(
    block: NDArray[Any], mask: _Mask, kept: int, first_user: int, ties: _Ties
) -> Ranking:
    """Find a score that k items of the row reach, then sort only the items that reach it.

    The items are dealt into groups: k items at least reach the k-th best of the groups' maxima.
    """
    n, m = block.shape
    ids = np.full((n, kept), -1, dtype=np.int64)
    scores = np.full((n, kept), np.nan, dtype=block.dtype)
    if block.size == 0:
        return Ranking(ids, scores)
    if np.isnan(block.max()):
        user, item = np.argwhere(np.isnan(block))[0]
        _refuse_nan(first_user + int(user), int(item))
    seen = np.repeat(np.arange(n), np.diff(mask.indptr)), mask.indices
    excluded = np.flatnonzero(mask.excluded)
    masked = block.copy()
    masked[seen] = masked[:, excluded] = -np.inf
    size = max(1, min(_GROUP, m // (4 * kept)))
    groups = masked[:, : m // size * size].reshape(n, size, m // size)
    maxima = groups.max(axis=1) if size > 1 else masked
    threshold = np.partition(maxima, -kept, axis=1)[:, -kept, None]
    # settling keeps the order, so the k-th best settled score is the settled k-th best
    lowest = _lowest_ties(settled(threshold, ties.limits[:, None], ties.factor), ties)
    masked[seen] = masked[:, excluded] = np.nan  # reaches nothing
    rows, items = np.divmod(np.flatnonzero(masked >= lowest), m)
    values = settled(block[rows, items], ties.limits[rows], ties.factor)
    order = np.lexsort((items, -values, rows))
    rows, items = rows[order], items[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    best = place < kept
    rows, items, place = rows[best], items[best], place[best]
    ids[rows, place] = items
    scores[rows, place] = block[rows, items]
    # of those that tie none is above one before it; a padded place stays NaN
    return Ranking(ids, np.minimum.accumulate(scores, axis=1))


def _select_compiled(
    block: NDArray[Any],
    mask: _Mask,
    kept: int,
    first_user: int,
    ties: _Ties,
    guess: NDArray[np.int32] | None = None,
) -> Ranking:
    """Select in one pass over the scores; a guess of each row's best makes it a faster one.

    The kernel ranks no score of -inf. If there are such scores, rows that are short of items are
    selected again.
    """
    n, m = block.shape
    ids = np.empty((n, kept), dtype=np.int64)
    scores = np.empty((n, kept), dtype=block.dtype)
    if guess is None or guess.shape[1] < kept:
        guess = np.full((n, 1), -1, np.int32)
    # contiguous, or else each layout would compile its own kernel
    start = np.ascontiguousarray(guess[:, :kept], dtype=np.int32)
    failure = int(_kernel()(block, *mask, *ties, start, ids, scores, np.empty(m, block.dtype)))
    if failure >= 0:
        _refuse_nan(first_user + failure // m, failure % m)
    for row in np.flatnonzero(ids[:, -1] < 0):
        if np.isneginf(block[row]).any():
            rows = slice(row, row + 1)
            limits = ties._replace(limits=ties.limits[rows])
            ids[rows], scores[rows] = _select_numpy(block[rows], mask.rows(rows), kept, 0, limits)
    return Ranking(ids, scores)


@cache
def _kernel() -> Callable[..., int]:
    from equipoise.models.heap import select_rows

    return select_rows

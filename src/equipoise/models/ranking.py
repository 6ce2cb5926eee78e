"""Top-N selection: scores in blocks, seen items masked, one stated tie rule.

A higher score comes first; among equal scores the lower item index does, and -0.0 equals 0.0.
Small problems are selected by NumPy, large ones by a compiled kernel; both give the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from numbers import Integral
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise.compiled import compile_loop, in_threads, thread_count
from equipoise.exceptions import InvalidDataError, InvalidParameterError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import csr_array

# Below this many scores NumPy answers in well under a second, which is less than loading numba
# and compiling the kernel takes. The result does not depend on the choice.
_SMALL_PROBLEM = 2_000_000
_BLOCK_BYTES = 64 * 2**20
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


class Ranking(NamedTuple):
    """The best items of every row, best first.

    Attributes
    ----------
    ids : ndarray of int64, shape (n, N) or (N,)
        Item indices; -1 where fewer than N items were left to recommend.
    scores : ndarray of float, shape (n, N) or (N,)
        Their scores; NaN where `ids` is -1.
    """

    ids: NDArray[Any]
    scores: NDArray[Any]


class _Mask(NamedTuple):
    """What must not be recommended: a CSR pattern for each user, a flag for each item."""

    indptr: NDArray[np.int64]
    indices: NDArray[np.int64]
    excluded: NDArray[np.bool_]

    def rows(self, rows: slice) -> _Mask:
        return _Mask(self.indptr[rows.start : rows.stop + 1], self.indices, self.excluded)


def rank_items(
    score_rows: Callable[[slice], NDArray[Any]],
    n_users: int,
    n_items: int,
    N: int,
    *,
    seen: csr_array | None,
    excluded: NDArray[np.bool_] | None,
    block_bytes: int = _BLOCK_BYTES,
) -> Ranking:
    """Rank the N best items of each user that are neither seen nor excluded.

    Parameters
    ----------
    score_rows : callable
        Gives the float32 or float64 scores of a slice of users, shape (users in it, `n_items`).
        It is called once per block, from the first user to the last.
    n_users, n_items : int
        Shape of the whole score matrix, which is never held at once.
    N : int
        Items to give each user, at least 1. A row with fewer left is padded with -1 and NaN.
    seen : csr_array of shape (n_users, n_items), optional
        Entries not to recommend. Only where they are counts, not their values.
    excluded : ndarray of bool, shape (n_items,), optional
        Items not to recommend to anybody.
    block_bytes : int
        Upper limit of one score block, counted as float64; one row is the least.

    Raises
    ------
    InvalidDataError
        If a score is NaN. Infinite scores are ranked like any other.

    Examples
    --------
    >>> import numpy as np
    >>> scores = np.array([[0.5, 2.0, 2.0], [1.0, 0.0, -0.0]])
    >>> only_two = np.array([True, False, False])
    >>> rank_items(lambda rows: scores[rows], 2, 3, 2, seen=None, excluded=only_two).ids
    array([[1, 2],
           [1, 2]])
    """
    _check_count(N, "N")
    _check_count(block_bytes, "block_bytes")
    mask = _mask(seen, excluded, n_users, n_items)
    select = _select_numpy if n_users * n_items < _SMALL_PROBLEM else _select_compiled
    kept = min(N, n_items)
    ids = np.full((n_users, N), -1, dtype=np.int64)
    scores = np.full((n_users, N), np.nan)
    for rows in _blocks(n_users, n_items, block_bytes):
        block = _checked_block(score_rows(rows), rows, n_items)
        if rows.start == 0:
            scores = scores.astype(block.dtype, copy=False)
        top = select(block, mask.rows(rows), kept, rows.start)
        ids[rows, :kept], scores[rows, :kept] = top
    return Ranking(ids, scores)


def top_items(
    scores: NDArray[Any], N: int, *, excluded: NDArray[np.bool_] | None = None
) -> Ranking:
    """Rank the N best entries of one score vector, by the rule of `rank_items`.

    Examples
    --------
    >>> import numpy as np
    >>> top_items(np.array([0.25, 0.5, 0.5]), 2)
    Ranking(ids=array([1, 2]), scores=array([0.5, 0.5]))
    """
    _check_count(N, "N")
    row = _checked_block(scores[None, :], slice(0, 1), len(scores))
    kept = min(N, len(scores))
    top = _select_numpy(row, _mask(None, excluded, 1, len(scores)), kept, 0)
    padding = (0, N - kept)
    return Ranking(
        np.pad(top.ids[0], padding, constant_values=-1),
        np.pad(top.scores[0], padding, constant_values=np.nan),
    )


def _check_count(value: object, name: str) -> None:
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        message = f"{name} must be an integer of at least 1, got {value!r}. Pass {name}=1 or more."
        raise InvalidParameterError(message)


def _mask(
    seen: csr_array | None, excluded: NDArray[np.bool_] | None, n_users: int, n_items: int
) -> _Mask:
    if excluded is None:
        excluded = np.zeros(n_items, dtype=np.bool_)
    if excluded.shape != (n_items,) or excluded.dtype != np.bool_:
        message = (
            f"excluded must hold one bool for each of the {n_items} items, got shape "
            f"{excluded.shape} of {excluded.dtype}. Pass a boolean mask over the items."
        )
        raise InvalidDataError(message)
    if seen is None:
        return _Mask(np.zeros(n_users + 1, np.int64), np.zeros(0, np.int64), excluded)
    if seen.shape != (n_users, n_items) or seen.format != "csr":
        message = (
            f"seen must be a CSR matrix of {n_users} users by {n_items} items, got "
            f"{seen.format} of shape {seen.shape}. Pass the rows of the users being ranked."
        )
        raise InvalidDataError(message)
    # One index width: scipy picks int32 or int64 by size, and each would compile its own kernel.
    return _Mask(seen.indptr.astype(np.int64), seen.indices.astype(np.int64), excluded)


def _blocks(n_users: int, n_items: int, block_bytes: int) -> Iterator[slice]:
    step = max(1, block_bytes // (8 * max(1, n_items)))
    for start in range(0, n_users, step):
        yield slice(start, min(start + step, n_users))


def _checked_block(block: NDArray[Any], rows: slice, n_items: int) -> NDArray[Any]:
    expected = (rows.stop - rows.start, n_items)
    if block.shape != expected or block.dtype not in _FLOATS:
        message = (
            f"the scores of user rows {rows.start} to {rows.stop - 1} must be float32 or float64 "
            f"of shape {expected}, got {block.dtype} of shape {block.shape}. "
            "Correct the function that scores them."
        )
        raise InvalidDataError(message)
    return np.ascontiguousarray(block)


def _refuse_nan(user: int, item: int) -> None:
    message = (
        f"score of user row {user}, item {item} is NaN, so the items have no order. "
        "Look for NaN or overflow in the factors that were fitted, or fit the model again."
    )
    raise InvalidDataError(message)


def _select_numpy(block: NDArray[Any], mask: _Mask, kept: int, first_user: int) -> Ranking:
    """Partition out the scores not below the N-th best of their row, then sort only those."""
    n, m = block.shape
    ids = np.full((n, kept), -1, dtype=np.int64)
    scores = np.full((n, kept), np.nan, dtype=block.dtype)
    if block.size == 0:
        return Ranking(ids, scores)
    if (nan := np.isnan(block)).any():
        user, item = np.argwhere(nan)[0]
        _refuse_nan(first_user + int(user), int(item))
    allowed = np.tile(~mask.excluded, (n, 1))
    users = np.repeat(np.arange(n), np.diff(mask.indptr))
    allowed[users, mask.indices[mask.indptr[0] : mask.indptr[-1]]] = False
    masked = np.where(allowed, block, -np.inf)
    threshold = np.partition(masked, m - kept, axis=1)[:, m - kept, None]
    rows, items = np.nonzero(allowed & (block >= threshold))
    order = np.lexsort((items, -block[rows, items], rows))
    rows, items = rows[order], items[order]
    place = np.arange(len(rows)) - np.searchsorted(rows, rows)
    best = place < kept
    rows, items, place = rows[best], items[best], place[best]
    ids[rows, place] = items
    scores[rows, place] = block[rows, items]
    return Ranking(ids, scores)


def _select_compiled(block: NDArray[Any], mask: _Mask, kept: int, first_user: int) -> Ranking:
    """Share the rows of a block among threads, each running the compiled kernel."""
    n = len(block)
    kernel = _kernel()
    ids = np.empty((n, kept), dtype=np.int64)
    scores = np.empty((n, kept), dtype=block.dtype)
    threads = min(n, thread_count())
    edges = np.linspace(0, n, threads + 1).astype(int).tolist()

    def run(thread: int) -> int:
        part = slice(edges[thread], edges[thread + 1])
        return int(kernel(block[part], *mask.rows(part), ids[part], scores[part]))

    for start, failure in zip(edges[:-1], in_threads(run, threads), strict=True):
        if failure >= 0:
            _refuse_nan(first_user + start + failure // block.shape[1], failure % block.shape[1])
    return Ranking(ids, scores)


@cache
def _kernel() -> Callable[..., int]:
    return compile_loop(_select_rows)


def _select_rows(
    block: NDArray[Any],
    indptr: NDArray[np.int64],
    indices: NDArray[np.int64],
    excluded: NDArray[np.bool_],
    ids: NDArray[np.int64],
    scores: NDArray[Any],
) -> int:
    """Write the best of each row to `ids` and `scores`; return the flat index of a NaN, or -1.

    One pass over the row keeps a heap of the best so far with the worst of them at its root.
    It starts full of (-inf, m), which is worse than any item, so that it never grows.
    """

    def sift_down(
        ids: NDArray[np.int64], scores: NDArray[Any], size: int, item: int, score: float
    ) -> None:
        """Put (item, score) in place of the root and restore the heap."""
        hole, child = 0, 1
        while child < size:
            right = child + 1
            if right < size and (
                scores[right] < scores[child]
                or (scores[right] == scores[child] and ids[right] > ids[child])
            ):
                child = right
            if score < scores[child] or (score == scores[child] and item > ids[child]):
                break
            ids[hole], scores[hole] = ids[child], scores[child]
            hole, child = child, 2 * child + 1
        ids[hole], scores[hole] = item, score

    n, m = block.shape
    kept = ids.shape[1]
    masked = excluded.copy()
    for i in range(n):
        row, heap, values = block[i], ids[i], scores[i]
        heap[:] = m
        values[:] = -np.inf
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = True
        for start in range(0, m, 64):
            stretch, worst = row[start : start + 64], values[0]
            # Nearly every stretch holds nothing better than the worst kept, which this loop
            # without branches finds out by SIMD. Not `>`: the negation lets NaN through as well.
            any_better = heap[0] == m
            for j in range(stretch.size):
                any_better |= not (stretch[j] <= worst)
            if not any_better:
                continue
            for j in range(stretch.size):
                score, item = stretch[j], start + j
                if score != score:
                    return int(i * m + item)
                # Items come in rising order: one that only equals the worst kept loses the tie.
                if (score > values[0] or heap[0] == m) and not masked[item]:
                    sift_down(heap, values, kept, item, score)
        for e in range(indptr[i], indptr[i + 1]):
            masked[indices[e]] = excluded[indices[e]]
        for last in range(kept - 1, 0, -1):
            item, score = heap[0], values[0]
            sift_down(heap, values, last, heap[last], values[last])
            heap[last], values[last] = item, score
        for place in range(kept):
            if heap[place] == m:
                heap[place], values[place] = -1, np.nan
    return -1

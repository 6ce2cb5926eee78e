"""Which users and items to keep: pure functions of a CSR matrix."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.validation import check_whole_number
from equipoise.exceptions import InvalidParameterError

FilterOrder = Literal["users_first", "items_first"]


class Kept(NamedTuple):
    """Positions of the users and items that stay, ascending."""

    users: NDArray[np.intp]
    items: NDArray[np.intp]


class Taken(NamedTuple):
    """A submatrix and, for each of its entries, the position it had in the old `matrix.data`."""

    matrix: sparse.csr_array
    positions: NDArray[np.intp]


def take(
    matrix: sparse.csr_array,
    users: NDArray[np.intp] | slice = slice(None),
    items: NDArray[np.intp] | slice = slice(None),
) -> Taken:
    """Return rows and columns in the order asked for, entries carrying their old position.

    Examples
    --------
    >>> X = sparse.csr_array([[5.0, 6.0], [0.0, 7.0]])
    >>> taken = take(X, items=np.array([1, 0]))
    >>> taken.matrix.toarray().tolist(), taken.positions.tolist()
    ([[6.0, 5.0], [7.0, 0.0]], [1, 0, 2])
    """
    entry = np.arange(matrix.nnz, dtype=np.intp)
    moved = sparse.csr_array((entry, matrix.indices, matrix.indptr), shape=matrix.shape)
    moved = moved[users][:, items]
    moved.sort_indices()
    positions = moved.data
    taken = sparse.csr_array(
        (matrix.data[positions], moved.indices, moved.indptr), shape=moved.shape
    )
    return Taken(taken, positions)


def take_or_leave_empty(
    matrix: sparse.csr_array,
    users: NDArray[np.intp] | None = None,
    items: NDArray[np.intp] | None = None,
) -> Taken:
    """Return rows and columns in the order asked for, an empty one wherever a position is -1."""
    n, m = matrix.shape
    ends = np.append(matrix.indptr, matrix.indptr[-1])
    larger = sparse.csr_array((matrix.data, matrix.indices, ends), shape=(n + 1, m + 1))
    return take(
        larger,
        slice(n) if users is None else np.where(users < 0, n, users),
        slice(m) if items is None else np.where(items < 0, m, items),
    )


def keep_active(
    matrix: sparse.csr_array,
    min_items_per_user: int,
    min_users_per_item: int,
    order: FilterOrder,
    until_stable: bool,
) -> Kept:
    """Return who stays after the thresholds, once or until nothing changes any more."""
    check_thresholds(min_items_per_user, min_users_per_item, order)
    minima = {"users": min_items_per_user, "items": min_users_per_item}
    sides = ("users", "items") if order == "users_first" else ("items", "users")
    entry_user = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    alive = {"users": np.ones(matrix.shape[0], bool), "items": np.ones(matrix.shape[1], bool)}
    ends = {"users": entry_user, "items": matrix.indices}
    while True:
        before = [int(alive[side].sum()) for side in sides]
        for side in sides:
            alive[side] &= _degrees(ends, alive, side) >= minima[side]
        if not until_stable or before == [int(alive[side].sum()) for side in sides]:
            break
    # an item of a dropped user, or a user whose items all went, has nothing left to say
    left = {side: alive[side] & (_degrees(ends, alive, side) > 0) for side in sides}
    return Kept(np.flatnonzero(left["users"]), np.flatnonzero(left["items"]))


def _degrees(
    ends: dict[str, NDArray[Any]], alive: dict[str, NDArray[np.bool_]], side: str
) -> NDArray[np.intp]:
    """Count, for each user (item), the entries whose user and item are both still there."""
    both = alive["users"][ends["users"]] & alive["items"][ends["items"]]
    return np.bincount(ends[side][both], minlength=len(alive[side]))


def check_thresholds(min_items_per_user: int, min_users_per_item: int, order: str) -> None:
    """Refuse thresholds that are no whole numbers, and an order that is not known."""
    for name, value in {
        "min_items_per_user": min_items_per_user,
        "min_users_per_item": min_users_per_item,
    }.items():
        check_whole_number(name, value)
    if order not in get_args(FilterOrder):
        raise InvalidParameterError(
            f"order={order!r} is not known; use 'users_first' (the paper's) or 'items_first'."
        )

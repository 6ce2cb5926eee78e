"""Which users and items to keep: thresholds on how many interactions they have."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_whole_number
from equipoise.data.block_ops import Mask, items_kept_per_user, users_kept_per_item
from equipoise.data.rows import Rows
from equipoise.exceptions import InvalidParameterError

FilterOrder = Literal["users_first", "items_first"]


class Kept(NamedTuple):
    """Rows of each block that stay, and items that stay; ascending."""

    users: list[NDArray[np.intp]]
    items: NDArray[np.intp]


class _Active:
    """The users, by block, and the items that are still there."""

    def __init__(self, rows: Rows, n_items: int) -> None:
        self.rows = rows
        self.users: list[Mask] = [np.ones(size.users, bool) for size in rows.sizes()]
        self.items: Mask = np.ones(n_items, bool)

    def drop(self, side: str, least: int) -> None:
        """Drop users (items) with fewer than `least` of the remaining items (users)."""
        if side == "users":
            counts = self.items_per_user()
            self.users = [m & (c >= least) for m, c in zip(self.users, counts, strict=True)]
        else:
            self.items = self.items & (self.users_per_item() >= least)

    def count(self) -> tuple[int, int]:
        return sum(int(mask.sum()) for mask in self.users), int(self.items.sum())

    def items_per_user(self) -> list[NDArray[np.intp]]:
        return self.rows.map(items_kept_per_user, self.items, each=self._masks())

    def users_per_item(self) -> NDArray[np.intp]:
        counts: NDArray[np.intp] = self.rows.total(
            users_kept_per_item, self.items, each=self._masks()
        )
        return counts

    def _masks(self) -> list[tuple[Mask]]:
        return [(mask,) for mask in self.users]


def keep_active(
    rows: Rows,
    n_items: int,
    min_items_per_user: int,
    min_users_per_item: int,
    order: FilterOrder,
    until_stable: bool,
) -> Kept:
    """Return the users and items to keep; thresholds apply once or until nothing changes."""
    check_thresholds(min_items_per_user, min_users_per_item, order)
    minima = {"users": min_items_per_user, "items": min_users_per_item}
    sides = ("users", "items") if order == "users_first" else ("items", "users")
    active = _Active(rows, n_items)
    while True:
        before = active.count()
        for side in sides:
            active.drop(side, minima[side])
        if not until_stable or before == active.count():
            break
    # drop users and items without entries; both counts are taken before either is dropped
    users, items = active.items_per_user(), active.users_per_item()
    kept = [np.flatnonzero(m & (c > 0)) for m, c in zip(active.users, users, strict=True)]
    return Kept(kept, np.flatnonzero(active.items & (items > 0)))


def check_thresholds(min_items_per_user: int, min_users_per_item: int, order: str) -> None:
    """Refuse thresholds that are not whole numbers, and an unknown order."""
    for name, value in {
        "min_items_per_user": min_items_per_user,
        "min_users_per_item": min_users_per_item,
    }.items():
        check_whole_number(name, value)
    if order not in get_args(FilterOrder):
        raise InvalidParameterError(
            f"order={order!r} is not known; use 'users_first' (the paper's) or 'items_first'."
        )

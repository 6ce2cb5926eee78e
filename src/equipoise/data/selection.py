"""Which users and items to keep: thresholds on how many interactions they have."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice, check_whole_number
from equipoise.data.block_ops import Mask, items_kept_per_user, users_kept_per_item
from equipoise.data.rows import Rows

FilterOrder = Literal["users_first", "items_first"]


class Kept(NamedTuple):
    """Rows of each block that stay, and items that stay; ascending."""

    users: list[NDArray[np.intp]]
    items: NDArray[np.intp]


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
    users: list[Mask] = [np.ones(size.users, bool) for size in rows.sizes()]
    items: Mask = np.ones(n_items, bool)

    def items_per_user() -> list[NDArray[np.intp]]:
        return rows.map(items_kept_per_user, items, each=[(mask,) for mask in users])

    def users_per_item() -> NDArray[np.intp]:
        each = [(mask,) for mask in users]
        counts: NDArray[np.intp] = rows.total(users_kept_per_item, items, each=each)
        return counts

    while True:
        before = sum(int(mask.sum()) for mask in (*users, items))
        for side in ("users", "items") if order == "users_first" else ("items", "users"):
            if side == "users":
                pairs = zip(users, items_per_user(), strict=True)
                users = [mask & (count >= min_items_per_user) for mask, count in pairs]
            else:
                items = items & (users_per_item() >= min_users_per_item)
        if not until_stable or before == sum(int(mask.sum()) for mask in (*users, items)):
            break
    # drop users and items without entries; both counts are taken before either is dropped
    user_counts, item_counts = items_per_user(), users_per_item()
    kept = [np.flatnonzero(m & (c > 0)) for m, c in zip(users, user_counts, strict=True)]
    return Kept(kept, np.flatnonzero(items & (item_counts > 0)))


def check_thresholds(min_items_per_user: int, min_users_per_item: int, order: str) -> None:
    """Refuse thresholds that are not whole numbers, and an unknown order."""
    check_whole_number("min_items_per_user", min_items_per_user)
    check_whole_number("min_users_per_item", min_users_per_item)
    check_choice("order", order, get_args(FilterOrder))

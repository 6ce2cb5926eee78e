"""The paper's filters on blocks: who stays is counted where the entries are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.data.selection import FilterOrder, check_thresholds
from equipoise.distributed.blocks import BlockSet, RowBlock, shape_of

Mask = NDArray[np.bool_]


class KeptBlocks(NamedTuple):
    """Rows of each block that stay, and items that stay; ascending."""

    users: list[NDArray[np.intp]]
    items: NDArray[np.intp]


class _Alive:
    """Who is still there: users by block, items of all."""

    def __init__(self, blocks: BlockSet, n_items: int) -> None:
        self.blocks = blocks
        self.users: list[Mask] = [np.ones(shape.users, bool) for shape in blocks.collect(shape_of)]
        self.items: Mask = np.ones(n_items, bool)

    def drop(self, side: str, least: int) -> None:
        """Drop users (items) with fewer than `least` living items (users)."""
        if side == "users":
            counts = self.items_per_user()
            self.users = [m & (c >= least) for m, c in zip(self.users, counts, strict=True)]
        else:
            self.items = self.items & (self.users_per_item() >= least)

    def count(self) -> tuple[int, int]:
        return sum(int(mask.sum()) for mask in self.users), int(self.items.sum())

    def items_per_user(self) -> list[NDArray[np.intp]]:
        return self.blocks.collect(_items_per_user, self.items, each=self._masks())

    def users_per_item(self) -> NDArray[np.intp]:
        counts: NDArray[np.intp] = self.blocks.total(
            _users_per_item, self.items, each=self._masks()
        )
        return counts

    def _masks(self) -> list[tuple[Mask]]:
        return [(mask,) for mask in self.users]


def keep_active(
    blocks: BlockSet,
    n_items: int,
    min_items_per_user: int,
    min_users_per_item: int,
    order: FilterOrder,
    until_stable: bool,
) -> KeptBlocks:
    """Return who stays after the thresholds, by the rules of `equipoise.data.selection`."""
    check_thresholds(min_items_per_user, min_users_per_item, order)
    minima = {"users": min_items_per_user, "items": min_users_per_item}
    sides = ("users", "items") if order == "users_first" else ("items", "users")
    alive = _Alive(blocks, n_items)
    while True:
        before = alive.count()
        for side in sides:
            alive.drop(side, minima[side])
        if not until_stable or before == alive.count():
            break
    # an item of a dropped user, or a user whose items all went, has nothing left to say; both
    # are told from who was alive before either goes
    users, items = alive.items_per_user(), alive.users_per_item()
    rows = [np.flatnonzero(m & (c > 0)) for m, c in zip(alive.users, users, strict=True)]
    return KeptBlocks(rows, np.flatnonzero(alive.items & (items > 0)))


def _items_per_user(block: RowBlock, items: Mask, users: Mask) -> NDArray[np.intp]:
    X = block.matrix
    ends = np.append(0, np.cumsum(items[X.indices]))[X.indptr]
    return np.where(users, np.diff(ends), 0)


def _users_per_item(block: RowBlock, items: Mask, users: Mask) -> NDArray[np.intp]:
    X = block.matrix
    there = np.repeat(users, np.diff(X.indptr)) & items[X.indices]
    return np.bincount(X.indices[there], minlength=X.shape[1])

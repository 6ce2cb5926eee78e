"""A task: what models are fitted on, what users are scored from, what is to be found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice, check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock
from equipoise.data.split import Split, holdout
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import POPULARITY_RULES, Context, ItemGroups, popularity_groups
from equipoise.metrics.groups import POPULARITY_OF_RULE

Part = Literal["test", "validation"]

# Values in this range have scores that neither overflow nor vanish in float32.
_SMALL, _LARGE = 1e-15, 1e15


@dataclass(frozen=True, eq=False)
class Task:
    """One part of a split; the data are in memory, on disk or on a cluster.

    Attributes
    ----------
    fitted : Interactions
        What models learn from: train for the validation part, train + validation for the test.
    seen, held_out : Interactions
        What users are scored from, which is left out of their lists, and what is to be found.
        Both have the same users in the same blocks.
    groups : ItemGroups
        The groups of items of the report.
    user_groups : Groups or None
        The groups of the users of `seen`, in their order.
    everyone : bool
        Whether users without held-out items get lists too. They do not if whole users are held
        out: then these users belong to train.
    """

    fitted: Interactions
    seen: Interactions
    held_out: Interactions
    groups: ItemGroups
    everyone: bool = True
    user_groups: Groups | None = None

    @classmethod
    def of(
        cls,
        split: Split,
        part: Part,
        groups: str | ItemGroups,
        user_groups: Groups | None = None,
    ) -> Self:
        """Return one part of a split as a task."""
        check_choice("part", part, get_args(Part))
        testing = part == "test"
        fitted = split.train_validation if testing else split.train
        seen = split.seen_before_test if testing else split.seen_before_validation
        held_out = split.test if testing else split.validation
        if held_out.nnz == 0:
            raise InvalidDataError(
                f"the {part} part of the split is empty, so there is nothing to find. "
                f"Hold out a larger share: holdout(interactions, {part}=0.2)."
            )
        grouped = group_items(fitted, groups)
        users = None if user_groups is None else group_users(seen, user_groups)
        return cls(fitted, seen, held_out, grouped, split.history is None, users)

    def sample(self, n_users: int, seed: int = 0) -> Self:
        """Return the task with at most so many users; of more, only those with held-out items."""
        check_whole_number("users", n_users, 1)
        if self.seen.n_users <= n_users:
            return self
        users = np.flatnonzero(self.held_out.items_per_user())
        if len(users) > n_users:
            users = np.random.default_rng(seed).choice(users, n_users, replace=False)
        ids = self.seen.user_ids[np.sort(users)]
        seen, held_out = self.seen.select_users(ids), self.held_out.select_users(ids)
        groups = None if self.user_groups is None else self.user_groups.align(seen)
        return replace(self, seen=seen, held_out=held_out, user_groups=groups)

    @property
    def n_items(self) -> int:
        """Number of items."""
        return self.fitted.n_items

    @cached_property
    def fits_float32(self) -> bool:
        """Whether scores of these values neither overflow nor vanish in float32."""
        return _SMALL <= self.seen.largest_value() <= _LARGE

    @cached_property
    def popularity(self) -> NDArray[np.float64]:
        """Number of training users of each item."""
        return self.fitted.popularity("count")

    def context(self, zero_division: float) -> Context:
        """Return what all blocks of users share."""
        each = self.seen.blocks_of(self.held_out)
        seen_counts, n_users = self.seen.total(_count_seen, self.everyone, each=each)
        return Context(
            self.n_items,
            int(n_users),
            self.popularity,
            seen_counts,
            self.groups,
            popularity_groups(self.popularity, "head80"),
            zero_division,
        )

    @cached_property
    def fingerprint(self) -> dict[str, Any]:
        """What a cache must agree on before its numbers are used for this task."""
        return {
            "fitted": self.fitted.fingerprint(),
            "seen": self.seen.fingerprint(),
            "held_out": self.held_out.fingerprint(),
            "groups": [_fingerprint(each) for each in (self.groups, self.user_groups) if each],
        }


def _fingerprint(groups: ItemGroups) -> list[Any]:
    S = groups.membership
    content = sha256(b"".join(part.tobytes() for part in (S.indptr, S.indices, S.data)))
    return [groups.rule, list(groups.names), content.hexdigest()]


def scored_rows(held_out: RowBlock, everyone: bool) -> NDArray[np.intp] | slice:
    """Return the rows of a block that get lists."""
    return slice(None) if everyone else np.flatnonzero(np.diff(held_out.matrix.indptr))


def _count_seen(
    seen: RowBlock, everyone: bool, held_out: RowBlock
) -> tuple[NDArray[np.float64], int]:
    X = seen.matrix[scored_rows(held_out, everyone)]
    return np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64), X.shape[0]


def as_split(data: Interactions | Split) -> Split:
    """Return the split, or the default hold-out of interactions."""
    if isinstance(data, Split):
        return data
    data = Interactions.accept(data)
    if isinstance(data, Interactions):
        return holdout(data)
    raise InvalidDataError(
        f"expected Interactions or a Split, got {type(data).__name__}. Build them with "
        "Interactions.read(path or table) or Interactions.from_sparse(matrix)."
    )


def group_items(fitted: Interactions, groups: str | ItemGroups) -> ItemGroups:
    """Return the groups of a popularity rule, or the given ones if they match the items."""
    if isinstance(groups, Groups):
        if groups.of != "items":
            raise InvalidParameterError("groups must be groups of items; see user_groups.")
        return groups.align(fitted)
    if isinstance(groups, ItemGroups):
        if len(groups) != fitted.n_items:
            raise InvalidDataError(
                f"groups has {len(groups)} items, the data have {fitted.n_items}."
            )
        return groups
    if groups not in POPULARITY_RULES:
        raise InvalidParameterError(
            f"groups must be one of {list(POPULARITY_RULES)} or Groups, got {groups!r}."
        )
    kind: Any = POPULARITY_OF_RULE[groups]
    return popularity_groups(fitted.popularity(kind), groups)


def group_users(seen: Interactions, groups: Groups) -> Groups:
    """Return the given groups of users in the order of the data."""
    if not isinstance(groups, Groups) or groups.of != "users":
        raise InvalidParameterError(
            "user_groups must be Groups of users, e.g. Groups.read('users.csv:age', of='users')."
        )
    return groups.align(seen)

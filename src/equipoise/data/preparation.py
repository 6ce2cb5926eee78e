"""How data are prepared: filters, the record of all steps, and what a request still lacks.

`Interactions` record every step. A model keeps the record of its training data, and applies to
other rows the steps that they lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.checks import check_choice, check_whole_number
from equipoise.data.block_ops import Mask, items_kept_per_user, users_kept_per_item
from equipoise.data.rows import Rows
from equipoise.exceptions import InvalidDataError

FilterOrder = Literal["users_first", "items_first"]
StepName = Literal["binarize", "normalize_rows", "items"]

#: steps that leave out items
SELECTING = ("filter", "sample_items", "select_items", "align_items")
_RENAME = ", or rename the column if it means the same"
STEPS = ("read", "binarize", "normalize_rows", *SELECTING)


class Step(NamedTuple):
    """One step of the preparation: a method of `Interactions` and its settings."""

    name: str
    settings: Mapping[str, Any]

    def __str__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.settings.items())
        return f"{self.name}({settings})"


class State(NamedTuple):
    """What was done to rows.

    Attributes
    ----------
    binary : bool
        Values became 1.
    scaled : {"all", "kept"} or None
        Values were divided by the row's sum over all items, or over the items that were kept.
    selected : bool
        Items were left out.
    """

    binary: bool = False
    scaled: Literal["all", "kept"] | None = None
    selected: bool = False


def state_of(steps: Sequence[Step]) -> State:
    """Return what these steps make of raw rows."""
    state = State()
    for step in steps:
        if step.name == "binarize":
            state = state._replace(binary=True, scaled=None)
        elif step.name == "normalize_rows":
            state = state._replace(scaled="kept" if state.selected else "all")
        elif step.name in SELECTING:
            state = state._replace(selected=True)
    return state


def remaining_steps(done: Sequence[Step], wanted: Sequence[Step]) -> tuple[StepName, ...]:
    """Return the steps that prepare rows like the training data; "items" aligns the columns.

    Parameters
    ----------
    done, wanted : sequence of Step
        The record of the rows, and that of the training data.

    Raises
    ------
    InvalidDataError
        If no step leads there: values that were binarized or normalized cannot be restored.

    Examples
    --------
    >>> shares = [Step("filter", {"min_users_per_item": 2}), Step("normalize_rows", {})]
    >>> remaining_steps([], shares)
    ('items', 'normalize_rows')
    >>> remaining_steps(shares, shares)
    ('items',)
    """
    if list(done) == list(wanted):
        return ("items",)
    have, want = state_of(done), state_of(wanted)
    if not want.binary:
        _refuse_other_values(_reading(done), _reading(wanted))
    if have.binary and not want.binary:
        raise _refused("binarized", done, wanted)
    binarize = want.binary and (not have.binary or (have.scaled and not want.scaled))
    scaled = None if binarize else have.scaled
    if scaled and not want.scaled:
        raise _refused("divided by their sums", done, wanted)
    if want.selected and want.scaled == "all" and have.selected and scaled != "all":
        raise _refused("restricted to some items, without their sums over all items", done, wanted)
    before: tuple[StepName, ...] = ("binarize",) if binarize else ()
    if want.scaled == "all" and scaled is None:
        before = (*before, "normalize_rows")
    after: tuple[StepName, ...] = ("normalize_rows",) if want.scaled == "kept" else ()
    return (*before, "items", *after)


def _reading(steps: Sequence[Step]) -> Mapping[str, Any]:
    """Return how the rows were read; nothing where that is not recorded."""
    return next((step.settings for step in steps if step.name == "read"), {})


def _refuse_other_values(done: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Refuse values that do not mean what those of the training data do."""
    for name in ("duplicates", "value"):
        # rows of a table without values count 1 per item, as a list of ids does
        here = done.get(name, done.get(f"detected_{name}") or None)
        there = wanted.get(name, wanted.get(f"detected_{name}"))
        # A position shows nothing about the meaning of a column. duplicates="error": no rule was
        # applied.
        known = isinstance(here, str) and isinstance(there, str)
        if known and here != there and "error" not in (here, there):
            raise InvalidDataError(
                f"these rows were read with {name}={here!r}, the training data with "
                f"{name}={there!r}, so their values differ in meaning. Read the rows with "
                f"{name}={there!r} (--{name}){_RENAME if name == 'value' and there else ''}."
            )


def _refused(state: str, done: Sequence[Step], wanted: Sequence[Step]) -> InvalidDataError:
    def shown(steps: Sequence[Step]) -> str:
        return ", ".join(step.name for step in steps) or "nothing"

    return InvalidDataError(
        f"these rows were {state}, which cannot be undone, and the model was fitted on rows "
        f"prepared in another way (here: {shown(done)}; at the fit: {shown(wanted)}). Pass the "
        "rows as they were read; the model prepares them."
    )


def steps_from_json(values: Any) -> tuple[Step, ...]:
    """Return the steps that a model file lists; refuse anything else."""
    steps = tuple(Step(name, settings) for name, settings in values)
    for step in steps:
        plain = isinstance(step.settings, dict) and all(
            value is None or isinstance(value, str | int | float)
            for value in step.settings.values()
        )
        if step.name not in STEPS or not plain:
            raise ValueError(f"{str(step.name)[:40]!r} is not a known preparation of data")
    return steps


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
    check_whole_number("min_items_per_user", min_items_per_user)
    check_whole_number("min_users_per_item", min_users_per_item)
    check_choice("order", order, get_args(FilterOrder))
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

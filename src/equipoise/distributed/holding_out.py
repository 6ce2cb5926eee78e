"""Hold-outs of data in blocks: the same entries as `equipoise.holdout` would hide."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from equipoise.data.interactions import Interactions
from equipoise.data.split import (
    PAPER_SEED,
    PARTS,
    Method,
    TimeCuts,
    assign_parts,
    check_plan,
    parts_by_time,
    required_times,
    temporal_places,
)
from equipoise.distributed.blocks import RowBlock
from equipoise.distributed.reshaping import as_interactions, kept_entries
from equipoise.distributed.selecting import kth_time
from equipoise.exceptions import InvalidDataError

if TYPE_CHECKING:
    from equipoise.distributed.blocked import BlockedInteractions


@dataclass(frozen=True)
class BlockedSplit:
    """Parts of one table over the same users, items and blocks.

    Attributes
    ----------
    train, validation, test : BlockedInteractions
        What to fit on, what to tune on, what to report on.
    history : BlockedInteractions or None
        Only for ``method="by_user"``; see `equipoise.data.Split`.
    """

    train: BlockedInteractions
    validation: BlockedInteractions
    test: BlockedInteractions
    history: BlockedInteractions | None = None


class _Rows(NamedTuple):
    """Users of a block: where they first appeared, and how many entries they have."""

    order: NDArray[np.int64]
    entries: NDArray[np.int64]


def holdout(
    data: BlockedInteractions,
    *,
    test: float = 0.2,
    validation: float = 0.1,
    seed: int = PAPER_SEED,
    method: Method = "per_user_random",
    n: int = 1,
) -> BlockedSplit:
    """Split into train, validation and test; arguments and result as `equipoise.holdout`.

    The two random methods draw for all users in turn, in the order of the data, which is what
    makes the split that of the local path: one process does that from the number of entries of
    each user, and sends every block one byte an entry. `leave_last_n` is done where the blocks
    are, and so is `temporal`, once the two times that it cuts at are found by counting.
    """
    options = {"test": test, "validation": validation, "seed": seed, "method": method, "n": n}
    check_plan(test, validation, n, seed, method)
    cuts = _time_cuts(data, test, validation) if method == "temporal" else None
    rule = _Rule(options, cuts)
    each: list[tuple[NDArray[np.int8] | None]] = [(None,)] * len(data.blocks)
    if method in ("per_user_random", "by_user"):
        each = [(part,) for part in _drawn(data.blocks.collect(_rows), options)]
    count = data.blocks.total(_count_parts, rule, each=each)
    for number in (0, 2):
        if not count[number]:
            raise InvalidDataError(
                f"method={method!r} leaves no interaction for {PARTS[number]}: users have too few "
                "for the shares asked for. Change test= and validation=, or drop small users with "
                "filter(min_items_per_user=...)."
            )

    def part_of(number: int) -> BlockedInteractions:
        blocks = data.blocks.transform(_only, number, rule, each=each)
        return replace(data, blocks=blocks, nnz=int(count[number]))

    history = part_of(PARTS.index("history")) if method == "by_user" else None
    return BlockedSplit(part_of(0), part_of(1), part_of(2), history)


class _Rule(NamedTuple):
    """How a block tells the part of its entries where it was not told."""

    options: dict[str, Any]
    cuts: TimeCuts | None


def _time_cuts(data: BlockedInteractions, test: float, validation: float) -> TimeCuts:
    places = temporal_places(data.nnz, test, validation)
    return TimeCuts(*(None if k is None else kth_time(data.blocks, k) for k in places))


def _rows(block: RowBlock) -> _Rows:
    return _Rows(block.order, np.diff(block.matrix.indptr).astype(np.int64))


def _drawn(blocks: list[_Rows], options: dict[str, Any]) -> list[NDArray[np.int8]]:
    """The part of every entry, block by block, drawn for the users in the order of the data."""
    entries = np.concatenate([rows.entries for rows in blocks])
    order = np.argsort(np.concatenate([rows.order for rows in blocks]), kind="stable")
    indptr = np.append(0, np.cumsum(entries[order]))
    # these methods look at nothing but the number of entries of each user
    counted = SimpleNamespace(
        matrix=SimpleNamespace(indptr=indptr), n_users=len(entries), nnz=int(indptr[-1])
    )
    drawn = assign_parts(cast(Interactions, counted), **options)
    start = np.empty(len(entries), np.int64)
    start[order] = indptr[:-1]
    bounds = np.append(0, np.cumsum([len(rows.entries) for rows in blocks]))
    return [
        drawn[_ranges(start[first:last], entries[first:last])] for first, last in pairwise(bounds)
    ]


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, … of every range, one after the other."""
    ends = np.cumsum(lengths)
    moved: NDArray[np.int64] = np.repeat(starts - (ends - lengths), lengths)
    return moved + np.arange(ends[-1] if len(ends) else 0)


def _part(block: RowBlock, rule: _Rule, drawn: NDArray[np.int8] | None) -> NDArray[np.int8]:
    if drawn is not None:
        return drawn
    if not block.matrix.nnz:  # no user's hash fell into it, or the filters left none
        return np.zeros(0, np.int8)
    if rule.cuts is not None:
        return parts_by_time(required_times(block.timestamps, "temporal"), rule.cuts)
    return assign_parts(as_interactions(block), **rule.options)


def _count_parts(block: RowBlock, rule: _Rule, drawn: NDArray[np.int8] | None) -> NDArray[np.intp]:
    return np.bincount(_part(block, rule, drawn), minlength=len(PARTS))


def _only(block: RowBlock, number: int, rule: _Rule, drawn: NDArray[np.int8] | None) -> RowBlock:
    return kept_entries(block, _part(block, rule, drawn) == number)

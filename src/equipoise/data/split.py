"""Hold-outs: some interactions are hidden from the model and must be predicted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise import defaults
from equipoise.checks import check_choice, check_whole_number
from equipoise.data import block_ops
from equipoise.data.identifiers import Lookup, as_id_array, name_a_few, show
from equipoise.data.interactions import Interactions
from equipoise.data.rows import RowBlock, Rows
from equipoise.exceptions import InvalidDataError, InvalidParameterError, OutputError, explained
from equipoise.files import require_folder, scratch_folder

Method = Literal["per_user_random", "per_user_last", "leave_last_n", "temporal", "by_user"]
_NUMBER = (int, float, np.integer, np.floating)
_TRAIN, _VALIDATION, _TEST, _HISTORY = range(4)
PARTS = ("train", "validation", "test", "history")
TimeCuts = tuple[Any, Any]


@dataclass(frozen=True)
class Split:
    """Parts of one table over the same users and items; a part may have empty rows and columns.

    Parts are matched by id: rows and columns of the others are put in the order of `train`, which
    must contain all their users and items. Parts in blocks must come from one `holdout`.

    Attributes
    ----------
    train, validation, test : Interactions
        What to fit on, what to tune on, what to report on.
    history : Interactions or None
        Only for ``method="by_user"``: the interactions of held-out users from which a model may
        recommend. None: all known interactions are in train (and validation).
    """

    train: Interactions
    validation: Interactions
    test: Interactions
    history: Interactions | None = None

    def __post_init__(self) -> None:
        for name, part in self._parts().items():
            object.__setattr__(self, name, _aligned(part, self.train, name))

    def _parts(self) -> dict[str, Interactions]:
        parts = {name: getattr(self, name) for name in PARTS}
        return {name: part for name, part in parts.items() if part is not None}

    @classmethod
    def read(
        cls, train: Any, validation: Any, test: Any, history: Any = None, **options: Any
    ) -> Self:
        """Read the parts from files or tables, and match them by id.

        Users and items that only a later part has are kept, as in the parts of a `holdout`: they
        are empty rows and columns of `train`. A part without any user or any item of `train` is
        refused, and so are pairs of user and item that occur in two parts.

        Parameters
        ----------
        train, test : path, table or anything else that `Interactions.read` takes
            What to fit on, and what to report on.
        validation : same, or None
            What to tune on; None if there is nothing to tune.
        history : same, optional
            Of a split ``by_user``; see `Split`.
        options
            Passed on to `Interactions.read`.
        """
        given = dict(zip(PARTS, (train, validation, test, history), strict=True))
        parts = {
            name: Interactions.read(source, **options)
            for name, source in given.items()
            if source is not None
        }
        whole = [part for part in parts.values() if part.rows.whole() is not None]
        if len(whole) < len(parts):
            raise InvalidDataError(
                "parts in blocks on disk or on a cluster cannot be matched by id. Read them into "
                "memory, or split the whole table: holdout(interactions)."
            )
        users = _all_ids("user", {name: part.user_ids for name, part in parts.items()})
        items = _all_ids("item", {name: part.item_ids for name, part in parts.items()})
        parts = {name: _onto(part, users, items) for name, part in parts.items()}
        _refuse_repeats(parts)
        if validation is None:
            nothing = np.zeros(parts["train"].nnz, dtype=bool)
            parts["validation"] = parts["train"].keep_entries(nothing)
        return cls(**parts)

    def write(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each part as Parquet: train.parquet, validation.parquet, test.parquet.

        Columns are user, item, value and, if there are times, timestamp. Parts without any
        interaction are left out. `Split.read` reads the files.
        """
        target = Path(folder)
        require_folder(target)
        target.mkdir(parents=True, exist_ok=True)
        found = {f"{name}.parquet": part for name, part in self._parts().items() if part.nnz}
        with scratch_folder(target / "train.parquet") as scratch:
            for name, part in found.items():  # all of them are complete before one has its name
                _write_parquet(part, scratch / name)
            return [(scratch / name).replace(target / name) for name in found]

    @cached_property
    def train_validation(self) -> Interactions:
        """What a final fit may use: train and validation, for `by_user` with those users' history.

        The history of the test users stays out: they are new to the model.
        """
        if self.history is None:
            each = self.train.blocks_of(self.validation)
            return self.train.transform(block_ops.union, each=each)
        each = self.train.blocks_of(self.validation, self.history)
        return self.train.transform(_with_history, each=each)

    @property
    def seen_before_validation(self) -> Interactions:
        """What to score validation users from, and to leave out of their recommendations."""
        return self.train if self.history is None else self.history

    @property
    def seen_before_test(self) -> Interactions:
        """What to score test users from, and to leave out of their recommendations."""
        return self.train_validation if self.history is None else self.history

    def describe(self) -> str:
        """Return one line per part: interactions, and users with any."""
        parts = self._parts()
        total = sum(part.nnz for part in parts.values())
        return "\n".join(
            f"{name:<11}{part.nnz:>12,} interactions ({part.nnz / total:.1%}) of "
            f"{int(np.count_nonzero(part.items_per_user())):,} users"
            for name, part in parts.items()
        )


def _aligned(part: Interactions, train: Interactions, name: str) -> Interactions:
    """Return a part with the rows and columns of `train`; refuse users and items not in it."""
    in_memory = len(part.rows) == len(train.rows) == 1
    same_users = part.has_users_of(train) or (
        in_memory and _same_ids(part.user_ids, train.user_ids)
    )
    if same_users and _same_ids(part.item_ids, train.item_ids):
        return part
    if not in_memory:
        raise InvalidDataError(
            f"train and {name} are in {len(train.rows)} and {len(part.rows)} blocks of different "
            "users or items. Use the parts of one holdout, or read them into memory."
        )
    for role, known, ids in (
        ("user", train.user_ids, part.user_ids),
        ("item", train.item_ids, part.item_ids),
    ):
        new = ids[Lookup(known, role).find(ids) < 0]
        if len(new):
            raise InvalidDataError(
                f"{len(new)} {role} id(s) of {name} are not in train: {name_a_few(new)}. Parts are "
                f"matched by id. Leave these {role}s out, or add them to train."
            )
    return _onto(part, train.user_ids, train.item_ids)


def _onto(part: Interactions, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> Interactions:
    """Return data in memory with these rows and columns, which contain all of its own."""
    aligned = part.align_items(item_ids)
    positions = Lookup(part.user_ids, "user").find(user_ids)
    rows = aligned.rows.transform(block_ops.with_users, positions, user_ids)
    return Interactions.from_rows(rows, item_ids, aligned.item_names)


def _all_ids(role: str, by_part: dict[str, NDArray[Any]]) -> NDArray[Any]:
    """Return the ids of all parts, those of train first; refuse a part that has none of these."""
    # held-out users are known by their history
    first = [name for name in ("train", "history") if name in by_part and role == "user"]
    found = by_part["train"]
    for name in (first or ["train"]) + [name for name in by_part if name not in first]:
        ids = by_part[name]
        place = Lookup(found, role).find(ids)
        if name not in first and (place < 0).all():
            raise InvalidDataError(
                f"no {role} id of {name} is in train: {name_a_few(ids)} and "
                f"{name_a_few(by_part['train'])}. Ids must match in type and spelling. Check the "
                f"{role} columns of both."
            )
        new = ids[place < 0]
        if ids.dtype.kind == found.dtype.kind:
            found = np.concatenate([found, new])
        elif len(new):
            found = as_id_array([*found.tolist(), *new.tolist()], role)
    return found


def _refuse_repeats(parts: dict[str, Interactions]) -> None:
    earlier = parts["train"].matrix
    for name in [name for name in PARTS[1:] if name in parts]:
        here = parts[name].matrix
        both = sp.coo_array(earlier.astype(bool).multiply(here.astype(bool)))
        if both.nnz:
            user = parts[name].user_ids[both.row[0]]
            item = parts[name].item_ids[both.col[0]]
            raise InvalidDataError(
                f"{both.nnz:,} pairs of user and item of {name} are in an earlier part as well, "
                f"e.g. {show(user)} and {show(item)}. Lists leave out what a user already has, so "
                f"no model could find them. Remove them from {name}."
            )
        earlier = earlier + here


def _write_parquet(part: Interactions, path: Path) -> None:
    """Write one file, block by block."""
    import polars as pl

    folder = path.with_suffix("")
    folder.mkdir()
    files = [folder / f"{number:06}.parquet" for number in range(len(part.rows))]
    part.map(_write_block, part.item_ids, each=[(str(file),) for file in files])
    if not all(file.exists() for file in files):
        raise OutputError(
            f"{path.name} was not written: the workers of the cluster write to another disk. "
            "Choose a folder that all of them share."
        )
    pl.scan_parquet(files, glob=False).sink_parquet(path)


def _write_block(block: RowBlock, item_ids: NDArray[Any], path: str) -> None:
    block_ops.as_table(block, item_ids).write_parquet(path)


def _same_ids(ids: NDArray[Any], others: NDArray[Any]) -> bool:
    # of two types only a lookup compares exactly
    return ids is others or (ids.dtype == others.dtype and np.array_equal(ids, others))


def _with_history(train: RowBlock, validation: RowBlock, history: RowBlock) -> RowBlock:
    validated = np.diff(validation.matrix.indptr) > 0
    known = block_ops.kept(history, np.repeat(validated, np.diff(history.matrix.indptr)))
    return block_ops.union(train, validation, known)


class _Plan(NamedTuple):
    """The arguments of `holdout`, and the times that cut a split by time."""

    method: Method
    test: float
    validation: float
    seed: int
    n: int
    cuts: TimeCuts | None = None


def holdout(
    interactions: Interactions,
    *,
    test: float = defaults.TEST,
    validation: float = defaults.VALIDATION,
    seed: int = defaults.SEED,
    method: Method = defaults.HOLDOUT,
    n: int = defaults.LAST_N,
) -> Split:
    """Split into train, validation and test over the same users and items.

    Parameters
    ----------
    test, validation : float
        Shares: of each user's interactions (`per_user_random`), of all interactions (`temporal`),
        of the users (`by_user`). For `leave_last_n` only whether `validation` is 0 counts.
    seed : int
        Same seed, same split.
    method : {"per_user_random", "leave_last_n", "temporal", "by_user"}
        - `per_user_random`: the paper's. Of a user with k interactions, in random order, the last
          ⌊test·k⌋ are test, the ⌊validation·k⌋ before them validation, the rest train.
        - `leave_last_n`: a user's last `n` by timestamp are test, the `n` before them validation;
          a user keeps at least one in train, and gives no test (validation) if that is impossible.
        - `temporal`: the latest share of all interactions is test. Equal timestamps stay together.
        - `by_user`: whole users are held out. ⌊test·k⌋ (at least one, if they have two) of a
          held-out user's interactions, drawn at random, are to be found; the rest is `history`.
    n : int
        For `leave_last_n`.

    Examples
    --------
    >>> plays = Interactions.from_pairs([1] * 10, range(10))
    >>> print(holdout(plays).describe())
    train                 7 interactions (70.0%) of 1 users
    validation            1 interactions (10.0%) of 1 users
    test                  2 interactions (20.0%) of 1 users
    """
    check_plan(test, validation, n, seed, method)
    plan = _Plan(method, test, validation, seed, n)
    if method == "temporal":
        plan = plan._replace(cuts=_time_cuts(interactions, plan))
    each: list[tuple[Any, ...]] = [(None,)] * len(interactions.rows)
    if method in _RANDOM:
        indptr = np.append(0, np.cumsum(interactions.items_per_user()))
        drawn = _RANDOM[method](indptr, plan)
        each = [(part,) for part in interactions.entries_by_block(drawn)]
    elif len(each) == 1:  # assign one block once; blocks elsewhere do it again for every part
        each = [(part,) for part in interactions.map(_assigned, plan, each=each)]
    counts = interactions.total(_count_parts, plan, each=each)
    _refuse_empty(counts, method)

    def part_of(number: int) -> Interactions:
        return interactions.transform(_only, number, plan, each=each)

    history = part_of(_HISTORY) if method == "by_user" else None
    return Split(part_of(_TRAIN), part_of(_VALIDATION), part_of(_TEST), history)


def cut_by_time(interactions: Interactions, cut: str | float, *, validation: float = 0.1) -> Split:
    """Split by time: test is what came since a date, or the last share of the interactions.

    Parameters
    ----------
    interactions : Interactions
        With timestamps: dates, or seconds (or milliseconds) since 1970.
    cut : str or float
        An ISO date such as ``"2024-01-31"``, or a share between 0 and 1.
    validation : float
        Share of the interactions before the test part, of all interactions.

    Examples
    --------
    >>> days = [f"2024-01-{day:02}" for day in range(1, 11)]
    >>> times = np.array(days, dtype="datetime64[s]")
    >>> plays = Interactions.from_pairs([1] * 10, range(10), timestamps=times)
    >>> cut_by_time(plays, "2024-01-08").test.nnz, cut_by_time(plays, 0.2).test.nnz
    (3, 2)
    """
    try:
        share = float(cut)
    except ValueError:
        share = _share_since(interactions, str(cut))
    return holdout(interactions, method="temporal", test=share, validation=validation)


def _share_since(interactions: Interactions, date: str) -> float:
    problem = f"the cut must be a date such as 2024-01-31, or a share, got {date!r}"
    with explained(problem, ValueError, kind=InvalidParameterError):
        when = np.datetime64(date).astype("datetime64[us]")
    after = int(interactions.total(_count_since, when))
    if not 0 < after < interactions.nnz:
        raise InvalidDataError(
            f"{after:,} of {interactions.nnz:,} interactions are since {date}: there must be some "
            "before and some after it."
        )
    return (after + 0.5) / interactions.nnz  # a half, as the share is rounded down to a count


def _count_since(block: RowBlock, when: np.datetime64) -> int:
    times = required_times(block.timestamps, "temporal")
    if times.dtype.kind != "M":
        # numbers above this are milliseconds: as seconds they would be after the year 5000
        seconds = when.astype("int64") / 1e6
        limit = seconds * 1000 if len(times) and np.max(times) > 1e11 else seconds
        return int(np.sum(times >= limit))
    return int(np.sum(times >= when))


def _assigned(block: RowBlock, plan: _Plan, given: NDArray[np.int8] | None) -> NDArray[np.int8]:
    """Return the part of every entry of a block: one of `PARTS` by position."""
    if given is not None:
        return given
    if not block.matrix.nnz and block.timestamps is not None:
        return np.zeros(0, np.int8)
    times = required_times(block.timestamps, plan.method)
    if plan.cuts is not None:
        return _by_time(times, plan.cuts)
    return _last_entries(block.matrix.indptr, times, plan)


def _count_parts(block: RowBlock, plan: _Plan, given: NDArray[np.int8] | None) -> NDArray[np.intp]:
    return np.bincount(_assigned(block, plan, given), minlength=len(PARTS))


def _only(block: RowBlock, number: int, plan: _Plan, given: NDArray[np.int8] | None) -> RowBlock:
    return block_ops.kept(block, _assigned(block, plan, given) == number)


def _per_user_random(indptr: NDArray[np.int64], plan: _Plan) -> NDArray[np.int8]:
    """One `rng.shuffle` per user, in order: this reproduces the published split bit for bit."""
    rng = np.random.default_rng(plan.seed)
    part = np.zeros(indptr[-1], dtype=np.int8)
    for start, end in pairwise(indptr.tolist()):
        entries = np.arange(start, end)
        rng.shuffle(entries)
        n_test = int(plan.test * (end - start))
        n_fit = (end - start) - n_test
        part[entries[n_fit:]] = _TEST
        part[entries[n_fit - int(plan.validation * (end - start)) : n_fit]] = _VALIDATION
    return part


def _last_entries(indptr: NDArray[Any], times: NDArray[Any], plan: _Plan) -> NDArray[np.int8]:
    """Assign the last entries of each user to test, and those before them to validation."""
    counts, nnz = np.diff(indptr), len(times)
    if plan.method == "leave_last_n":
        n_test = np.where(counts > plan.n, plan.n, 0)
        n_validation = np.where((counts > 2 * plan.n) & (plan.validation > 0), plan.n, 0)
    else:
        n_test, n_validation = (
            (share * counts).astype(np.int64) for share in (plan.test, plan.validation)
        )
    user = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((times, user))
    from_last = np.empty(nnz, dtype=np.int64)
    # entries are grouped by user, so after sorting within users a rank counts down to each end
    from_last[order] = np.repeat(indptr[1:], counts) - 1 - np.arange(nnz)
    part = np.zeros(nnz, dtype=np.int8)
    part[from_last < (n_test + n_validation)[user]] = _VALIDATION
    part[from_last < n_test[user]] = _TEST
    return part


def _by_time(times: NDArray[Any], cuts: TimeCuts) -> NDArray[np.int8]:
    part = np.zeros(len(times), dtype=np.int8)
    for number, first in zip((_VALIDATION, _TEST), cuts, strict=True):
        if first is not None:
            part[times >= first] = number
    return part


def _by_user(indptr: NDArray[np.int64], plan: _Plan) -> NDArray[np.int8]:
    rng = np.random.default_rng(plan.seed)
    counts = np.diff(indptr)
    # a user with one interaction cannot give both a history and something to find
    eligible = rng.permutation(np.flatnonzero(counts > 1))
    n_test = int(plan.test * len(counts))
    n_validation = int(plan.validation * len(counts))
    part = np.zeros(indptr[-1], dtype=np.int8)
    for target, users in (
        (_TEST, eligible[:n_test]),
        (_VALIDATION, eligible[n_test : n_test + n_validation]),
    ):
        for user in np.sort(users):
            entries = np.arange(indptr[user], indptr[user + 1])
            rng.shuffle(entries)
            hidden = max(1, int(plan.test * len(entries)))
            part[entries[:-hidden]] = _HISTORY
            part[entries[-hidden:]] = target
    return part


# These methods need only the number of entries of each user: they are drawn in one process, for
# the users in the order of the data, and give the same split whatever the blocks.
_RANDOM: dict[str, Callable[[NDArray[np.int64], _Plan], NDArray[np.int8]]] = {
    "per_user_random": _per_user_random,
    "by_user": _by_user,
}


def required_times(times: NDArray[Any] | None, method: str) -> NDArray[Any]:
    """Return the times of all entries; refuse data without."""
    if times is None:
        raise InvalidDataError(
            f"method={method!r} (--cut) needs timestamps and these data have none. Name "
            "their column with timestamp= (--timestamp) when reading, or use "
            "method='per_user_random'."
        )
    return times


def check_plan(test: float, validation: float, n: int, seed: int, method: str) -> None:
    """Refuse shares, counts and methods that make no sense."""
    check_choice("method", method, get_args(Method))
    shares = isinstance(test, _NUMBER) and isinstance(validation, _NUMBER)
    if not (shares and 0 < test < 1 and 0 <= validation < 1 and test + validation < 1):
        raise InvalidParameterError(
            f"test={test!r} (--test) and validation={validation!r} (--validation) must be shares: "
            "test above 0, validation 0 or more, and together below 1."
        )
    check_whole_number("n", n, 1)
    check_whole_number("seed", seed)


def _refuse_empty(counts: NDArray[np.intp], method: str) -> None:
    if not counts[_TEST]:
        raise InvalidDataError(
            f"method={method!r} leaves no interaction for test: users have too few for the "
            "requested share. Raise test (--test), or drop users with few items "
            "(filter(min_items_per_user=…), --min-items-per-user)."
        )
    if not counts[_TRAIN]:
        raise InvalidDataError(
            f"method={method!r} leaves no interaction for train. Lower test= and validation=."
        )


# Each block divides its values into this many intervals per round, and the search continues in
# about one of them: 100 billion values are down to a hundred thousand after two rounds.
_INTERVALS = 1000


def _time_cuts(interactions: Interactions, plan: _Plan) -> TimeCuts:
    """Return the times from which on entries are validation, and test; None for an empty part."""
    nnz, rows = interactions.nnz, interactions.rows
    n_test, n_validation = int(plan.test * nnz), int(plan.validation * nnz)
    return (
        kth_time(rows, nnz - n_test - n_validation) if n_validation else None,
        kth_time(rows, nnz - n_test) if n_test else None,
    )


def kth_time(rows: Rows, k: int, *, intervals: int = _INTERVALS) -> Any:
    """Return the time at place `k`, from 0, of the times of all blocks in ascending order.

    Parameters
    ----------
    rows : Rows
        With at least `k` + 1 times.
    k : int
        Place of the time.
    intervals : int
        Into how many intervals a block divides its times in each round.
    """
    if len(rows) == 1:
        return rows.map(_kth, k)[0]
    span: tuple[Any, Any] | None = None  # the time is between these
    while True:
        found = [each for each in rows.map(_quantiles, span, intervals) if len(each)]
        candidates = np.unique(np.concatenate(found))
        below, up_to = rows.total(_counted, candidates)
        place = int(np.searchsorted(up_to, k, side="right"))  # the first with more than k up to it
        if below[place] <= k:
            return candidates[place]
        # the first and the last of the span are candidates, so it is between two of them
        span = candidates[place - 1], candidates[place]


def _kth(block: RowBlock, k: int) -> Any:
    return np.partition(required_times(block.timestamps, "temporal"), k)[k]


def _quantiles(block: RowBlock, span: tuple[Any, Any] | None, count: int) -> NDArray[Any]:
    """Evenly spaced among the block's sorted times within the span, the first and last included."""
    times = required_times(block.timestamps, "temporal")
    if span is not None:
        times = times[(times > span[0]) & (times < span[1])]
    times = np.sort(times)
    places = np.linspace(0, len(times) - 1, min(len(times), count + 1)).astype(np.intp)
    return times[places]


def _counted(block: RowBlock, candidates: NDArray[Any]) -> NDArray[np.int64]:
    """How many of the block's times are below each candidate, and how many below or equal."""
    times = np.sort(required_times(block.timestamps, "temporal"))
    sides = [np.searchsorted(times, candidates, side=side) for side in ("left", "right")]
    return np.array(sides, dtype=np.int64)

"""Hold-outs: some interactions are hidden from the model, to see whether it finds them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from equipoise.data.assembly import CodedPairs, assemble
from equipoise.data.identifiers import Lookup, name_a_few
from equipoise.data.interactions import Interactions
from equipoise.data.selection import take_or_leave_empty
from equipoise.data.validation import check_whole_number
from equipoise.exceptions import InvalidDataError, InvalidParameterError

Method = Literal["per_user_random", "leave_last_n", "temporal", "by_user"]
# The seed of the published experiments
PAPER_SEED = 1024
_NUMBER = (int, float, np.integer, np.floating)
_TRAIN, _VALIDATION, _TEST, _HISTORY = range(4)
PARTS = ("train", "validation", "test", "history")


@dataclass(frozen=True, slots=True)
class Split:
    """Parts of one table over the same users and items; a part may have empty rows and columns.

    Parts are matched by id: rows and columns of the others are put in the order of `train`, which
    must contain all their users and items.

    Attributes
    ----------
    train, validation, test : Interactions
        What to fit on, what to tune on, what to report on.
    history : Interactions or None
        Only for ``method="by_user"``: what a model may see of the held-out users when it is asked
        to recommend for them. None means that train (and validation) is all there is to see.
    """

    train: Interactions
    validation: Interactions
    test: Interactions
    history: Interactions | None = None

    def __post_init__(self) -> None:
        for name in PARTS[1:]:
            part = getattr(self, name)
            if part is not None:
                object.__setattr__(self, name, _aligned(part, self.train, name))

    @property
    def train_validation(self) -> Interactions:
        """What a final fit may use: train and validation, for `by_user` with those users' history.

        The history of the test users stays out: they are new to the model.
        """
        if self.history is None:
            return _union(self.train, self.validation)
        validated = np.diff(self.validation.matrix.indptr) > 0
        known = self.history.keep_entries(np.repeat(validated, np.diff(self.history.matrix.indptr)))
        return _union(self.train, self.validation, known)

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
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        if self.history is not None:
            parts["history"] = self.history
        total = sum(part.nnz for part in parts.values())
        return "\n".join(
            f"{name:<11}{part.nnz:>12,} interactions ({part.nnz / total:.1%}) of "
            f"{int(np.count_nonzero(np.diff(part.matrix.indptr))):,} users"
            for name, part in parts.items()
        )


def _aligned(part: Interactions, train: Interactions, name: str) -> Interactions:
    """Return a part with the rows and columns of `train`; refuse users and items not in it."""
    if _same_ids(part.user_ids, train.user_ids) and _same_ids(part.item_ids, train.item_ids):
        return part
    advice = f"{name}.align_items(train.item_ids, unknown='drop')"
    _refuse_new("item", part.item_ids, train.item_ids, name, advice)
    _refuse_new("user", part.user_ids, train.user_ids, name, f"{name}.select_users(...)")
    part = part.align_items(train.item_ids)
    rows = Lookup(part.user_ids, "user").find(train.user_ids)
    taken = take_or_leave_empty(part.matrix, users=rows)
    times = None if part.timestamps is None else part.timestamps[taken.positions]
    return Interactions(taken.matrix, train.user_ids, train.item_ids, part.item_names, times)


def _refuse_new(role: str, ids: NDArray[Any], known: NDArray[Any], name: str, advice: str) -> None:
    new = ids[Lookup(known, role).find(ids) < 0]
    if len(new):
        raise InvalidDataError(
            f"{len(new)} {role} id(s) of {name} are not in train: {name_a_few(new)}. Parts are "
            f"matched by id. Leave these {role}s out with {advice}, or add them to train."
        )


def _same_ids(ids: NDArray[Any], others: NDArray[Any]) -> bool:
    # of two types only a lookup compares exactly
    return ids is others or (ids.dtype == others.dtype and np.array_equal(ids, others))


class _Plan(NamedTuple):
    """What every method is told."""

    test: float
    validation: float
    seed: int
    n: int


def holdout(
    interactions: Interactions,
    *,
    test: float = 0.2,
    validation: float = 0.1,
    seed: int = PAPER_SEED,
    method: Method = "per_user_random",
    n: int = 1,
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
    part = assign_parts(
        interactions, test=test, validation=validation, seed=seed, method=method, n=n
    )
    _refuse_empty(part, method)
    return Split(
        train=interactions.keep_entries(part == _TRAIN),
        validation=interactions.keep_entries(part == _VALIDATION),
        test=interactions.keep_entries(part == _TEST),
        history=interactions.keep_entries(part == _HISTORY) if method == "by_user" else None,
    )


def assign_parts(
    interactions: Interactions,
    *,
    test: float,
    validation: float,
    seed: int,
    method: Method,
    n: int = 1,
) -> NDArray[np.int8]:
    """Return the part of every entry: one of `PARTS` by position; arguments as in `holdout`.

    `per_user_random` and `by_user` look at nothing but how many entries each user has, so they
    can be told for data whose entries are elsewhere.
    """
    check_plan(test, validation, n, seed, method)
    return _METHODS[method](interactions, _Plan(test, validation, seed, n))


def _per_user_random(data: Interactions, plan: _Plan) -> NDArray[np.int8]:
    """One `rng.shuffle` per user, in order: what makes the published split come out bit for bit."""
    rng = np.random.default_rng(plan.seed)
    part = np.zeros(data.nnz, dtype=np.int8)
    bounds = data.matrix.indptr.tolist()
    for start, end in pairwise(bounds):
        entries = np.arange(start, end)
        rng.shuffle(entries)
        n_test = int(plan.test * (end - start))
        n_fit = (end - start) - n_test
        part[entries[n_fit:]] = _TEST
        part[entries[n_fit - int(plan.validation * (end - start)) : n_fit]] = _VALIDATION
    return part


def _leave_last_n(data: Interactions, plan: _Plan) -> NDArray[np.int8]:
    times = required_times(data.timestamps, "leave_last_n")
    counts = np.diff(data.matrix.indptr)
    user = np.repeat(np.arange(data.n_users), counts)
    order = np.lexsort((times, user))
    from_last = np.empty(data.nnz, dtype=np.int64)
    # entries are grouped by user, so after sorting within users a rank counts down to each end
    from_last[order] = np.repeat(data.matrix.indptr[1:], counts) - 1 - np.arange(data.nnz)
    gives_test = (counts > plan.n)[user]
    gives_validation = (counts > 2 * plan.n)[user] & (plan.validation > 0)
    part = np.zeros(data.nnz, dtype=np.int8)
    part[gives_test & (from_last < plan.n)] = _TEST
    part[gives_validation & (from_last >= plan.n) & (from_last < 2 * plan.n)] = _VALIDATION
    return part


def _temporal(data: Interactions, plan: _Plan) -> NDArray[np.int8]:
    times = required_times(data.timestamps, "temporal")
    ordered = np.sort(times)
    places = temporal_places(data.nnz, plan.test, plan.validation)
    return parts_by_time(times, TimeCuts(*(None if k is None else ordered[k] for k in places)))


class TimeCuts(NamedTuple):
    """The times from which on entries are validation and test; None where there are none."""

    validation: Any
    test: Any


def temporal_places(nnz: int, test: float, validation: float) -> tuple[int | None, int | None]:
    """Return where in the order of time validation begins, and where test does."""
    n_test, n_validation = int(test * nnz), int(validation * nnz)
    return nnz - n_test - n_validation if n_validation else None, nnz - n_test if n_test else None


def parts_by_time(times: NDArray[Any], cuts: TimeCuts) -> NDArray[np.int8]:
    """Return the part of every entry from its time."""
    part = np.zeros(len(times), dtype=np.int8)
    for number, first in ((_VALIDATION, cuts.validation), (_TEST, cuts.test)):
        if first is not None:
            part[times >= first] = number
    return part


def _by_user(data: Interactions, plan: _Plan) -> NDArray[np.int8]:
    rng = np.random.default_rng(plan.seed)
    counts = np.diff(data.matrix.indptr)
    # a user with one interaction cannot give both a history and something to find
    eligible = rng.permutation(np.flatnonzero(counts > 1))
    n_test = int(plan.test * data.n_users)
    n_validation = int(plan.validation * data.n_users)
    part = np.zeros(data.nnz, dtype=np.int8)
    for target, users in (
        (_TEST, eligible[:n_test]),
        (_VALIDATION, eligible[n_test : n_test + n_validation]),
    ):
        for user in np.sort(users):
            entries = np.arange(data.matrix.indptr[user], data.matrix.indptr[user + 1])
            rng.shuffle(entries)
            hidden = max(1, int(plan.test * len(entries)))
            part[entries[:-hidden]] = _HISTORY
            part[entries[-hidden:]] = target
    return part


_METHODS: dict[str, Callable[[Interactions, _Plan], NDArray[np.int8]]] = {
    "per_user_random": _per_user_random,
    "leave_last_n": _leave_last_n,
    "temporal": _temporal,
    "by_user": _by_user,
}


def required_times(times: NDArray[Any] | None, method: str) -> NDArray[Any]:
    """Return the times of all entries; refuse data without."""
    if times is None:
        raise InvalidDataError(
            f"method={method!r} needs timestamps and this data has none. Name their column with "
            "timestamp= (--timestamp) when reading, or use method='per_user_random'."
        )
    return times


def check_plan(test: float, validation: float, n: int, seed: int, method: str) -> None:
    """Refuse shares, counts and methods that make no sense."""
    if method not in get_args(Method):
        raise InvalidParameterError(
            f"method={method!r} is not known; use one of {', '.join(get_args(Method))}."
        )
    shares = isinstance(test, _NUMBER) and isinstance(validation, _NUMBER)
    if not (shares and 0 < test < 1 and 0 <= validation < 1 and test + validation < 1):
        raise InvalidParameterError(
            f"test={test!r} and validation={validation!r} must be shares: test above 0, "
            "validation 0 or more, and together below 1."
        )
    check_whole_number("n", n, 1)
    check_whole_number("seed", seed)


def _refuse_empty(part: NDArray[np.int8], method: str) -> None:
    if not np.any(part == _TEST):
        raise InvalidDataError(
            f"method={method!r} leaves no interaction for test: users have too few for the share "
            "asked for. Raise test=, or drop small users with filter(min_items_per_user=...)."
        )
    if not np.any(part == _TRAIN):
        raise InvalidDataError(
            f"method={method!r} leaves no interaction for train. Lower test= and validation=."
        )


def _union(*parts: Interactions) -> Interactions:
    """Return the entries of all parts; no entry is in two parts."""
    coordinates = [part.matrix.tocoo() for part in parts]
    times = [part.timestamps for part in parts if part.timestamps is not None]
    pairs = CodedPairs(
        users=np.concatenate([each.row for each in coordinates]),
        items=np.concatenate([each.col for each in coordinates]),
        values=np.concatenate([each.data for each in coordinates]),
        timestamps=np.concatenate(times) if times else None,
        user_ids=parts[0].user_ids,
        item_ids=parts[0].item_ids,
    )
    built = assemble(pairs, "error")
    return replace(parts[0], matrix=built.matrix, timestamps=built.timestamps)

"""What a metric is: a name, a formula, and how it is computed block by block of users."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import (
    check_choice,
    check_item_vector,
    check_same_shape,
    check_top_items,
    check_user_items,
)
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.groups import ItemGroups, ratio
from equipoise.metrics.results import FloatArray, GroupResult, IntArray, Result

BoolArray = NDArray[np.bool_]
# Lists come as int32 from some libraries and as int64 from others.
ListArray = NDArray[np.integer[Any]]
Need = Literal["lists", "held_out", "seen", "factors", "popularity", "groups", "tail"]


class Partial(NamedTuple):
    """What one block of users contributes to a metric.

    Attributes
    ----------
    totals : tuple of ndarray or float
        The same shapes for every block; blocks are added, and the metric is computed from the sums.
    per_user : ndarray or None
        One value per user of the block, for metrics that are means over users.
    """

    totals: tuple[Any, ...]
    per_user: FloatArray | None = None

    @classmethod
    def of_users(cls, values: ArrayLike) -> Partial:
        """Return the contribution to a mean over users; users with nan are left out."""
        per_user = np.asarray(values, dtype=np.float64)
        known = ~np.isnan(per_user)
        return cls((np.where(known, per_user, 0.0).sum(), int(known.sum())), per_user)


class Pairs(NamedTuple):
    """User-item pairs: one per place of a list, or per positive entry of a matrix."""

    users: IntArray
    items: IntArray
    places: IntArray
    n_users: int

    @classmethod
    def of_lists(cls, lists: ListArray) -> Pairs:
        """Return the pairs of recommended lists; padding is left out."""
        users, places = np.nonzero(lists >= 0)
        return cls(users, lists[users, places].astype(np.intp), places, len(lists))

    @classmethod
    def of_matrix(cls, X: sp.csr_array) -> Pairs:
        """Return the stored entries of a users × items matrix."""
        counts = np.diff(X.indptr)
        users = np.repeat(np.arange(X.shape[0]), counts)
        places = np.arange(X.nnz) - np.repeat(X.indptr[:-1], counts)
        return cls(users, X.indices.astype(np.intp), places, X.shape[0])

    def mean_by_user(self, values: FloatArray, weights: FloatArray | None = None) -> FloatArray:
        """Mean value of each user's pairs; nan for a user without any."""
        if weights is None:
            weights = np.ones(len(values))
        total = np.bincount(self.users, weights=weights, minlength=self.n_users)
        summed = np.bincount(self.users, weights=weights * values, minlength=self.n_users)
        return ratio(summed, total)


class UserBlock:
    """Recommended lists of some users, and what is known about these users.

    Parameters
    ----------
    lists : ndarray of int, shape (n, K)
        Recommended items, best first, -1 where a list is shorter.
    seen, held_out : csr_array of shape (n, n_items), optional
        What the users were scored from, and what is to be found.
    """

    def __init__(
        self,
        lists: ListArray,
        seen: sp.csr_array | None = None,
        held_out: sp.csr_array | None = None,
    ) -> None:
        self.lists = lists
        self._seen, self._held_out = seen, held_out
        self._pairs: dict[int | None, Pairs] = {}

    @property
    def seen(self) -> sp.csr_array:
        """What the users were scored from."""
        return _given(self._seen, "train (what users have)")

    @property
    def held_out(self) -> sp.csr_array:
        """What is to be found."""
        return _given(self._held_out, "test (what was held out)")

    @cached_property
    def hits(self) -> BoolArray:
        """Whether the item at each place of each list was held out for that user."""
        return self.hit_entries >= 0

    @cached_property
    def hit_entries(self) -> IntArray:
        """Which held-out entry the item at each place of each list is; −1 for none."""
        if not len(self._keys):
            return np.full(self.lists.shape, -1)
        # padding points to the item before the row, and is left out
        asked = np.arange(len(self.lists))[:, None] * self.held_out.shape[1] + self.lists
        found = np.minimum(self._keys.searchsorted(asked), len(self._keys) - 1)
        entries = np.where((self.lists >= 0) & (self._keys[found] == asked), found, -1)
        times = np.bincount(entries[entries >= 0])
        if times.max(initial=0) > 1:  # it would count as two hits
            user, item = divmod(int(self._keys[times.argmax()]), self.held_out.shape[1])
            raise InvalidDataError(
                f"top_items lists item {item} more than once for the user in row {user}. Each item "
                "may appear once in a list."
            )
        return entries

    @cached_property
    def _keys(self) -> IntArray:
        """Users and items of the held-out entries as one number each, ascending."""
        n_users, n_items = self.held_out.shape
        rows = np.repeat(np.arange(n_users) * n_items, self.relevant)
        return np.asarray(rows + self.held_out.indices, np.intp)

    @cached_property
    def relevant(self) -> IntArray:
        """Number of held-out items of each user."""
        return np.diff(self.held_out.indptr).astype(np.intp)

    @cached_property
    def history(self) -> Pairs:
        """Users and their seen items."""
        return Pairs.of_matrix(self.seen)

    def with_lists(self, lists: ListArray) -> UserBlock:
        """Return the same users with other lists."""
        other = UserBlock(lists, self._seen, self._held_out)
        kept = ("relevant", "history", "_keys")
        other.__dict__ |= {k: v for k, v in self.__dict__.items() if k in kept}
        return other

    def pairs(self, k: int | None) -> Pairs:
        """Return users and their first k recommended items; None for all."""
        if k not in self._pairs:
            self._pairs[k] = Pairs.of_lists(self.lists[:, :k])
        return self._pairs[k]


def _given(X: sp.csr_array | None, name: str) -> sp.csr_array:
    if X is None:
        raise InvalidParameterError(f"this convention needs {name}, which is missing.")
    return X


@dataclass(frozen=True, eq=False)
class Context:
    """What all blocks share.

    Attributes
    ----------
    n_items, n_users : int
        Size of the catalog, and number of users with lists.
    popularity : ndarray of shape (n_items,) or None
        Number of training users of each item.
    seen_counts : ndarray of shape (n_items,) or None
        Number of users with lists who have seen each item.
    groups, tail : ItemGroups or None
        The groups of the report; head and tail for the metrics that are defined on these two.
    zero_division : float
        Value for users without held-out items: nan leaves them out of a mean.
    """

    n_items: int
    n_users: int = 0
    popularity: Any = None
    seen_counts: Any = None
    groups: Any = None
    tail: Any = None
    zero_division: float = np.nan


Measure = Callable[[Any, Any, Any, str], Any]
Totals = tuple[Any, ...]
Finish = Callable[[Totals, Context, "Request"], Result | GroupResult[Any]]

_ONE: Mapping[str, str] = {"standard": "the only one"}


@dataclass(frozen=True, eq=False)
class Metric:
    """A metric by name, for `evaluate`, `tune` and the audit.

    Attributes
    ----------
    name : str
        As in ``metrics=["name@k:convention"]``.
    title : str
        For tables and reports.
    formula : str
        One line.
    measure : callable
        ``measure(block, context, k, convention)``. For metrics of lists, `block` is a `UserBlock`
        and the result a `Partial`, or an array of one value per user. For metrics of items
        ("factors" in `needs`), it is an `ItemView` and the result has shape (sizes, items), or
        (sizes,) for one number per size of the model.
    finish : callable, optional
        ``finish(totals, context, request)`` turns the sums over all blocks into what
        ``request.result`` or ``request.by_group`` returns; by default the mean over users without
        nan. For metrics of items it is not used: they are averaged within groups.
    needs : tuple of str
        Some of "lists", "held_out", "seen", "factors", "popularity", "groups" and "tail", which is
        head and tail by popularity.
    conventions : mapping of str to str
        Name of each definition in use to what it computes; the first is the default.
    direction : {"higher", "lower"} or None
        Which values are better; None where neither is.
    has_k : bool
        Whether it has a cut-off.

    Examples
    --------
    The share of users who are recommended item 0:

    >>> shown = Metric("shown", "Shown item 0", "share of users with item 0",
    ...                lambda block, context, k, convention: (block.lists[:, :k] == 0).any(axis=1))
    >>> lists = np.array([[0, 1], [2, 1]])
    >>> Request(shown, 2, "standard").of_block(UserBlock(lists), Context(n_items=3)).value
    0.5
    """

    name: str
    title: str
    formula: str
    measure: Measure
    finish: Finish | None = None
    needs: tuple[Need, ...] = ("lists",)
    conventions: Mapping[str, str] = field(default_factory=lambda: _ONE)
    direction: Literal["higher", "lower"] | None = None
    has_k: bool = True

    @property
    def is_item_side(self) -> bool:
        """Whether it is about the model and its training data, not about lists."""
        return "factors" in self.needs

    @property
    def default_convention(self) -> str:
        """The first convention."""
        return next(iter(self.conventions))

    def request(self, k: int | None = None, convention: str | None = None) -> Request:
        """Return the metric at a cut-off under a convention, by default the first."""
        chosen = self.default_convention if convention is None else convention
        check_choice(f"convention of {self.name}", chosen, self.conventions)
        return Request(self, k, chosen)

    def of_arrays(
        self,
        top_items: ArrayLike,
        *,
        train: Any = None,
        test: Any = None,
        popularity: ArrayLike | None = None,
        groups: ItemGroups | None = None,
        convention: str | None = None,
    ) -> Any:
        """Return the metric of all users at the full length of their lists, from arrays.

        Parameters
        ----------
        top_items : array-like of int, shape (n, k)
            Recommended items of each user, -1 where a list is shorter.
        train, test : sparse matrix (n, m), optional
            What the users have, and what was held out.
        popularity : array-like of shape (m,), optional
            Usually the number of training users of each item.
        groups : ItemGroups, optional
            Of the items; head and tail for the metrics of these two.
        convention : str, optional
            By default the first.
        """
        matrices = {"train": train, "test": test}
        given = {n: check_user_items(X, n) for n, X in matrices.items() if X is not None}
        if len(given) == 2:
            check_same_shape(given["train"], given["test"], ("train", "test"))
        phi = None if popularity is None else check_item_vector(popularity, None, "popularity")
        others = {"groups": groups, "popularity": phi}
        sizes = {name: X.shape[1] for name, X in given.items()}
        sizes |= {name: len(one) for name, one in others.items() if one is not None}
        if len(set(sizes.values())) > 1:
            counts = ", ".join(f"{name} has {size}" for name, size in sizes.items())
            raise InvalidDataError(f"the numbers of items differ: {counts}.")
        n_users, n_items = next((X.shape[0] for X in given.values()), None), max(sizes.values())
        lists = check_top_items(top_items, (n_users, n_items))
        block = UserBlock(lists, given.get("train"), given.get("test"))
        seen = None if train is None else np.bincount(block.seen.indices, minlength=n_items) * 1.0
        context = Context(n_items, len(lists), phi, seen, groups, groups)
        return self.request(convention=convention).of_block(block, context)


def declared(**computed: Measure | tuple[Measure, Finish]) -> dict[str, Metric]:
    """Return metrics of this package by name: what computes them, and their row of the table."""
    return {
        name: Metric(name, measure=how[0], finish=how[1], **_TABLE[name])
        for name, one in computed.items()
        for how in [one if isinstance(one, tuple) else (one, None)]
    }


def _read_table() -> dict[str, dict[str, Any]]:
    text = Path(__file__).with_name("metrics.toml").read_text(encoding="utf-8")
    table = tomllib.loads(text)
    for fields in table.values():
        fields["needs"] = tuple(fields.get("needs", ("lists",)))
    return table


_TABLE = _read_table()


class Request(NamedTuple):
    """One metric at one cut-off under one convention."""

    metric: Metric
    k: int | None
    convention: str

    @property
    def label(self) -> str:
        """``name[@k][:convention]``; the default convention is left out."""
        cutoff = "" if self.k is None else f"@{self.k}"
        default = self.convention == self.metric.default_convention
        return self.metric.name + cutoff + ("" if default else f":{self.convention}")

    def measure(self, block: UserBlock, context: Context) -> Partial:
        """Return what one block of users contributes."""
        found = self.metric.measure(block, context, self.k, self.convention)
        return found if isinstance(found, Partial) else Partial.of_users(found)

    def finish(self, partials: Sequence[Partial], context: Context) -> Result | GroupResult[Any]:
        """Return the metric from what all blocks contribute."""
        totals = tuple(sum(parts) for parts in zip(*(p.totals for p in partials), strict=True))
        if self.metric.finish is not None:
            return self.metric.finish(totals, context, self)
        total, n = totals
        return self.result(total / n if n else np.nan, n, context)

    def result(self, value: float, n: int, context: Context) -> Result:
        """Return a number of `n` users or items; its convention names the groups."""
        return Result(self.metric.name, float(value), self._described(context), self.k, n=int(n))

    def by_group(
        self, overall: float, by_group: FloatArray, context: Context
    ) -> GroupResult[float]:
        """Return one number per group, and that of all items."""
        values = dict(zip(context.groups.names, by_group.tolist(), strict=True))
        return GroupResult(overall, values, self.metric.name, self._described(context))

    def _described(self, context: Context) -> str:
        of = next((need for need in ("groups", "tail") if need in self.metric.needs), None)
        groups = "" if of is None else f", groups: {getattr(context, of).rule}"
        return self.convention + groups

    def of_block(self, block: UserBlock, context: Context) -> Any:
        """Return the metric where all users are one block, with its values per user."""
        partial = self.measure(block, context)
        result = self.finish([partial], context)
        return (
            result
            if isinstance(result, GroupResult)
            else replace(result, per_user=partial.per_user)
        )


def user_mean(metric: str, per_user: FloatArray, convention: str) -> Result:
    """Return the mean over the users that the metric is defined for."""
    (total, n), values = Partial.of_users(per_user)
    return Result(metric, float(total / n) if n else np.nan, convention, n=n, per_user=values)

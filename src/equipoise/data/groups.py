"""Groups of items or of users, by id: by popularity, by labels, or by a column of a table."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.data.identifiers import (
    Lookup,
    as_id_array,
    duplicate_at,
    is_missing,
    name_a_few,
)
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.groups import ItemGroups, popularity_groups

Floats = NDArray[np.float64]
Of = Literal["items", "users"]


@dataclass(frozen=True, eq=False)
class Groups:
    """Which items, or which users, belong to which group; several memberships are allowed.

    Make them with `from_labels`, `from_column`, `by_popularity` or `by_activity`. Models match
    them to the data by id. `equipoise.metrics.ItemGroups` is the same for a partition of the
    columns of one matrix; see `partition`.

    Attributes
    ----------
    names : tuple of str
        One name per group.
    membership : csr_array of shape (n, k)
        How much each member counts in each group: 0 or 1, or shares of 1.
    ids : ndarray of shape (n,) or None
        Ids of the members. None: member i is row or column i of a matrix.
    of : {"items", "users"}
        What is grouped.

    Examples
    --------
    >>> groups = Groups.from_labels({"a": "indie", "b": ["indie", "live"], "c": None})
    >>> groups.sizes
    {'indie': 2.0, 'live': 1.0}
    """

    names: tuple[str, ...]
    membership: sp.csr_array
    ids: NDArray[Any] | None = None
    of: Of = "items"

    def __post_init__(self) -> None:
        S = sp.csr_array(self.membership, dtype=np.float64)
        S.sum_duplicates()
        S.eliminate_zeros()
        if S.shape[1] != len(self.names) or not self.names:
            raise InvalidDataError(
                f"membership must have one column for each of the {len(self.names)} group names, "
                f"got shape {S.shape}. At least one group is required."
            )
        if len(set(self.names)) < len(self.names):
            raise InvalidDataError(f"group names must differ, got {', '.join(self.names)}.")
        if S.nnz and not (np.all(np.isfinite(S.data)) and S.data.min() > 0):
            raise InvalidDataError("membership must be finite and at least 0.")
        if self.ids is not None and len(self.ids) != S.shape[0]:
            raise InvalidDataError(
                f"ids and membership must have one row per member, got {len(self.ids)} ids and "
                f"{S.shape[0]} rows."
            )
        if self.ids is not None:
            twice = duplicate_at(np.asarray(self.ids), self.of[:-1])
            if twice is not None:
                raise InvalidDataError(
                    f"the id {self.ids[twice]!r} has two rows in the groups. Give each of the "
                    f"{self.of} one row, with a list of labels for several groups."
                )
        if self.of not in ("items", "users"):
            raise InvalidParameterError(f"of must be 'items' or 'users', got {self.of!r}.")
        object.__setattr__(self, "names", tuple(map(str, self.names)))
        object.__setattr__(self, "membership", S)

    @classmethod
    def from_labels(
        cls,
        labels: Mapping[Any, Any] | Sequence[Any] | NDArray[Any],
        ids: ArrayLike | None = None,
        *,
        of: Of = "items",
        share: bool = False,
    ) -> Self:
        """Make groups from one label per member, or from a list of labels per member.

        Parameters
        ----------
        labels : mapping of id to label, or sequence of labels
            A label is a value or a list of values; None, NaN and empty lists mean no group.
        ids : array-like, optional
            Ids for a sequence of labels. Without them, labels are in the order of the rows
            (users) or columns (items) of the data.
        of : {"items", "users"}
            What is grouped.
        share : bool
            Whether a member of several groups counts in each by an equal share of 1.

        Examples
        --------
        >>> Groups.from_labels(["rock", "jazz", "rock"]).names
        ('rock', 'jazz')
        """
        if isinstance(labels, Mapping):
            if ids is not None:
                raise InvalidParameterError("labels as a mapping have ids already: leave ids out.")
            ids, labels = list(labels), list(labels.values())
        known = None if ids is None else as_id_array(ids, of[:-1])
        found: dict[Hashable, int] = {}
        rows, columns, values = [], [], []
        for row, label in enumerate(labels):
            own = list(dict.fromkeys(_labels_of(label)))
            for value in own:
                rows.append(row)
                columns.append(found.setdefault(value, len(found)))
                values.append(1 / len(own) if share else 1.0)
        if not found:
            raise InvalidDataError("no member has a label: there is no group.")
        S = sp.csr_array((values, (rows, columns)), shape=(len(labels), len(found)))
        return cls(tuple(map(str, found)), S, known, of)

    @classmethod
    def from_column(
        cls,
        table: Any,
        *,
        id: str,  # noqa: A002
        column: str,
        separator: str | None = None,
        of: Of = "items",
        share: bool = False,
    ) -> Self:
        """Make groups from a column of a table: pandas, polars, Arrow or a mapping of columns.

        Parameters
        ----------
        table : table or mapping of str to column
            One row per item or user.
        id, column : str
            Names of the columns with the ids and with the labels.
        separator : str, optional
            Splits a text into several labels, e.g. ``"|"`` for the genres of MovieLens.
        of, share
            As in `from_labels`.
        """
        labels = list(_column(table, column))
        if separator is not None:
            labels = [text.split(separator) if isinstance(text, str) else text for text in labels]
        return cls.from_labels(labels, _column(table, id), of=of, share=share)

    @classmethod
    def by_popularity(cls, data: Interactions, groups: int | str = 10) -> Self:
        """Group the items by popularity.

        Parameters
        ----------
        data : Interactions
            On any backend.
        groups : int or str
            A number of groups with equal numbers of items, most popular first, by the number of
            users; or a rule of `equipoise.metrics.popularity_groups`. Items without users are in
            none of a number of groups.
        """
        if isinstance(groups, str):
            kind: Any = {"items": "norm", "head80": "count"}.get(groups, "sum")
            return cls.from_partition(popularity_groups(data.popularity(kind), groups), data)
        counts = data.popularity("count")
        used = np.flatnonzero(counts)
        names, codes = quantiles(counts[used], groups, "popularity")
        entries = (np.ones(len(used)), (used, codes))
        membership = sp.csr_array(entries, shape=(data.n_items, len(names)))
        return cls(names, membership, data.item_ids)

    @classmethod
    def by_activity(cls, data: Interactions, groups: int = 5) -> Self:
        """Group the users by their number of items, most active first.

        Parameters
        ----------
        data : Interactions
            On any backend.
        groups : int
            Number of groups with equal numbers of users.
        """
        names, codes = quantiles(data.items_per_user().astype(np.float64), groups, "activity")
        return cls._from_codes(names, codes, data.user_ids, "users")

    @classmethod
    def from_partition(cls, partition: ItemGroups, data: Interactions | None = None) -> Self:
        """Make groups from a partition of the columns; `data` gives the ids of the columns."""
        ids = None if data is None else data.item_ids
        return cls._from_codes(partition.names, partition.codes, ids, "items")

    @classmethod
    def _from_codes(
        cls, names: tuple[str, ...], codes: NDArray[Any], ids: NDArray[Any] | None, of: Of
    ) -> Self:
        entries = (np.ones(len(codes)), (np.arange(len(codes)), codes))
        return cls(names, sp.csr_array(entries, shape=(len(codes), len(names))), ids, of)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.names)

    @property
    def sizes(self) -> dict[str, float]:
        """Number of members of each group, or the sum of their shares."""
        totals = np.asarray(self.membership.sum(axis=0)).ravel()
        return dict(zip(self.names, totals.tolist(), strict=True))

    def members(self, name: str) -> NDArray[Any]:
        """Ids of the members of one group, or their positions without ids."""
        if name not in self.names:
            known = ", ".join(self.names[:10])
            raise InvalidParameterError(f"unknown group {name!r}. Known: {known}.")
        rows = np.unique(self.membership[:, [self.names.index(name)]].nonzero()[0])
        return rows if self.ids is None else self.ids[rows]

    def select(self, names: Iterable[str]) -> Self:
        """Return some of the groups, in the given order; other members are in no group."""
        wanted = list(names)
        for name in wanted:
            self.members(name)
        columns = [self.names.index(name) for name in wanted]
        return type(self)(tuple(wanted), self.membership[:, columns], self.ids, self.of)

    def cross(self, other: Groups) -> Self:
        """Return the groups "a × b" of both, e.g. gender × age, without empty ones.

        Parameters
        ----------
        other : Groups
            Of the same members.
        """
        if other.of != self.of:
            raise InvalidParameterError(f"cannot cross groups of {self.of} and of {other.of}.")
        if self.ids is None or other.ids is None:
            T = other._by_position(self.membership.shape[0])
        else:
            T = other._by_id(self.ids)
        products = [
            (f"{a} × {b}", self.membership[:, [i]].multiply(T[:, [j]]))
            for i, a in enumerate(self.names)
            for j, b in enumerate(other.names)
        ]
        kept = [(name, column) for name, column in products if column.nnz]
        if not kept:
            raise InvalidDataError("no member belongs to a group of both.")
        membership = sp.hstack([column for _, column in kept], format="csr")
        return type(self)(tuple(name for name, _ in kept), membership, self.ids, self.of)

    def align(self, data: Interactions) -> sp.csr_array:
        """Return the membership of the items or users of `data`, in its order.

        A member that `data` has and these groups do not belongs to no group.

        Parameters
        ----------
        data : Interactions
            On any backend.
        """
        items = self.of == "items"
        count = data.n_items if items else data.n_users
        if self.ids is None:
            return self._by_position(count)
        return self._by_id(data.item_ids if items else data.user_ids)

    def partition(self, data: Interactions) -> ItemGroups:
        """Return the groups of items as a partition of the columns, for metrics.

        Refused if an item of `data` is in several groups or in none.
        """
        S = self.align(data)
        if self.of != "items" or not np.all(np.diff(S.indptr) == 1):
            raise InvalidDataError(
                "metrics by group need every item in exactly one group. "
                "Add a group for the other items, or use labels without lists."
            )
        return ItemGroups(self.names, S.indices)

    def _by_position(self, count: int) -> sp.csr_array:
        if self.membership.shape[0] != count:
            raise InvalidDataError(
                f"groups without ids must have one row for each of the {count} {self.of} of the "
                f"data, got {self.membership.shape[0]}. Pass ids to match them."
            )
        return self.membership

    def _by_id(self, wanted: NDArray[Any]) -> sp.csr_array:
        positions = Lookup(np.asarray(self.ids), self.of[:-1]).find(wanted)
        known = positions >= 0
        if not known.any():
            raise InvalidDataError(
                f"none of the {len(wanted)} {self.of} of the data has a group: they look like "
                f"{name_a_few(wanted, 3)}, and those of the groups like "
                f"{name_a_few(np.asarray(self.ids), 3)}. Ids must match in type and spelling."
            )
        empty = sp.csr_array((1, len(self.names)))
        padded = sp.vstack([self.membership, empty], format="csr")
        return sp.csr_array(padded[np.where(known, positions, self.membership.shape[0])])


def quantiles(values: Floats, count: int, what: str) -> tuple[tuple[str, ...], NDArray[np.intp]]:
    """Cut members into groups of equal size by falling value; ties by smaller index first.

    Examples
    --------
    >>> quantiles(np.array([5.0, 1.0, 9.0, 2.0]), 2, "popularity")
    (('popularity 1/2', 'popularity 2/2'), array([0, 1, 0, 1]))
    """
    count = min(count, len(values))
    codes = np.empty(len(values), dtype=np.intp)
    order = np.argsort(-values, kind="stable")
    codes[order] = np.arange(len(values)) * count // len(values)
    return tuple(f"{what} {code + 1}/{count}" for code in range(count)), codes


def _labels_of(label: Any) -> list[Hashable]:
    if isinstance(label, (list, tuple, set, frozenset, np.ndarray)):
        values = sorted(label, key=str) if isinstance(label, (set, frozenset)) else list(label)
    else:
        values = [label]
    return [value for value in values if not is_missing(value) and value != ""]


def _column(table: Any, name: str) -> Any:
    try:
        column = table[name]
    except (KeyError, TypeError, IndexError):
        raise InvalidDataError(f"the table of groups has no column {name!r}.") from None
    except Exception as error:  # each table library has its own error
        raise InvalidDataError(f"the table of groups has no column {name!r}: {error}") from None
    return column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()

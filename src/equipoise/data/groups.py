"""Groups of items or of users, by id: by popularity, by labels, or by a column of a table."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Self, get_args

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.checks import check_choice
from equipoise.data.block_ops import of_matrix
from equipoise.data.identifiers import Lookup, as_id_array, duplicate_at, is_missing, name_a_few
from equipoise.data.interactions import Interactions
from equipoise.data.names import id_columns, read_columns
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics.groups import POPULARITY_OF_RULE, ItemGroups, popularity_groups
from equipoise.spectral.gram import BlockGram, Gram, GramProduct, multiply_rows
from equipoise.spectral.groups.families import (
    MatrixRowGroups,
    RowGroups,
    compress_rows,
    group_totals,
)
from equipoise.spectral.matmul import Block, Floats

Of = Literal["items", "users"]


@dataclass(frozen=True, eq=False, repr=False)
class Groups(ItemGroups):
    """Which items, or which users, belong to which group; several memberships are allowed.

    Make them with `read`, `from_column`, `from_labels`, `by_popularity` or `by_activity`. Models,
    `evaluate` and `audit` match them to the data by id. For metrics of arrays, `align` puts them
    in the order of the data.

    Attributes
    ----------
    names : tuple of str
        One name per group.
    membership : csr_array of shape (n, groups)
        How much each member counts in each group: 0 or 1, or shares of 1.
    rule : str
        How the groups were made.
    ids : ndarray of shape (n,) or None
        Ids of the members. None: member i is row or column i of a matrix.
    of : {"items", "users"}
        What is grouped.

    Examples
    --------
    >>> groups = Groups.from_labels({"a": "indie", "b": ["indie", "live"], "c": None})
    >>> groups
    <Groups of items: labels, 2 groups>
    >>> groups.sizes
    {'indie': 2, 'live': 1}
    """

    ids: NDArray[Any] | None = None
    of: Of = "items"

    def __repr__(self) -> str:
        return f"<Groups of {self.of}: {self.rule}, {self.n_groups} groups>"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("of", self.of, get_args(Of))
        if self.ids is None:
            return
        if len(self.ids) != len(self):
            raise InvalidDataError(
                f"ids and membership must have one row per member, got {len(self.ids)} ids and "
                f"{len(self)} rows."
            )
        twice = duplicate_at(np.asarray(self.ids), self.of[:-1])
        if twice is not None:
            raise InvalidDataError(
                f"the id {self.ids[twice]!r} has two rows in the groups. Give each of the "
                f"{self.of} one row, with a list of labels for several groups."
            )

    @classmethod
    def read(
        cls,
        source: str | os.PathLike[str],
        *,
        of: Of = "items",
        id: str | None = None,  # noqa: A002
        separator: str | None = None,
        share: bool = False,
        query: str | None = None,
    ) -> Self:
        """Make groups from a column of a file: ``Groups.read("artists.csv:label")``.

        An id with several rows, or with a list in a Parquet column, is in several groups.

        Parameters
        ----------
        source : str
            ``FILE:COLUMN``. The file is delimited text (CSV, TSV, movies.dat, …), Parquet, or a
            database with `query`. Columns without a header are numbered from 0.
        of : {"items", "users"}
            What is grouped.
        id : str, optional
            The column of the ids. By default the first with a usual name (id, item_id, artist,
            user, …), else the first column.
        separator, share
            As in `from_column`.
        query : str, optional
            The SQL of a database.
        """
        path, _, column = os.fspath(source).rpartition(":")
        if not (path and column):
            raise InvalidParameterError(
                f"groups are read from FILE:COLUMN, e.g. artists.csv:label, got {str(source)!r}."
            )
        known = [column] if id is None else [column, id]
        table = read_columns(path, *known) if query is None else _queried(path, query, *known)
        others = [name for name in table if name != column]
        key = id or next(iter([*id_columns(others), *others]), column)
        made = cls.from_column(
            table, id=key, column=column, separator=separator, of=of, share=share
        )
        named = f"column {column}" if column.isdigit() else column
        return replace(made, rule=f"{named} in {os.path.basename(path)}")

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
        return cls(tuple(map(str, found)), S, "labels", known, of)

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
            One row per item or user, or several: an id with two rows is in both groups.
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
        by_id: dict[Any, list[Hashable]] = {}
        for key, label in zip(_column(table, id), labels, strict=True):
            if not is_missing(key):
                by_id.setdefault(key, []).extend(_labels_of(label))
        return replace(cls.from_labels(by_id, of=of, share=share), rule=column)

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
            kind: Any = POPULARITY_OF_RULE.get(groups, "sum")
            found = popularity_groups(data.popularity(kind), groups)
            return cls(found.names, found.membership, found.rule, data.item_ids)
        counts = data.popularity("count")
        used = np.flatnonzero(counts)
        names, codes = quantiles(counts[used], groups, "popularity")
        entries = (np.ones(len(used)), (used, codes))
        membership = sp.csr_array(entries, shape=(data.n_items, len(names)))
        return cls(names, membership, "popularity", data.item_ids)

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
        return cls(names, codes, "activity", data.user_ids, "users")

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.names)

    def members(self, name: str) -> NDArray[Any]:
        """Ids of the members of one group, or their positions without ids."""
        rows = self.items(name)
        return rows if self.ids is None else self.ids[rows]

    def select(self, names: Iterable[str]) -> Self:
        """Return some of the groups, in the given order; other members are in no group."""
        wanted = list(names)
        for name in wanted:
            check_choice("group", name, self.names)
        columns = [self.names.index(name) for name in wanted]
        return replace(self, names=tuple(wanted), membership=self.membership[:, columns])

    def cross(self, other: Groups) -> Self:
        """Return the groups "a × b" of both, e.g. gender × age, without empty ones.

        Parameters
        ----------
        other : Groups
            Of the same members.
        """
        if other.of != self.of:
            raise InvalidParameterError(f"cannot cross groups of {self.of} and of {other.of}.")
        T = other._membership_of(self.ids if other.ids is not None else None, len(self))
        products = [
            (f"{a} × {b}", self.membership[:, [i]].multiply(T[:, [j]]))
            for i, a in enumerate(self.names)
            for j, b in enumerate(other.names)
        ]
        kept = [(name, column) for name, column in products if column.nnz]
        if not kept:
            raise InvalidDataError("no member belongs to a group of both.")
        membership = sp.hstack([column for _, column in kept], format="csr")
        names = tuple(name for name, _ in kept)
        return replace(self, names=names, membership=membership, rule=f"{self.rule} × {other.rule}")

    def align(self, data: Interactions) -> Self:
        """Return the groups of the items or users of `data`, in its order.

        A member that `data` has and these groups do not belongs to no group. Ids that are text
        match ids of any type by their spelling.

        Parameters
        ----------
        data : Interactions
            On any backend.
        """
        ids, count = self._ids_of(data)
        return replace(self, ids=ids, membership=self._membership_of(ids, count))

    def describe(self, data: Interactions) -> str:
        """Say how these groups match the data: groups, members without one, ids not in the data."""
        ids, count = self._ids_of(data)
        grouped = int(np.count_nonzero(np.diff(self.align(data).membership.indptr)))
        unknown = 0
        if self.ids is not None and ids is not None:
            known, _ = _comparable(ids, self.ids)
            unknown = int(np.count_nonzero(Lookup(known, self.of[:-1]).find(self.ids) < 0))
        return (
            f"{self.rule}: {len(self.names):,} groups of {self.of}; {count - grouped:,} of "
            f"{count:,} {self.of} are in no group; {unknown:,} ids of the groups are not in the "
            "data."
        )

    def _ids_of(self, data: Interactions) -> tuple[NDArray[Any] | None, int]:
        items = self.of == "items"
        if self.ids is None:
            return None, data.n_items if items else data.n_users
        ids = data.item_ids if items else data.user_ids
        return ids, len(ids)

    def _membership_of(self, wanted: NDArray[Any] | None, count: int) -> sp.csr_array:
        """Return the rows of these ids, or all rows if there are none."""
        if wanted is None or self.ids is None:
            if len(self) != count:
                raise InvalidDataError(
                    f"groups without ids must have one row for each of the {count} {self.of} of "
                    f"the data, got {len(self)}. Pass ids to match them."
                )
            return self.membership
        asked, known = _comparable(wanted, self.ids)
        positions = Lookup(known, self.of[:-1]).find(asked)
        if not (positions >= 0).any():
            raise InvalidDataError(
                f"none of the {len(wanted)} {self.of} of the data has a group: they look like "
                f"{name_a_few(wanted, 3)}, and those of the groups like "
                f"{name_a_few(self.ids, 3)}. Ids must match in type and spelling."
            )
        padded = sp.vstack([self.membership, sp.csr_array((1, len(self.names)))], format="csr")
        return sp.csr_array(padded[np.where(positions >= 0, positions, len(self))])


def _comparable(wanted: NDArray[Any], known: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both as text if `known` is text: the ids of a file have no type."""
    if all(isinstance(each, str) for each in known[:1].tolist()) and wanted.dtype.kind in "iuf":
        return np.array([str(each) for each in wanted.tolist()], dtype=object), known
    return wanted, known


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


def _queried(source: str, query: str, column: str, key: str | int = 0) -> dict[str, list[Any]]:
    """Return the columns of the ids, by default the first, and of the labels of a query."""
    from equipoise.data.readers import Columns, sql

    asked = Columns(key, column, "", "")
    rows = [batch.rows for batch in sql.batches(source, query, asked)]
    called = {"id" if key == 0 else str(key): "user", column: "item"}
    return {name: [each for part in rows for each in part[role]] for name, role in called.items()}


def _labels_of(label: Any) -> list[Hashable]:
    if isinstance(label, (list, tuple, set, frozenset, np.ndarray)):
        values = sorted(label, key=str) if isinstance(label, (set, frozenset)) else list(label)
    else:
        values = [label]
    return [value for value in values if not is_missing(value) and value != ""]


def _column(table: Any, name: str) -> Any:
    try:
        column = table[name]
    except Exception:  # each table library has its own error
        names = getattr(table, "column_names", None) or getattr(table, "columns", table)
        listed = ", ".join(map(str, names))
        raise InvalidDataError(
            f"the table of groups has no column {name!r}. Its columns are: {listed}."
        ) from None
    if isinstance(column, list):
        return column
    return column.to_list() if hasattr(column, "to_list") else np.asarray(column).tolist()


# ---------------------------------------- groups of users as groups of rows, for the solver


def row_groups(data: Interactions, membership: sp.csr_array) -> RowGroups:
    """Return the rows of the data and their groups.

    Parameters
    ----------
    data : Interactions
        As projected (see `Interactions.prepared`), on any backend.
    membership : csr_array of shape (n_users, k)
        How much each user counts in each group, in the order of the data.
    """
    block = data.rows.whole()
    if block is not None:
        return MatrixRowGroups(block.matrix, membership)
    return _BlockRowGroups(data, membership)


class _BlockRowGroups:
    """Groups of rows in blocks: every question is one pass over the data."""

    def __init__(self, data: Interactions, membership: sp.csr_array) -> None:
        self.data = data
        self.n_items, self.k = data.n_items, membership.shape[1]
        by_block = sp.csr_array(membership)[np.argsort(data.user_order, kind="stable")]
        ends = np.cumsum([size.users for size in data.rows.sizes()]).tolist()
        starts = [0, *ends[:-1]]
        self._each = [
            (sp.csc_array(by_block[start:end]),) for start, end in zip(starts, ends, strict=True)
        ]
        totals = data.total(of_matrix, group_totals, each=self._each)
        self.sizes, self.sums, self.energies = totals
        self._squared_norms = data.popularity("norm") ** 2

    def gram(self, y: Floats) -> Gram:
        """Return products with Xᵀ diag(Sy) X."""
        largest = max(float(np.abs(y).max()), np.finfo(np.float64).tiny)
        return BlockGram(
            partial(_total, self.data, self._each, y / largest),
            self._squared_norms,
            self.data.nnz,
            threads=self.data.rows.threads_per_block,
            row_scale=largest,
        )

    def select(self, group: int) -> Gram:
        """Return products with C_g."""
        return self.gram(np.eye(self.k)[group])

    def image(self, V: Floats) -> Floats:
        """Return V: XV would have one row per user in this process."""
        return V

    def compress(self, V: Floats, image: Floats) -> Floats:  # noqa: ARG002
        """Return Y_gᵀ diag(s_g) Y_g with Y = XV."""
        return self.data.total(_block_compress, np.ascontiguousarray(V), each=self._each)


def _total(data: Interactions, each: Any, y: Floats, wanted: GramProduct) -> Block:
    return data.total(_block_product, wanted, y, each=each)


def _block_product(block: RowBlock, wanted: GramProduct, y: Floats, S: sp.csc_array) -> Block:
    return multiply_rows(block.matrix, wanted, S @ y)


def _block_compress(block: RowBlock, V: Floats, S: sp.csc_array) -> Floats:
    return compress_rows(np.asarray(block.matrix @ V, dtype=np.float64), S)

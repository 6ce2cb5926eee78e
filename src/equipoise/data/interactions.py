"""`Interactions`: who touched what. The one door through which data enters equipoise."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from equipoise.data import selection, validation
from equipoise.data.assembly import CodedPairs, Duplicates, assemble, check_duplicates_policy
from equipoise.data.identifiers import as_id_array, factorize, name_a_few
from equipoise.data.table import InteractionTable
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.progress import Progress

if TYPE_CHECKING:
    from equipoise.data.split import Split

_ALL = slice(None)


@dataclass(frozen=True, eq=False, repr=False)
class Interactions(InteractionTable):
    """A users × items matrix of positive values, with the ids of its rows and columns.

    Rows are users, everywhere. Build it with `read`, `from_pairs` or `from_sparse`, which also
    refuse data without any interaction; the bare constructor takes the parts as they are and does
    not, because one part of a split may be empty. Every method returns a new object, and the
    arrays cannot be written to: those that the caller still could change are copied.

    Attributes
    ----------
    matrix : scipy.sparse.csr_array
        Positive and finite entries, sorted, no duplicates, no stored zeros.
    user_ids, item_ids : ndarray
        One id per row and per column: any scalar type, all different.
    item_names : ndarray of str or None
        What to call each item in a report.
    timestamps : ndarray or None
        When each entry happened, aligned with ``matrix.data``.

    Examples
    --------
    >>> plays = Interactions.from_pairs(["ann", "ann", "bob"], ["x", "y", "y"], [3, 1, 2])
    >>> plays
    Interactions(2 users x 2 items, 3 interactions, density 75.000%)
    >>> plays.matrix.toarray().tolist()
    [[3.0, 1.0], [0.0, 2.0]]
    """

    @classmethod
    def read(
        cls,
        source: Any,
        *,
        user: str | int | None = None,
        item: str | int | None = None,
        value: str | int | None = None,
        timestamp: str | int | None = None,
        delimiter: str | None = None,
        duplicates: Duplicates = "sum",
        format: str | None = None,  # noqa: A002 - the word every reader uses
        query: str | None = None,
        names: Any = None,
        progress: Progress | None = None,
    ) -> Interactions:
        """Read interactions from a file, a folder, a table in memory, a matrix or a database.

        Parameters
        ----------
        source : path, folder, glob, table, sparse matrix or database URL
            CSV or TSV (also .gz, .zst), Parquet, LightGCN text, MovieLens ``::`` and Last.fm files;
            pandas, polars, Arrow; SciPy sparse; a SQLite file or database URL with `query`.
        user, item, value, timestamp : str or int, optional
            Name (or position from 0) of a column; found by common names when not given, by
            position in a file without header. An empty name ``""`` says that there is no such
            column. Without a value column every row counts 1; if there are other columns of
            numbers, one of them must be named, or ``value=""`` said.
        delimiter : str, optional
            Told from the first lines of a text file when not given.
        duplicates : {"sum", "last", "max", "error"}
            What to do when a user and an item come together more than once.
        format : str, optional
            Overrides the guess: "csv", "parquet", "lightgcn", "movielens", "lastfm" or "sqlite".
        query : str, optional
            The SQL whose rows are the interactions.
        names : mapping, table or path, optional
            Passed on to `with_names`.
        progress : Progress, optional
            Receives the number of rows read so far; silent by default.

        Notes
        -----
        A row of value 0 says "no interaction" and counts as if it were not there. Negative,
        missing and infinite values and missing ids are refused with their place.
        """
        from equipoise.data import readers

        check_duplicates_policy(duplicates)
        columns = readers.Columns(user, item, value, timestamp)
        options = readers.Options(columns, delimiter, duplicates, format, query)
        loaded = readers.read(source, options, progress)
        return loaded if names is None else loaded.with_names(names)

    @classmethod
    def from_pairs(
        cls,
        users: ArrayLike,
        items: ArrayLike,
        values: ArrayLike | None = None,
        timestamps: ArrayLike | None = None,
        duplicates: Duplicates = "sum",
    ) -> Interactions:
        """Build from columns: one user, one item (and one value, one time) per interaction.

        Users and items are ordered by first appearance. A value of 0 means "no interaction": the
        row counts as if it were not there. Repeated pairs are merged (``"sum"``, ``"max"``,
        ``"last"`` — the latest by timestamp where there is one, else the last row) or refused
        (``"error"``); a merged entry keeps the latest timestamp.
        """
        check_duplicates_policy(duplicates)
        columns = validation.checked_columns(users, items, values, timestamps)
        coded_users = factorize(columns.users, "user")
        coded_items = factorize(columns.items, "item")
        return cls.from_codes(
            CodedPairs(
                users=coded_users.codes,
                items=coded_items.codes,
                values=columns.values,
                timestamps=columns.timestamps,
                user_ids=coded_users.ids,
                item_ids=coded_items.ids,
            ),
            duplicates,
        )

    @classmethod
    def from_codes(cls, pairs: CodedPairs, duplicates: Duplicates = "sum") -> Interactions:
        """Build from pairs that are already coded; where every reader ends."""
        built = assemble(pairs, duplicates)
        return cls(
            built.matrix, pairs.user_ids, pairs.item_ids, None, built.timestamps
        )._not_empty()

    @classmethod
    def from_sparse(
        cls,
        X: Any,
        user_ids: ArrayLike | None = None,
        item_ids: ArrayLike | None = None,
        item_names: ArrayLike | None = None,
        duplicates: Duplicates = "sum",
    ) -> Interactions:
        """Build from a SciPy sparse matrix or array of any format; rows are users.

        Ids default to 0, 1, 2 … Values keep float32 or float64; other types become float64.
        Rows and columns without entries are kept. Entries stored more than once (COO may hold
        them) are merged or refused like rows in `from_pairs`. `X` is copied, never changed.
        """
        check_duplicates_policy(duplicates)
        n, m = validation.sparse_shape(X)
        users = as_id_array(np.arange(n) if user_ids is None else user_ids, "user")
        items = as_id_array(np.arange(m) if item_ids is None else item_ids, "item")
        return cls(
            validation.canonical_copy(X, users, items, duplicates),
            users,
            items,
            None if item_names is None else validation.as_names(item_names),
        )._not_empty()

    def _not_empty(self) -> Self:
        """Return self, or refuse if there is not a single interaction."""
        if self.nnz == 0:
            raise InvalidDataError(
                f"there is no interaction left: {self.n_users} users x {self.n_items} items and "
                "not one value above 0. Check the input, the columns and the filters."
            )
        return self

    def filter(
        self,
        min_users_per_item: int = 0,
        min_items_per_user: int = 0,
        *,
        order: selection.FilterOrder = "users_first",
        until_stable: bool = False,
    ) -> Interactions:
        """Keep active users and popular items; drop whoever has nothing left.

        Once, in the paper's order: users with at least `min_items_per_user` items, then items with
        at least `min_users_per_item` of *those* users. So a user may end up below the minimum;
        ``until_stable=True`` repeats until every user and item meets it.
        """
        kept = selection.keep_active(
            self.matrix, min_items_per_user, min_users_per_item, order, until_stable
        )
        if not len(kept.users):
            raise InvalidDataError(
                f"no interaction survives min_users_per_item={min_users_per_item}, "
                f"min_items_per_user={min_items_per_user}. Lower the thresholds."
            )
        return self._take(kept.users, kept.items)

    def binarize(self) -> Interactions:
        """Set every value to 1."""
        return self._with_data(np.ones_like(self.matrix.data))

    def normalize_rows(self) -> Interactions:
        """Divide each row by its sum, so that every user weighs the same."""
        # a power of two brings each row's maximum to about 1: exact, and no sum can overflow
        _, exponents = np.frexp(self.matrix.max(axis=1).toarray().ravel())
        counts = np.diff(self.matrix.indptr)
        scaled = np.ldexp(self.matrix.data, -np.repeat(exponents, counts))
        totals = np.asarray(self._pattern(scaled).sum(axis=1)).ravel()
        per_entry = np.repeat(totals, counts).astype(self.matrix.dtype)
        return self._with_data(scaled / per_entry)

    def sample_items(self, n: int, seed: int) -> Interactions:
        """Keep `n` items drawn without replacement, in the order drawn.

        The columns are ``numpy.random.default_rng(seed).choice(n_items, n, replace=False)``.
        Users left with nothing are kept, as empty rows: the users of the data stay the same.
        """
        validation.check_whole_number("n", n, 1)
        validation.check_whole_number("seed", seed)
        if n > self.n_items:
            raise InvalidParameterError(f"n={n} must be from 1 to the {self.n_items} items here.")
        drawn = np.random.default_rng(seed).choice(self.n_items, n, replace=False)
        return self._take(items=drawn)._not_empty()

    def select_users(self, ids: ArrayLike) -> Interactions:
        """Keep these users, in this order."""
        return self._take(users=self.user_index(ids))

    def select_items(self, ids: ArrayLike) -> Interactions:
        """Keep these items, in this order; users left with nothing stay as empty rows."""
        return self._take(items=self.item_index(ids))

    def align_items(
        self, item_ids: ArrayLike, *, unknown: Literal["error", "drop"] = "error"
    ) -> Interactions:
        """Reorder and extend the columns to a vocabulary, e.g. that of a fitted model.

        Items of the vocabulary that are not here become empty columns; items here that the
        vocabulary lacks are refused, or left out with ``unknown="drop"``. All users stay.
        """
        if unknown not in ("error", "drop"):
            raise InvalidParameterError(f"unknown={unknown!r}; use 'error' or 'drop'.")
        vocabulary = as_id_array(item_ids, "item")
        column = self._item_lookup.find(vocabulary)
        strangers = np.delete(self.item_ids, column[column >= 0])
        if unknown == "error" and len(strangers):
            raise UnknownIdError(
                f"{len(strangers)} item id(s) are not in the vocabulary of {len(vocabulary)}: "
                f"{name_a_few(strangers)}. Leave them out first, with "
                'interactions.align_items(model.item_ids_, unknown="drop").'
            )
        taken = selection.take_or_leave_empty(self.matrix, items=column)
        names = None
        if self.item_names is not None:
            names = np.where(column < 0, validation.as_names(vocabulary), self.item_names[column])
        times = None if self.timestamps is None else self.timestamps[taken.positions]
        return Interactions(taken.matrix, self.user_ids, vocabulary, names, times)

    def with_names(self, names: Any) -> Interactions:
        """Name the items; one without a name is called by its id.

        Parameters
        ----------
        names : mapping, table or path
            ``{item id: name}``, a table with an id and a name column, or a file of one
            (CSV, Parquet, MovieLens ``movies.dat``, Last.fm ``artists.dat``).
        """
        from equipoise.data.names import names_for

        return replace(self, item_names=names_for(self.item_ids, names))

    def holdout(self, **options: Any) -> Split:
        """Split into train, validation and test: see `equipoise.data.holdout`."""
        from equipoise.data.split import holdout

        return holdout(self, **options)

    def keep_entries(self, mask: NDArray[np.bool_]) -> Interactions:
        """Keep the entries of ``matrix.data`` where `mask` is true; all users and items stay."""
        ends = np.append(0, np.cumsum(mask))[self.matrix.indptr]
        kept = (self.matrix.data[mask], self.matrix.indices[mask], ends)
        times = None if self.timestamps is None else self.timestamps[mask]
        matrix = sparse.csr_array(kept, shape=self.matrix.shape)
        return replace(self, matrix=matrix, timestamps=times)

    def _take(
        self, users: NDArray[np.intp] | slice = _ALL, items: NDArray[np.intp] | slice = _ALL
    ) -> Interactions:
        taken = selection.take(self.matrix, users, items)
        return Interactions(
            taken.matrix,
            self.user_ids[users],
            self.item_ids[items],
            None if self.item_names is None else self.item_names[items],
            None if self.timestamps is None else self.timestamps[taken.positions],
        )

    def _with_data(self, data: NDArray[np.floating[Any]]) -> Interactions:
        return replace(self, matrix=self._pattern(data))

    def _pattern(self, data: NDArray[np.floating[Any]]) -> sparse.csr_array:
        """Return the matrix with other numbers in its entries."""
        parts = (data, self.matrix.indices, self.matrix.indptr)
        return sparse.csr_array(parts, shape=self.matrix.shape)

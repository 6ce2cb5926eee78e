"""`Interactions`: which user interacted with which item, in memory, on disk or on a cluster."""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial, reduce
from itertools import pairwise
from operator import attrgetter
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from equipoise.checks import check_choice, check_unused, check_whole_number
from equipoise.data import block_ops, validation
from equipoise.data.backends.memory import MemoryRows
from equipoise.data.description import Description, describe
from equipoise.data.identifiers import Lookup, as_id_array, name_a_few
from equipoise.data.preparation import FilterOrder, Step, keep_active
from equipoise.data.rows import Each, Prepare, RowBlock, Rows
from equipoise.data.validation import CodedPairs, Duplicates, assemble
from equipoise.display import Displayed, Shown
from equipoise.exceptions import InvalidDataError, InvalidParameterError, UnknownIdError
from equipoise.memory import format_bytes, require
from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress
from equipoise.spectral.gram import BlockGram, DenseGram, Gram, gram_matrix
from equipoise.spectral.norms import column_norms, squares_are_inexact

if TYPE_CHECKING:
    import polars as pl

    from equipoise.data.split import Split
    from equipoise.spectral.solve import Solver

Floats = NDArray[np.float64]
_ALL = slice(None)
_PARTS = ("rows", "item_ids", "item_names", "preparation")
_POWERS = {"norm": 2, "count": 0, "sum": 1}


@dataclass(frozen=True, eq=False, repr=False, init=False)
class Interactions(Displayed):
    """Users × items with positive values, and the ids of rows and columns.

    Rows are users. They are in memory, in blocks on disk or in blocks on a Dask cluster; every
    method works on all three and gives the same results. Build it with `read`, `from_pairs`,
    `from_sparse` or `from_dask`, which refuse data without any interaction. The constructor takes
    the parts of data in memory and does not, because one part of a split may be empty. Every
    method returns a new object. Arrays are read-only; those that the caller can still change are
    copied.

    Attributes
    ----------
    rows : Rows
        The blocks of users; one block in memory.
    item_ids : ndarray
        One id per column: any scalar type, all different.
    item_names : ndarray of str or None
        Names of the items for reports.
    preparation : tuple of Step
        What was done to the values and items so far: read, filter, binarize, normalize_rows …
        A model keeps the record of its training data and prepares other rows in the same way.

    Examples
    --------
    >>> plays = Interactions.from_pairs(["ann", "ann", "bob"], ["x", "y", "y"], [3, 1, 2])
    >>> plays
    Interactions(2 users x 2 items, 3 interactions, density 75.000%)
    >>> plays.matrix.toarray().tolist()
    [[3.0, 1.0], [0.0, 2.0]]
    """

    rows: Rows
    item_ids: NDArray[Any]
    item_names: NDArray[Any] | None
    preparation: tuple[Step, ...] = ()

    def __init__(
        self,
        matrix: Any,
        user_ids: Any,
        item_ids: Any,
        item_names: Any = None,
        timestamps: Any = None,
    ) -> None:
        block, items, names = validation.checked_parts(
            matrix, user_ids, item_ids, item_names, timestamps
        )
        self._set(rows=MemoryRows(block), item_ids=items, item_names=names)

    def _set(self, **parts: Any) -> Self:
        """Set attributes of a new object; arrays become read-only."""
        for part in parts.values():
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
        self.__dict__.update(parts)
        return self

    @classmethod
    def from_rows(
        cls, rows: Rows, item_ids: NDArray[Any], item_names: NDArray[Any] | None = None
    ) -> Self:
        """Build from blocks that are valid already; for backends."""
        return cls.__new__(cls)._set(rows=rows, item_ids=item_ids, item_names=item_names)

    @classmethod
    def wrap(cls, matrix: sparse.csr_array) -> Self:
        """Build from a canonical, positive matrix, unchecked and not copied; ids are positions."""
        n_users, n_items = matrix.shape
        view = sparse.csr_array(matrix.shape, dtype=matrix.dtype)
        view.data, view.indices = matrix.data.view(), matrix.indices.view()
        view.indptr = matrix.indptr.view()
        view.has_canonical_format = True
        users = np.arange(n_users)
        return cls.from_rows(MemoryRows(RowBlock(view, users, users)), np.arange(n_items))

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
        decimal: str | None = None,
        date_format: str | None = None,
        names: Any = None,
        memory: str | int | None = None,
        client: Any = None,
        n_blocks: int | None = None,
        scratch: Any = None,
        storage_options: Mapping[str, Any] | None = None,
        rows_per_task: int | None = None,
        retry: Any = None,
        progress: Progress | None = None,
    ) -> Interactions:
        """Read interactions into memory, into blocks on disk, or onto a Dask cluster.

        Parameters
        ----------
        source : path, folder, glob, table, sparse matrix or database URL
            CSV or TSV (also .gz, .zst), Parquet, LightGCN text, MovieLens ``::`` and Last.fm files;
            pandas, polars, Arrow; SciPy sparse; a SQLite file or database URL with `query`. With
            `memory`: text or Parquet files, or Parquet at a URL of fsspec (``s3://bucket/plays``).
            With `client`: Parquet that every worker can read.
        user, item, value, timestamp : str or int, optional
            Name (or position from 0) of a column; found by common names when not given, by
            position in a file without header. An empty name ``""`` means that there is no such
            column. Without a value column every row counts 1; if there are other columns of
            numbers, name one of them, or pass ``value=""``.
        delimiter : str, optional
            Detected from the first lines of a text file by default.
        duplicates : {"sum", "last", "max", "error"}
            What to do when a pair of user and item occurs more than once.
        format : str, optional
            Overrides the guess: "csv", "parquet", "lightgcn", "movielens", "lastfm" or "sqlite".
        query : str, optional
            The SQL whose rows are the interactions.
        decimal : str, optional
            Decimal sign of values in text, e.g. ``","``; a point by default.
        date_format : str, optional
            Format of dates in text, e.g. ``"%d.%m.%Y"``; numbers and ISO dates by default.
        names : mapping, table, path, column of the source or query, optional
            Names of the items. Text that is not a path is a column of the source, or
            ``SELECT id, name …`` for its database. Others as in `with_names`.
        memory : str or int, optional
            Keep the rows in blocks on disk, with about this much memory for this process, for
            example "2GB". It decides how large a block is.
        client : distributed.Client or str, optional
            Keep the rows in the memory of this Dask cluster; a str is a scheduler's address.
        n_blocks : int, optional
            With `memory` or `client`: the number of blocks of users. On a cluster by default one
            per 4 million rows, at least 8.
        scratch : path, optional
            With `memory`: the folder for the blocks, about 16 bytes per interaction. By default
            the system's folder for temporary files. Emptied when the data are no longer used.
        storage_options : mapping, optional
            With `memory` or `client`: fsspec's options for a URL (endpoint, credentials).
        rows_per_task : int, optional
            With `client`: rows that one task reads, at least a row group.
        retry : RetryPolicy, optional
            With `client`: how long to wait for a cluster without scheduler or workers.
        progress : Progress, optional
            Receives the number of rows read so far; silent by default.

        Notes
        -----
        A row of value 0 means "no interaction" and is left out. Negative, missing and infinite
        values and missing ids are refused with their place.

        The same table in the same blocks gives the same bits, for any number of workers and
        after any failure of them.
        """
        from equipoise.data import readers

        check_choice("duplicates", duplicates, get_args(Duplicates))
        check_choice("decimal (--decimal)", decimal, (None, ",", "."))
        columns = readers.Columns(user, item, value, timestamp)
        options = readers.Options(
            columns, delimiter, duplicates, format, query, decimal, date_format
        )
        in_blocks: dict[str, Any] = {"n_blocks": n_blocks, "storage_options": storage_options}
        on_disk = in_blocks | {"scratch": scratch}
        on_cluster = in_blocks | {"rows_per_task": rows_per_task, "retry": retry}
        if n_blocks is not None:
            check_whole_number("n_blocks", n_blocks, 1)
        if memory is not None and client is not None:
            raise InvalidParameterError(
                "memory (--memory) keeps the rows on disk, client (--scheduler) on a Dask cluster. "
                "Give one of them."
            )
        if memory is not None:
            from equipoise.data.backends import disk_shuffle

            check_unused(
                {"rows_per_task": rows_per_task, "retry": retry}, "has no effect without client=."
            )
            loaded = disk_shuffle.read(source, options, memory, **on_disk, progress=progress)
        elif client is not None:
            from equipoise.data.backends import dask_shuffle

            check_unused({"scratch": scratch}, "has no effect without memory=.")
            loaded = dask_shuffle.read(source, options, client, **on_cluster, progress=progress)
        else:
            check_unused(on_disk | on_cluster, "has no effect without memory= or client=.")
            loaded = readers.read(source, options, progress)
        if names is None:
            return loaded
        from equipoise.data.names import names_in

        how = {"item": item, "delimiter": delimiter, "format": format, "query": query}
        return loaded.with_names(names_in(source, names, **how))

    @classmethod
    def accept(cls, source: Any) -> Any:
        """Return a path, or a table with a user and an item column, as `Interactions`.

        Anything else is returned unchanged.
        """
        is_path = isinstance(source, str | PathLike)
        if is_path or _has_user_and_item(getattr(source, "columns", None)):
            return cls.read(source)
        return source

    @classmethod
    def require(cls, source: Any, name: str = "interactions") -> Interactions:
        """Return what `accept` makes `Interactions`; refuse a matrix, which has no ids."""
        found = cls.accept(source)
        if not isinstance(found, cls):
            raise InvalidDataError(
                f"{name} must be Interactions, a path, or a table with a user and an item column, "
                f"got {type(source).__name__}. A matrix has no ids to match its items with those "
                "of the model: use Interactions.from_sparse(X, item_ids=…)."
            )
        return found

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
        check_choice("duplicates", duplicates, get_args(Duplicates))
        pairs = validation.coded_columns(users, items, values, timestamps)
        return cls.from_codes(pairs, duplicates)

    @classmethod
    def from_codes(cls, pairs: CodedPairs, duplicates: Duplicates = "sum") -> Interactions:
        """Build from pairs that are already coded; the last step of every reader."""
        built = assemble(pairs, duplicates)
        validation.refuse_bad_entry(built.matrix, pairs.user_ids, pairs.item_ids)
        ranks = np.arange(len(pairs.user_ids))
        rows = MemoryRows(RowBlock(built.matrix, pairs.user_ids, ranks, built.timestamps))
        return cls.from_rows(rows, pairs.item_ids)._not_empty()

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
        check_choice("duplicates", duplicates, get_args(Duplicates))
        block, items, names = validation.checked_parts(
            X, user_ids, item_ids, item_names, duplicates=duplicates
        )
        return cls.from_rows(MemoryRows(block), items, names)._not_empty()

    @classmethod
    def from_dask(
        cls,
        frame: Any,
        *,
        client: Any = None,
        duplicates: Duplicates = "sum",
        n_blocks: int | None = None,
        retry: Any = None,
        **columns: str | int | None,
    ) -> Interactions:
        """Take the rows of a Dask DataFrame; arguments as in `read`.

        `client` is the current client of the process by default, `columns` are user, item, value
        and timestamp.
        """
        from equipoise.data import readers
        from equipoise.data.backends import dask_shuffle

        check_choice("duplicates", duplicates, get_args(Duplicates))
        if n_blocks is not None:
            check_whole_number("n_blocks", n_blocks, 1)
        options = readers.Options(readers.Columns(**columns), None, duplicates)
        return dask_shuffle.read_frame(frame, options, client, n_blocks, retry)

    def distribute(self, client: Any = None, n_blocks: int = 8, *, retry: Any = None) -> Self:
        """Send data in memory to a Dask cluster, in blocks of consecutive users.

        The scheduler keeps a copy, from which lost blocks are restored: for data of moderate size.
        """
        from equipoise.data.backends.dask import DaskRows

        check_whole_number("n_blocks", n_blocks, 1)
        self.require_matrix("distribute")
        block = self.collect()._block("rows")
        edges = np.linspace(0, self.n_users, n_blocks + 1).astype(int)
        parts = [
            block_ops.taken(block, _ALL, slice(first, last), np.arange(first, last))
            for first, last in pairwise(edges)
        ]
        return self._with(rows=DaskRows.scattered(client, parts, retry), same_users=False)

    def __reduce__(self) -> tuple[Any, ...]:
        block = self.rows.whole()
        if block is None:
            state = {name: getattr(self, name) for name in _PARTS}
            return copyreg.__newobj__, (type(self),), state  # type: ignore[attr-defined]
        # through the constructor: arrays from a pickle or a deep copy are writeable
        parts = (block.matrix, block.user_ids, self.item_ids, self.item_names, block.timestamps)
        return type(self), parts, {"preparation": self.preparation}

    def with_step(self, name: str, **settings: Any) -> Self:
        """Return the same data with one more step in `preparation`; None is not recorded."""
        given = {key: value for key, value in settings.items() if value is not None}
        return self.with_preparation((*self.preparation, Step(name, given)))

    def with_preparation(self, steps: tuple[Step, ...]) -> Self:
        """Return the same data with another record of what was done to them."""
        return self._with(preparation=steps)

    def _not_empty(self) -> Self:
        """Return self, or refuse if there is not a single interaction."""
        if self.nnz == 0:
            raise InvalidDataError(
                f"there is no interaction left: {self.n_users} users x {self.n_items} items and "
                "no value above 0. Check the input, the columns and the filters."
            )
        return self

    @property
    def shape(self) -> tuple[int, int]:
        """(number of users, number of items)."""
        return self.n_users, self.n_items

    @property
    def n_users(self) -> int:
        """Number of rows."""
        return sum(size.users for size in self.rows.sizes())

    @property
    def n_items(self) -> int:
        """Number of columns."""
        return len(self.item_ids)

    @property
    def nnz(self) -> int:
        """Number of interactions."""
        return sum(size.nnz for size in self.rows.sizes())

    @property
    def n_bytes(self) -> int:
        """Bytes of the matrix and the timestamps."""
        return sum(size.n_bytes for size in self.rows.sizes())

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the values."""
        return np.result_type(*(size.dtype for size in self.rows.sizes()))

    @property
    def density(self) -> float:
        """Share of all user-item pairs that interacted."""
        return self.nnz / (self.n_users * self.n_items)

    @property
    def has_timestamps(self) -> bool:
        """Whether every interaction has a time."""
        return all(size.has_timestamps for size in self.rows.sizes())

    @property
    def matrix(self) -> sparse.csr_array:
        """The users × items matrix: positive entries, sorted, no duplicates, no stored zeros.

        Only of data in memory. Refused for blocks; `collect` loads them.
        """
        return self._block("matrix").matrix

    @property
    def timestamps(self) -> NDArray[Any] | None:
        """When each entry happened, aligned with ``matrix.data``; of data in memory, or None."""
        return self._block("timestamps").timestamps if self.has_timestamps else None

    def _block(self, what: str) -> RowBlock:
        block = self.rows.whole()
        if block is None:
            raise InvalidDataError(
                f"these data are in {len(self.rows)} blocks outside of this process's memory, so "
                f"they have no {what}. collect() loads them: {format_bytes(self.n_bytes)}."
            )
        return block

    @property
    def user_ids(self) -> NDArray[Any]:
        """One id per row, in the order of the data."""
        return self._users.ids

    @property
    def user_order(self) -> NDArray[np.intp]:
        """Positions that bring users from the order of the blocks into the order of the data.

        ``np.concatenate(data.map(f))[data.user_order]`` has one result per user in data order.
        """
        return self._users.order

    @cached_property
    def _users(self) -> _Users:
        return _Users(self.rows)

    def has_users_of(self, other: Interactions) -> bool:
        """Whether both were derived from the same data without selecting users."""
        return self._users is other._users

    def map(
        self, function: Callable[..., Any], *shared: Any, each: Each | None = None
    ) -> list[Any]:
        """Return ``function(block, *shared, *each[i])`` for every block.

        Parameters
        ----------
        function : callable
            Of a `RowBlock`; importable, as it may run in other processes.
        shared
            Arguments for all blocks.
        each : sequence of tuples, optional
            Arguments for one block each; `blocks_of` makes some of other data.
        """
        return self.rows.map(function, *shared, each=each)

    def total(self, function: Callable[..., Any], *shared: Any, each: Each | None = None) -> Any:
        """Return the sum of what `map` returns, added in one fixed order."""
        return self.rows.total(function, *shared, each=each)

    def transform(
        self, function: Callable[..., RowBlock], *shared: Any, each: Each | None = None
    ) -> Self:
        """Return data of the same items whose blocks are what the function returns."""
        return self._with(rows=self.rows.transform(function, *shared, each=each))

    def prepared(self, prepare: Prepare | None) -> Self:
        """Return the data with a function of a CSR matrix applied to the rows as they are read."""
        return self if prepare is None else self._with(rows=self.rows.prepared(prepare))

    def blocks_of(self, *others: Interactions) -> Each:
        """Return the blocks of other data, as arguments `each` of `map`, `total` and `transform`.

        Parameters
        ----------
        others : Interactions
            With the same users in the same blocks: parts of one `Split`.
        """
        for other in others:
            if len(other.rows) != len(self.rows) or other.shape != self.shape:
                raise InvalidDataError(
                    f"data of {self.shape} in {len(self.rows)} blocks and of {other.shape} in "
                    f"{len(other.rows)} do not belong together. Use the parts of one holdout."
                )
        return list(zip(*(other.rows.handles() for other in others), strict=True))

    def gram(self, prepare: Prepare | None = None, *, kind: Solver = "matrix_free") -> Gram:
        """Return the products V ↦ XᵀXV: all that the solver needs of the data.

        Parameters
        ----------
        prepare : callable, optional
            Applied to the rows as they are read.
        kind : {"matrix_free", "gram", "dense"}
            "matrix_free" never forms XᵀX; the other two form it as a dense array.
        """
        from equipoise.spectral.solve import build_gram  # loads SciPy's linear algebra

        data = self.prepared(prepare)
        block = data.rows.whole()
        if block is not None:
            return build_gram(block.matrix, kind)
        if kind != "matrix_free":
            return data.dense_gram()
        total = partial(data.rows.total, block_ops.block_product)
        threads = data.rows.threads_per_block
        return BlockGram(total, data._column_squares, data.nnz, threads=threads)

    def dense_gram(self) -> DenseGram:
        """Return XᵀX as a dense array of items × items."""
        with one_blas_thread():
            return DenseGram(self.rows.total(block_ops.of_matrix, gram_matrix))

    def fastest_solver(self, rank: int, *, fits: int = 1) -> Solver:
        """Return the kind of `gram` that is estimated to be fastest for so many components."""
        from equipoise.spectral.solve import choose_solver

        block = self.rows.whole()
        return "matrix_free" if block is None else choose_solver(block.matrix, rank, fits=fits)

    def check_memory(self, width: int, columns: int) -> None:
        """Refuse a fit whose vectors do not fit: `width` per pass, `columns` in the basis."""
        self.rows.check_memory(self.n_items, width, columns)

    def require_matrix(
        self,
        who: str,
        advice: str = "Use a model that reads data in blocks, such as ItemWeightedPCA, or filter "
        "the data.",
    ) -> sparse.csr_array:
        """Return the whole matrix for a computation that needs it, loaded if memory allows.

        Parameters
        ----------
        who : str
            What needs it, for the error message.
        advice : str
            What to do instead, as a sentence.

        Raises
        ------
        InvalidDataError
            If it does not fit; the message contains the number of bytes.
        """
        block = self.rows.whole()
        if block is not None:
            return block.matrix
        require(
            2 * self.n_bytes,  # the blocks, and the matrix put together from them
            f"{who} needs the whole matrix in memory, which",
            advice,
            available=self.rows.memory,
        )
        return self.collect().matrix

    def collect(self) -> Interactions:
        """Load all rows into memory, in the order in which a read into memory has them."""
        if self.rows.whole() is not None:
            return self
        parts = self.rows.map(block_ops.whole)
        matrix = sparse.vstack([part.matrix for part in parts], format="csr")
        times = None
        if self.has_timestamps:
            times = np.concatenate([part.timestamps for part in parts])
        user_ids = np.concatenate([part.user_ids for part in parts])
        whole = RowBlock(sparse.csr_array(matrix), user_ids, np.arange(len(user_ids)), times)
        ranks = np.arange(len(user_ids))
        rows = MemoryRows(block_ops.taken(whole, _ALL, self.user_order, ranks))
        return self._with(rows=rows, same_users=False)

    def popularity(self, kind: Literal["count", "sum", "norm"] = "count") -> Floats:
        """Return how popular each item is.

        ``"count"`` is the number of its users, ``"sum"`` the total of its values, ``"norm"`` the
        paper's p_j = ‖X_·j‖₂. On 0/1 data count = sum = norm².
        """
        check_choice("kind", kind, _POWERS)
        if kind != "norm":
            totals: Floats = self.rows.total(block_ops.column_powers, _POWERS[kind])
            return totals
        norms: Floats = np.sqrt(self._column_squares)
        inexact = squares_are_inexact(self._column_squares)
        if inexact.any():  # a second pass: hypot adds squares without forming them
            parts = self.rows.map(block_ops.of_matrix, column_norms)
            norms[inexact] = reduce(np.hypot, parts)[inexact]
        return norms

    @cached_property
    def _column_squares(self) -> Floats:
        squares: Floats = self.rows.total(block_ops.column_powers, 2)
        return squares

    def largest_value(self) -> float:
        """Return the largest entry."""
        return float(max(self.rows.map(block_ops.largest_value)))

    def items_per_user(self) -> NDArray[np.int64]:
        """Return how many interactions each user has, in the order of the data."""
        counts: NDArray[np.int64] = np.concatenate(self.rows.map(block_ops.entries_per_user))
        return counts[self.user_order] if len(self.rows) > 1 else counts

    def describe(self) -> Description:
        """Return counts, density and how concentrated popularity is; print it to read it."""
        return describe(
            self.items_per_user(),
            self.popularity("count").astype(np.int64),
            has_timestamps=self.has_timestamps,
            has_names=self.item_names is not None,
        )

    def fingerprint(self) -> str:
        """Return the SHA-256 of entries and ids: equal data, equal text, on every machine."""
        digests = np.concatenate(self.rows.map(block_ops.row_digests))[self.user_order]
        return block_ops.fingerprint(self.shape, self.dtype, digests, self.user_ids, self.item_ids)

    def __repr__(self) -> str:
        blocks = "" if self.rows.whole() is not None else f" in {len(self.rows)} blocks"
        return (
            f"{type(self).__name__}({self.n_users:,} users x {self.n_items:,} items, "
            f"{self.nnz:,} interactions{blocks}, density {self.density:.3%})"
        )

    def to_polars(self) -> pl.DataFrame:
        """Return one row per interaction: user, item, value and, if there are any, timestamp."""
        return block_ops.as_table(self.collect()._block("rows"), self.item_ids)

    def _shown(self) -> Shown:
        return Shown(repr(self), ["", ""], list(self.describe().facts().items()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Interactions):
            return NotImplemented
        return (
            self.fingerprint() == other.fingerprint()
            and block_ops.same_optional(self.item_names, other.item_names)
            and block_ops.same_optional(self.collect().timestamps, other.collect().timestamps)
        )

    @cached_property
    def _user_lookup(self) -> Lookup:
        return Lookup(self.user_ids, "user")

    @cached_property
    def _item_lookup(self) -> Lookup:
        return Lookup(self.item_ids, "item")

    def user_index(self, ids: ArrayLike) -> NDArray[np.intp]:
        """Return the row of each user id; refuse unknown ones."""
        return self._user_lookup.require(ids)

    def item_index(self, ids: ArrayLike) -> NDArray[np.intp]:
        """Return the column of each item id; refuse unknown ones."""
        return self._item_lookup.require(ids)

    def row(self, user_id: Any) -> sparse.csr_array:
        """Return the 1 × n_items row of one user."""
        each = [(users,) for users, _ in self._locate(self.user_index([user_id]))]
        found = [part for part in self.rows.map(block_ops.rows_at, each=each) if part.shape[0]]
        return sparse.csr_array(found[0])

    def filter(
        self,
        min_users_per_item: int = 0,
        min_items_per_user: int = 0,
        *,
        order: FilterOrder = "users_first",
        until_stable: bool = False,
    ) -> Self:
        """Keep active users and popular items; drop those left without interactions.

        Once, in the paper's order: users with at least `min_items_per_user` items, then items with
        at least `min_users_per_item` of *those* users. So a user may end up below the minimum;
        ``until_stable=True`` repeats until every user and item satisfies it.
        """
        kept = keep_active(
            self.rows, self.n_items, min_items_per_user, min_users_per_item, order, until_stable
        )
        if not len(kept.items):
            raise InvalidDataError(
                f"no interaction survives min_users_per_item={min_users_per_item}, "
                f"min_items_per_user={min_items_per_user}. Lower the thresholds."
            )
        found = self._take(kept.items, [(users,) for users in kept.users])
        return found.with_step(
            "filter",
            min_users_per_item=min_users_per_item,
            min_items_per_user=min_items_per_user,
            order=order,
            until_stable=until_stable,
        )

    def binarize(self) -> Self:
        """Set every value to 1."""
        return self.transform(block_ops.binarized).with_step("binarize")

    def normalize_rows(self) -> Self:
        """Divide each row by its sum: every user then has the same weight."""
        return self.transform(block_ops.normalized).with_step("normalize_rows")

    def sample_items(self, n: int, seed: int = 0) -> Self:
        """Keep `n` items drawn without replacement, in the order drawn.

        The columns are ``numpy.random.default_rng(seed).choice(n_items, n, replace=False)``.
        Users left with nothing are kept, as empty rows: the users of the data stay the same.
        """
        check_whole_number("n", n, 1)
        check_whole_number("seed", seed)
        if n > self.n_items:
            raise InvalidParameterError(f"n={n} must be from 1 to the {self.n_items} items here.")
        drawn = np.random.default_rng(seed).choice(self.n_items, n, replace=False)
        return self._take(drawn)._not_empty().with_step("sample_items", n=n, seed=seed)

    def select_users(self, ids: ArrayLike) -> Self:
        """Keep these users, in this order."""
        positions = self.user_index(ids)
        validation.check_ids(self.user_ids[positions], "user")
        return self._take(_ALL, self._locate(positions))

    def select_items(self, ids: ArrayLike) -> Self:
        """Keep these items, in this order; users left with nothing stay as empty rows."""
        columns = self.item_index(ids)
        validation.check_ids(self.item_ids[columns], "item")
        return self._take(columns).with_step("select_items", n=len(columns))

    def align_items(
        self, item_ids: ArrayLike | Lookup, *, unknown: Literal["error", "drop"] = "error"
    ) -> Self:
        """Reorder and extend the columns to a vocabulary, for example that of a fitted model.

        Items of the vocabulary that are not here become empty columns; items here that the
        vocabulary lacks are refused, or left out with ``unknown="drop"``. All users stay. A
        `Lookup` of the vocabulary saves the time to build one.
        """
        check_choice("unknown", unknown, ("error", "drop"))
        given = item_ids if isinstance(item_ids, Lookup) else None
        vocabulary = as_id_array(item_ids, "item") if given is None else given.ids
        if vocabulary.dtype == self.item_ids.dtype and np.array_equal(vocabulary, self.item_ids):
            return self
        if given is None:
            validation.check_ids(vocabulary, "item")
            given = Lookup(validation.frozen(vocabulary), "item")
        places = given.find(self.item_ids)
        missing = self.item_ids[places < 0]
        if unknown == "error" and len(missing):
            raise UnknownIdError(
                f"{len(missing)} item id(s) are not in the vocabulary of {len(vocabulary)}: "
                f"{name_a_few(missing)}. Leave them out: unknown='drop' in Python, "
                "--drop-unknown-items on the command line."
            )
        names = None
        if self.item_names is not None:
            names = validation.as_names(vocabulary).copy()
            names[places[places >= 0]] = self.item_names[places >= 0]
        rows = self.rows.transform(block_ops.aligned, places, len(vocabulary))
        found = self._with(rows=rows, item_ids=given.ids, item_names=names)
        return found.with_step("align_items", n=len(vocabulary)) if len(missing) else found

    def with_names(self, names: Any) -> Self:
        """Name the items; one without a name is called by its id.

        Parameters
        ----------
        names : mapping, table or path
            ``{item id: name}``, a table with an id and a name column, or a file of one
            (CSV, Parquet, MovieLens ``movies.dat``, Last.fm ``artists.dat``).
        """
        from equipoise.data.names import names_for

        return self._with(item_names=names_for(self.item_ids, names))

    def without_timestamps(self) -> Self:
        """Drop the times of the interactions."""
        return self.transform(block_ops.without_timestamps)

    def holdout(self, **options: Any) -> Split:
        """Split into train, validation and test: see `equipoise.data.holdout`."""
        from equipoise.data.split import holdout

        return holdout(self, **options)

    def keep_entries(self, mask: NDArray[np.bool_]) -> Self:
        """Keep the interactions where `mask` is true; all users and items stay.

        The mask has one value per interaction: users in the order of the data, items by column.
        """
        if len(mask) != self.nnz:
            raise InvalidDataError(
                f"mask has {len(mask)} values for {self.nnz} interactions; give one each."
            )
        each = [(part,) for part in self.entries_by_block(mask)]
        return self.transform(block_ops.kept, each=each)

    def entries_by_block(self, values: NDArray[Any]) -> list[NDArray[Any]]:
        """Divide values of all interactions, in the order of the data, among the blocks."""
        if len(self.rows) == 1:
            return [values]
        counts = self.rows.map(block_ops.entries_per_user)
        entries = np.concatenate(counts)
        starts = np.empty(len(entries), np.int64)
        starts[self.user_order] = np.append(0, np.cumsum(entries[self.user_order]))[:-1]
        bounds = np.append(0, np.cumsum([len(part) for part in counts]))
        return [
            values[_ranges(starts[first:last], entries[first:last])]
            for first, last in pairwise(bounds)
        ]

    def _locate(self, positions: NDArray[np.intp]) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Find users by their position: for each block their rows and their places in the list."""
        ranks = np.arange(len(positions))
        if len(self.rows) == 1:
            return [(positions, ranks)]
        at = self.user_order[positions]
        bounds = np.append(0, np.cumsum([size.users for size in self.rows.sizes()]))
        block = np.searchsorted(bounds, at, side="right") - 1
        return [
            (at[block == number] - bounds[number], ranks[block == number])
            for number in range(len(self.rows))
        ]

    def _take(self, items: NDArray[np.intp] | slice, users: Each | None = None) -> Self:
        """Keep some columns, and of each block some rows."""
        rows = self.rows.transform(block_ops.taken, items, each=users)
        names = None if self.item_names is None else self.item_names[items]
        ids = self.item_ids[items]
        return self._with(rows=rows, item_ids=ids, item_names=names, same_users=users is None)

    def _with(self, *, same_users: bool = True, **parts: Any) -> Self:
        """Return the data with other parts; users in other blocks are collected again."""
        made = type(self).__new__(type(self))
        made._set(**{name: getattr(self, name) for name in _PARTS} | parts)
        if same_users:
            made.__dict__["_users"] = self._users
        return made


class _Users:
    """The users of data, collected once for all data derived from them with the same blocks."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    @cached_property
    def ids(self) -> NDArray[Any]:
        block = self._rows.whole()
        if block is not None:
            return block.user_ids
        ids: NDArray[Any] = np.concatenate(self._rows.map(attrgetter("user_ids")))[self.order]
        ids.flags.writeable = False
        return ids

    @cached_property
    def order(self) -> NDArray[np.intp]:
        if len(self._rows) == 1:
            return np.arange(self._rows.sizes()[0].users)
        ranks = np.concatenate(self._rows.map(attrgetter("order")))
        return np.argsort(ranks, kind="stable")


def _ranges(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return start, start + 1, … of every range, one after the other."""
    ends = np.cumsum(lengths)
    moved: NDArray[np.int64] = np.repeat(starts - (ends - lengths), lengths)
    return moved + np.arange(ends[-1] if len(ends) else 0)


def _has_user_and_item(columns: Any) -> bool:
    if columns is None:
        return False
    from equipoise.data.readers.columns import names_user_and_item

    return names_user_and_item([str(name) for name in columns])

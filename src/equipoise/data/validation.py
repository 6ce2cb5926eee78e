"""The rules that every `Interactions` obeys, checked in one place; from pairs to the matrix."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.identifiers import (
    as_id_array,
    dates_of,
    duplicate_at,
    factorize,
    refuse_unordered,
    show,
)
from equipoise.data.rows import RowBlock
from equipoise.exceptions import InvalidDataError, explained


def checked_parts(
    matrix: Any,
    user_ids: Any,
    item_ids: Any,
    item_names: Any,
    timestamps: Any = None,
    duplicates: Duplicates = "sum",
) -> tuple[RowBlock, NDArray[Any], NDArray[Any] | None]:
    """Return all rows as one block, the item ids and the item names, or refuse them.

    Ids are positions where they are None.
    """
    n, m = sparse_shape(matrix)
    users = as_id_array(np.arange(n) if user_ids is None else user_ids, "user")
    items = as_id_array(np.arange(m) if item_ids is None else item_ids, "item")
    if _is_canonical(matrix):
        matrix = _frozen_matrix(matrix)
    else:
        if timestamps is not None:
            raise InvalidDataError(
                "timestamps are aligned with matrix.data, so the matrix must already be a sorted "
                "CSR array without duplicates or stored zeros. Use Interactions.from_pairs."
            )
        matrix = _canonical_copy(matrix, users, items, duplicates)
    _check_shape(matrix, users, items)
    for ids, role in ((users, "user"), (items, "item")):
        _refuse_repeated(ids, role)
    refuse_bad_entry(matrix, users, items)
    names = None if item_names is None else as_names(item_names)
    times = None if timestamps is None else _as_times(timestamps)
    _check_length(names, len(items), "item_names", "items")
    _check_length(times, matrix.nnz, "timestamps", "interactions")
    if times is not None:
        _refuse_missing_time(times)
    block = RowBlock(
        matrix,
        frozen(users),
        np.arange(len(users)),
        None if times is None else frozen(times),
    )
    return block, frozen(items), None if names is None else frozen(names)


def _canonical_copy(
    X: Any, users: NDArray[Any], items: NDArray[Any], duplicates: Duplicates
) -> sparse.csr_array:
    """Return a sorted float CSR array without duplicates or stored zeros; `X` is not changed."""
    if X.dtype.kind not in "biuf":
        raise InvalidDataError(f"values of type {X.dtype} are not numbers. Use integers or floats.")
    _check_shape(X, users, items)
    dtype = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    if X.format == "csr" and X.has_canonical_format:
        matrix = sparse.csr_array(X, dtype=dtype, copy=True)
        matrix.eliminate_zeros()
        return matrix
    return _merged_entries(sparse.coo_array(X, dtype=dtype), users, items, duplicates)


def sparse_shape(X: Any) -> tuple[int, int]:
    """Return users × items of a sparse matrix; refuse anything else."""
    if not sparse.issparse(X):
        raise InvalidDataError(
            f"expected a SciPy sparse matrix, got {type(X).__name__}. "
            "Wrap a dense array: scipy.sparse.csr_array(X)."
        )
    if X.ndim != 2:
        raise InvalidDataError(f"the matrix has {X.ndim} dimension(s); it needs users x items.")
    refuse_broken_structure(X)
    return int(X.shape[0]), int(X.shape[1])


def _merged_entries(
    X: sparse.coo_array, users: NDArray[Any], items: NDArray[Any], duplicates: Duplicates
) -> sparse.csr_array:
    """Treat each stored entry as a row of a table: refused, left out or merged by its rules."""
    row, column = X.coords
    bad = invalid_at(X.data)
    if bad is not None:
        _refuse_value(X.data[bad], users[row[bad]], items[column[bad]])
    there = X.data > 0
    columns = {"user": row[there], "item": column[there], "value": X.data[there]}
    return assemble(CodedPairs(columns, users, items), duplicates).matrix


def as_names(names: Any) -> NDArray[Any]:
    """Return names as an object array of `str`."""
    refuse_unordered(names, "item names")
    return np.array([str(name) for name in names], dtype=object)


def coded_columns(users: Any, items: Any, values: Any, timestamps: Any) -> CodedPairs:
    """Return the rows of a value above 0, with codes for ids; refuse bad columns."""
    columns = {"user": as_id_array(users, "user"), "item": as_id_array(items, "item")}
    columns["value"] = amounts = _as_values(values, len(columns["user"]))
    if timestamps is not None:
        columns["timestamp"] = _as_times(timestamps)
    lengths = {f"{role}s": len(column) for role, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InvalidDataError(f"columns must be equally long; got {lengths}.")
    bad = invalid_at(amounts)
    if bad is not None:
        _refuse_value(amounts[bad], columns["user"][bad], columns["item"][bad])
    if timestamps is not None:
        _refuse_missing_time(columns["timestamp"])
    positive = amounts > 0
    if not positive.any():
        raise InvalidDataError(
            f"the {len(amounts)} rows contain no interaction: no value above 0. "
            "Check the input and the value column."
        )
    if not positive.all():
        columns = {role: column[positive] for role, column in columns.items()}
    columns["user"], user_ids = factorize(columns["user"], "user")
    columns["item"], item_ids = factorize(columns["item"], "item")
    return CodedPairs(columns, user_ids, item_ids)


def _as_values(values: Any, n_rows: int) -> NDArray[np.float64]:
    if values is None:
        return np.ones(n_rows)
    with explained("values must be numbers", TypeError, ValueError, OverflowError):
        given = _flat(values, "values")
        if given.dtype.kind in "cMm":  # NumPy would drop a part of it, or count days
            raise TypeError(f"got {given.dtype}")
        return np.asarray(values, dtype=np.float64)


def _as_times(timestamps: Any) -> NDArray[Any]:
    with explained("timestamps must be numbers or dates", TypeError, ValueError, OverflowError):
        column = _flat(timestamps, "timestamps")
    dates = dates_of(column.tolist()) if column.dtype.kind == "O" else None
    return column if dates is None else dates


def _flat(values: Any, name: str) -> NDArray[Any]:
    column = np.asarray(values)
    if column.ndim != 1:
        raise InvalidDataError(f"{name} must be one flat column, not {column.ndim}-dimensional.")
    return column


def _refuse_missing_time(times: NDArray[Any]) -> None:
    if times.dtype.kind not in "iufM":
        raise InvalidDataError(
            f"timestamps of type {times.dtype} cannot be ordered; use numbers or datetime64."
        )
    wrong = ~np.isfinite(times)
    if wrong.any():
        row = int(np.argmax(wrong))
        problem = "infinite" if np.isinf(times[row].astype(float)) else "missing"
        raise InvalidDataError(
            f"the timestamp of row {row} (counted from 0) is {problem}. Correct it, or leave the "
            "timestamps out."
        )


def _refuse_value(value: Any, user: Any, item: Any) -> None:
    raise InvalidDataError(
        f"the value {float(value)!r} of user {show(user)} and item {show(item)} "
        f"{value_rule(float(value))}; values must be finite and not below 0. "
        "Drop or correct such rows first."
    )


def _is_canonical(matrix: Any) -> bool:
    return (
        isinstance(matrix, sparse.csr_array)
        and matrix.dtype in (np.float32, np.float64)
        and bool(matrix.has_canonical_format)
        and bool(np.all(matrix.data != 0))
    )


def _check_shape(matrix: sparse.csr_array, users: NDArray[Any], items: NDArray[Any]) -> None:
    if 0 in matrix.shape:
        raise InvalidDataError(
            f"the matrix is {matrix.shape[0]} users x {matrix.shape[1]} items: there must be at "
            "least one of each."
        )
    if matrix.shape != (len(users), len(items)):
        raise InvalidDataError(
            f"the matrix is {matrix.shape[0]} x {matrix.shape[1]}, but there are {len(users)} "
            f"user ids and {len(items)} item ids. Rows are users, columns items: transpose the "
            "matrix if it is the other way round."
        )


def check_ids(ids: NDArray[Any], role: str) -> None:
    """Refuse a selection without ids, or with an id twice."""
    if not len(ids):
        raise InvalidDataError(f"no {role} is selected: there must be at least one.")
    _refuse_repeated(ids, role)


def _refuse_repeated(ids: NDArray[Any], role: str) -> None:
    repeated = duplicate_at(ids, role)
    if repeated is not None:
        raise InvalidDataError(
            f"{role} id {show(ids[repeated])} occurs more than once (again at position "
            f"{repeated}); ids must be unique."
        )


def refuse_bad_entry(matrix: sparse.csr_array, users: NDArray[Any], items: NDArray[Any]) -> None:
    """Refuse values that are negative, missing or infinite, as sums of duplicates may be."""
    bad = invalid_at(matrix.data)
    if bad is not None:
        row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
        _refuse_value(matrix.data[bad], users[row], items[matrix.indices[bad]])


def _check_length(column: NDArray[Any] | None, length: int, name: str, of: str) -> None:
    if column is not None and column.shape != (length,):
        raise InvalidDataError(
            f"{name} has shape {column.shape}, but there are {length} {of}; give one each."
        )


def frozen(array: NDArray[Any]) -> NDArray[Any]:
    """Return a read-only array; a writable one is copied."""
    if not array.flags.writeable:
        return array.view()
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def _frozen_matrix(matrix: sparse.csr_array) -> sparse.csr_array:
    kept = sparse.csr_array(matrix.shape, dtype=matrix.dtype)
    kept.data = frozen(matrix.data)
    kept.indices = frozen(matrix.indices)
    kept.indptr = frozen(matrix.indptr)
    kept.has_canonical_format = True
    return kept


# SciPy's loops, and ours, do not check the indices of a matrix: an index out of bounds reads or
# writes other memory.
def refuse_broken_structure(X: Any, source: str = "the sparse matrix") -> None:
    """Refuse a sparse matrix with indices out of bounds; the error calls it `source`."""
    if not is_sound(X):
        raise InvalidDataError(
            f"{source} is broken: its indices are out of the bounds of {X.shape}, or not signed "
            "integers. Build it again, for example from coordinates with scipy.sparse.coo_array."
        )


def is_sound(X: Any) -> bool:
    """Whether all row starts and indices of a CSR, CSC or BSR matrix are in bounds.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> X = sp.csr_array(([1.0, 1.0], [0, 1], [0, 1, 2]))
    >>> X.indptr[1] = 5
    >>> is_sound(X)
    False
    """
    if X.format not in ("csr", "csc", "bsr"):
        return True
    if not X.indptr.dtype.kind == X.indices.dtype.kind == "i":  # SciPy computes with no others
        return False
    try:  # a view: SciPy's check prunes the arrays
        view = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
        view.check_format(full_check=True)
    except ValueError:
        return False
    return not (X.indptr[1:] < X.indptr[:-1]).any()  # SciPy does not look if the last one is 0


Duplicates = Literal["sum", "last", "max", "error"]


# Role → column: codes of users and items and, if present, values (or every row counts 1) and times
CodedColumns = dict[str, NDArray[Any]]


class CodedPairs(NamedTuple):
    """One entry per interaction, and the ids of the codes."""

    columns: CodedColumns
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    # where the pairs were read, for error messages: a file, a query
    source: str = ""

    @property
    def values(self) -> NDArray[np.floating[Any]]:
        """The values; 1 where there are none."""
        values = self.columns.get("value")
        return np.ones(len(self.columns["user"])) if values is None else values


class Assembled(NamedTuple):
    """A canonical CSR matrix and the times of its entries."""

    matrix: sparse.csr_array
    timestamps: NDArray[Any] | None


def invalid_at(values: NDArray[np.floating[Any]]) -> int | None:
    """Return the position of the first value that is NaN, infinite or negative, or None."""
    fine = np.isfinite(values) & (values >= 0)
    return None if fine.all() else int(np.argmin(fine))


def value_rule(value: float) -> str:
    """Return the rule that a value violates."""
    if np.isnan(value):
        return "is NaN (missing)"
    return "is infinite" if np.isinf(value) else "is negative"


def assemble(pairs: CodedPairs, duplicates: Duplicates) -> Assembled:
    """Build the users × items matrix of coded pairs whose values are all positive and finite."""
    values, times = pairs.values, pairs.columns.get("timestamp")
    matrix = _sorted_matrix(pairs, values)
    unique = matrix.nnz == len(values)
    if times is None and (unique or duplicates == "sum"):
        return Assembled(matrix, None)
    if not unique and duplicates == "error":
        _refuse_first_duplicate(pairs)
    order, ends = _runs(pairs, times)
    data = _merged(values[order], ends, duplicates)
    parts = (data, matrix.indices, matrix.indptr)
    merged = sparse.csr_array(parts, shape=matrix.shape, copy=False)
    merged.has_canonical_format = True
    return Assembled(merged, None if times is None else times[order][ends])


def _sorted_matrix(pairs: CodedPairs, values: NDArray[np.floating[Any]]) -> sparse.csr_array:
    """Sum the values of equal pairs; two counting sorts, by item and then by user.

    SciPy's own conversion from pairs to rows sorts the entries of each row, which is slower.
    """
    item_user = (pairs.columns["item"], pairs.columns["user"])
    by_item = sparse.coo_array((values, item_user), (len(pairs.item_ids), len(pairs.user_ids)))
    by_item.has_canonical_format = True  # not true yet: duplicates are summed below
    matrix = by_item.tocsr().T.tocsr()
    matrix.sum_duplicates()
    return matrix


def _runs(
    pairs: CodedPairs, times: NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Sort by pair, then time, then input order; return that order and where each run ends."""
    users, items = pairs.columns["user"], pairs.columns["item"]
    key = users.astype(np.int64) * len(pairs.item_ids) + items
    order = np.argsort(key, kind="stable") if times is None else np.lexsort((times, key))
    ordered = key[order]
    ends = np.flatnonzero(np.append(ordered[1:] != ordered[:-1], True))
    return order, ends


def _merged(
    values: NDArray[np.floating[Any]], ends: NDArray[np.intp], duplicates: Duplicates
) -> NDArray[np.floating[Any]]:
    if len(values) == len(ends) or duplicates == "last":
        return values[ends]
    starts = np.append(0, ends[:-1] + 1)
    merge = np.maximum if duplicates == "max" else np.add
    return merge.reduceat(values, starts)


def _refuse_first_duplicate(pairs: CodedPairs) -> None:
    order, ends = _runs(pairs, None)
    repeats = np.delete(order, np.append(0, ends[:-1] + 1))
    first = repeats.min()
    user = show(pairs.user_ids[pairs.columns["user"][first]])
    item = show(pairs.item_ids[pairs.columns["item"][first]])
    source = f"{pairs.source}: " if pairs.source else ""
    raise InvalidDataError(
        f"{source}user {user} and item {item} occur together more than once (again in row {first}, "
        "counted from 0 and without rows of value 0), and duplicates='error' forbids it; "
        f"{len(repeats)} rows repeat a pair. Merge them with duplicates='sum', 'max' or "
        "'last'."
    )

"""From coded pairs to the canonical matrix: duplicates merged, bad values found."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from equipoise.data.identifiers import show
from equipoise.exceptions import InvalidDataError

Duplicates = Literal["sum", "last", "max", "error"]


class CodedPairs(NamedTuple):
    """One entry per interaction: code of its user, code of its item, value (and time)."""

    users: NDArray[np.int32]
    items: NDArray[np.int32]
    values: NDArray[np.floating[Any]]
    timestamps: NDArray[Any] | None
    user_ids: NDArray[Any]
    item_ids: NDArray[Any]
    # where the pairs were read, for error messages: a file, a query
    source: str = ""


class Assembled(NamedTuple):
    """A canonical CSR matrix and the times of its entries; both are read-only."""

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
    shape = (len(pairs.user_ids), len(pairs.item_ids))
    matrix = _sorted_matrix(pairs, shape)
    unique = matrix.nnz == len(pairs.values)
    if unique and pairs.timestamps is None:
        return Assembled(sealed(matrix), None)
    if not unique and duplicates == "sum" and pairs.timestamps is None:
        return Assembled(sealed(matrix), None)
    if not unique and duplicates == "error":
        _refuse_first_duplicate(pairs)
    order, ends = _runs(pairs, shape[1])
    data = _merged(pairs.values[order], ends, duplicates)
    times = None if pairs.timestamps is None else pairs.timestamps[order][ends]
    if times is not None:
        times.flags.writeable = False
    merged = sparse.csr_array((data, matrix.indices, matrix.indptr), shape=shape, copy=False)
    return Assembled(sealed(merged), times)


def _sorted_matrix(pairs: CodedPairs, shape: tuple[int, int]) -> sparse.csr_array:
    """Sum the values of equal pairs; two counting sorts, by item and then by user.

    SciPy's own conversion from pairs to rows sorts the entries of each row, which is slower.
    """
    by_item = sparse.coo_array((pairs.values, (pairs.items, pairs.users)), shape=shape[::-1])
    by_item.has_canonical_format = True  # not true yet: duplicates are summed below
    matrix = by_item.tocsr().T.tocsr()
    matrix.sum_duplicates()
    return matrix


def sealed(matrix: sparse.csr_array) -> sparse.csr_array:
    """Make a matrix of our own read-only: `Interactions` keeps such arrays without a copy."""
    for part in (matrix.data, matrix.indices, matrix.indptr):
        part.flags.writeable = False
    return matrix


def _runs(pairs: CodedPairs, n_items: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Sort by pair, then time, then input order; return that order and where each run ends."""
    key = pairs.users.astype(np.int64) * n_items + pairs.items
    if pairs.timestamps is None:
        order = np.argsort(key, kind="stable")
    else:
        order = np.lexsort((pairs.timestamps, key))
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
    order, ends = _runs(pairs._replace(timestamps=None), len(pairs.item_ids))
    repeats = np.ones(len(order), dtype=bool)
    repeats[np.append(0, ends[:-1] + 1)] = False
    first = order[repeats].min()
    user = show(pairs.user_ids[pairs.users[first]])
    item = show(pairs.item_ids[pairs.items[first]])
    source = f"{pairs.source}: " if pairs.source else ""
    raise InvalidDataError(
        f"{source}user {user} and item {item} occur together more than once (again in row {first}, "
        "counted from 0 and without rows of value 0), and duplicates='error' forbids it; "
        f"{int(repeats.sum())} rows repeat a pair. Merge them with duplicates='sum', 'max' or "
        "'last'."
    )

"""Checks of arguments, used by all packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeGuard

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from equipoise.exceptions import InvalidDataError, InvalidParameterError


def is_whole_number(value: object) -> TypeGuard[int]:
    """Whether a value is an integer, of Python or NumPy; True and False are not.

    Examples
    --------
    >>> is_whole_number(np.int32(3)), is_whole_number(3.0), is_whole_number(True)
    (True, False, False)
    """
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> None:
    """Refuse an argument that is not a whole number from `least` to `most`."""
    if not is_whole_number(value) or value < least or (most is not None and value > most):
        allowed = f"{least:,} or more" if most is None else f"from {least:,} to {most:,}"
        raise InvalidParameterError(f"{name}={value!r} must be a whole number, {allowed}.")


def check_choice(name: str, value: Any, choices: Iterable[Any]) -> None:
    """Refuse a name that is not one of the choices, and list them."""
    known = list(choices)
    if value not in known:
        raise InvalidParameterError(f"{name} must be one of {known}, got {value!r}.")


def check_unused(options: Mapping[str, Any], reason: str) -> None:
    """Refuse options that are given and have no effect: the caller expects one.

    Examples
    --------
    >>> check_unused({"query": None, "decimal": ","}, "cannot be used here. Leave it out.")
    Traceback (most recent call last):
    equipoise.exceptions.InvalidParameterError: decimal= cannot be used here. Leave it out.
    """
    unused = [f"{name}=" for name, value in options.items() if value is not None]
    if unused:
        raise InvalidParameterError(f"{', '.join(unused)} {reason}")


def check_share(value: float, name: str) -> float:
    """Refuse a share outside (0, 1)."""
    if not 0 < value < 1:
        raise InvalidParameterError(f"{name} must lie strictly between 0 and 1, got {value!r}.")
    return float(value)


def check_user_items(X: Any, name: str = "X") -> sp.csr_array:
    """Return X as a canonical CSR of its positive entries; the caller's arrays stay untouched.

    Negative, NaN and infinite entries are refused: the metrics read an entry as "how much".
    """
    if not sp.issparse(X):
        X = np.asarray(X)
        if X.ndim != 2:
            raise InvalidDataError(f"{name} must be a users × items matrix, got shape {X.shape}.")
    csr = sp.csr_array(X)
    if csr.dtype.kind not in "fiub":
        raise InvalidDataError(f"{name} must hold real numbers, got dtype {csr.dtype}.")
    if csr.dtype not in (np.float32, np.float64):
        csr = csr.astype(np.float64)
    if csr.nnz:
        _refuse_bad_entries(csr.data, name)
    if not csr.has_canonical_format or (csr.nnz and not csr.data.all()):
        csr = csr.copy()
        csr.sum_duplicates()
        csr.eliminate_zeros()
    return csr


def _refuse_bad_entries(data: NDArray[np.float64], name: str) -> None:
    # min and max carry NaN through, so two passes without a temporary array find all three
    smallest, largest = data.min(), data.max()
    if np.isnan(smallest) or np.isinf(largest):
        raise InvalidDataError(f"{name} has NaN or infinite entries. Remove or replace them first.")
    if smallest < 0:
        raise InvalidDataError(
            f"{name} must not be negative: its smallest entry is {smallest:g}. "
            "Shift or clip the values first."
        )


def check_same_shape(first: sp.csr_array, second: sp.csr_array, names: tuple[str, str]) -> None:
    """Refuse two users × items matrices of different shape."""
    if first.shape != second.shape:
        raise InvalidDataError(
            f"{names[0]} and {names[1]} must have the same users and items: "
            f"{first.shape} against {second.shape}."
        )


def check_matrix(values: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a finite two-dimensional float64 array."""
    matrix = np.asarray(values, dtype=np.float64)
    if matrix.ndim != 2:
        raise InvalidDataError(f"{name} must be a matrix, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise InvalidDataError(f"{name} has NaN or infinite entries. Was the model fitted?")
    return matrix


def check_item_vector(values: ArrayLike, n_items: int | None, name: str) -> NDArray[np.float64]:
    """Return one finite, non-negative number per item."""
    vector = np.asarray(values, dtype=np.float64)
    if vector.ndim != 1 or (n_items is not None and len(vector) != n_items):
        wanted = "one number per item" if n_items is None else f"{n_items} numbers, one per item"
        raise InvalidDataError(f"{name} must be {wanted}, got shape {vector.shape}.")
    if not np.isfinite(vector).all() or (vector < 0).any():
        raise InvalidDataError(f"{name} must be finite and not negative.")
    return vector


def check_ranks(ranks: Sequence[int] | NDArray[np.intp] | None, largest: int) -> NDArray[np.intp]:
    """Return the ranks asked for, or every rank 0, 1, ..., largest."""
    chosen = np.arange(largest + 1) if ranks is None else np.asarray(ranks)
    if not len(chosen.ravel()):
        raise InvalidParameterError("ranks must be a list of whole numbers, and it is empty.")
    return _positions(chosen, "ranks", largest)


def check_items(items: ArrayLike | None, n_items: int) -> NDArray[np.intp]:
    """Return the item indices asked for, or all of them."""
    return _positions(np.arange(n_items) if items is None else items, "items", n_items - 1)


def _positions(values: ArrayLike, name: str, largest: int) -> NDArray[np.intp]:
    chosen = np.asarray(values)
    is_list = chosen.ndim == 1 and chosen.dtype.kind in "iu"
    if not is_list or not ((chosen >= 0) & (chosen <= largest)).all():
        raise InvalidParameterError(
            f"{name} must be a list of whole numbers that lie between 0 and {largest}, got "
            f"{values!r}."
        )
    return chosen.astype(np.intp)


def check_top_items(
    top_items: ArrayLike, shape: tuple[int | None, int]
) -> NDArray[np.integer[Any]]:
    """Return n × k lists of item indices, -1 where a list is shorter than k.

    ``shape`` is (users, items); None for any number of users.
    """
    lists = np.asarray(top_items)
    if lists.ndim != 2 or lists.dtype.kind not in "iu":
        raise InvalidDataError(
            "top_items must be a users × k array of item indices (-1 pads a short list), "
            f"got shape {lists.shape} of dtype {lists.dtype}."
        )
    n_users, n_items = shape
    if n_users is not None and len(lists) != n_users:
        raise InvalidDataError(
            f"top_items has {len(lists)} rows for {n_users} users: one list per user is needed."
        )
    if lists.size and (lists.min() < -1 or lists.max() >= n_items):
        raise InvalidDataError(
            f"top_items must hold item indices from 0 to {n_items - 1}, or -1 for padding; "
            f"found {lists.min()} to {lists.max()}."
        )
    # unsigned and signed integers would meet as floats in index arithmetic
    return lists.astype(np.int64) if lists.dtype.kind == "u" else lists

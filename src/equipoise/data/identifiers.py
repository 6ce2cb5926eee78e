"""Ids of users and items: any scalar type, kept unchanged, looked up without a loop over rows.

Ids are 1-D NumPy arrays. Whole numbers, floats, booleans and dates keep their dtype; strings are
object arrays of `str`; everything else (UUIDs, decimals, mixed types) stays the object it was.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from contextlib import AbstractContextManager, suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError, UnknownIdError, explained
from equipoise.parallel import require_polars_threads

if TYPE_CHECKING:
    import polars as pl

# Kinds that NumPy sorts and compares by value: bool, int, unsigned, float, datetime, timedelta
_SORTABLE_KINDS = "biufMm"


class Factorized(NamedTuple):
    """Codes 0, 1, 2 … in order of first appearance, and the id behind each code."""

    codes: NDArray[np.int32]
    ids: NDArray[Any]


def as_id_array(values: Any, role: str) -> NDArray[Any]:
    """Return ids as a 1-D array of their own type; refuse missing ones.

    Parameters
    ----------
    values : array-like
        A list, NumPy array, pandas, polars or Arrow column.
    role : str
        ``"user"`` or ``"item"``: how an error names them.

    Examples
    --------
    >>> as_id_array(["b", "a"], "user")
    array(['b', 'a'], dtype=object)
    >>> as_id_array([3, 1], "item")
    array([3, 1])
    """
    refuse_unordered(values, f"{role} ids")
    ids = _flat_column(values, role)
    _refuse_missing(ids, role)
    return ids


def refuse_unordered(values: Any, what: str) -> None:
    """Refuse a set: its order, which pairs it with other columns, is arbitrary."""
    if isinstance(values, set | frozenset):
        raise InvalidDataError(
            f"{what} is a {type(values).__name__}, which has no order to match it with other "
            "columns. Give a list."
        )


def _flat_column(values: Any, role: str) -> NDArray[Any]:
    """Return ids as an array, missing ones included: to a lookup those are unknown."""
    alone = isinstance(values, str | bytes | np.generic) or not (
        isinstance(values, Iterable) or hasattr(values, "__array__")
    )
    if alone:
        raise InvalidDataError(
            f"{role} ids must be one flat column; got the single value {show(values)}. "
            f"Put it in a list: [{show(values)}]."
        )
    ids = _to_numpy(values)
    if ids.ndim != 1:
        raise InvalidDataError(
            f"{role} ids must be one flat column; these have {ids.ndim} dimensions. "
            f"Give one id per {role}."
        )
    if ids.dtype.kind not in _SORTABLE_KINDS + "O":
        raise InvalidDataError(
            f"{role} ids of type {ids.dtype} are not scalars equipoise can compare. "
            "Use whole numbers, strings or dates."
        )
    return ids


def _to_numpy(values: Any) -> NDArray[Any]:
    """Return an array without turning numbers into text: [1, 'a'] stays a mixed object array."""
    if isinstance(values, np.ma.MaskedArray):
        values = values.filled(np.nan) if values.mask.any() else values.data
    if not isinstance(values, np.ndarray) and not hasattr(values, "__array__"):
        values = list(values)
        if any(isinstance(value, str | bytes) for value in values):
            return _objects(values)
        # NumPy turns [2**63, 5] and [2**53 + 1, 0.5] into floats, and floats of this size merge
        limit = 2**53 if any(isinstance(value, float) for value in values) else 2**63 - 1
        if any(isinstance(value, int) and not -limit <= value <= limit for value in values):
            return _objects(values)
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):  # e.g. lists of different lengths
        return _objects(list(values))
    return array if array.dtype.kind in _SORTABLE_KINDS + "V" else _objects(array.tolist(), array)


def _objects(values: list[Any], shaped: NDArray[Any] | None = None) -> NDArray[Any]:
    """Return a plain object array; NumPy scalars become Python objects."""
    if shaped is not None and shaped.ndim != 1:
        return shaped.astype(object)
    dates = dates_of(values)
    if dates is not None:
        return dates
    array = np.empty(len(values), dtype=object)
    array[:] = [_plain(value) for value in values]
    return array


def dates_of(values: list[Any]) -> NDArray[Any] | None:
    """Return Python dates, or times without a zone, as datetime64; None if they are not all so."""
    kinds = set(map(type, values))
    if kinds == {dt.date}:
        return np.array(values, dtype="datetime64[D]")
    if kinds == {dt.datetime} and all(value.tzinfo is None for value in values):
        return np.array(values, dtype="datetime64[us]")
    return None


def _plain(value: Any) -> Any:
    """Return the Python scalar of a NumPy one; dates stay, for `.item()` drops their unit."""
    is_date = isinstance(value, np.datetime64 | np.timedelta64)
    return value.item() if isinstance(value, np.generic) and not is_date else value


def as_column(ids: NDArray[Any]) -> pl.Series:
    """Return ids or times as a column of one type, the same for every block; mixed as text."""
    import polars as pl

    if ids.dtype.kind in "mM" and np.datetime_data(ids.dtype)[0] in ("s", "m", "h", "W", "M", "Y"):
        ids = ids.astype(f"{ids.dtype.kind}8[us]")  # polars has no such units
    if ids.dtype.kind != "O":
        return pl.Series(ids)
    return pl.Series([str(value) for value in ids], dtype=pl.String)


def show(value: Any) -> str:
    """Return an id as an error should print it: 5 and not np.int64(5).

    Examples
    --------
    >>> show(np.int64(5)), show("a"), show(np.datetime64("2020-01-02"))
    ('5', "'a'", '2020-01-02')
    """
    value = _plain(value)
    return str(value) if isinstance(value, np.generic) else repr(value)


def _refuse_missing(ids: NDArray[Any], role: str) -> None:
    missing = missing_at(ids)
    if missing is not None:
        raise InvalidDataError(
            f"{role} id number {missing} (counted from 0) is missing ({show(ids[missing])}): every "
            f"interaction needs {'an' if role == 'item' else 'a'} {role}. Drop or fill such rows "
            "first."
        )


def missing_at(ids: NDArray[Any]) -> int | None:
    """Return the position of the first null, NaN or NaT, or None."""
    if ids.dtype.kind in "fMm":
        mask = np.isnan(ids)
    elif ids.dtype.kind == "O":
        if _types(ids) <= {str, int, bytes}:
            return None
        mask = np.fromiter((is_missing(value) for value in ids), bool, len(ids))
    else:
        return None
    return int(np.argmax(mask)) if mask.any() else None


def _types(ids: NDArray[Any]) -> set[type]:
    return set(map(type, ids))


def is_missing(value: Any) -> bool:
    """Whether a value is None, NaN or a missing value of pandas."""
    # pandas.NA and NaT are detected by name: comparing NA raises, and pandas may not be installed
    if value is None or type(value).__name__ in {"NAType", "NaTType"}:
        return True
    return isinstance(value, float | complex) and value != value


def factorize(values: NDArray[Any], role: str) -> Factorized:
    """Give each distinct id a code, in order of first appearance.

    Examples
    --------
    >>> factorize(np.array([7, 3, 7, 9]), "user")
    Factorized(codes=array([0, 1, 0, 2], dtype=int32), ids=array([7, 3, 9]))
    """
    from equipoise.data.readers.ids import ColumnVocabulary, ObjectVocabulary, Vocabulary

    ids = as_id_array(values, role)
    vocabulary: Vocabulary = ObjectVocabulary(role)
    column: Any = ids
    if ids.dtype.kind in "iu" or (ids.dtype.kind == "O" and _types(ids) == {str}):
        import polars as pl

        require_polars_threads()
        # polars does not accept half of a surrogate pair as text
        with suppress(UnicodeEncodeError):
            column = pl.Series(ids, dtype=pl.String if ids.dtype.kind == "O" else None)
            vocabulary = ColumnVocabulary(role)
    codes = vocabulary.encode(column)
    distinct = vocabulary.ids()
    return Factorized(codes, distinct if distinct.dtype.kind == "O" else distinct.astype(ids.dtype))


def hashable(role: str) -> AbstractContextManager[None]:
    """Refuse ids that cannot be hashed; NumPy raises ValueError for some of them."""
    problem = f"{role} ids must be hashable scalars: use whole numbers, strings or dates"
    return explained(problem, TypeError, ValueError)


class Lookup:
    """The position of each id in a vocabulary; built once, used often."""

    def __init__(self, vocabulary: NDArray[Any], role: str) -> None:
        self.ids = vocabulary
        self._role = role
        self._by_hash = vocabulary.dtype.kind == "O"
        if not self._by_hash:
            self._order = np.argsort(vocabulary, kind="stable")
            self._sorted = vocabulary[self._order]

    @cached_property
    def _position(self) -> dict[Any, int]:
        return dict(zip(self.ids.tolist(), range(len(self.ids)), strict=True))

    @property
    def has_duplicates(self) -> bool:
        """Whether an id is there twice."""
        if self._by_hash:
            return len(self._position) < len(self.ids)
        return bool((self._sorted[1:] == self._sorted[:-1]).any())

    def find(self, ids: Any) -> NDArray[np.intp]:
        """Return positions, -1 for an id that is not there."""
        if self._by_hash and type(ids) is list and set(map(type, ids)) == {str}:
            # a request: converting and checking its few ids takes several times longer
            return np.array([self._position.get(i, -1) for i in ids], np.intp)
        asked = _flat_column(ids, self._role)
        # NumPy compares integers with floats as floats, and 2**53 + 1 then equals 2.0**53; Python
        # compares exactly. Mixtures such as [10, None] are looked up in the same way.
        kinds = {asked.dtype.kind, self.ids.dtype.kind}
        if self._by_hash or (len(kinds) == 2 and kinds <= set("biufO")):
            values = (
                asked.tolist() if asked.dtype.kind in "biuf" else asked
            )  # dates keep their unit
            return np.fromiter((self._position.get(i, -1) for i in values), np.intp, len(asked))
        if not _comparable(asked.dtype, self.ids.dtype):
            return np.full(len(asked), -1, dtype=np.intp)
        slot = np.minimum(np.searchsorted(self._sorted, asked), len(self._sorted) - 1)
        return np.where(self._sorted[slot] == asked, self._order[slot], -1)

    def require(self, ids: Any) -> NDArray[np.intp]:
        """Return positions; refuse ids that are not there, naming a few."""
        positions = self.find(ids)
        if (positions < 0).any():
            unknown = _flat_column(ids, self._role)[positions < 0]
            raise UnknownIdError(self._complaint(unknown))
        return positions

    def _complaint(self, unknown: NDArray[Any]) -> str:
        known = ", ".join(map(show, self.ids[:3]))
        return (
            f"{len(unknown)} unknown {self._role} id(s): {name_a_few(unknown)}. The "
            f"{len(self.ids)} {self._role}s here look like {known} "
            f"({_kind_name(self.ids)}); ids must match in type and spelling."
        )


def _comparable(asked: np.dtype[Any], known: np.dtype[Any]) -> bool:
    if asked.kind in "Mm" or known.kind in "Mm":
        return asked.kind == known.kind
    return asked.kind != "O"


def _kind_name(ids: NDArray[Any]) -> str:
    return type(ids[0]).__name__ if ids.dtype.kind == "O" and len(ids) else str(ids.dtype)


def name_a_few(ids: Iterable[Any], limit: int = 5) -> str:
    """Return the first few ids as text, with an ellipsis if there are more.

    Examples
    --------
    >>> name_a_few(np.arange(9))
    '0, 1, 2, 3, 4, ...'
    """
    values = list(islice(ids, limit + 1))
    return ", ".join(map(show, values[:limit])) + (", ..." if len(values) > limit else "")


def duplicate_at(ids: NDArray[Any], role: str) -> int | None:
    """Return the position of the first id that repeats an earlier one, or None.

    Examples
    --------
    >>> duplicate_at(np.array([4, 9, 4]), "user")
    2
    """
    with hashable(role):
        if not Lookup(ids, role).has_duplicates:
            return None
    seen: set[Any] = set()
    for position, value in enumerate(ids.tolist()):
        if value in seen:
            return position
        seen.add(value)
    return None

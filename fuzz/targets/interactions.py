"""The constructors of `Interactions`: accepted input equals what a dictionary contains."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
from scipy import sparse

from equipoise.data import Interactions
from fuzz.choices import Choices
from fuzz.target import Mismatch, Target

_ODD_IDS: tuple[Any, ...] = (
    None, math.nan, 0, -1, 1, 1.0, True, "1", "", b"1", 2**63, -(2**63), 2**64, 10**30,
    Decimal("1.5"), dt.date(2020, 1, 2), dt.datetime(2020, 1, 2), uuid.UUID(int=7), (1, 2), [1],
    {1}, np.int8(3), np.float32(0.5), np.str_("x"), np.datetime64("NaT"), np.datetime64("2020"),
    np.timedelta64(5), pd.NA, pd.NaT, 1j, "\ud800", "a\0b", object, math.inf,
)  # fmt: skip
_ODD_VALUES: tuple[Any, ...] = (
    0, -0.0, 1, 2.5, -1, math.nan, math.inf, 1e308, 5e-324, None, "3", "x", True, 2**64, 1j,
    Decimal(2), np.float32(1), [1], 10**400,
)  # fmt: skip
_KINDS = ("i1", "u1", "i4", "u8", "f2", "f4", "f8", "?", "c8", "U2", "O", "M8[D]", "m8[s]", "g")
_FORMATS = ("csr", "csc", "coo", "lil", "dok", "dia", "bsr")
_POLICIES = ("sum", "last", "max", "error", "mean", "")


def seeds() -> list[bytes]:
    """Random decisions: all are calls."""
    return [Random(k).randbytes(8 + k) for k in range(40)]


def mutate(random: Random, content: bytes) -> bytes:
    """Take other decisions, all or a few."""
    if random.random() < 0.5:
        return random.randbytes(random.randrange(4, 60))
    changed = bytearray(content or b"\0")
    for _ in range(random.choice((1, 2, 3))):
        changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def call(content: bytes, folder: Path) -> None:  # noqa: ARG001
    """Call one of the constructors."""
    choices = Choices(content)
    choices.one((_pairs, _pairs, _sparse, _table, _parts))(choices)


def _column(choices: Choices, odd: tuple[Any, ...], length: int) -> Any:
    plain = choices.yes(150)
    values = [
        choices.below(4) if plain or not choices.yes(90) else choices.one(odd)
        for _ in range(length)
    ]
    if choices.yes(60):
        try:
            return np.array(values, dtype=choices.one(_KINDS))
        except (TypeError, ValueError, OverflowError):
            return values
    as_columns = (list, tuple, pd.Series, _object_array, np.ma.masked_array, iter)
    try:
        return choices.one(as_columns)(values) if choices.yes(60) else values  # type: ignore[operator]
    except (TypeError, ValueError, OverflowError):
        return values


def _object_array(values: list[Any]) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _length(choices: Choices, usual: int) -> int:
    return choices.below(6) if choices.yes(16) else usual


def _pairs(choices: Choices) -> None:
    length = choices.below(7)
    users = _column(choices, _ODD_IDS, length)
    items = _column(choices, _ODD_IDS, _length(choices, length))
    values = _column(choices, _ODD_VALUES, _length(choices, length)) if choices.yes() else None
    times = _column(choices, _ODD_IDS, _length(choices, length)) if choices.yes(60) else None
    kept = [None if x is None else list(x) if not hasattr(x, "__next__") else None
            for x in (users, items, values)]  # fmt: skip
    policy: Any = choices.one(_POLICIES)
    data = Interactions.from_pairs(users, items, values, times, policy)
    _check(data)
    if kept[0] is not None and kept[1] is not None and (values is None or kept[2] is not None):
        _compare_pairs(data, kept[0], kept[1], kept[2], policy, timed=times is not None)


def _compare_pairs(
    data: Interactions, users: list[Any], items: list[Any], values: list[Any] | None, policy: str,
    *, timed: bool,
) -> None:  # fmt: skip
    amounts = [1.0] * len(users) if values is None else [float(value) for value in values]
    expected: dict[tuple[Any, Any], float] = {}
    for user, item, value in zip(map(_key, users), map(_key, items), amounts, strict=True):
        if value > 0:
            old, key = expected.get((user, item)), (user, item)
            merged = {"sum": (old or 0) + value, "max": max(old or 0, value), "last": value}
            expected[key] = value if old is None else merged[policy]
    if len(expected) != data.nnz:
        raise Mismatch(f"{data.nnz} interactions, a dictionary holds {len(expected)}")
    if policy == "last" and timed:
        return
    if not np.allclose(np.sort(data.matrix.data), sorted(expected.values()), rtol=1e-12):
        raise Mismatch(f"{np.sort(data.matrix.data)} is not {sorted(expected.values())}")


def _key(value: Any) -> Any:
    # NumPy does not hash a time span without a unit
    return str(value) if isinstance(value, np.timedelta64) else value


def _sparse(choices: Choices) -> None:
    n, m, nnz = choices.below(5), choices.below(5), choices.below(8)
    values = np.array([choices.below(4) for _ in range(nnz)], dtype=float)
    if nnz and choices.yes(40):
        odd = choices.one((math.nan, math.inf, -1.0, 1e308, 5e-324))
        values[choices.below(nnz)] = odd
    rows = np.array([choices.below(max(n, 1)) for _ in range(nnz)], dtype=int)
    columns = np.array([choices.below(max(m, 1)) for _ in range(nnz)], dtype=int)
    try:
        X = sparse.coo_array((values, (rows, columns)), shape=(n, m))
        X = X.astype(choices.one(_KINDS[:9])) if choices.yes(60) else X
        X = X.asformat(choices.one(_FORMATS)) if choices.yes() else X
    except (TypeError, ValueError):
        return
    users = _column(choices, _ODD_IDS, _length(choices, n)) if choices.yes(60) else None
    names = _column(choices, _ODD_IDS, _length(choices, m)) if choices.yes(30) else None
    dense = X.toarray()
    data = Interactions.from_sparse(X, users, None, names, choices.one(_POLICIES))
    _check(data)
    if data.matrix.shape != X.shape or (
        X.format != "coo"
        and not np.array_equal(data.matrix.toarray(), dense.astype(data.matrix.dtype))
    ):
        raise Mismatch("the matrix has changed")


def _table(choices: Choices) -> None:
    length = choices.below(6)
    names = ("user", "item", "value", "timestamp", "user", "rating", "", "x")
    columns = {
        choices.one(names) if choices.yes(30) else name: list(_column(choices, odd, length))
        for name, odd in (("user", _ODD_IDS), ("item", _ODD_IDS), ("value", _ODD_VALUES))
    }
    try:
        frame = pd.DataFrame(columns) if choices.yes() else pl.DataFrame(columns, strict=False)
    except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):
        return
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # polars', before we see the table
            return
        raise
    _check(Interactions.read(frame, duplicates=choices.one(("sum", "max", "last"))))


def _parts(choices: Choices) -> None:
    n, m = choices.below(4), choices.below(4)
    dense = np.array([[choices.below(3) for _ in range(m)] for _ in range(n)], dtype=float)
    X = sparse.csr_array(dense.reshape(n, m))
    data = Interactions(
        X,
        _column(choices, _ODD_IDS, _length(choices, n)),
        _column(choices, _ODD_IDS, _length(choices, m)),
        _column(choices, _ODD_IDS, _length(choices, m)) if choices.yes(40) else None,
        _column(choices, _ODD_IDS, _length(choices, X.nnz)) if choices.yes(40) else None,
    )
    _check(data)
    if not np.array_equal(data.matrix.toarray(), dense):
        raise Mismatch("the matrix has changed")


def _check(data: Interactions) -> None:
    """Check the rules of the data, and use the data once."""
    matrix = data.matrix
    sound = np.all(np.isfinite(matrix.data)) and np.all(matrix.data > 0)
    if not sound or not matrix.has_canonical_format or matrix.shape != data.shape:
        raise Mismatch("the matrix breaks the rules of Interactions")
    if data != data or len(data.fingerprint()) != 64:
        raise Mismatch("the data are not equal to themselves")
    np.testing.assert_array_equal(data.user_index(data.user_ids), np.arange(data.n_users))
    np.testing.assert_array_equal(data.item_index(data.item_ids), np.arange(data.n_items))


TARGET = Target("interactions", call, seeds, mutate=mutate)

"""Equality of content: the bytes that a fingerprint is taken of."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse


def fingerprint(matrix: sparse.csr_array, user_ids: NDArray[Any], item_ids: NDArray[Any]) -> str:
    """Return the SHA-256 of a canonical matrix and the ids of its rows and columns.

    Index width and byte order do not count; the type of the values and of the ids does.
    """
    digest = hashlib.sha256(f"{matrix.shape} {matrix.dtype.name}".encode())
    for part in (matrix.indptr, matrix.indices):
        digest.update(part.astype("<i8").tobytes())
    digest.update(_little_endian(matrix.data))
    for ids in (user_ids, item_ids):
        digest.update(_id_bytes(ids))
    return digest.hexdigest()


def same_optional(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    """Tell whether both are absent, or both there and equal."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _little_endian(values: NDArray[Any]) -> bytes:
    return values.astype(values.dtype.newbyteorder("<"), copy=False).tobytes()


def _id_bytes(ids: NDArray[Any]) -> bytes:
    if ids.dtype.kind != "O":
        return f"\n{ids.dtype.name}\n".encode() + _little_endian(ids)
    # repr keeps 1 and "1" apart; "\n" cannot occur in the repr of a str
    return ("\nobject\n" + "\n".join(map(repr, ids))).encode()

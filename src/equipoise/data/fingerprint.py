"""Fingerprints: equal data have equal text, on every machine and backend."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray


def fingerprint(
    shape: tuple[int, int],
    dtype: np.dtype[Any],
    row_digests: NDArray[np.void],
    user_ids: NDArray[Any],
    item_ids: NDArray[Any],
) -> str:
    """Return the SHA-256 of the hashes of all rows and the ids of rows and columns.

    Index width and byte order do not count; the type of the values and of the ids does.
    """
    digest = hashlib.sha256(f"{shape} {dtype.name}".encode())
    digest.update(row_digests.tobytes())
    for ids in (user_ids, item_ids):
        digest.update(_id_bytes(ids))
    return digest.hexdigest()


def same_optional(one: NDArray[Any] | None, other: NDArray[Any] | None) -> bool:
    """Whether both are None, or both are equal arrays."""
    if one is None or other is None:
        return one is other
    return np.array_equal(one, other)


def _id_bytes(ids: NDArray[Any]) -> bytes:
    if ids.dtype.kind != "O":
        little = ids.astype(ids.dtype.newbyteorder("<"), copy=False)
        return f"\n{ids.dtype.name}\n".encode() + little.tobytes()
    # repr keeps 1 and "1" apart; "\n" cannot occur in the repr of a str
    return ("\nobject\n" + "\n".join(map(repr, ids))).encode()

"""Rows that training has seen, found again by a digest of their items."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

# 16 bytes: among a billion rows the odds that two differ and share a digest are one in 10²⁰.
_BYTES = 16

Digests = NDArray[np.uint64]


class KnownRows(NamedTuple):
    """One embedding for each distinct row of the training data.

    Attributes
    ----------
    digests : ndarray of uint64, shape (n, 2)
        In ascending order of their bytes.
    embeddings : ndarray, shape (n, r)
        The user's; the mean of theirs where several users have the very same row.
    """

    digests: Digests
    embeddings: NDArray[Any]


def digest_rows(user_items: sp.csr_array) -> Digests:
    """Hash the set of items of each row of a canonical matrix; values do not count.

    Examples
    --------
    >>> a, b, c = digest_rows(sp.csr_array([[1, 0, 2], [5, 0, 1], [1, 0, 0]]))
    >>> bool((a == b).all()), bool((a == c).all())
    (True, False)
    """
    items = user_items.indices.astype("<i8")
    hashes = [
        hashlib.blake2b(items[start:end].data, digest_size=_BYTES).digest()
        for start, end in pairwise(user_items.indptr.tolist())
    ]
    return np.frombuffer(b"".join(hashes), dtype="<u8").reshape(-1, 2).astype(np.uint64)


def know(user_items: sp.csr_array, embeddings: NDArray[Any]) -> KnownRows:
    """Keep one embedding for each distinct row; rows without items are nobody's."""
    touched = np.flatnonzero(np.diff(user_items.indptr))
    digests = digest_rows(user_items)[touched]
    names, first, group = np.unique(_as_bytes(digests), return_index=True, return_inverse=True)
    sums = np.zeros((len(names), embeddings.shape[1]))
    np.add.at(sums, group, embeddings[touched])
    means = sums / np.bincount(group, minlength=len(names))[:, None]
    return KnownRows(digests[first], means.astype(embeddings.dtype))


def find(known: Digests, wanted: Digests) -> NDArray[np.intp]:
    """Where each digest stands among the known ones; −1 where it does not."""
    names, asked = _as_bytes(known), _as_bytes(wanted)
    at = np.minimum(np.searchsorted(names, asked), len(names) - 1)
    return np.where(names[at] == asked, at, -1)


def _as_bytes(digests: Digests) -> NDArray[np.bytes_]:
    little = np.ascontiguousarray(digests.astype("<u8"))
    named: NDArray[np.bytes_] = little.view(f"S{_BYTES}").ravel()
    return named

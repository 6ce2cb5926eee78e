"""The graph of users and items, in NumPy: propagation, hold-out, negative sampling, known rows.

Users and items are nodes; each interaction is an edge. With R the 0/1 matrix and D_u, D_i the
degrees, one layer of LightGCN is the product with

    Ã = [[0, B], [Bᵀ, 0]],    B = D_u^−½ R D_i^−½.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError
from equipoise.models.user_rows import invert, normalize_degrees

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


# Relative to the mean eigenvalue: avoids a division by zero along directions without data.
_RIDGE = 1e-3


class ItemLayers(NamedTuple):
    """Item embeddings after propagation.

    Attributes
    ----------
    mean : ndarray, shape (n_items, r)
        (v⁽⁰⁾ + … + v⁽ᴷ⁾) / (K + 1): the items' final embeddings.
    messages : ndarray, shape (n_items, r)
        d^−½ (v⁽⁰⁾ + … + v⁽ᴷ⁻¹⁾) / (K + 1): what an item contributes to each of its users, before
        the user's own d^−½.
    """

    mean: NDArray[np.float64]
    messages: NDArray[np.float64]


def normalized(user_items: sp.csr_array) -> sp.csr_array:
    """B = D_u^−½ R D_i^−½ of the 0/1 matrix R; every stored entry is an edge."""
    parts = (np.ones(user_items.nnz), user_items.indices, user_items.indptr)
    return normalize_degrees(sp.csr_array(parts, shape=user_items.shape))


def adjacency(B: sp.csr_array) -> sp.csr_array:
    """Ã over users, then items."""
    whole = sp.csr_array(sp.block_array([[None, B], [B.T, None]], format="csr"))
    whole.sort_indices()
    return whole


def propagate_items(B: sp.csr_array, weights: Floats, n_layers: int) -> ItemLayers:
    """Propagate layer-0 embeddings of all nodes; return those of the items.

    Parameters
    ----------
    B : csr_array of shape (n_users, n_items)
        The result of `normalized`.
    weights : ndarray, shape (n_users + n_items, r)
        Layer 0: users, then items.
    n_layers : int
        K.
    """
    n_users, n_items = B.shape
    users, items = weights[:n_users], weights[n_users:].astype(np.float64)
    passed = np.zeros_like(items)
    for _ in range(n_layers):
        passed += items
        users, items = B @ items, B.T @ users
    own = invert(np.sqrt(np.bincount(B.indices, minlength=n_items)))[:, None]
    return ItemLayers((passed + items) / (n_layers + 1), own * passed / (n_layers + 1))


def user_shares(user_items: sp.csr_array) -> sp.csr_array:
    """Return the rows with the value d_u^−½ at each of their items."""
    counts = np.diff(user_items.indptr)
    parts = (np.repeat(invert(np.sqrt(counts)), counts), user_items.indices, user_items.indptr)
    return sp.csr_array(parts, shape=user_items.shape)


def linear_map(features: Floats, targets: Floats) -> NDArray[np.float64]:
    """M = argmin ‖F M − T‖² + ε ‖M‖², with a slight ridge ε relative to FᵀF."""
    gram = features.T @ features
    ridge = _RIDGE * np.trace(gram) / len(gram)
    return np.linalg.solve(gram + ridge * np.eye(len(gram)), features.T @ targets)


def hold_out(user_items: sp.csr_array, share: float, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Mark ⌊share · k⌋ of the k entries of every user, drawn at random.

    Examples
    --------
    >>> marked = hold_out(sp.csr_array(np.ones((1, 10))), 0.2, np.random.default_rng(0))
    >>> int(marked.sum())
    2
    """
    counts = np.diff(user_items.indptr)
    users = np.repeat(np.arange(len(counts)), counts)
    order = np.lexsort((rng.random(user_items.nnz), users))
    place = np.empty(user_items.nnz, dtype=np.int64)
    place[order] = np.arange(user_items.nnz) - np.repeat(user_items.indptr[:-1], counts)
    return place < np.floor(share * counts)[users]


def keep(user_items: sp.csr_array, kept: NDArray[np.bool_]) -> sp.csr_array:
    """Return the marked entries, with the same users and items."""
    ends = np.concatenate([[0], np.cumsum(kept)])[user_items.indptr]
    parts = (np.ones(int(ends[-1])), user_items.indices[kept], ends)
    return sp.csr_array(parts, shape=user_items.shape)


class Pairs:
    """Training edges, and negative items for them.

    Parameters
    ----------
    user_items : csr_array
        In canonical form. Users with every item have no negative item: their edges are omitted.
    """

    def __init__(self, user_items: sp.csr_array) -> None:
        n_users, self.n_items = user_items.shape
        counts = np.diff(user_items.indptr)
        every = np.repeat(np.arange(n_users, dtype=np.int64), counts)
        usable = (counts < self.n_items)[every]
        self.users: Integers = every[usable]
        self.items: Integers = user_items.indices[usable].astype(np.int64)
        # ascending, as rows and columns are: searched by bisection
        self._edges: Integers = self.users * self.n_items + self.items
        if len(self.users) == 0:
            raise InvalidDataError(
                "LightGCN compares an item of each user with one that the user does not have, and "
                "every user with interactions has every item. Pass data with items left to "
                "recommend."
            )

    def __len__(self) -> int:
        return len(self.users)

    def negatives(self, users: Integers, rng: np.random.Generator) -> Integers:
        """Draw one item per user, uniformly among those that the user does not have."""
        drawn = rng.integers(self.n_items, size=len(users))
        again = np.flatnonzero(self._has(users, drawn))
        while len(again):
            drawn[again] = rng.integers(self.n_items, size=len(again))
            again = again[self._has(users[again], drawn[again])]
        return drawn

    def _has(self, users: Integers, items: Integers) -> NDArray[np.bool_]:
        wanted = users * self.n_items + items
        at = np.minimum(np.searchsorted(self._edges, wanted), len(self._edges) - 1)
        return self._edges[at] == wanted


class KnownRows(NamedTuple):
    """One embedding for each distinct row of the training data.

    Attributes
    ----------
    hashes : ndarray of uint64, shape (n,)
        Ascending; see `hash_rows`.
    embeddings : ndarray, shape (n, r)
        Mean over the users who have exactly this row.
    """

    hashes: NDArray[np.uint64]
    embeddings: Floats

    @classmethod
    def of(cls, user_items: sp.csr_array, embeddings: Floats) -> KnownRows:
        """Keep one embedding for each distinct row; empty rows are left out."""
        filled = np.flatnonzero(np.diff(user_items.indptr))
        hashes, group = np.unique(hash_rows(user_items)[filled], return_inverse=True)
        sums = np.zeros((len(hashes), embeddings.shape[1]))
        np.add.at(sums, group, embeddings[filled])
        means = sums / np.bincount(group, minlength=len(hashes))[:, None]
        return cls(hashes, means.astype(embeddings.dtype))

    def find(self, user_items: sp.csr_array) -> NDArray[np.intp]:
        """Return the position of each row among the known ones; −1 if it is not known."""
        wanted = hash_rows(user_items)
        at = np.minimum(np.searchsorted(self.hashes, wanted), len(self.hashes) - 1)
        return np.where(self.hashes[at] == wanted, at, -1)


def hash_rows(user_items: sp.csr_array) -> NDArray[np.uint64]:
    """Hash the set of items of each row of a canonical matrix; values are ignored.

    64 bits: among 100 million rows, two different ones share a hash with probability 0.0003.

    Examples
    --------
    >>> a, b, c = hash_rows(sp.csr_array([[1, 0, 2], [5, 0, 1], [1, 0, 0]]))
    >>> bool(a == b), bool(a == c)
    (True, False)
    """
    items = user_items.indices.astype("<i8")
    hashes = [
        hashlib.blake2b(items[start:end].data, digest_size=8).digest()
        for start, end in pairwise(user_items.indptr.tolist())
    ]
    return np.frombuffer(b"".join(hashes), dtype="<u8").astype(np.uint64)

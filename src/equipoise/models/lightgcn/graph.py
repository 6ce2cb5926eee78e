"""The graph of users and items, in NumPy alone: degrees, propagation, hold-out, negatives.

Users and items are the nodes, a row of the data the edges of a user. With R the 0/1 matrix and
D_u, D_i the degrees, one layer of LightGCN is the product with

    Ã = [[0, B], [Bᵀ, 0]],    B = D_u^−½ R D_i^−½.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.exceptions import InvalidDataError
from equipoise.models.degrees import degree_normalized, inverse

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.int64]


# In parts of the mean eigenvalue: keeps directions that no row has from being divided by zero.
_RIDGE = 1e-3


class ItemLayers(NamedTuple):
    """What propagation leaves of the items' side.

    Attributes
    ----------
    mean : ndarray, shape (n_items, r)
        (v⁽⁰⁾ + … + v⁽ᴷ⁾) / (K + 1): the items' final embeddings.
    messages : ndarray, shape (n_items, r)
        d^−½ (v⁽⁰⁾ + … + v⁽ᴷ⁻¹⁾) / (K + 1): what an item passes on to each of its users, before
        the user's own d^−½.
    """

    mean: NDArray[np.float64]
    messages: NDArray[np.float64]


def normalized(user_items: sp.csr_array) -> sp.csr_array:
    """B = D_u^−½ R D_i^−½ of the 0/1 matrix R; every stored entry is an edge."""
    parts = (np.ones(user_items.nnz), user_items.indices, user_items.indptr)
    return degree_normalized(sp.csr_array(parts, shape=user_items.shape))


def adjacency(B: sp.csr_array) -> sp.csr_array:
    """Ã over users, then items."""
    whole = sp.csr_array(sp.block_array([[None, B], [B.T, None]], format="csr"))
    whole.sort_indices()
    return whole


def propagate_items(B: sp.csr_array, weights: Floats, n_layers: int) -> ItemLayers:
    """Carry layer-0 embeddings of all nodes through the graph; keep the items' side.

    Parameters
    ----------
    B : csr_array of shape (n_users, n_items)
        What `normalized` returned.
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
    own = inverse(np.sqrt(np.bincount(B.indices, minlength=n_items)))[:, None]
    return ItemLayers((passed + items) / (n_layers + 1), own * passed / (n_layers + 1))


def user_shares(user_items: sp.csr_array) -> sp.csr_array:
    """The rows with d_u^−½ at each of their items."""
    counts = np.diff(user_items.indptr)
    parts = (np.repeat(inverse(np.sqrt(counts)), counts), user_items.indices, user_items.indptr)
    return sp.csr_array(parts, shape=user_items.shape)


def linear_map(features: Floats, targets: Floats) -> NDArray[np.float64]:
    """M = argmin ‖F M − T‖² + ε ‖M‖², with a slight ridge ε relative to FᵀF."""
    gram = features.T @ features
    ridge = _RIDGE * np.trace(gram) / len(gram)
    solution: NDArray[np.float64] = np.linalg.solve(
        gram + ridge * np.eye(len(gram)), features.T @ targets
    )
    return solution


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
    marked: NDArray[np.bool_] = place < np.floor(share * counts)[users]
    return marked


def keep(user_items: sp.csr_array, kept: NDArray[np.bool_]) -> sp.csr_array:
    """The entries marked, over the same users and items."""
    ends = np.concatenate([[0], np.cumsum(kept)])[user_items.indptr]
    parts = (np.ones(int(ends[-1])), user_items.indices[kept], ends)
    return sp.csr_array(parts, shape=user_items.shape)


class Pairs:
    """Edges to learn from, each with an item that the user has not touched.

    Parameters
    ----------
    user_items : csr_array
        In canonical form. Users who touched every item have no other to compare with: their
        edges are left out.
    """

    def __init__(self, user_items: sp.csr_array) -> None:
        n_users, self.n_items = user_items.shape
        counts = np.diff(user_items.indptr)
        every = np.repeat(np.arange(n_users, dtype=np.int64), counts)
        usable = (counts < self.n_items)[every]
        self.users: Integers = every[usable]
        self.items: Integers = user_items.indices[usable].astype(np.int64)
        # ascending, because rows and the columns within them are: a set to search in
        self._edges: Integers = self.users * self.n_items + self.items
        if len(self.users) == 0:
            raise InvalidDataError(
                "LightGCN learns by comparing an item that a user touched with one that they did "
                "not, and every user with interactions touched every item. "
                "Pass users × items with something left to recommend."
            )

    def __len__(self) -> int:
        return len(self.users)

    def negatives(self, users: Integers, rng: np.random.Generator) -> Integers:
        """Draw one item for each user, uniformly among those that the user has not touched."""
        drawn = rng.integers(self.n_items, size=len(users))
        touched = np.flatnonzero(self._touched(users, drawn))
        while len(touched):
            drawn[touched] = rng.integers(self.n_items, size=len(touched))
            touched = touched[self._touched(users[touched], drawn[touched])]
        return drawn

    def _touched(self, users: Integers, items: Integers) -> NDArray[np.bool_]:
        wanted = users * self.n_items + items
        at = np.minimum(np.searchsorted(self._edges, wanted), len(self._edges) - 1)
        found: NDArray[np.bool_] = self._edges[at] == wanted
        return found

"""The paper's two data sets, prepared by hand: these tests must not lean on the data package."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import scipy.sparse as sp


class PaperData(NamedTuple):
    unsplit: sp.csr_array
    fitted: sp.csr_array  # train + validation
    test: sp.csr_array


def _in_order_of_appearance(ids):
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def _with_at_least(ids, count):
    _, inverse, counts = np.unique(ids, return_inverse=True, return_counts=True)
    return counts[inverse] >= count


def _to_csr(users, items, values):
    return sp.csr_array((values, (_in_order_of_appearance(users), _in_order_of_appearance(items))))


def _lastfm(folder: Path):
    users, artists, plays = np.loadtxt(folder / "user_artists.dat", skiprows=1, dtype=np.int64).T
    keep = _with_at_least(users, 10)
    users, artists, plays = users[keep], artists[keep], plays[keep]
    keep = _with_at_least(artists, 10)
    X = _to_csr(users[keep], artists[keep], plays[keep].astype(float))
    X.data /= np.repeat(X.sum(axis=1), np.diff(X.indptr))
    return X


def _movielens(folder: Path):
    table = np.loadtxt(folder / "interactions.csv", delimiter=",", skiprows=1, dtype=np.int64)
    table = table[_with_at_least(table[:, 1], 5)]
    X = _to_csr(table[:, 0], table[:, 1], np.ones(len(table)))
    return X[:, np.random.default_rng(2020).choice(X.shape[1], 1200, replace=False)]


def _published_split(X) -> PaperData:
    X.sort_indices()  # the shuffle below starts from the items in index order
    rng = np.random.default_rng(1024)
    held_out = np.zeros(X.nnz, dtype=bool)
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        entries = np.arange(start, stop)
        rng.shuffle(entries)
        held_out[entries[len(entries) - int(0.2 * len(entries)) :]] = True
    fitted, test = X.copy(), X.copy()
    fitted.data = np.where(held_out, 0.0, X.data)
    test.data = held_out.astype(float)
    fitted.eliminate_zeros()
    test.eliminate_zeros()
    return PaperData(X, fitted, test)


@pytest.fixture(scope="session")
def lastfm(data_dir: Path) -> PaperData:
    return _published_split(_lastfm(data_dir / "lastfm-2k"))


@pytest.fixture(scope="session")
def movielens(data_dir: Path) -> PaperData:
    return _published_split(_movielens(data_dir / "ml-1m"))

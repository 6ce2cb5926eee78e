"""Sparse matrices with indices out of bounds are refused before a loop uses them."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import ItemWeightedPCA
from equipoise.data import Interactions
from equipoise.data.validation import is_sound
from equipoise.exceptions import InvalidDataError

FORMATS = (sp.csr_array, sp.csc_array, sp.bsr_array)


def random_matrix(kind):
    return kind(sp.random_array((12, 8), density=0.4, random_state=1))


def damaged(kind, array, place, value):
    X = random_matrix(kind)
    getattr(X, array)[place] = value
    return X


@pytest.mark.parametrize("kind", [*FORMATS, sp.coo_array, sp.lil_array, sp.dok_array])
def test_matrices_of_scipy_are_sound(kind):
    X = random_matrix(kind)
    assert is_sound(X)
    np.testing.assert_array_equal(Interactions.from_sparse(X).matrix.toarray(), X.toarray())
    assert is_sound(kind((3, 4)))


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize(
    ("array", "place", "value"),
    [
        ("indptr", 1, 10**6),
        ("indptr", -1, 0),
        ("indptr", -1, 10**6),
        ("indptr", 0, 1),
        ("indptr", 2, -1),
        ("indices", 0, -1),
        ("indices", -1, 99),
    ],
)
@pytest.mark.parametrize("read", [Interactions.from_sparse, ItemWeightedPCA(2).fit])
def test_indices_out_of_bounds_are_refused(kind, array, place, value, read):
    X = damaged(kind, array, place, value)
    assert not is_sound(X)
    with pytest.raises(InvalidDataError, match="out of the bounds"):
        read(X)


@pytest.mark.parametrize("array", ["indptr", "indices"])
def test_unsigned_indices_are_refused(array):
    X = sp.csr_array(np.eye(3))
    setattr(X, array, getattr(X, array).astype(np.uint32))
    with pytest.raises(InvalidDataError, match="not signed"):
        Interactions.from_sparse(X)
    with pytest.raises(InvalidDataError, match="not signed"):
        ItemWeightedPCA(1).fit(X)


def test_interactions_are_not_built_around_a_broken_matrix():
    X = damaged(sp.csr_array, "indptr", -1, 0)
    with pytest.raises(InvalidDataError, match="is broken"):
        Interactions(X, range(12), range(8))


def test_a_fitted_model_refuses_broken_rows():
    model = ItemWeightedPCA(2).fit(random_matrix(sp.csr_array))
    with pytest.raises(InvalidDataError, match="is broken"):
        model.recommend(damaged(sp.csr_array, "indices", 0, 99))


def test_space_beyond_the_last_entry_is_accepted():
    X = random_matrix(sp.csr_array)
    X.indices = np.append(X.indices, [77, -5])  # SciPy keeps such arrays until it prunes them
    X.data = np.append(X.data, [1.0, 1.0])
    assert is_sound(X)

"""A million users of ten items, ten users of a million items, and indices beyond 2^31."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions, ItemWeightedPCA, load, memory
from equipoise.exceptions import InvalidDataError
from equipoise.models.ranking import _Mask
from equipoise.spectral import gram
from equipoise.spectral.solve import choose_solver
from tests.extreme_matrices import counts

MILLION = 1_000_000


def scattered(n_users: int, n_items: int, nnz: int) -> sp.csr_array:
    rng = np.random.default_rng(0)
    places = rng.integers(0, n_users, nnz), rng.integers(0, n_items, nnz)
    return sp.coo_array((rng.integers(1, 5, nnz) * 1.0, places), shape=(n_users, n_items)).tocsr()


@pytest.fixture(scope="module")
def many_users() -> sp.csr_array:
    return scattered(MILLION, 10, 350_000)


@pytest.fixture(scope="module")
def many_items() -> sp.csr_array:
    return scattered(10, MILLION, 30_000)


@pytest.mark.medium
@pytest.mark.parametrize("solver", ["auto", "matrix_free", "gram", "dense"])
def test_a_million_users_of_ten_items(solver, many_users):
    C = (many_users.T @ many_users).toarray()
    w = 1 / np.sqrt(C.diagonal())
    exact = np.linalg.eigvalsh((w[:, None] + w) / 2 * C)[::-1]
    model = ItemWeightedPCA(4, solver=solver).fit(many_users)
    np.testing.assert_allclose(model.eigenvalues_, exact[:4], rtol=1e-9)
    assert model.certificate_.gap < 1e-9
    lists = model.recommend(many_users[:3], k=3, fallback=None)
    scores = many_users[:3].toarray() @ model.components_.T @ model.components_
    scores[many_users[:3].toarray() > 0] = -np.inf
    np.testing.assert_allclose(lists.scores, -np.sort(-scores, axis=1)[:, :3], atol=1e-12)


@pytest.mark.slow
def test_ten_users_of_a_million_items(many_items):
    """½(DC + CD) = ½[DXᵀ Xᵀ][X; XD] has the eigenvalues of a matrix of twice the users."""
    squares = np.bincount(many_items.indices, many_items.data**2, MILLION)
    w = np.divide(1, np.sqrt(squares), out=np.zeros(MILLION), where=squares > 0)
    Y = sp.csr_array(many_items.multiply(w))
    XX, XY, YY = (A.toarray() for A in (many_items @ many_items.T, many_items @ Y.T, Y @ Y.T))
    small = np.block([[XY, XX], [YY, XY.T]]) / 2
    exact = np.sort(np.linalg.eigvals(small).real)[::-1]
    model = ItemWeightedPCA(2).fit(many_items)
    assert model.solver_ == "matrix_free"
    np.testing.assert_allclose(model.eigenvalues_, exact[:2], rtol=1e-9)
    assert model.certificate_.gap < 1e-9
    lists = model.recommend(many_items[:1], k=5)
    assert not np.isin(lists.ids, many_items[:1].indices).any()
    assert len(model.similar_items(int(many_items.indices[0]), k=3).ids) == 3


@pytest.mark.parametrize("solver", ["gram", "dense"])
def test_a_gram_matrix_larger_than_memory_is_refused(solver, many_items):
    with pytest.raises(InvalidDataError, match=f"solver='{solver}'.* 24 TB .*matrix_free"):
        ItemWeightedPCA(2, solver=solver).fit(many_items)


def test_certify_refuses_matrices_larger_than_memory(monkeypatch):
    X = counts()
    model = ItemWeightedPCA(3).fit(X)
    needed = 3 * 8 * 25**2
    monkeypatch.setattr(memory, "available_memory", lambda: needed)
    assert model.certify(X).gap < 1e-6
    monkeypatch.setattr(memory, "available_memory", lambda: needed - 1)
    with pytest.raises(InvalidDataError, match=r"certify.* 25 × 25"):
        model.certify(X)


def long_indices(X: sp.csr_array) -> sp.csr_array:
    """The same matrix as SciPy holds it from 2^31 entries on."""
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    return wide


@pytest.mark.parametrize("parallel_from", [0, 10**9])
@pytest.mark.parametrize("solver", ["matrix_free", "gram", "dense"])
def test_int64_indices_give_the_same_bits(solver, parallel_from, monkeypatch, tmp_path):
    monkeypatch.setattr(gram, "PARALLEL_FROM", parallel_from)
    short = sp.csr_array(counts())
    model = ItemWeightedPCA(4, solver=solver)
    one, two = (model.fit(X).components_.copy() for X in (short, long_indices(short)))
    np.testing.assert_array_equal(one, two)
    lists = [model.recommend(X, k=5) for X in (short, long_indices(short))]
    np.testing.assert_array_equal(lists[0].ids, lists[1].ids)
    np.testing.assert_array_equal(lists[0].scores, lists[1].scores)
    assert load(model.save(tmp_path / "m.eqp")).recommend(short, k=1).ids.shape == (60, 1)


def test_interactions_keep_int64_indices():
    data = Interactions.from_sparse(long_indices(sp.csr_array(counts())))
    assert data.matrix.indptr[-1] == np.count_nonzero(counts())
    np.testing.assert_array_equal(data.matrix.toarray(), counts())


def test_seen_items_are_found_beyond_two_to_the_31():
    """The indices are one number shown 2^31 + 6 times over: they take no memory."""
    nnz = 2**31 + 6
    indices = np.broadcast_to(np.int32(7), (nnz,))
    indptr = np.array([0, nnz - 5, nnz - 2, nnz], dtype=np.int64)
    mask = _Mask(indptr, indices, np.zeros(9, dtype=np.bool_)).rows(slice(1, 3))
    assert mask.indptr.tolist() == [0, 3, 5]
    assert mask.indices.tolist() == [7] * 5
    assert mask.indices.dtype == np.int64


def test_the_estimate_of_time_does_not_overflow_beyond_two_to_the_31():
    """Two thousand users of 2^22 entries each, whose squares leave int32."""
    indptr = np.arange(2001, dtype=np.int64) * 2**22
    giant = SimpleNamespace(shape=(2000, 2**23), indptr=indptr, nnz=int(indptr[-1]))
    assert choose_solver(giant, 32) == "matrix_free"
    assert gram.DenseGram.seconds(np.diff(indptr), 2**23) > 1e6

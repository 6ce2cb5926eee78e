"""PCA with a bound on the covariance of scores and popularity, and with the long-tail regularizer.

The oracles are dense: LAPACK on the matrix of the definition, and a scalar search of the dual.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from equipoise import CovarianceRegularizedPCA, LongTailRegularizedPCA, VanillaPCA

SOLVERS = ("dense", "gram", "matrix_free")


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    tastes = rng.integers(0, 4, 150)
    likes = 0.15 + 0.6 * (np.arange(24) % 4 == tastes[:, None])
    return (rng.random((150, 24)) < likes * np.linspace(1.3, 0.2, 24)).astype(float)


def projector(model) -> np.ndarray:
    return model.components_.T @ model.components_


def covariance_by_hand(scores: np.ndarray, X: np.ndarray) -> float:
    """Of scores and popularity over the entries of 0/1 data."""
    users, items = np.nonzero(X)
    popularity = X.sum(axis=0)
    return float(np.cov(scores[users, items], popularity[items], bias=True)[0, 1])


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("share", [0.0, 0.4])
def test_the_covariance_over_the_interactions_meets_its_bound(X, solver, share):
    model = CovarianceRegularizedPCA(4, max_covariance=share, solver=solver, tol=1e-8).fit(X)
    plain = covariance_by_hand(VanillaPCA(4).fit(X).reconstruct(X), X)
    ours = covariance_by_hand(model.reconstruct(X), X)
    assert model.pca_covariance_ == pytest.approx(plain, rel=1e-6)
    assert model.covariance_ == pytest.approx(ours, abs=1e-9 * plain)
    assert ours == pytest.approx(share * plain, abs=1e-5 * plain)
    assert model.certificate_.outcome == "projector"


@pytest.mark.medium
@pytest.mark.parametrize("rank", [1, 4, 9])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_the_optimum_is_that_of_the_scalar_dual(X, rank, share):
    C, pop = X.T @ X, X.sum(axis=0)
    excess = pop - pop @ pop / pop.sum()
    U = np.linalg.eigh(C)[1][:, -rank:]
    bound = share * abs(excess @ np.einsum("ja,ja->j", C @ U, U))

    def dual(nu: float) -> float:
        w = 1 - nu * excess
        values = np.linalg.eigvalsh((w[:, None] * C + C * w) / 2)[-rank:]
        return float(np.maximum(values, 0).sum() + abs(nu) * bound)

    best = minimize_scalar(dual, bracket=(0, 0.01), tol=1e-12)
    model = CovarianceRegularizedPCA(rank, max_covariance=share, tol=1e-9).fit(X)
    assert model.certificate_.objective * C.trace() == pytest.approx(best.fun, rel=1e-7)
    w = 1 - model.multiplier_ * excess
    np.testing.assert_allclose(model.item_weights_, w, rtol=1e-9, atol=1e-9)


def test_weights_of_very_popular_items_may_be_negative(X):
    everybody = np.hstack([np.ones((150, 1)), X])
    model = CovarianceRegularizedPCA(1).fit(everybody)
    assert model.item_weights_[0] < 0 < model.item_weights_[1:].min()
    assert covariance_by_hand(model.reconstruct(everybody), everybody) == pytest.approx(0, abs=1e-4)


def test_a_bound_that_pca_meets_changes_nothing(X):
    model = CovarianceRegularizedPCA(4, max_covariance=1.5).fit(X)
    assert model.multiplier_ == pytest.approx(0.0, abs=1e-6)
    np.testing.assert_allclose(projector(model), projector(VanillaPCA(4).fit(X)), atol=1e-4)


def test_items_of_equal_popularity_leave_pca():
    X = np.vstack([np.roll([1.0, 1, 0, 1, 0, 0, 0], n) for n in range(7)])
    model = CovarianceRegularizedPCA(1).fit(X)
    assert model.certificate_.names == ("objective",)
    np.testing.assert_allclose(projector(model), projector(VanillaPCA(1).fit(X)), atol=1e-6)


def laplacian(X: np.ndarray, head: float) -> np.ndarray:
    """Of the graph that joins items of the same class."""
    pop = X.sum(axis=0)
    in_head = np.zeros(len(pop), dtype=bool)
    in_head[np.argsort(-pop, kind="stable")[: round(head * len(pop))]] = True
    same = (in_head[:, None] == in_head).astype(float)
    np.fill_diagonal(same, 0)
    return np.diag(same.sum(axis=1)) - same


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("strength", [-0.5, 0.2, 5.0])
def test_components_are_the_eigenvectors_of_the_regularized_matrix(X, solver, strength):
    model = LongTailRegularizedPCA(4, strength=strength, solver=solver, tol=1e-9).fit(X)
    C, L = X.T @ X, laplacian(X, 0.2)
    values, vectors = np.linalg.eigh(C + strength * C.trace() / L.trace() * L)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:4], rtol=1e-7)
    np.testing.assert_allclose(projector(model), vectors[:, -4:] @ vectors[:, -4:].T, atol=1e-5)
    assert model.certificate_.gap < 1e-7


def test_the_regularizer_is_the_sum_of_distances_within_the_classes(X):
    model = LongTailRegularizedPCA(3).fit(X)
    L, U = laplacian(X, 0.2), model.components_.T
    distances = np.square(U[:, None] - U).sum(axis=2)
    same = model.in_head_[:, None] == model.in_head_
    assert np.trace(U.T @ L @ U) == pytest.approx(distances[same].sum() / 2)
    assert model.in_head_.sum() == 5


def test_the_long_tail_gains_with_the_strength_and_zero_is_pca(X):
    fits = [LongTailRegularizedPCA(4, strength=s).fit(X) for s in (0.0, 0.5, 2.0)]
    np.testing.assert_allclose(projector(fits[0]), projector(VanillaPCA(4).fit(X)), atol=1e-5)
    tails = [fit.self_reconstruction()[~fit.in_head_].sum() for fit in fits]
    assert tails == sorted(tails)
    assert tails[0] < tails[-1]


def test_a_smaller_rank_is_the_beginning_of_a_larger_one(X):
    shorter = LongTailRegularizedPCA(6, tol=1e-9).fit(X).truncate(3)
    fitted = LongTailRegularizedPCA(3, tol=1e-9).fit(X)
    np.testing.assert_allclose(projector(shorter), projector(fitted), atol=1e-6)


def test_items_without_users_are_in_no_class(X):
    wider = np.hstack([X, np.zeros((150, 3))])
    model, plain = (LongTailRegularizedPCA(4, tol=1e-9).fit(data) for data in (wider, X))
    np.testing.assert_allclose(model.eigenvalues_, plain.eigenvalues_, rtol=1e-8)
    assert not model.components_[:, 24:].any()

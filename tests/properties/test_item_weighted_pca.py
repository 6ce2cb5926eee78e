"""What the theory gives for free, on nasty matrices."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.linalg as sl
from hypothesis import assume, given
from hypothesis import strategies as st

from equipoise import ItemWeightedPCA, VanillaPCA
from equipoise.exceptions import SolverWarning
from tests.strategies import preference_matrices

GAMMAS = st.sampled_from([-2.0, -1.0, -0.5, 0.0, 1.0])
SOLVERS = st.sampled_from(["dense", "gram", "matrix_free"])


def fit(X: np.ndarray, r: int, gamma: float, solver: str = "auto") -> ItemWeightedPCA:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        return ItemWeightedPCA(min(r, X.shape[1]), gamma=gamma, solver=solver).fit(X)


def weighted_gram(X: np.ndarray, w: np.ndarray) -> np.ndarray:
    C = X.T @ X
    return (w[:, None] * C + C * w) / 2


@given(X=preference_matrices(), r=st.integers(1, 6), gamma=GAMMAS, solver=SOLVERS)
def test_objective_is_the_sum_of_the_leading_positive_eigenvalues(X, r, gamma, solver):
    model = fit(X, r, gamma, solver)
    spectrum = np.linalg.eigvalsh(weighted_gram(X, model.item_weights_))[::-1][:r]
    best = np.maximum(spectrum, 0).sum()
    assert abs(model.certificate_.objective - best) <= 1e-8 * best
    assert model.certificate_.dual_bound >= best * (1 - 1e-9)


@given(X=preference_matrices(), r=st.integers(1, 5), gamma=GAMMAS, seed=st.integers(0, 999))
def test_no_other_projection_does_better(X, r, gamma, seed):
    model = fit(X, r, gamma)
    M = weighted_gram(X, model.item_weights_)
    r = min(r, X.shape[1])
    Q = np.linalg.qr(np.random.default_rng(seed).standard_normal((X.shape[1], r)))[0]
    assert np.trace(Q.T @ M @ Q) <= model.certificate_.objective * (1 + 1e-9) + 1e-9


@given(X=preference_matrices(), r=st.integers(1, 5), gamma=GAMMAS, solver=SOLVERS)
def test_components_are_orthonormal(X, r, gamma, solver):
    U = fit(X, r, gamma, solver).components_.T
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)


@given(X=preference_matrices(), r=st.integers(1, 5), gamma=GAMMAS, seed=st.integers(0, 999))
def test_permuting_items_permutes_the_projector(X, r, gamma, seed):
    model = fit(X, r, gamma)
    assume(has_clear_gap(X, model))
    order = np.random.default_rng(seed).permutation(X.shape[1])
    permuted = fit(X[:, order], r, gamma)
    P, Q = (m.components_.T @ m.components_ for m in (model, permuted))
    np.testing.assert_allclose(Q, P[np.ix_(order, order)], atol=1e-6)


@given(
    X=preference_matrices(), r=st.integers(1, 5), gamma=GAMMAS, factor=st.sampled_from([1e-3, 7])
)
def test_scaling_the_data_changes_no_projector(X, r, gamma, factor):
    model = fit(X, r, gamma)
    assume(has_clear_gap(X, model))
    scaled = fit(X * factor, r, gamma)
    P, Q = (m.components_.T @ m.components_ for m in (model, scaled))
    np.testing.assert_allclose(Q, P, atol=1e-6)


@given(X=preference_matrices(), r=st.integers(1, 5))
def test_each_component_of_pca_lowers_the_error_by_its_squared_singular_value(X, r):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        model = VanillaPCA(min(r, X.shape[1])).fit(X)
    errors = [np.linalg.norm(X) ** 2]
    for k in range(1, model.n_components_ + 1):
        U = model.components_[:k].T
        errors.append(np.linalg.norm(X - X @ U @ U.T) ** 2)
    np.testing.assert_allclose(-np.diff(errors), model.singular_values_**2, atol=1e-8 * errors[0])


def has_clear_gap(X: np.ndarray, model: ItemWeightedPCA) -> bool:
    """The leading subspace is well defined: no tie at the cut."""
    spectrum = np.linalg.eigvalsh(weighted_gram(X, model.item_weights_))[::-1]
    k = model.n_components_
    after = spectrum[k] if k < len(spectrum) else -np.inf
    return bool(spectrum[k - 1] - max(after, 0) > 1e-3 * spectrum[0])


@st.composite
def audiences(draw: st.DrawFn) -> np.ndarray:
    """Worlds whose users share nothing: vectors that fit the one are blind to the other."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        shape = (draw(st.integers(3, 60)), draw(st.integers(2, 12)))
        parts.append(rng.poisson(draw(st.sampled_from([0.3, 1.0, 4.0])), shape).astype(float))
    X = sl.block_diag(*parts)
    X[0, 0] += 1
    return X


@pytest.mark.medium
@given(X=audiences(), r=st.integers(1, 6), solver=SOLVERS, single=st.booleans())
def test_optimum_lies_between_objective_and_bound_however_the_fit_was_made(X, r, solver, single):
    r = min(r, X.shape[1])
    data = X.astype(np.float32) if single else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        base = ItemWeightedPCA(r, solver=solver)
        cold = base.fit(data)
        path = ItemWeightedPCA(r, solver=solver).fit_path(data, [0.0, -1.0])
        loose = ItemWeightedPCA(r, solver=solver, error_budget=1e6).fit(data)
        deeper = ItemWeightedPCA(min(r + 3, X.shape[1]), solver=solver).fit(data)
    spectrum = np.linalg.eigvalsh(weighted_gram(X, cold.item_weights_))[::-1]
    fits = [cold.certificate_, path[1].certificate_, cold.certify(data)]
    if loose.error_budget_multiplier_ == 0:
        fits.append(loose.certificate_)
    if deeper.n_components_ >= r:
        fits.append(deeper.truncate(r).certificate_)
    optimum = np.maximum(spectrum[:r], 0).sum()
    for certificate in fits:
        assert certificate.objective <= optimum * (1 + 1e-9)
        assert optimum <= certificate.dual_bound * (1 + 2e-9)
        assert certificate.objective >= optimum * (1 - 1e-6)

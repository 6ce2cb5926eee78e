"""Fits on extreme values: equal to LAPACK with every solver, or refused."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.spectral import gram
from tests.extreme_matrices import FITTED, IN_FLOAT32, REFUSED, Answer, answer, counts

PATHS = ("SciPy", "parallel", "gram", "dense")
RANK = 5


@pytest.fixture(params=PATHS)
def solver(request, monkeypatch) -> str:
    """Each solver; the matrix-free one with SciPy's products and with the parallel loops."""
    monkeypatch.setattr(gram, "PARALLEL_FROM", 0 if request.param == "parallel" else 10**9)
    return {"SciPy": "matrix_free", "parallel": "matrix_free"}.get(request.param, request.param)


def fitted(model, X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # where the data hold fewer components
        return model.fit(sp.csr_array(X))


def check(model, exact: Answer) -> None:
    """Values, vectors and certificate of a fit against the dense matrix."""
    found, kept = model.eigenvalues_, model.n_components_
    largest = exact.values[0]
    assert np.isfinite(model.components_).all()
    relative = found / found[0]
    U = model.components_.astype(np.float64).T
    residuals = np.linalg.norm(exact.M @ U - U * (relative * largest), axis=0) / largest
    assert residuals.max() < 2e-6
    # Values differ by at most the residuals, whose rounding depends on the number of threads.
    within = max(1e-8, residuals.max())
    np.testing.assert_allclose(relative, exact.values[:kept] / largest, rtol=0, atol=within)
    assert abs(np.log(found[0]) - np.log(largest) - exact.log_unit) < 1e-7
    # eigenvalues left out are zero to the precision of the solver
    assert np.all(exact.values[kept : model.n_components] < 1e-8 * largest)
    np.testing.assert_allclose(U.T @ U, np.eye(kept), atol=1e-6)
    certificate = model.certificate_
    assert certificate.max_residual <= model.tol
    assert 0 <= certificate.gap < 1e-6
    assert np.isfinite([certificate.objective, certificate.dual_bound]).all()


def rank_for(X) -> int:
    return min(RANK, X.shape[1])


@pytest.mark.parametrize("name", FITTED)
def test_item_weighted_pca_equals_lapack(name, solver):
    X = FITTED[name]
    check(fitted(ItemWeightedPCA(rank_for(X), solver=solver), X), answer(X, -1.0))


# The other two models call the same solvers: one of them is enough.
@pytest.mark.parametrize("name", FITTED)
def test_pca_equals_lapack(name):
    X = FITTED[name]
    check(fitted(VanillaPCA(rank_for(X)), X), answer(X, 0.0))


@pytest.mark.parametrize("name", FITTED)
def test_normalized_pca_equals_lapack(name):
    X = FITTED[name]
    tops = np.where(X.any(axis=0), X.max(axis=0), 1.0)
    lengths = tops * np.linalg.norm(X / tops, axis=0)
    check(
        fitted(NormalizedPCA(rank_for(X)), X),
        answer(X / np.where(lengths > 0, lengths, 1.0), 0.0),
    )


@pytest.mark.parametrize("name", IN_FLOAT32)
def test_float32_input_equals_lapack(name, solver):
    X = IN_FLOAT32[name].astype(np.float32)
    assert np.isfinite(X).all()
    model = fitted(ItemWeightedPCA(rank_for(X), solver=solver), X)
    assert model.components_.dtype == np.float32
    check(model, answer(X.astype(np.float64), -1.0))


@pytest.mark.parametrize("name", REFUSED)
def test_values_beyond_floating_point_are_refused(name, solver):
    X, reason = REFUSED[name]
    for kind in (ItemWeightedPCA, VanillaPCA, NormalizedPCA):
        with pytest.raises(InvalidDataError, match=reason):
            kind(RANK, solver=solver).fit(sp.csr_array(X))


@pytest.mark.parametrize("gamma", [-10.0, -5.0, -2.0, -0.5, 0.5, 2.0, 5.0, 10.0])
def test_every_gamma_equals_lapack(gamma, solver):
    X = counts() * np.geomspace(1.0, 1e8, 25)
    check(fitted(ItemWeightedPCA(RANK, gamma=gamma, solver=solver), X), answer(X, gamma))


@pytest.mark.parametrize("gamma", [-10.0, 10.0])
@pytest.mark.parametrize("factor", [1e-60, 1e60])
def test_weights_beyond_floating_point_are_refused(gamma, factor, solver):
    X = counts() * factor
    with pytest.raises(InvalidParameterError, match=f"gamma={gamma} gives weights beyond"):
        ItemWeightedPCA(RANK, gamma=gamma, solver=solver).fit(sp.csr_array(X))


@pytest.mark.parametrize("factor", [1e-150, 1e-60])
def test_a_certificate_holds_where_weights_are_huge(factor, solver):
    X = counts() * factor
    check(fitted(ItemWeightedPCA(RANK, gamma=-2.0, solver=solver), X), answer(X, -2.0))


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_an_error_budget_holds_in_any_unit(factor, solver):
    X = counts() * factor
    budget = 0.01
    model = fitted(ItemWeightedPCA(RANK, error_budget=budget, solver=solver), X)
    unit = X.max()
    squared = np.linalg.svd(X / unit, compute_uv=False) ** 2
    U = model.components_.T
    error = np.linalg.norm(X / unit - (X / unit) @ U @ U.T) ** 2
    assert error <= (1 + budget) * squared[RANK:].sum() * (1 + 1e-6)
    assert model.error_budget_multiplier_ > 0
    assert model.certificate_.gap < 1e-6


@pytest.mark.parametrize("name", ["times 1e-30", "times 1e30", "popularity ratio 1e8", "identity"])
def test_certify_proves_fits_on_extreme_values(name):
    X = FITTED[name]
    model = fitted(ItemWeightedPCA(RANK), X)
    proof = model.certify(sp.csr_array(X))
    assert proof.method == "cholesky"
    assert 0 <= proof.gap < 1e-6

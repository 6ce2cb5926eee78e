from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.spectral.certificate import bound_by_cholesky, suboptimality
from equipoise.spectral.gram import DenseGram, SparseGram
from equipoise.spectral.lapack import dense_eigenpairs, rayleigh_ritz
from equipoise.spectral.solve import certify_rigorously, solve
from tests.spectral.test_lanczos import Matrix, planted

VALUES = np.concatenate([np.linspace(3, 1, 10), np.linspace(0.9, -2, 50)])


def rough_pairs(rank: int, noise: float, seed: int = 0):
    """Eigenpairs spoilt by noise, with the true next eigenvalue known by LAPACK."""
    M = planted(VALUES)
    exact = dense_eigenpairs(M, rank)
    noisy = exact.vectors + noise * np.random.default_rng(seed).standard_normal((60, rank))
    rough = rayleigh_ritz(Matrix(M), noisy)
    U = rough.vectors
    outside = M - U @ (U.T @ M)
    outside -= (outside @ U) @ U.T
    top = float(np.linalg.eigvalsh((outside + outside.T) / 2)[-1])
    return M, exact, replace(rough, next_value=top)


@pytest.mark.parametrize("rank", [1, 4, 10, 12])
@pytest.mark.parametrize("noise", [1e-8, 1e-4, 1e-2, 0.1])
def test_bound_holds_however_rough_the_solution_is(rank, noise):
    _, exact, rough = rough_pairs(rank, noise)
    shortfall = exact.values.sum() - rough.values.sum()
    assert shortfall <= suboptimality(rough, rank) + 1e-12


def test_bound_is_tight_for_an_exact_solution():
    exact = dense_eigenpairs(planted(VALUES), 5)
    assert suboptimality(exact, 5) <= 1e-12


def test_bound_counts_components_that_are_missing():
    """Two positive eigenvalues are left out of three asked for: the bound must see them."""
    M = np.diag([3.0, 2.0, 1.0, -1.0])
    one = dense_eigenpairs(M, 1)
    assert suboptimality(one, 3) >= 3.0 - 1e-9


def test_cholesky_proves_the_bound_that_lapack_gives():
    M, _, rough = rough_pairs(6, 1e-4)
    proved = bound_by_cholesky(M, replace(rough, next_value=0.0))
    assert proved.method == "cholesky"
    assert rough.next_value <= proved.next_value <= rough.next_value * 2 + 1e-3


def test_rigorous_and_estimated_certificates_agree():
    rng = np.random.default_rng(1)
    X = sp.csr_array(sp.random_array((200, 80), density=0.1, random_state=rng))
    w = rng.random(80)
    gram = DenseGram.of(X)
    found = solve(SparseGram(X), w, 7, solver="matrix_free", rng=np.random.default_rng(0))
    proved = certify_rigorously(gram, w, found.pairs.vectors, 7)
    assert proved.method == "cholesky"
    assert found.certificate.method == "lanczos"
    assert proved.objective == pytest.approx(found.certificate.objective, rel=1e-10)
    assert proved.gap < 1e-4
    optimum = np.linalg.eigvalsh(gram.weighted_matrix(w) * gram.scale)[::-1][:7].sum()
    assert proved.objective <= optimum * (1 + 1e-12)
    assert optimum <= proved.dual_bound * (1 + 1e-12)


def test_certificate_prints_what_it_knows_and_how():
    X = np.random.default_rng(0).random((30, 6))
    gram = DenseGram.of(sp.csr_array(X))
    found = solve(gram, np.ones(6), 2, solver="dense", rng=np.random.default_rng(0))
    text = str(found.certificate)
    for word in ("objective", "dual bound", "relative gap", "max residual", "passes", "LAPACK"):
        assert word in text

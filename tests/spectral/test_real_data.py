"""Fits on the paper's two data sets, compared with dense LAPACK."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg as sl

from equipoise import Interactions, ItemWeightedPCA
from tests.oracle import Spectrum, spectrum

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def matrices(data_dir) -> dict[str, Interactions]:
    lastfm = Interactions.read(data_dir / "lastfm-2k" / "user_artists.dat")
    movielens = Interactions.read(data_dir / "ml-1m" / "interactions.csv").binarize()
    return {
        "lastfm": lastfm.filter(min_items_per_user=10, min_users_per_item=10).normalize_rows(),
        "movielens": movielens.filter(min_users_per_item=5).sample_items(1200, seed=2020),
    }


@pytest.fixture(scope="module")
def spectra(matrices) -> dict[str, Spectrum]:
    """All eigenpairs of M at γ = −1 by LAPACK, largest first: the oracle."""
    result = {}
    for name, data in matrices.items():
        X = data.matrix.toarray()
        result[name] = spectrum(X, 1 / np.linalg.norm(X, axis=0))
    return result


@pytest.mark.parametrize("name", ["lastfm", "movielens"])
@pytest.mark.parametrize("solver", ["matrix_free", "gram", "dense"])
@pytest.mark.parametrize("r", [1, 8, 32, 128, 512])
def test_objective_equals_dense_lapack(matrices, spectra, name, solver, r):
    values, vectors = spectra[name]
    model = ItemWeightedPCA(r, solver=solver).fit(matrices[name])
    assert model.certificate_.objective == pytest.approx(values[:r].sum(), rel=1e-9)
    assert model.certificate_.max_residual <= 1e-6
    angle = float(np.max(sl.subspace_angles(model.components_.T, vectors[:, :r])))
    # a residual of 1e-6 turns the subspace by that over the gap at the cut
    gap = (values[r - 1] - values[r]) / values[0]
    assert angle <= 1e-6 * np.sqrt(r) / gap


def test_at_gamma_minus_one_lastfm_has_241_negative_eigenvalues(spectra):
    """M is indefinite on real data: the solver must find the largest, not the largest in size."""
    assert np.count_nonzero(spectra["lastfm"][0] < 0) == 241

"""The report on the paper's data finds the paper's numbers; see the paper's Sections 3 and 5."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import load_dataset
from equipoise.audit import audit

pytestmark = pytest.mark.data

# Exact values of the published protocol at r = 30: specialization, item AUC, item precision@20.
EXPECTED = {
    "pca": (0.1933, 0.8209, 0.1115),
    "normalized": (0.0630, 0.8992, 0.2144),
    "item-weighted:-1": (0.1463, 0.8714, 0.1402),
}
# Recall@20 and NDCG@20 at r = 32; there, a user without held-out items counts 0.
ACCURACY = {
    "pca": (0.2074, 0.1744),
    "normalized": (0.2674, 0.2046),
    "item-weighted:-1": (0.2670, 0.2183),
}
USERS, WITHOUT_TEST = 1867, 22


@pytest.fixture(scope="module")
def lastfm(data_dir):
    return load_dataset("lastfm-2k", preprocessing="paper", data_dir=data_dir)


@pytest.fixture(scope="module")
def files(lastfm, tmp_path_factory):
    """An implicit ALS model and an EASE matrix, fitted on the training part."""
    als = pytest.importorskip("implicit.cpu.als")
    folder = tmp_path_factory.mktemp("factors")
    X = lastfm.holdout(seed=1024).train.matrix
    model = als.AlternatingLeastSquares(factors=32, iterations=5, random_state=0, num_threads=1)
    model.fit(sp.csr_matrix(X), show_progress=False)
    model.save(folder / "als.npz")
    G = np.linalg.inv((X.T @ X).toarray() + 1.0 * np.eye(X.shape[1]))
    B = -G / np.diag(G)
    np.fill_diagonal(B, 0)
    np.save(folder / "ease.npy", B)
    return [folder / "als.npz", folder / "ease.npy"]


@pytest.fixture(scope="module")
def found(lastfm):
    return audit(lastfm, rank=30, seed=1024, budget=0)


@pytest.fixture(scope="module")
def given(lastfm, files):
    return audit(lastfm.holdout(seed=1024), seed=1024, models=files, budget=0)


def variant(found, key):
    return next(each for each in found.variants if each.key == key)


def test_the_report_has_the_published_numbers_of_both_mechanisms(found):
    for key, expected in EXPECTED.items():
        got = variant(found, key)
        at = got.sizes.index(30)
        measured = (
            got.means["specialization"]["all"][at],
            got.means["item_auc"]["all"][at],
            got.means["item_precision"]["all"][at],
        )
        assert measured == pytest.approx(expected, abs=6e-5), key


def test_the_report_has_the_exact_accuracy_of_the_published_protocol(found):
    for key, expected in ACCURACY.items():
        got = variant(found, key)
        at = got.sizes.index(32)
        share = (USERS - WITHOUT_TEST) / USERS
        measured = (got.means["recall"]["all"][at] * share, got.means["ndcg"]["all"][at] * share)
        assert measured == pytest.approx(expected, abs=6e-5), key


def test_the_answer_describes_both_mechanisms(found):
    assert "of the audience of a niche item" in found.answer.wrong
    assert "is memorized" in found.answer.wrong
    pca = variant(found, "pca")
    assert pca.components_to_half["niche"] > 5 * pca.components_to_half["popular"]
    assert len(pca.owned) > 10


def test_als_and_ease_are_audited_next_to_ours(given):
    als, ease = given.variant("given:0"), given.variant("given:1")
    assert (als.label, als.kind) == ("als.npz", "embeddings")
    assert als.sizes[-1] == 32
    assert (ease.label, ease.kind, ease.sizes) == ("ease.npy", "scores", (1529,))
    assert np.all(ease.means["self_reconstruction"]["all"] == 0)
    for each in (als, ease):
        assert 0.1 < each.means["recall"]["all"][-1] < 0.5
        assert 0.6 < each.means["item_auc"]["all"][-1] < 1
    assert {"given:0", "given:1"} <= set(given.users[0].recommended)
    assert given.subject.label == "als.npz"

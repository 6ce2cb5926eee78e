"""GF-CF against its dense formula, on rows of the training data and on new ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidParameterError, SolverWarning
from equipoise.models.peers.gfcf import GFCF


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


def dense_filter(R: np.ndarray, k: int, alpha: float) -> np.ndarray:
    """R̃ᵀR̃ + α D_I^{-½} Ū Ūᵀ D_I^{½}, every matrix of it formed; all items touched."""
    left = np.diag(np.where(R.sum(axis=1) > 0, R.sum(axis=1), np.inf) ** -0.5)
    degrees = R.sum(axis=0)
    normalized = left @ R @ np.diag(degrees**-0.5)
    V = np.linalg.svd(normalized)[2][:k].T
    ideal = np.diag(degrees**-0.5) @ V @ V.T @ np.diag(degrees**0.5)
    return normalized.T @ normalized + alpha * ideal


@pytest.mark.parametrize("solver", ["auto", "matrix_free", "gram", "dense"])
@pytest.mark.parametrize(("k", "alpha"), [(1, 0.3), (4, 0.3), (14, 2.0), (3, 0.0)])
def test_scores_are_the_dense_formula(X, solver, k, alpha):
    model = GFCF(k, ideal_weight=alpha, solver=solver, tol=1e-10).fit(X)
    expected = X @ dense_filter(X, k, alpha)
    np.testing.assert_allclose(model._scores(sp.csr_array(X)), expected, rtol=1e-7, atol=1e-9)


def test_new_users_are_scored_by_the_filter_of_the_training_data(X):
    rng = np.random.default_rng(1)
    new = (rng.random((6, 14)) < 0.3) * rng.integers(1, 5, (6, 14)).astype(float)
    model = GFCF(4, tol=1e-10).fit(X)
    expected = new @ dense_filter(X, 4, 0.3)
    np.testing.assert_allclose(model._scores(sp.csr_array(new)), expected, rtol=1e-7, atol=1e-9)


def test_all_components_pass_the_row_itself(X):
    model = GFCF(14, ideal_weight=1.0).fit(X)
    linear = GFCF(1, ideal_weight=0.0).fit(X)
    rows = sp.csr_array(X)
    np.testing.assert_allclose(model._scores(rows) - linear._scores(rows), X, atol=1e-9)


def test_eigenvalues_start_at_one_with_the_degrees_as_component(X):
    model = GFCF(5).fit(X)
    assert model.eigenvalues_[0] == pytest.approx(1.0)
    assert np.all(model.eigenvalues_ <= 1 + 1e-12)
    root = np.sqrt(X.sum(axis=0))
    np.testing.assert_allclose(model.components_[0], root / np.linalg.norm(root), atol=1e-6)


def test_units_of_the_training_data_do_not_matter(X):
    rows = sp.csr_array(X)
    scaled = GFCF(4).fit(X * 1000)._scores(rows)
    np.testing.assert_allclose(scaled, GFCF(4).fit(X)._scores(rows), rtol=1e-6)


def test_catalog_too_large_for_the_filter_gets_the_same_scores(X):
    # 14 items that are used, of 6,000: the filter would take 288 MB, scores come in two blocks
    unused = sp.csr_array((760, 6000 - 14))
    rows = sp.hstack([sp.csr_array(np.tile(X, (19, 1))), unused], format="csr")
    model = GFCF(4, solver="matrix_free", tol=1e-10).fit(rows)
    expected = X @ dense_filter(np.tile(X, (19, 1)), 4, 0.3)
    scores = model._scores(rows)
    np.testing.assert_allclose(scores[:, :14], np.tile(expected, (19, 1)), rtol=1e-6)
    assert not scores[:, 14:].any()
    np.testing.assert_allclose(model._scores(rows[[7]])[0], scores[7], rtol=1e-12)
    whole = model.explain(rows[[5]], 2, k=None)
    assert whole.contributions.sum() == pytest.approx(whole.score, abs=1e-10)


def test_refitting_forgets_the_first_filter(X):
    model = GFCF(4).fit(X[:, ::-1])
    model.recommend(X, k=1)
    np.testing.assert_array_equal(
        model.fit(X).recommend(X).scores, GFCF(4).fit(X).recommend(X).scores
    )


def test_weights_without_the_ideal_filter_need_no_components(X):
    model = GFCF(3, ideal_weight=0.0).fit(X)
    assert model.components_.shape == (0, 14)
    assert model.n_components_ == 0
    assert model.recommend(X, k=2).ids.shape == (40, 2)


def test_item_that_nobody_touched_scores_zero_and_is_similar_to_none(X):
    X[:, 6] = 0
    model = GFCF(4).fit(X)
    full = model._scores(sp.csr_array(np.ones((1, 14))))[0]
    assert full[6] == 0
    others = np.delete(np.arange(14), 6)
    expected = np.ones(13) @ dense_filter(X[:, others], 4, 0.3)
    np.testing.assert_allclose(full[others], expected, rtol=1e-5)
    np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
    assert 6 not in model.similar_items(3, k=13).ids


def test_users_without_items_add_nothing(X):
    rows = sp.csr_array(X)
    padded = np.vstack([X, np.zeros((3, 14))])
    np.testing.assert_allclose(
        GFCF(4).fit(padded)._scores(rows), GFCF(4).fit(X)._scores(rows), rtol=1e-6
    )
    ranking = GFCF(4).fit(padded).recommend(padded[41], k=2, fallback=None)
    assert ranking.scores.tolist() == [0.0, 0.0]


def test_similar_items_are_ranked_by_what_the_item_adds_to_them(X):
    model = GFCF(4, tol=1e-10).fit(X)
    W = dense_filter(X, 4, 0.3)
    for item in (0, 5, 13):
        ids, scores = model.similar_items(item, k=13)
        others = np.delete(np.arange(14), item)
        np.testing.assert_array_equal(ids, others[np.argsort(-W[item, others], kind="stable")])
        np.testing.assert_allclose(scores, W[item, ids], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_contributions_sum_to_the_score(X, alpha):
    model = GFCF(4, ideal_weight=alpha, tol=1e-10).fit(X)
    W = dense_filter(X, 4, alpha)
    liked = np.flatnonzero(X[5])
    for item in range(14):
        whole = model.explain(X[5], item, k=None)
        assert whole.contributions.sum() == pytest.approx(whole.score, abs=1e-10)
        by_item = dict(zip(whole.ids.tolist(), whole.contributions, strict=True))
        for i in liked:
            assert by_item[i] == pytest.approx(X[5, i] * W[i, item], abs=1e-7)
        short = model.explain(X[5], item, k=2)
        assert short.contributions.sum() + short.rest == pytest.approx(whole.score, abs=1e-10)


def test_fewer_components_than_asked_for_come_with_a_warning():
    X = np.kron(np.eye(2), np.ones((3, 4)))
    with pytest.warns(SolverWarning, match="2 of the 5 requested components"):
        model = GFCF(5).fit(X)
    np.testing.assert_allclose(model.eigenvalues_, [1.0, 1.0])


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "'n_components' parameter of GFCF must be an int in the range"),
        ({"n_components": 15}, "n_components=15 must be at most the number of items, 14"),
        ({"ideal_weight": -0.1}, "'ideal_weight' parameter of GFCF must be a float in the range"),
        ({"solver": "guess"}, "'solver' parameter of GFCF must be a str among"),
    ],
)
def test_bad_parameters_are_refused(X, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        GFCF(**{"n_components": 3, **parameters}).fit(X)


def test_one_fit_serves_every_weight_and_fewer_components():
    X = (np.random.default_rng(4).random((60, 20)) < 0.3).astype(float)
    changed = GFCF(8, ideal_weight=0.3).fit(X).truncate(3).set_params(ideal_weight=1.0)
    fitted = GFCF(3, ideal_weight=1.0).fit(X)
    np.testing.assert_allclose(changed.score_items(X), fitted.score_items(X), atol=1e-10)
    assert changed.free_parameters == {"ideal_weight"}
    assert GFCF(ideal_weight=0.0).free_parameters == set()  # fitted without components

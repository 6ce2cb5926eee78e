"""EASE against its formula, its optimality conditions and regressions solved one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import Ridge

from equipoise import memory
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.peers import ease
from equipoise.models.peers.ease import EASE


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


@pytest.mark.parametrize("penalty", [0.1, 5.0, 500.0])
def test_weights_are_the_published_formula(X, penalty):
    P = np.linalg.inv(X.T @ X + penalty * np.eye(14))
    expected = np.eye(14) - P / np.diag(P)
    B = EASE(penalty).fit(X).coefficients_
    np.testing.assert_allclose(B, expected, atol=1e-12)
    np.testing.assert_array_equal(np.diag(B), np.zeros(14))
    assert B.flags.c_contiguous


def test_user_scaling_equals_rows_scaled_before_the_fit(X):
    scaled = X / np.sqrt(np.maximum((X > 0).sum(axis=1, keepdims=True), 1))
    model, by_hand = EASE(5.0, user_scaling=0.5).fit(X), EASE(5.0).fit(scaled)
    np.testing.assert_allclose(model.coefficients_, by_hand.coefficients_, atol=1e-12)
    np.testing.assert_allclose(model.score_items(X), by_hand.score_items(scaled), atol=1e-12)


def test_each_column_is_a_ridge_regression_on_the_other_items(X):
    B = EASE(regularization=3.0).fit(X).coefficients_
    for j in range(14):
        others = np.delete(np.arange(14), j)
        ridge = Ridge(alpha=3.0, fit_intercept=False).fit(X[:, others], X[:, j])
        np.testing.assert_allclose(B[others, j], ridge.coef_, atol=1e-10)


def test_gradient_vanishes_off_the_diagonal(X):
    penalty = 20.0
    B = EASE(penalty).fit(X).coefficients_
    gradient = penalty * B - X.T @ (X - X @ B)
    np.fill_diagonal(gradient, 0.0)  # held at zero by the constraint
    np.testing.assert_allclose(gradient, 0.0, atol=1e-10)


def test_no_other_matrix_with_a_zero_diagonal_has_a_smaller_loss(X):
    B = EASE(regularization=20.0).fit(X).coefficients_

    def loss(B: np.ndarray) -> float:
        return np.square(X - X @ B).sum() + 20.0 * np.square(B).sum()

    rng = np.random.default_rng(0)
    for size in (1e-3, 1e-1, 1.0):
        other = rng.standard_normal(B.shape) * size
        np.fill_diagonal(other, 0.0)
        assert loss(B) < loss(B + other)


def test_units_do_not_matter_if_the_penalty_follows_them(X):
    B = EASE(regularization=3.0).fit(X).coefficients_
    np.testing.assert_allclose(EASE(3e6).fit(X * 1e3).coefficients_, B, atol=1e-12)


def test_item_that_nobody_touched_is_similar_to_none_and_scores_zero(X):
    X[:, 6] = 0
    model = EASE(regularization=3.0).fit(X)
    assert not model.coefficients_[6].any()
    assert not model.coefficients_[:, 6].any()
    np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
    assert 6 not in model.similar_items(3, k=13).ids


def test_equal_items_are_each_others_nearest(X):
    X[:, 3] = X[:, 8]
    assert EASE(regularization=3.0).fit(X).similar_items(3, k=1).ids[0] == 8


def test_empty_rows_score_zero(X):
    ranking = EASE().fit(X).recommend(np.zeros(14), k=3, fallback=None)
    assert ranking.scores.tolist() == [0.0, 0.0, 0.0]


def test_catalog_that_does_not_fit_is_refused_before_it_is_computed(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 2 * 2**30)
    monkeypatch.setattr(ease.DenseGram, "of", None)
    wide = sp.csr_array(([1.0], ([0], [0])), shape=(1, 20_000))
    message = r"EASE forms dense .* about 9\.6 GB of memory, and 2\.15 GB is available.*ItemKNN"
    with pytest.raises(InvalidDataError, match=message):
        EASE().fit(wide)


@pytest.mark.parametrize("available", [3 * 8 * 14**2, None])
def test_catalog_that_just_fits_or_memory_that_is_unknown_is_accepted(X, available, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    assert EASE().fit(X).coefficients_.shape == (14, 14)
    if available is not None:
        monkeypatch.setattr(memory, "available_memory", lambda: available - 1)
        with pytest.raises(InvalidDataError, match="EASE forms dense matrices"):
            EASE().fit(X)


@pytest.mark.parametrize("penalty", [0.0, -1.0, "much"])
def test_bad_parameters_are_refused(X, penalty):
    message = r"'regularization' parameter of EASE must be a float in the range \(0, inf\)"
    with pytest.raises(InvalidParameterError, match=message):
        EASE(penalty).fit(X)


def test_penalty_lost_in_rounding_is_refused():
    X = np.ones((5, 3))
    message = "regularization=1e-30 is too small for these data: to rounding, XᵀX . λI is singular"
    with pytest.raises(InvalidParameterError, match=message):
        EASE(1e-30).fit(X)


@pytest.mark.data
def test_optimality_holds_on_the_papers_movielens_matrix(data_dir):
    from equipoise.data.catalog import load_dataset

    X = load_dataset("ml-1m", "paper", data_dir=data_dir).matrix
    B = EASE(regularization=500.0).fit(X).coefficients_
    residual = X.T @ (X.toarray() - X @ B)
    gradient = 500.0 * B - residual
    np.fill_diagonal(gradient, 0.0)
    assert np.abs(gradient).max() < 1e-9 * np.abs(residual).max()

"""IPSMF and PopularityWeightedMF: their weights by hand, their objective by dense arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.models.peers.reweighted_mf import IPSMF, PopularityWeightedMF

MODELS = {
    "ips": IPSMF(3),
    "ips, ratings": IPSMF(3, unobserved_weight=0.0, exponent=1.0, clip=0.2),
    "ips, binary": IPSMF(3, value_transform="binary"),
    "popularity-weighted": PopularityWeightedMF(3),
    "popularity-weighted, imputed": PopularityWeightedMF(3, imputed_value=1.5, exponent=1.0),
}
every_model = pytest.mark.parametrize("name", MODELS)


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


def make(name: str):
    return clone(MODELS[name])


@pytest.fixture
def counted() -> np.ndarray:
    """Items with 8, 4, 2, 1 and 0 users."""
    X = np.zeros((8, 5))
    for item, users in enumerate((8, 4, 2, 1)):
        X[:users, item] = 1.0
    return X


def test_ips_weights_are_one_over_the_clipped_propensity(counted):
    weights = IPSMF(2, exponent=1.0, clip=0.2).fit(counted).item_weights_
    np.testing.assert_allclose(weights, [1, 2, 4, 5, 5])
    weights = IPSMF(2, exponent=0.5, clip=1e-3).fit(counted).item_weights_
    np.testing.assert_allclose(weights[:4], [1, np.sqrt(2), 2, np.sqrt(8)])


def test_popularity_weights_fall_with_popularity_and_have_mean_one_over_the_entries(counted):
    for exponent in (0.0, 0.5, 1.0, 3.0):
        weights = PopularityWeightedMF(2, exponent=exponent).fit(counted).item_weights_
        np.testing.assert_allclose(
            weights[:4] / weights[0], (8 / np.array([8, 4, 2, 1])) ** exponent
        )
        assert (counted @ weights).sum() / counted.sum() == pytest.approx(1)


def test_without_exponent_both_are_the_same_model(X):
    ips = IPSMF(3, exponent=0.0, unobserved_weight=0.2).fit(X)
    steck = PopularityWeightedMF(3, exponent=0.0, unobserved_weight=0.2).fit(X)
    np.testing.assert_allclose(ips.item_factors_, steck.item_factors_, atol=1e-12)


def dense_objective(model, X: np.ndarray) -> float:
    """The formula of the docstrings, cell by cell, with the users folded in."""
    U, V = model.user_factors(sp.csr_array(X)), model.item_factors_
    values = (X > 0).astype(float) if model.value_transform == "binary" else X
    imputed = getattr(model, "imputed_value", 0.0)
    loss = np.where(
        X > 0,
        model.item_weights_ * (values - imputed - U @ V.T) ** 2,
        model.unobserved_weight * (U @ V.T) ** 2,
    )
    return loss.sum() + model.regularization * ((U**2).sum() + (V**2).sum())


@pytest.mark.medium
@every_model
def test_the_objective_is_the_formula_and_folding_users_in_does_not_raise_it(name, X):
    model = make(name).set_params(tol=1e-7, iterations=800, regularization=1.0).fit(X)
    assert model.n_iter_ < 800
    assert dense_objective(model, X) == pytest.approx(model.objective_, rel=1e-6)
    assert dense_objective(model, X) <= model.objective_ * (1 + 1e-12)
    nudged = clone(model).set_params(iterations=1).fit(X)
    nudged.item_factors_ = model.item_factors_ + 0.01 * np.random.default_rng(0).normal(
        size=(14, 3)
    )
    assert dense_objective(nudged, X) > model.objective_


@pytest.mark.medium
def test_likes_alone_cannot_rank_and_the_empty_cells_can():
    X = (np.random.default_rng(0).random((30, 12)) < 0.3).astype(float)
    options = {"exponent": 0.0, "regularization": 1e-3, "iterations": 200}
    alone = IPSMF(1, unobserved_weight=0.0, **options).fit(X)._scores(sp.csr_array(X))
    active = X.any(axis=1)
    np.testing.assert_allclose(alone[active], 1, atol=0.01)  # liked or not
    scores = IPSMF(8, **options).fit(X)._scores(sp.csr_array(X))
    assert scores[X > 0].mean() > 0.8
    assert scores[X == 0].mean() < 0.1


@pytest.mark.medium
def test_rare_items_gain_from_their_weight(X):
    def error(model):
        fitted = model.user_factors(sp.csr_array(X)) @ model.item_factors_.T
        counts = (X > 0).sum(axis=0)
        rare = counts == counts[counts > 0].min()
        return ((X - fitted) ** 2)[:, rare][X[:, rare] > 0].mean()

    for kind in (IPSMF, PopularityWeightedMF):
        assert error(kind(3, exponent=2.0, value_transform=None).fit(X)) < error(
            kind(3, exponent=0.0).fit(X)
        )


@pytest.mark.medium
@every_model
def test_without_a_seed_the_seed_is_zero_and_another_gives_other_bits(name, X):
    first, again, other = (make(name).set_params(random_state=s).fit(X) for s in (None, 0, 1))
    np.testing.assert_array_equal(first.item_factors_, again.item_factors_)
    assert not np.array_equal(first.item_factors_, other.item_factors_)


def test_vectors_that_vanish_are_warned_of(X):
    with pytest.warns(
        SolverWarning, match=r"vanished: .* regularization=1000000000.0 is too large"
    ):
        IPSMF(3, regularization=1e9).fit(X)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (IPSMF(0), "'n_components' parameter of IPSMF must be an int in the range"),
        (IPSMF(15), "n_components=15 must be at most the number of items, 14"),
        (IPSMF(3, exponent=-1.0), "'exponent' parameter of IPSMF must be a float in the range"),
        (IPSMF(3, clip=0.0), "'clip' parameter of IPSMF must be a float in the range"),
        (IPSMF(3, clip=1.5), "'clip' parameter of IPSMF must be a float in the range"),
        (IPSMF(3, unobserved_weight=-0.1), "'unobserved_weight' parameter of IPSMF must be a"),
        (IPSMF(3, value_transform="sqrt"), "'value_transform' parameter of IPSMF must be a str"),
        (IPSMF(3, regularization=0.0), "'regularization' parameter of IPSMF must be a float in"),
        (IPSMF(3, iterations=0), "'iterations' parameter of IPSMF must be an int in the range"),
        (IPSMF(3, tol=-1.0), "'tol' parameter of IPSMF must be a float in the range"),
        (
            PopularityWeightedMF(3, imputed_value=np.inf),
            "'imputed_value' parameter of PopularityWeightedMF must be a float in the range",
        ),
        (
            PopularityWeightedMF(3, exponent=1e6),
            r"exponent=1000000.0 gives weights beyond floating point: items have between \d+ and",
        ),
    ],
    ids=lambda value: None if isinstance(value, str) else repr(value),
)
def test_bad_parameters_are_refused(X, model, message):
    with pytest.raises(InvalidParameterError, match=message):
        clone(model).fit(X)


def test_values_that_all_equal_the_imputed_one_are_refused():
    with pytest.raises(InvalidDataError, match=r"there is nothing to fit"):
        PopularityWeightedMF(2, imputed_value=1.0).fit(np.eye(4))

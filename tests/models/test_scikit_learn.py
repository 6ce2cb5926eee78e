"""The PCAs and the local + global model are scikit-learn estimators in letter and spirit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.decomposition import TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from equipoise import (
    CovarianceRegularizedPCA,
    FairPCA,
    HiddenGroupsPCA,
    ItemWeightedPCA,
    LocalGlobal,
    LongTailRegularizedPCA,
    MaxMinItemWeightedPCA,
    NormalizedPCA,
    VanillaPCA,
)
from equipoise.exceptions import InvalidParameterError

# The checks use matrices of two or three columns, so the default of 32 components is too many.
# No check is waived; check_array_api_input skips itself where SCIPY_ARRAY_API is not set.
MODELS = [ItemWeightedPCA, VanillaPCA, NormalizedPCA]


# A component less where the difference of two group means is taken out of two columns
WITH_GROUPS = [
    MaxMinItemWeightedPCA(n_components=2),
    FairPCA(n_components=2),
    HiddenGroupsPCA(n_components=1),
    CovarianceRegularizedPCA(n_components=2, max_covariance=0.5),
    LongTailRegularizedPCA(n_components=2),
]


@pytest.mark.medium
@parametrize_with_checks(
    [*(model(n_components=2) for model in MODELS), *WITH_GROUPS, LocalGlobal(n_components=2)]
)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)
    assert clone(estimator).get_params() == estimator.get_params()


@pytest.fixture
def X() -> np.ndarray:
    return np.random.default_rng(0).poisson(1.0, (60, 8)).astype(float)


def test_vanilla_pca_has_what_people_know_from_truncated_svd(X):
    ours = VanillaPCA(n_components=4).fit(X)
    theirs = TruncatedSVD(n_components=4, algorithm="arpack").fit(X)
    for name in ("singular_values_", "explained_variance_", "explained_variance_ratio_"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=1e-8)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-7)


@pytest.mark.parametrize("model", MODELS)
def test_inverse_transform_of_transform_is_the_reconstruction(model, X):
    fitted = model(n_components=8).fit(X)
    np.testing.assert_allclose(fitted.reconstruct(X), X, atol=1e-9)
    low = model(n_components=3).fit(X)
    np.testing.assert_allclose(
        low.inverse_transform(low.transform(X)), low.reconstruct(X), atol=1e-12
    )
    assert np.linalg.matrix_rank(low.reconstruct(X)) == 3


def test_inverse_transform_refuses_another_number_of_coordinates(X):
    with pytest.raises(ValueError, match="takes 3 coordinates per user, got 2"):
        VanillaPCA(n_components=3).fit(X).inverse_transform(np.ones((5, 2)))


@pytest.mark.parametrize("model", MODELS)
def test_works_in_a_pipeline_and_a_grid_search(model, X):
    y = (X[:, 0] > X[:, 1]).astype(int)
    pipeline = make_pipeline(MaxAbsScaler(), model(n_components=2), LogisticRegression())
    name = model.__name__.lower()
    search = GridSearchCV(pipeline, {f"{name}__n_components": [1, 7]}, cv=3).fit(X, y)
    scores = search.cv_results_["mean_test_score"]
    assert np.all(np.isfinite(scores))
    assert search.best_score_ == scores.max()


@pytest.mark.parametrize("model", MODELS)
def test_feature_names_and_set_output(model, X):
    columns = [f"film {j}" for j in range(8)]
    frame = pd.DataFrame(X, columns=columns)
    fitted = model(n_components=2).fit(frame)
    assert fitted.feature_names_in_.tolist() == columns
    names = [f"{model.__name__.lower()}{i}" for i in range(2)]
    assert fitted.get_feature_names_out().tolist() == names
    assert fitted.set_output(transform="pandas").transform(frame).columns.tolist() == names
    assert isinstance(fitted.set_output(transform="polars").transform(frame), pl.DataFrame)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components"),
        ({"n_components": 1.5}, "n_components"),
        ({"n_components": True}, "n_components"),
        ({"gamma": "low"}, "gamma"),
        ({"gamma": np.nan}, "gamma"),
        ({"error_budget": -0.1}, "error_budget"),
        ({"spectral_filter": "soft"}, "spectral_filter"),
        ({"filter_strength": -1}, "filter_strength"),
        ({"value_transform": "sqrt"}, "value_transform"),
        ({"solver": "arpack"}, "solver"),
        ({"tol": 0.0}, "tol"),
    ],
)
def test_parameters_outside_their_range_are_refused_by_name(parameters, message, X):
    with pytest.raises(InvalidParameterError, match=f"The '{message}' parameter of Item"):
        ItemWeightedPCA(**{"n_components": 2, **parameters}).fit(X)


def test_random_state_instances_are_accepted_and_give_the_same_subspace(X):
    first = ItemWeightedPCA(2, solver="matrix_free", random_state=np.random.RandomState(3)).fit(X)
    other = ItemWeightedPCA(2, solver="matrix_free", random_state=5).fit(X)
    np.testing.assert_allclose(first.components_, other.components_, atol=1e-4)

"""Lists, similar items, explanations, metrics and audits of extreme values."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import EASE, Interactions, ItemKNN, ItemWeightedPCA, NormalizedPCA, metrics, tune
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.report import render
from equipoise.exceptions import InvalidDataError, SolverWarning
from tests.extreme_matrices import FITTED, REFUSED, counts

# Extremes that reach different parts of an audit: units, ties, and too little of everything
AUDITED = (
    "times 1e-150",
    "times 1e150",
    "subnormal entries among others",
    "2^53 everywhere",
    "one user",
    "one item",
    "one entry",
    "equal columns",
    "identity",
    "rank 2",
    "popularity ratio 1e8",
)


def fitted(X, model=ItemWeightedPCA, rank=5):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)
        return model(min(rank, X.shape[1])).fit(sp.csr_array(X))


@pytest.mark.parametrize("name", FITTED)
def test_lists_are_those_of_a_full_sort(name):
    X = FITTED[name]
    model = fitted(X)
    unit = X.max()
    scores = (X / unit) @ model.components_.T @ model.components_
    scores[X > 0] = -np.inf
    best = -np.sort(-scores, axis=1)[:, :3]
    ids, given = model.recommend(sp.csr_array(X), k=3, fallback=None)
    left = np.isfinite(best)
    np.testing.assert_array_equal(ids[:, : best.shape[1]] >= 0, left)
    np.testing.assert_allclose(given[:, : best.shape[1]][left] / unit, best[left], atol=1e-12)


@pytest.mark.parametrize("factor", [1e-150, 1e-30, 1e30, 1e150])
@pytest.mark.parametrize("kind", [ItemWeightedPCA, NormalizedPCA])
def test_results_do_not_depend_on_the_unit(kind, factor):
    X = counts()
    one, other = fitted(X, kind), fitted(X * factor, kind)
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-9)
    lists = one.recommend(X, k=4).ids, other.recommend(X * factor, k=4).ids
    np.testing.assert_array_equal(*lists)
    np.testing.assert_array_equal(one.similar_items(2).ids, other.similar_items(2).ids)
    plain, scaled = one.explain(X[5], 3, k=None), other.explain(X[5] * factor, 3, k=None)
    np.testing.assert_array_equal(plain.ids, scaled.ids)
    assert scaled.contributions.sum() == pytest.approx(scaled.score, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-30, 1e30])
def test_metrics_do_not_depend_on_the_unit(factor):
    X = counts()
    U = fitted(X).components_.T
    np.testing.assert_allclose(
        metrics.item_error(sp.csr_array(X * factor), U),
        metrics.item_error(sp.csr_array(X), U),
        rtol=1e-9,
    )


@pytest.mark.medium
@pytest.mark.parametrize("name", AUDITED)
def test_audits_of_extreme_values_are_complete(name):
    data = Interactions.from_sparse(sp.csr_array(FITTED[name]))
    found = audit(data, rank=4, budget=0)
    record = json.loads(to_json(found), parse_constant=pytest.fail)  # no NaN, no Infinity
    assert record["data"]["n_items"] == data.n_items
    assert "NaN" not in render(found).split("<script", 1)[0]
    assert to_markdown(found)
    for variant in found.variants:
        held = np.asarray(variant.means["item_error"]["all"])
        assert np.all(held[np.isfinite(held)] >= -1e-9)


@pytest.mark.medium
def test_an_audit_is_the_same_in_any_unit():
    X = counts(90, 30)
    plain, *scaled = (
        audit(Interactions.from_sparse(sp.csr_array(X * f)), rank=4, budget=0).answer
        for f in (1.0, 1e-30, 1e30)
    )
    assert scaled == [plain, plain]


def test_tuning_is_the_same_in_any_unit():
    grid = {"n_components": [2, 4], "gamma": [0.0, -1.0]}
    plain, *scaled = (
        tune(Interactions.from_sparse(sp.csr_array(counts(90, 30) * f)), grid=grid).trials
        for f in (1.0, 1e-100, 1e100)
    )
    for trials in scaled:
        for trial, other in zip(plain, trials, strict=True):
            assert trial.settings == other.settings
            assert trial.scores == pytest.approx(other.scores, rel=1e-3)


@pytest.mark.parametrize("name", REFUSED)
# NumPy 1 divides subnormal numbers rightly and warns of an overflow
@pytest.mark.filterwarnings("ignore:overflow encountered in divide")
def test_an_audit_of_values_beyond_floating_point_is_refused(name):
    X, reason = REFUSED[name]
    with pytest.raises(InvalidDataError, match=reason):
        audit(Interactions.from_sparse(sp.csr_array(X)), rank=4, budget=0)


@pytest.mark.parametrize("kind", [ItemKNN, EASE])
def test_scores_beyond_float32_are_refused_and_not_ranked_as_ties(kind):
    X = np.where(counts() > 0, np.float32(3e38), np.float32(0))
    model = kind().fit(X)
    with pytest.raises(InvalidDataError, match="beyond float32"):
        model.recommend(X, k=3)
    lists = model.recommend(X.astype(np.float64), k=3)
    assert np.isfinite(lists.scores[lists.ids >= 0]).all()


def test_scores_of_a_projection_beyond_float32_are_refused():
    X = np.where(counts() > 0, np.float32(3e38), np.float32(0))
    model = fitted(X)
    with pytest.raises(InvalidDataError, match=r"beyond float32|is NaN"):
        model.recommend(X, k=3)

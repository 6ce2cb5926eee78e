"""The bootstrap by user: intervals that cover, tests that tell apart, seeds that repeat."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from equipoise.data import synthetic
from equipoise.evaluation import bootstrap_mean, compare, evaluate
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models import ItemWeightedPCA, VanillaPCA


@pytest.fixture(scope="module")
def paired():
    rng = np.random.default_rng(3)
    first = rng.random(400)
    return first, first - rng.normal(0.02, 0.1, 400)


def test_the_interval_agrees_with_scipys_bootstrap(paired):
    values = paired[0]
    ours = bootstrap_mean(values)
    theirs = stats.bootstrap(
        (values,), np.mean, method="percentile", random_state=1
    ).confidence_interval
    assert ours.mean == values.mean()
    assert ours.low == pytest.approx(theirs.low, abs=2e-3)
    assert ours.high == pytest.approx(theirs.high, abs=2e-3)


def test_the_paired_test_agrees_with_the_t_test_on_many_users(paired):
    first, second = paired
    ours = compare(first, second)
    theirs = stats.ttest_rel(first, second)
    low, high = theirs.confidence_interval()
    assert ours.difference.low == pytest.approx(low, abs=1e-3)
    assert ours.difference.high == pytest.approx(high, abs=1e-3)
    assert ours.p_value == pytest.approx(theirs.pvalue, abs=2e-3)
    assert ours.significant == (theirs.pvalue < 0.05)


def test_intervals_cover_the_true_mean_about_as_often_as_they_say():
    rng = np.random.default_rng(0)
    covered = [
        (found := bootstrap_mean(rng.exponential(1.0, 80), resamples=400, seed=i)).low
        <= 1.0
        <= found.high
        for i in range(300)
    ]
    assert 0.88 <= np.mean(covered) <= 0.98


def test_swapping_the_models_flips_the_difference_and_keeps_the_p_value(paired):
    one, other = compare(*paired), compare(*paired[::-1])
    assert one.difference.low == pytest.approx(-other.difference.high)
    assert one.p_value == other.p_value


def test_same_seed_same_interval_other_seed_another(paired):
    assert compare(*paired, seed=7) == compare(*paired, seed=7)
    assert compare(*paired, seed=7) != compare(*paired, seed=8)


def test_users_that_either_model_has_no_value_for_are_left_out():
    nan = float("nan")
    result = compare([1.0, nan, 0.5, 0.2], [0.5, 0.5, nan, 0.1])
    assert result.difference.n_users == 2
    assert (result.first, result.second) == (pytest.approx(0.6), pytest.approx(0.3))
    assert bootstrap_mean([1.0, nan, 1.0]).n_users == 2


@pytest.mark.medium
def test_blocks_of_draws_do_not_show():
    values = np.random.default_rng(3).random(300_000)  # 13 draws per block
    found, error = bootstrap_mean(values, resamples=100), values.std() / np.sqrt(len(values))
    assert found.mean == values.mean()
    assert found.low == pytest.approx(found.mean - 1.96 * error, abs=error)
    assert found.high == pytest.approx(found.mean + 1.96 * error, abs=error)


def test_results_know_their_intervals_and_comparisons():
    data = synthetic.scale(200, 40, 2000, seed=1)
    models = {"pca": VanillaPCA(), "iw": ItemWeightedPCA()}
    results = evaluate(
        data, models, grid={"n_components": [4]}, metrics=["recall", "ndcg"], k=5, per_user=True
    )
    iw, pca = results.row("recall", model="iw"), results.row("recall", model="pca")
    comparison = results.compare(iw, pca)
    assert comparison.first == pytest.approx(iw.value)
    assert comparison.difference.mean == pytest.approx(iw.value - pca.value)
    assert results.interval(iw).low < iw.value < results.interval(iw).high
    assert f"{iw.value:.4f} against {pca.value:.4f}" in str(comparison)
    with pytest.raises(InvalidParameterError, match="got recall@5 and ndcg@5"):
        results.compare(iw, results.row("ndcg", model="pca"))
    plain = evaluate(data, models, grid={"n_components": [4]}, metrics=["recall"], k=5)
    with pytest.raises(InvalidParameterError, match="Pass per_user=True to evaluate"):
        plain.interval(plain.rows[0])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1.0], [1.0]), InvalidDataError, "at least two users with a value, got 1"),
        (([1.0, 2.0], [1.0]), InvalidDataError, "the same users, got 2 and 1"),
        (([[1.0, 2.0]], [1.0]), InvalidDataError, r"first must be one number per user, .*\(1, 2\)"),
    ],
)
def test_what_cannot_be_compared_is_refused(arguments, error, message):
    with pytest.raises(error, match=message):
        compare(*arguments)


def test_impossible_settings_are_refused():
    with pytest.raises(InvalidParameterError, match=r"confidence .* got 95"):
        compare([1, 2], [1, 2], confidence=95)
    with pytest.raises(InvalidParameterError, match="resamples=0 must be a whole number"):
        bootstrap_mean([1, 2], resamples=0)

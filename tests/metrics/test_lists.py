"""Diversity, calibration, PRU and PRI: by hand, by SciPy, and by RecTools."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.stats import spearmanr

from equipoise import evaluate, holdout
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError
from equipoise.metrics import ItemGroups, calibration, intra_list_diversity, pri, pru
from equipoise.models import Popularity


def test_diversity_by_hamming_is_that_of_rectools():
    # the docstring of RecTools 0.19.0's IntraListDiversity, whose tests run it
    features = [[0, 0], [0, 1], [1, 1], [0, 0]]
    lists = np.array([[0, 1, 2], [0, 3, -1]])
    for k, expected in ((1, [0, 0]), (2, [1, 0]), (3, [4 / 3, 0])):
        found = intra_list_diversity(lists[:, :k], features, convention="rectools")
        np.testing.assert_allclose(found.per_user, expected)


def test_diversity_by_cosine_is_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(20, 5))
    lists = np.argsort(rng.random((7, 20)), axis=1)[:, :6]
    lists[0, 4:] = -1
    lists[1, 1:] = -1
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    found = intra_list_diversity(lists, features).per_user
    for user, row in enumerate(lists):
        own = [i for i in row if i >= 0]
        pairs = [1 - unit[i] @ unit[j] for n, i in enumerate(own) for j in own[:n]]
        expected = np.mean(pairs) if pairs else np.nan
        assert found[user] == pytest.approx(expected, nan_ok=True)
    same = intra_list_diversity(lists, sp.csr_array(features)).value
    assert same == pytest.approx(np.nanmean(found))


def test_features_that_are_not_finite_are_refused():
    with pytest.raises(InvalidDataError, match="finite"):
        intra_list_diversity([[0]], [[np.nan]])


def test_calibration_by_hand():
    groups = ItemGroups(("a", "b"), [0, 0, 1])
    train = [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    found = calibration([[0, 2], [1, -1], [0, 1]], train, groups).per_user
    q = 0.99 * 0.5 + 0.01 * np.array([2 / 3, 1 / 3])
    expected = 2 / 3 * log(2 / 3 / q[0]) + 1 / 3 * log(1 / 3 / q[1])
    np.testing.assert_allclose(found, [expected, 0, np.nan], atol=1e-15)


def ranks_of(lists, k):
    return [{item: place + 1 for place, item in enumerate(row[:k]) if item >= 0} for row in lists]


@pytest.mark.parametrize("k", [20, 6])
def test_correlations_with_rank_are_those_of_scipy(k):
    rng = np.random.default_rng(1)
    lists = np.argsort(rng.random((15, 20)), axis=1)[:, :k]
    test = (rng.random((15, 20)) < 0.3).astype(float)
    popularity = rng.integers(1, 9, 20).astype(float)
    ranks = ranks_of(lists, k)
    by_user = []
    for user, row in enumerate(test):
        own = np.flatnonzero(row)
        places = [ranks[user].get(i, k + 1) for i in own]
        constant = len(own) < 2 or len(set(places)) < 2 or len(set(popularity[own])) < 2
        by_user.append(np.nan if constant else -spearmanr(popularity[own], places).statistic)
    found = pru(lists, test, popularity)
    np.testing.assert_allclose(found.per_user, by_user, atol=1e-12)
    assert found.value == pytest.approx(np.nanmean(by_user))
    items = np.flatnonzero(test.any(axis=0))
    means = [
        np.mean([ranks[user].get(item, k + 1) for user in np.flatnonzero(test[:, item])])
        for item in items
    ]
    expected = -spearmanr(popularity[items], means).statistic
    assert pri(lists, test, popularity).value == pytest.approx(expected)


def test_recommending_the_popular_items_has_the_largest_correlations():
    split = holdout(listening(n_users=120, n_items=60), seed=0)
    table = evaluate(split, {"popular": Popularity()}, metrics=["pru", "pri"], k=60)
    users, items = (row.value for row in table)
    assert users > 0.9
    assert items > 0.9


def test_metrics_of_groups_work_in_evaluate():
    split = holdout(listening(n_users=120, n_items=60), seed=0)
    names = ["calibration", "intra_list_diversity", "intra_list_diversity:rectools"]
    table = evaluate(split, {"popular": Popularity()}, metrics=names, k=5, groups="head80")
    values = [row.value for row in table]
    assert len(values) == 3
    assert all(np.isfinite(values))

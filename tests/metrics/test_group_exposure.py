"""Exposure, coverage and fairness of groups of items: by hand, and against slow definitions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.spatial.distance import jensenshannon

from equipoise.metrics import (
    GroupResult,
    ItemGroups,
    available,
    awrf,
    coverage_by_group,
    expected_exposure_loss,
    exposure_by_group,
    exposure_to_relevance,
    recall_by_group,
)

K = 4
#: item -> groups: 0 rock, 1 rock and jazz, 2 jazz, 3 none
OVERLAPPING = ItemGroups(("rock", "jazz"), [[1, 0], [1, 1], [0, 1], [0, 0]])


@pytest.fixture(scope="module")
def random_case():
    """Thirty users, twenty items, three overlapping groups; some lists are short."""
    rng = np.random.default_rng(5)
    lists = np.array([rng.permutation(20)[:K] for _ in range(30)])
    lists[::7, 2:] = -1
    train, test = (sp.csr_array(rng.random((30, 20)) < share) for share in (0.1, 0.15))
    test = sp.csr_array(test.toarray() & ~train.toarray())
    S = rng.random((20, 3)) < 0.4
    return lists, train.astype(float), test.astype(float), S


def test_an_item_of_two_groups_counts_in_both_and_one_of_none_only_in_the_whole():
    lists = [[0, 1], [3, -1]]
    assert exposure_by_group(lists, OVERLAPPING).by_group == pytest.approx(
        {"rock": 2 / 3, "jazz": 1 / 3}
    )
    recall = recall_by_group(lists, [[0, 1, 1, 1], [0, 0, 0, 1]], OVERLAPPING)
    assert recall.by_group == {"rock": 1.0, "jazz": 0.5}
    assert recall.overall == 0.5  # of four held-out items, 1 and 3 are found
    assert coverage_by_group(lists, OVERLAPPING).by_group == {"rock": 1.0, "jazz": 0.5}


def test_discounted_exposure_by_hand():
    groups = ItemGroups(("a", "b"), [0, 1, 1])
    second = 1 / np.log2(3)  # attention of the second place; the first has 1
    share = exposure_by_group([[1, 0]], groups, convention="discounted").by_group
    assert share == pytest.approx({"a": second / (1 + second), "b": 1 / (1 + second)})
    relative = exposure_by_group([[1, 0]], groups, convention="discounted_relative").by_group
    assert relative["a"] == pytest.approx(3 * share["a"])
    assert relative["b"] == pytest.approx(1.5 * share["b"])


def test_exposure_to_relevance_is_one_where_attention_follows_held_out_items():
    groups = ItemGroups(("a", "b"), [0, 0, 1, 1])
    found = exposure_to_relevance([[0], [2]], [[1, 1, 0, 0], [0, 0, 1, 1]], groups)
    assert found.by_group == {"a": 1.0, "b": 1.0}
    none_wanted = exposure_to_relevance([[0]], [[1, 0, 0, 0]], groups).by_group
    assert none_wanted["a"] == 1.0
    assert np.isnan(none_wanted["b"])


@pytest.mark.parametrize("convention", ["geometric", "log"])
def test_awrf_equals_its_definition_with_scipys_distance(random_case, convention):
    lists, _, _, S = random_case
    discount = (
        0.5 ** np.arange(K) if convention == "geometric" else 1 / np.log2(np.arange(2, K + 2))
    )
    catalog = S.sum(axis=0)
    expected = []
    for row in lists:
        given = sum(v * S[j] for v, j in zip(discount, row, strict=True) if j >= 0)
        if given.sum():
            expected.append(1 - jensenshannon(given, catalog, base=2) ** 2)
    found = awrf(lists, ItemGroups(("a", "b", "c"), S), convention=convention)
    assert found.value == pytest.approx(np.mean(expected))
    assert found.n == len(expected)


def test_awrf_is_one_where_every_list_is_divided_like_the_catalog():
    assert awrf([[0], [0]], ItemGroups(("a",), [0, 0])).value == 1.0


@pytest.mark.medium
def test_expected_exposure_loss_equals_the_mean_over_random_ideal_rankings(random_case):
    lists, train, test, S = random_case
    rng = np.random.default_rng(0)
    discount = 0.5 ** np.arange(K)
    asked = np.flatnonzero(np.diff(test.indptr))
    given, ideal = np.zeros(3), np.zeros(3)
    draws = 4000
    for user in asked:
        given += sum(v * S[j] for v, j in zip(discount, lists[user], strict=True) if j >= 0)
        wanted = np.flatnonzero(test[[user]].toarray().ravel())
        others = np.setdiff1d(np.setdiff1d(np.arange(20), train[[user]].indices), wanted)
        for _ in range(draws):
            ranking = np.append(rng.permutation(wanted), rng.permutation(others))[:K]
            ideal += discount @ S[ranking] / draws
    expected = np.sum(((given - ideal) / len(asked)) ** 2)
    groups = ItemGroups(("a", "b", "c"), S)
    assert expected_exposure_loss(lists, train, test, groups).value == pytest.approx(
        expected, rel=0.03
    )


def test_the_ideal_ranking_has_no_expected_exposure_loss():
    groups = ItemGroups(("a", "b"), [0, 1, 1, 0])
    seen = [[0, 0, 0, 1]]
    assert expected_exposure_loss([[1, 2]], seen, [[0, 1, 1, 0]], groups).value == 0.0


def test_impact_ratios_compare_with_the_best_served_group():
    found = GroupResult(0.5, {"a": 0.4, "b": 0.5, "c": float("nan")}, "recall", "pooled")
    assert found.impact_ratios["a"] == pytest.approx(0.8)
    assert found.impact_ratios["b"] == 1.0
    assert np.isnan(found.impact_ratios["c"])
    assert min(v for v in found.impact_ratios.values() if v == v) == pytest.approx(found.ratio)


def test_the_metrics_of_groups_are_in_the_registry():
    wanted = {"exposure_to_relevance", "group_coverage", "awrf", "expected_exposure_loss"}
    assert wanted <= set(available())

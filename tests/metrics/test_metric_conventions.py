"""One toy case as each library's own code scores it."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.metrics import (
    average_popularity,
    average_tail_count,
    average_tail_share,
    entropy,
    find_metric,
    gini,
    mrr_at_k,
    ndcg_at_k,
    popreo,
    poprsp,
    popularity_groups,
    precision_at_k,
    recall_at_k,
    recommendation_counts,
)

POPULARITY = [50, 20, 10, 5, 3, 2]
LISTS = np.array([[0, 1, 2], [0, 1, 3], [0, 2, 4], [0, 1, 2]])
HELD_OUT = [[1, 5], [3], [0, 2, 4, 5], [5]]
TEST = sp.csr_array(np.array([[j in items for j in range(6)] for items in HELD_OUT], dtype=float))
HEAD_AND_TAIL = popularity_groups(POPULARITY, rule="head80")


def test_the_head_covers_80_percent_of_the_interactions():
    assert HEAD_AND_TAIL.items("head").tolist() == [0, 1, 2]
    assert HEAD_AND_TAIL.items("tail").tolist() == [3, 4, 5]


@pytest.mark.parametrize(
    ("convention", "expected"),
    [
        ("standard", 0.388889),
        ("warprec", 0.466667),
        ("elliot", 0.533333),
        ("recbole", 0.476190),
        ("evidently", 0.333333),
    ],
)
def test_gini(convention, expected):
    result = gini(recommendation_counts(LISTS, 6), convention=convention)
    assert (result.value, result.convention) == (pytest.approx(expected, abs=5e-7), convention)


@pytest.mark.parametrize(
    ("convention", "expected"),
    [("raw", 24.833333), ("rectools", 0.275926), ("evidently", 0.496667)],
)
def test_average_popularity(convention, expected):
    result = average_popularity(LISTS, POPULARITY, convention=convention)
    assert (result.value, result.convention) == (pytest.approx(expected, abs=5e-7), convention)


@pytest.mark.parametrize(
    ("convention", "expected"), [("bits", 2.125815), ("nats", 1.473502), ("recbole", 0.294700)]
)
def test_entropy(convention, expected):
    result = entropy(recommendation_counts(LISTS, 6), convention=convention)
    assert (result.value, result.convention) == (pytest.approx(expected, abs=5e-7), convention)


def test_long_tail_shares_and_group_deviations():
    assert average_tail_share(LISTS, HEAD_AND_TAIL).value == pytest.approx(0.166667, abs=5e-7)
    assert average_tail_count(LISTS, HEAD_AND_TAIL).value == 0.5
    assert popreo(LISTS, TEST, HEAD_AND_TAIL).value == pytest.approx(0.428571, abs=5e-7)
    assert poprsp(LISTS, HEAD_AND_TAIL).value == pytest.approx(0.666667, abs=5e-7)
    assert poprsp(LISTS, HEAD_AND_TAIL, sp.csr_array((4, 6))).value == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("metric", "convention", "expected"),
    [
        (ndcg_at_k, "standard", 0.471713),
        (ndcg_at_k, "rectools", 0.382680),
        (ndcg_at_k, "lenskit", 0.532732),
        (recall_at_k, "standard", 0.5625),
        (recall_at_k, "capped", 0.625),
        (precision_at_k, "standard", 0.416667),
        (precision_at_k, "implicit", 0.714286),
        (mrr_at_k, "standard", (1 / 2 + 1 / 3 + 1 + 0) / 4),
        (mrr_at_k, "lightgcn", (1 / 2 + 1 / 3 + (1 + 1 / 2 + 1 / 3) + 0) / 4),
    ],
)
def test_ranking_metrics(metric, convention, expected):
    result = metric(LISTS, TEST, 3, convention=convention)
    assert (result.value, result.convention) == (pytest.approx(expected, abs=5e-7), convention)


def test_ranking_metrics_of_arrays_take_whole_lists():
    found = find_metric("ndcg").of_arrays(LISTS, test=TEST, convention="rectools")
    assert found.value == ndcg_at_k(LISTS, TEST, k=3, convention="rectools").value

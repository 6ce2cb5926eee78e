from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import (
    RANKING_METRICS,
    find_metric,
    hit_rate_at_k,
    map_at_k,
    mrr_at_k,
    ndcg_at_k,
    precision_at_k,
    ranking_metrics,
    recall_at_k,
)
from equipoise.metrics.metric import UserBlock


def random_case(seed, n=30, m=25, K=8):
    rng = np.random.default_rng(seed)
    lists = np.argsort(rng.random((n, m)), axis=1)[:, :K]
    short = rng.random(n) < 0.2
    lists[short, K // 2 :] = -1
    test = sp.csr_array((rng.random((n, m)) < 0.15).astype(float))
    return lists, test


def by_definition(metric, convention, recommended, relevant, k):
    """One user, straight from the formula with Python sets."""
    ranks = [t for t, item in enumerate(recommended[:k], start=1) if item in relevant]
    if metric == "recall":
        return len(ranks) / (len(relevant) if convention == "standard" else min(len(relevant), k))
    if metric == "precision":
        return len(ranks) / (k if convention == "standard" else min(len(relevant), k))
    if metric == "hit_rate":
        return float(bool(ranks))
    if metric == "mrr":
        terms = [1 / t for t in ranks]
        return sum(terms) if convention == "lightgcn" else max(terms, default=0.0)
    if metric == "map":
        terms = [(c + 1) / t for c, t in enumerate(ranks)]
        return sum(terms) / (len(relevant) if convention == "standard" else min(len(relevant), k))
    length = k if convention == "rectools" else min(len(relevant), k)
    shift = 0 if convention == "lenskit" else 1
    discount = [1 / np.log2(max(t + shift, 2)) for t in range(1, k + 1)]
    return sum(discount[t - 1] for t in ranks) / sum(discount[:length])


EVERY_CONVENTION = [(m, c) for m in RANKING_METRICS for c in find_metric(m).conventions]


@pytest.mark.parametrize(("metric", "convention"), EVERY_CONVENTION)
def test_every_user_scores_by_the_definition(metric, convention):
    lists, test = random_case(0)
    table = ranking_metrics(
        lists, test, k=(1, 3, 8), metrics=[metric], conventions={metric: convention}
    )
    for result in table:
        assert result.convention == convention
        for user, value in enumerate(result.per_user):
            relevant = set(test.indices[test.indptr[user] : test.indptr[user + 1]].tolist())
            if relevant:
                expected = by_definition(
                    metric, convention, lists[user].tolist(), relevant, result.k
                )
                assert value == pytest.approx(expected, abs=1e-14)
            else:
                assert np.isnan(value)


@pytest.mark.parametrize(
    ("metric", "alone"),
    [
        ("recall", recall_at_k),
        ("precision", precision_at_k),
        ("ndcg", ndcg_at_k),
        ("mrr", mrr_at_k),
        ("map", map_at_k),
        ("hit_rate", hit_rate_at_k),
    ],
)
def test_a_metric_alone_equals_the_same_in_the_table(metric, alone):
    lists, test = random_case(1)
    table = ranking_metrics(lists, test, k=5)
    single = alone(lists, test, k=5)
    assert single == table[f"{metric}@5"]
    assert float(single) == pytest.approx(np.nanmean(single.per_user))


def test_users_without_test_items_are_left_out_or_count_zero():
    lists = [[0, 1], [0, 1]]
    test = sp.csr_array(np.array([[1, 0, 1], [0, 0, 0]]))
    left_out = recall_at_k(lists, test, k=2)
    assert left_out.value == 0.5
    np.testing.assert_array_equal(left_out.per_user, [0.5, np.nan])
    counted = recall_at_k(lists, test, k=2, zero_division=0)
    assert counted.value == 0.25
    np.testing.assert_array_equal(counted.per_user, [0.5, 0.0])


def test_pooled_precision_gives_users_without_items_no_weight():
    test = sp.csr_array(np.array([[1, 0, 1], [0, 0, 0]]))
    for zero_division in (np.nan, 0):
        result = precision_at_k(
            [[0, 1], [0, 1]], test, 2, convention="implicit", zero_division=zero_division
        )
        assert result.value == 0.5


def test_nobody_with_test_items_gives_nan():
    for metric in RANKING_METRICS:
        table = ranking_metrics([[0, 1]], sp.csr_array((1, 3)), k=2, metrics=[metric])
        assert np.isnan(table.rows[0].value)


def test_a_perfect_list_scores_one_everywhere():
    test = sp.csr_array(np.array([[1, 1, 0, 0]]))
    table = ranking_metrics([[1, 0]], test, k=2)
    assert [result.value for result in table] == [1.0] * len(RANKING_METRICS)


def test_a_list_of_padding_scores_zero_everywhere():
    test = sp.csr_array(np.array([[0, 0, 1], [1, 0, 0]]))
    table = ranking_metrics([[-1, -1], [-1, -1]], test, k=2)
    assert [result.value for result in table] == [0.0] * len(RANKING_METRICS)


def test_longer_lists_never_lower_recall():
    lists, test = random_case(2)
    table = ranking_metrics(lists, test, k=range(1, 9), metrics=["recall"])
    assert (np.diff([result.value for result in table]) >= 0).all()


def test_users_are_measured_in_slices_without_changing_the_means():
    """Of lists of 2^16 items, those of 16 users are measured at a time."""
    rng = np.random.default_rng(3)
    n, m = 18, 2**16
    lists = rng.permuted(np.tile(np.arange(m), (n, 1)), axis=1)
    test = sp.random_array((n, m), density=0.001, random_state=rng, format="csr")
    whole = ranking_metrics(lists, test, k=m)
    thirds = [ranking_metrics(lists[i::3], test[i::3], k=m) for i in range(3)]
    expected = np.mean([[result.value for result in table] for table in thirds], axis=0)
    np.testing.assert_allclose([result.value for result in whole], expected, rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.int32, np.int64, np.int8]))
def test_hits_are_the_set_intersection(seed, dtype):
    lists, test = random_case(seed, n=6, m=9, K=5)
    dense = test.toarray() > 0
    expected = np.where(lists >= 0, dense[np.arange(6)[:, None], lists], False)
    found = UserBlock(lists.astype(dtype), held_out=test).hits
    np.testing.assert_array_equal(found, expected)


def test_unsigned_lists_are_read_like_signed_ones():
    lists, test = random_case(4)
    lists = lists[:, :4]  # short lists are padded behind the fourth place
    assert recall_at_k(lists.astype(np.uint64), test, 4) == recall_at_k(lists, test, 4)


def test_the_numbers_are_those_of_implicit():
    evaluation = pytest.importorskip("implicit.evaluation")
    lists, test = random_case(9)
    order = np.argsort(np.random.default_rng(9).random(test.shape), axis=1)
    lists = order[:, :8].astype(np.int32)

    class Recommender:
        def recommend(self, users, _user_items, N, **_options):
            return lists[users][:, :N], None

    train = sp.csr_matrix(test.shape)
    peer = evaluation.ranking_metrics_at_k(
        Recommender(), train, sp.csr_matrix(test), K=8, show_progress=False
    )
    table = ranking_metrics(
        lists,
        test,
        k=8,
        metrics=("precision", "map", "ndcg"),
        conventions={"precision": "implicit", "map": "capped"},
    )
    for result in table:
        assert result.value == pytest.approx(peer[result.metric], rel=1e-12)


@pytest.mark.slow
def test_conventions_shared_with_ranx_give_its_numbers():
    ranx = pytest.importorskip("ranx.metrics")
    typed_list = pytest.importorskip("numba.typed").List
    lists, test = random_case(5)
    lists = np.where(lists < 0, 1000 + np.arange(8), lists)  # ranx knows no padding
    users = np.flatnonzero(np.diff(test.indptr))
    qrels, run = typed_list(), typed_list()
    for user in users:
        items = test.indices[test.indptr[user] : test.indptr[user + 1]]
        qrels.append(np.column_stack([items, np.ones(len(items))]).astype(float))
        run.append(np.column_stack([lists[user], np.arange(8, 0, -1)]).astype(float))
    table = ranking_metrics(np.where(lists >= 1000, -1, lists), test, k=5)
    peers = {
        "recall": ranx.recall,
        "precision": ranx.precision,
        "ndcg": ranx.ndcg,
        "mrr": ranx.reciprocal_rank,
        "map": ranx.average_precision,
        "hit_rate": ranx.hit_rate,
    }
    for metric, peer in peers.items():
        np.testing.assert_allclose(
            table[f"{metric}@5"].per_user[users], peer(qrels, run, 5), rtol=1e-12
        )


def test_unknown_names_are_refused_with_the_choices():
    lists, test = random_case(6)
    with pytest.raises(InvalidParameterError, match=r"metric must be one of \['recall', .*'auc'"):
        ranking_metrics(lists, test, k=5, metrics=["auc"])
    with pytest.raises(InvalidParameterError, match=r"\['standard', 'rectools', 'lenskit'\].*'x'"):
        ndcg_at_k(lists, test, 5, convention="x")
    with pytest.raises(InvalidParameterError, match=r"zero_division must be nan or 0"):
        recall_at_k(lists, test, 5, zero_division="skip")
    with pytest.raises(InvalidParameterError, match="conventions: metric"):
        ranking_metrics(lists, test, k=5, metrics=["recall"], conventions={"mrr": "lightgcn"})
    with pytest.raises(InvalidParameterError, match=r"metric must be one of .*got 'r'"):
        ranking_metrics(lists, test, k=5, metrics="recall")


@pytest.mark.parametrize("k", [0, 9])
def test_a_k_outside_the_lists_is_refused(k):
    lists, test = random_case(7)
    with pytest.raises(InvalidParameterError, match="from 1 to 8"):
        recall_at_k(lists, test, k)


def test_lists_that_do_not_fit_the_test_matrix_are_refused():
    lists, test = random_case(8)
    with pytest.raises(InvalidDataError, match="top_items has 29 rows for 30 users"):
        recall_at_k(lists[1:], test, 5)
    with pytest.raises(InvalidDataError, match=r"from 0 to 24.* found .* to 25"):
        recall_at_k(lists + 1, test, 5)
    with pytest.raises(InvalidDataError, match="found -3 to"):
        recall_at_k(lists - 2, test, 5)
    with pytest.raises(InvalidDataError, match="users × k array"):
        recall_at_k(lists.astype(float), test, 5)


def test_negative_or_nan_test_entries_are_refused():
    with pytest.raises(InvalidDataError, match="test must not be negative"):
        recall_at_k([[0]], [[-1.0]], 1)
    with pytest.raises(InvalidDataError, match="test has NaN"):
        recall_at_k([[0]], [[np.nan]], 1)


def test_a_list_that_would_count_an_item_twice_is_refused():
    with pytest.raises(InvalidDataError, match=r"item 2 more than once .* row 1"):
        recall_at_k([[0, 1, 2], [2, 0, 2]], [[1, 0, 0], [0, 0, 1]], 3)

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import trapezoid
from scipy.spatial.distance import jensenshannon
from scipy.stats import pearsonr, rankdata, spearmanr

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import (
    ItemGroups,
    average_popularity,
    average_tail_count,
    average_tail_share,
    catalog_coverage,
    efd,
    entropy,
    epc,
    exposure_by_group,
    gini,
    mean_by_group,
    mean_popularity_rank,
    popreo,
    poprsp,
    popularity_groups,
    popularity_lift,
    popularity_miscalibration,
    popularity_opportunity_bias,
    recall_by_group,
    recommendation_counts,
)
from equipoise.metrics.popularity import average_ranks


@pytest.fixture
def case():
    rng = np.random.default_rng(20)
    train = sp.csr_array((rng.random((50, 30)) < np.linspace(0.6, 0.05, 30)).astype(float))
    test = sp.csr_array((rng.random((50, 30)) < np.linspace(0.3, 0.05, 30)).astype(float))
    lists = np.argsort(rng.random((50, 30)) + np.linspace(0, 1, 30), axis=1)[:, :6]
    lists[7] = -1
    lists[8, 2:] = -1
    return train, test, lists


# Groups


def test_groups_by_interactions_cover_the_shares_they_name():
    X = sp.random_array((80, 40), density=0.3, random_state=np.random.default_rng(21), format="csr")
    mass = X.sum(axis=0)
    groups = popularity_groups(X)
    high, low = mass[groups.items("popular")], mass[groups.items("niche")]
    assert high.sum() >= 0.1 * mass.sum() > high.sum() - high.min()
    assert low.sum() <= 0.1 * mass.sum() < low.sum() + mass[groups.items("medium")].min()
    assert high.min() >= mass[groups.items("medium")].max()
    assert groups.rule == "interactions(0.1, 0.1)"


def test_item_groups_take_a_tenth_of_the_items_by_column_norm():
    X = sp.random_array((80, 45), density=0.3, random_state=np.random.default_rng(22), format="csr")
    groups = popularity_groups(X, rule="items")
    order = np.argsort(-np.linalg.norm(X.toarray(), axis=0))
    assert set(groups.items("popular")) == set(order[:4])
    assert set(groups.items("niche")) == set(order[-4:])
    assert groups.sizes == {"popular": 4, "medium": 37, "niche": 4}


def test_the_head_is_measured_by_the_number_of_users():
    X = np.array([[9.0, 1, 1, 1], [0, 1, 1, 0], [0, 1, 0, 0], [0, 1, 0, 0]])
    assert popularity_groups(X, rule="head80").items("head").tolist() == [0, 1, 2]
    assert popularity_groups(X, rule="head80", top=0.5).items("head").tolist() == [1]


def test_a_share_that_is_covered_exactly_needs_no_further_item():
    assert popularity_groups([9.0, 1.0], bottom=0.1).sizes == {
        "popular": 1,
        "medium": 0,
        "niche": 1,
    }
    sizes = popularity_groups(np.ones(10)).sizes
    assert sizes == {"popular": 1, "medium": 8, "niche": 1}
    assert popularity_groups(np.full(10, 0.1)).sizes == sizes
    assert 0.55 * 100 > 55  # in binary
    assert popularity_groups(np.ones(100), top=0.55).sizes["popular"] == 55


def test_of_equally_popular_items_the_smaller_index_counts_as_more_popular():
    groups = popularity_groups(np.ones(10), rule="items", top=0.2, bottom=0.3)
    assert groups.codes.tolist() == [0, 0, 1, 1, 1, 1, 1, 2, 2, 2]


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=30).filter(any),
    st.sampled_from(["interactions", "items", "head80"]),
)
def test_every_item_is_in_one_group_and_groups_descend_in_popularity(popularity, rule):
    groups = popularity_groups(popularity, rule=rule)
    assert sum(groups.sizes.values()) == len(popularity)
    by_code = np.asarray(popularity)[np.argsort(groups.codes, kind="stable")]
    edges = np.cumsum(list(groups.sizes.values()))[:-1]
    parts = [part for part in np.split(by_code, edges) if len(part)]
    for more, less in itertools.pairwise(parts):
        assert more.min() >= less.max()


def test_bad_group_arguments_are_refused():
    with pytest.raises(
        InvalidParameterError, match=r"one of \['interactions', 'items', 'head80'\]"
    ):
        popularity_groups([1, 2], rule="thirds")
    with pytest.raises(InvalidParameterError, match="must not overlap"):
        popularity_groups([1, 2], top=0.6, bottom=0.5)
    with pytest.raises(InvalidParameterError, match="top must lie strictly between"):
        popularity_groups([1, 2], top=10)
    with pytest.raises(InvalidParameterError, match="leave bottom out"):
        popularity_groups([1, 2], rule="head80", bottom=0.1)
    with pytest.raises(InvalidDataError, match="zero for every item"):
        popularity_groups([0, 0])
    with pytest.raises(InvalidDataError, match="popularity must be finite"):
        popularity_groups([1, -1])
    with pytest.raises(InvalidDataError, match="popularity must not be negative"):
        popularity_groups(-np.eye(2))


def test_bad_groups_are_refused():
    with pytest.raises(InvalidDataError, match=r"codes must lie .* \(2 names\)"):
        ItemGroups(("a", "b"), [0, 2])
    with pytest.raises(InvalidDataError, match="one group index per item"):
        ItemGroups(("a",), [0.0])
    with pytest.raises(InvalidParameterError, match=r"one of \['a'\], got 'b'"):
        ItemGroups(("a",), [0]).items("b")


def test_means_by_group_leave_nan_items_out_and_an_empty_group_is_nan():
    groups = ItemGroups(("a", "b", "c"), [0, 0, 1])
    result = mean_by_group([1.0, np.nan, 4.0], groups)
    assert (result.by_group["a"], result.by_group["b"], result.overall) == (1.0, 4.0, 2.5)
    assert np.isnan(result.by_group["c"])
    assert (result.difference, result.ratio) == (3.0, 0.25)
    assert result.convention == "item mean, groups: given"


# Exposure


@given(st.lists(st.integers(0, 30), min_size=1, max_size=20).filter(any))
def test_gini_is_twice_the_area_between_the_lorenz_curve_and_equality(counts):
    lorenz = np.concatenate([[0], np.cumsum(np.sort(counts))]) / sum(counts)
    area = trapezoid(lorenz, dx=1 / len(counts))
    assert gini(counts).value == pytest.approx(1 - 2 * area, abs=1e-12)


def test_gini_of_equal_counts_is_zero_and_of_one_item_alone_nearly_one():
    assert gini(np.full(9, 4)).value == 0
    assert gini([0] * 99 + [7]).value == pytest.approx(0.99)
    assert gini([0] * 99 + [7], convention="warprec").value == pytest.approx(1)


def test_entropy_of_equal_exposure_is_the_logarithm_of_the_catalog():
    assert entropy(np.ones(32)).value == pytest.approx(5)
    assert entropy(np.ones(32), convention="nats").value == pytest.approx(np.log(32))


def test_nothing_recommended_has_no_gini_and_no_entropy_and_covers_nothing():
    assert np.isnan(gini([0, 0]).value)
    assert np.isnan(entropy([0, 0]).value)
    assert catalog_coverage([0, 0]).value == 0
    assert np.isnan(catalog_coverage([]).value)


def test_coverage_counts_distinct_items(case):
    _, _, lists = case
    expected = len(set(lists[lists >= 0].tolist())) / 30
    assert catalog_coverage(recommendation_counts(lists, 30)).value == expected


def test_exposure_by_group_is_the_share_of_places(case):
    _, _, lists = case
    groups = ItemGroups(("a", "b"), [0] * 10 + [1] * 20)
    shown = lists[lists >= 0]
    result = exposure_by_group(lists, groups)
    assert result.by_group["a"] == pytest.approx((shown < 10).mean())
    assert sum(result.by_group.values()) == pytest.approx(result.overall)
    relative = exposure_by_group(lists, groups, convention="relative")
    assert relative.by_group["a"] == pytest.approx(3 * (shown < 10).mean())
    assert relative.convention == "relative, groups: given"


def test_lists_of_padding_only_have_no_exposure():
    result = exposure_by_group([[-1, -1]], ItemGroups(("a",), [0, 0]))
    assert np.isnan(result.overall)
    assert np.isnan(result.by_group["a"])


def test_unknown_conventions_are_refused_with_the_choices():
    groups = ItemGroups(("a",), [0])
    with pytest.raises(InvalidParameterError, match=r"gini must be one of \['standard'"):
        gini([1], convention="x")
    with pytest.raises(InvalidParameterError, match=r"entropy must be one of \['bits'"):
        entropy([1], convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['raw', 'rectools', 'evidently'\]"):
        average_popularity([[0]], [1], convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['rank', 'percentile'\]"):
        mean_popularity_rank([[0]], [1], convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['share', 'relative'"):
        exposure_by_group([[0]], groups, convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['pooled', 'user_mean'\]"):
        recall_by_group([[0]], [[1]], groups, convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['spearman', 'pearson', 'gini'\]"):
        popularity_opportunity_bias([[0]], [[1]], [1], convention="x")
    with pytest.raises(InvalidParameterError, match=r"epc must be one of \['standard'"):
        epc([[0]], [[1]], convention="x")
    with pytest.raises(InvalidParameterError, match=r"one of \['a'\], got 'tail'"):
        average_tail_share([[0]], groups)


# Popularity of the lists


def test_average_popularity_is_the_mean_over_users_of_their_own_mean(case):
    train, _, lists = case
    popularity = (train.toarray() > 0).sum(axis=0)
    expected = [popularity[row[row >= 0]].mean() for row in lists if (row >= 0).any()]
    result = average_popularity(lists, popularity)
    assert result.value == pytest.approx(np.mean(expected))
    assert np.flatnonzero(np.isnan(result.per_user)).tolist() == [7]


def test_popularity_of_nothing_cannot_be_normalized():
    assert average_popularity([[0]], [0.0]).value == 0
    with pytest.raises(InvalidDataError, match="cannot be normalized"):
        average_popularity([[0]], [0.0], convention="rectools")


def test_tail_share_and_count_differ_where_lists_are_short():
    groups = ItemGroups(("head", "tail"), [0, 1, 1])
    lists = [[0, 1], [1, -1], [-1, -1]]
    np.testing.assert_array_equal(average_tail_share(lists, groups).per_user, [0.5, 1.0, np.nan])
    np.testing.assert_array_equal(average_tail_count(lists, groups).per_user, [1, 1, 0])


@given(st.lists(st.integers(0, 5), min_size=1, max_size=15))
def test_ranks_with_ties_are_scipys(values):
    np.testing.assert_array_equal(average_ranks(np.array(values, float)), rankdata(values))


def test_popularity_ranks_of_lists_and_of_the_same_items_as_a_matrix_agree():
    popularity = [5, 9, 9, 1]
    lists = np.array([[0, 1], [3, 2]])
    matrix = sp.csr_array(np.array([[1, 1, 0, 0], [0, 0, 1, 1]]))
    assert mean_popularity_rank(lists, popularity).per_user.tolist() == [2.25, 2.75]
    assert mean_popularity_rank(matrix, popularity).per_user.tolist() == [2.25, 2.75]
    percentile = mean_popularity_rank(lists, popularity, convention="percentile")
    np.testing.assert_allclose(percentile.per_user, [1.25 / 3, 1.75 / 3])


def test_popularity_lift_is_zero_for_lists_like_the_history():
    profiles = sp.csr_array(np.array([[1, 1, 0], [0, 1, 1]]))
    assert popularity_lift([[0, 1], [1, 2]], profiles, [30, 20, 10]).value == 0


def test_popularity_lift_compares_the_means_of_users_who_have_both():
    profiles = sp.csr_array(np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0], [1, 0, 0]]))
    result = popularity_lift([[0], [0], [0], [-1]], profiles, [30, 20, 10])
    assert result.value == pytest.approx((30 - 15) / 15)
    np.testing.assert_allclose(result.per_user, [0.5, 2.0, np.nan, np.nan])


def test_popularity_lift_over_a_history_without_popularity_is_nan():
    assert np.isnan(popularity_lift([[0]], [[0, 1]], [5, 0]).value)


def test_miscalibration_is_the_squared_jensen_shannon_distance(case):
    train, _, lists = case
    groups = popularity_groups(train)
    result = popularity_miscalibration(lists, train, groups)

    def shares(items):
        return np.bincount(groups.codes[items], minlength=3) / len(items)

    for user in (0, 8, 30):
        history = train.indices[train.indptr[user] : train.indptr[user + 1]]
        shown = lists[user][lists[user] >= 0]
        expected = jensenshannon(shares(history), shares(shown), base=2) ** 2
        assert result.per_user[user] == pytest.approx(expected, abs=1e-12)
    assert np.isnan(result.per_user[7])
    assert result.value == pytest.approx(np.nanmean(result.per_user))
    assert result.convention == "Jensen-Shannon, groups: interactions(0.1, 0.1)"


def test_histories_that_do_not_fit_are_refused():
    groups = ItemGroups(("a",), [0, 0])
    with pytest.raises(InvalidDataError, match="train has 3, groups has 2"):
        popularity_miscalibration([[0]], [[1, 0, 0]], groups)
    with pytest.raises(InvalidDataError, match="top_items has 2 rows for 1 users"):
        popularity_miscalibration([[0], [0]], [[1, 0]], groups)
    with pytest.raises(InvalidDataError, match="popularity has 3"):
        popularity_lift([[0]], [[1, 0]], [1, 2, 3])


# Novelty


def test_flat_novelty_is_the_mean_over_the_list(case):
    train, _, lists = case
    counts = (train.toarray() > 0).sum(axis=0)
    shown = [row[row >= 0] for row in lists if (row >= 0).any()]
    expected = np.mean([(1 - counts[row] / 50).mean() for row in shown])
    assert epc(lists, train, convention="flat").value == pytest.approx(expected)
    expected = np.mean([-np.log2(counts[row] / counts.sum()).mean() for row in shown])
    assert efd(lists, train, convention="flat").value == pytest.approx(expected)


def test_standard_novelty_counts_held_out_items_by_their_rank(case):
    train, test, lists = case
    counts = (train.toarray() > 0).sum(axis=0)
    values = []
    for user, row in enumerate(lists):
        relevant = set(test.indices[test.indptr[user] : test.indptr[user + 1]].tolist())
        row = row[row >= 0]
        if relevant and len(row):
            discount = 1 / np.log2(np.arange(2, len(row) + 2))
            hit = np.array([item in relevant for item in row])
            values.append(hit * discount @ (1 - counts[row] / 50) / discount.sum())
    result = epc(lists, train, test)
    assert result.value == pytest.approx(np.mean(values))
    assert result.convention == "standard"
    assert np.isnan(result.per_user[7])


def test_standard_novelty_leaves_out_users_without_held_out_items():
    result = epc([[1], [1]], [[1, 0], [1, 1]], [[0, 1], [0, 0]])
    np.testing.assert_array_equal(result.per_user, [0.5, np.nan])
    assert result.value == 0.5


def test_an_item_that_nobody_knows_is_as_novel_as_the_rarest_known_one():
    train = sp.csr_array(np.array([[1, 1, 0], [1, 0, 0]]))
    result = efd([[2], [1]], train, convention="flat")
    assert result.per_user[0] == result.per_user[1] == pytest.approx(np.log2(3))


def test_novelty_without_what_it_needs_is_refused():
    with pytest.raises(InvalidParameterError, match="convention needs test"):
        epc([[0]], [[1, 0]])
    with pytest.raises(InvalidDataError, match="train has no positive entry"):
        efd([[0]], [[0, 0]], convention="flat")
    with pytest.raises(InvalidDataError, match="same users and items"):
        epc([[0]], [[1, 0]], [[1, 0, 1]])


# Fairness


def test_pooled_recall_by_group_counts_all_users_together(case):
    _, test, lists = case
    groups = ItemGroups(("a", "b"), [0] * 10 + [1] * 20)
    dense = test.toarray() > 0
    shown = np.zeros_like(dense)
    for user, row in enumerate(lists):
        shown[user, row[row >= 0]] = True
    result = recall_by_group(lists, test, groups)
    for name, columns in (("a", slice(0, 10)), ("b", slice(10, 30))):
        expected = (shown & dense)[:, columns].sum() / dense[:, columns].sum()
        assert result.by_group[name] == pytest.approx(expected)
    assert result.overall == pytest.approx((shown & dense).sum() / dense.sum())
    values = list(result.by_group.values())
    assert popreo(lists, test, groups).value == pytest.approx(np.std(values) / np.mean(values))


def test_recall_by_group_as_a_mean_over_users():
    groups = ItemGroups(("a", "b"), [0, 0, 1])
    test = [[1, 1, 1], [1, 0, 0], [0, 0, 0]]
    result = recall_by_group([[0], [0], [0]], test, groups, convention="user_mean")
    assert dict(result.by_group) == {"a": 0.75, "b": 0.0}
    assert result.overall == pytest.approx((1 / 3 + 1) / 2)


def test_a_group_without_held_out_items_is_nan_and_left_out():
    groups = ItemGroups(("a", "b", "c"), [0, 1, 2])
    result = recall_by_group([[0]], [[1, 1, 0]], groups)
    assert np.isnan(result.by_group["c"])
    assert (result.difference, result.ratio) == (1.0, 0.0)
    assert popreo([[0]], [[1, 1, 0]], groups).value == 1.0


def test_no_hits_at_all_leave_the_deviation_undefined():
    groups = ItemGroups(("a", "b"), [0, 1])
    assert np.isnan(popreo([[-1]], [[1, 1]], groups).value)
    assert np.isnan(poprsp([[-1]], groups).value)


def test_statistical_parity_leaves_out_what_could_not_be_recommended():
    groups = ItemGroups(("a", "b"), [0, 0, 1])
    train = [[1, 0, 0], [1, 0, 0]]  # one of the two items of a is open to each user
    assert poprsp([[1, 2], [1, 2]], groups, train).value == 0
    assert poprsp([[1, 2], [1, 2]], groups).value == pytest.approx(0.25 / 0.75)


def test_everything_seen_leaves_no_parity():
    assert np.isnan(poprsp([[-1]], ItemGroups(("a",), [0]), [[1]]).value)


@pytest.mark.parametrize(("convention", "peer"), [("spearman", spearmanr), ("pearson", pearsonr)])
def test_opportunity_bias_is_the_correlation_of_popularity_and_recall(case, convention, peer):
    train, test, lists = case
    popularity = (train.toarray() > 0).sum(axis=0)
    found, held_out = np.zeros(30), (test.toarray() > 0).sum(axis=0)
    for user, row in enumerate(lists):
        for item in row[row >= 0]:
            found[item] += test[user, item] > 0
    rated = held_out > 0
    expected = peer(popularity[rated], (found[rated] / held_out[rated])).statistic
    result = popularity_opportunity_bias(lists, test, popularity, convention=convention)
    assert result.value == pytest.approx(expected, abs=1e-12)


def test_the_gini_of_opportunity_has_the_sign_of_the_bias():
    test = np.ones((1, 4))
    lists = [[0, 1]]
    popular = popularity_opportunity_bias(lists, test, [9, 8, 2, 1], convention="gini").value
    unpopular = popularity_opportunity_bias(lists, test, [1, 2, 8, 9], convention="gini").value
    assert popular == -unpopular == 0.5
    assert np.isnan(
        popularity_opportunity_bias([[-1]], test, [1, 2, 3, 4], convention="gini").value
    )


def test_equal_opportunity_has_no_correlation():
    assert np.isnan(popularity_opportunity_bias([[0, 1]], [[1, 1]], [5, 1]).value)
    assert np.isnan(popularity_opportunity_bias([[0]], sp.csr_array((1, 2)), [5, 1]).value)


def test_groups_and_matrices_of_other_shapes_are_refused():
    groups = ItemGroups(("a",), [0, 0])
    with pytest.raises(InvalidDataError, match="test has 3, groups has 2"):
        recall_by_group([[0]], [[1, 0, 0]], groups)
    with pytest.raises(InvalidDataError, match="train has 3, groups has 2"):
        poprsp([[0]], groups, [[1, 0, 0]])
    with pytest.raises(InvalidDataError, match="popularity has 3"):
        popularity_opportunity_bias([[0]], [[1, 0]], [1, 2, 3])

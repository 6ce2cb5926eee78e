from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions
from equipoise import metrics as m
from equipoise.audit import audit, plan
from equipoise.audit.evidence import shuffled
from equipoise.audit.measure import means_by_group
from equipoise.audit.plan import EFFORTS
from equipoise.data.synthetic import listening, scale

# Items that are shown of 1,500
SHOWN = 1250


def data() -> Interactions:
    return scale(400, 1500, 9000, seed=1)


def sampled_audit():
    """An audit under limits that a few hundred users and items go beyond."""
    with pytest.MonkeyPatch.context() as patch:
        few = plan.EFFORTS["quick"]._replace(
            auc_scores=1000, users=50, search_users=50, listed_items=SHOWN
        )
        patch.setitem(plan.EFFORTS, "quick", few)
        return audit(data(), rank=4, seed=2, budget=0, depth="quick")


@pytest.fixture(scope="module")
def sampled():
    return sampled_audit()


@pytest.mark.medium
def test_a_large_catalog_is_sampled_and_every_sample_is_stated(sampled):
    assert len(sampled.items.ids) == SHOWN
    notes = " ".join(sampled.settings.notes)
    assert "300 of 1,500 items" in notes
    assert "50 users, drawn at random" in notes
    assert f"{SHOWN:,} of 1,500 items are listed" in notes
    known = np.isfinite(sampled.variants[0].auc_by_item)
    assert 0 < known.sum() <= 300


@pytest.mark.medium
def test_all_extremes_are_among_the_shown_items(sampled):
    fitted = data().holdout(seed=2).train_validation
    popularity = fitted.popularity("count")
    order = np.argsort(-popularity, kind="stable")
    shown = set(sampled.items.columns.tolist())
    assert set(order[:500].tolist()) <= shown
    assert set(order[-500:].tolist()) <= shown
    np.testing.assert_allclose(sampled.items.popularity, popularity[sampled.items.columns])
    for view in sampled.users:
        assert max(view.history, default=0) < SHOWN
        for listed in view.recommended.values():
            assert all(0 <= one.item < SHOWN for one in listed)


@pytest.mark.medium
def test_neighbors_of_a_sample_are_positions_in_it(sampled):
    for variant in sampled.compared:
        assert variant.neighbors.shape == (SHOWN, 10)
        assert variant.neighbors.max() < SHOWN
        own = np.arange(SHOWN)[:, None]
        assert not (variant.neighbors == own).any()


@pytest.mark.medium
def test_sampled_audits_are_repeatable(sampled):
    again = sampled_audit()
    np.testing.assert_array_equal(again.items.columns, sampled.items.columns)
    np.testing.assert_array_equal(
        again.variants[3].means["item_auc"]["niche"], sampled.variants[3].means["item_auc"]["niche"]
    )


def test_means_of_a_whole_sample_are_the_plain_means():
    rng = np.random.default_rng(0)
    groups = m.ItemGroups(("popular", "niche"), [0] * 3 + [1] * 7)
    values = rng.random((2, 10))
    values[:, 4] = np.nan
    got = means_by_group(values, groups, np.arange(10))
    mean = m.mean_by_group(values, groups)
    np.testing.assert_allclose(got["all"], mean.overall)
    np.testing.assert_allclose(got["niche"], mean.by_group["niche"])


def test_the_mean_of_all_weighs_groups_by_their_size_not_by_their_sample():
    groups = m.ItemGroups(("popular", "niche"), [0] * 10 + [1] * 90)
    sample = np.array([0, 1, 10, 11])
    got = means_by_group(np.array([[1.0, 1.0, 0.0, 0.0]]), groups, sample)
    assert got["all"][0] == pytest.approx(0.1)


def test_stratified_samples_take_small_groups_whole():
    groups = m.ItemGroups(("a", "b", "c"), [0] * 2 + [1] * 50 + [2] * 500)
    drawn = plan.stratified(groups, 62, np.random.default_rng(0))
    counts = np.bincount(groups.codes[drawn])
    assert counts.tolist() == [2, 30, 30]
    assert len(np.unique(drawn)) == 62


def test_depth_is_lowered_if_a_fit_would_take_too_long():
    small, wide = listening(n_users=100, n_items=60), scale(2000, 1500, 40_000)
    deep = plan.EFFORTS["deep"]

    def depth(data, at_least, seconds=10.0):
        return plan.depth_for(
            data, at_least=at_least, effort=deep._replace(seconds_per_fit=seconds)
        )

    assert depth(small, 5) == 60
    assert depth(wide, 5, 1e9) == 1024
    assert depth(wide, 5, 0.0) == 64
    assert depth(wide, 300, 0.0) == 300
    depths = [depth(wide, 1, 10.0**power) for power in range(-4, 3)]
    assert depths == sorted(depths)
    assert set(depths) <= {64, 128, 256, 512, 1024}


def test_only_preparations_that_differ_are_compared():
    ones = Interactions.from_sparse(sp.csr_array(np.ones((4, 3))))
    counts = Interactions.from_sparse(sp.csr_array([[1.0, 2.0], [3.0, 1.0]]))
    assert len(plan.preparations(ones)) == 3
    assert len(plan.preparations(counts)) == 7
    assert plan.preparations(ones)[0] == plan.preparations(counts)[0] == plan.AS_GIVEN


def test_a_validation_part_may_be_empty_while_there_is_a_test_part():
    X = np.zeros((30, 8))
    rng = np.random.default_rng(0)
    for user in range(30):
        X[user, rng.choice(8, 5, replace=False)] = 1
    found = audit(Interactions.from_sparse(sp.csr_array(X)), rank=2, budget=0)
    assert np.isfinite(found.variants[0].means["recall"]["all"]).all()
    assert "no validation part" in found.answer.advice


@pytest.mark.medium
def test_a_variant_has_its_size_among_its_sizes(sampled):
    variant = sampled.variants[0]
    assert variant.sizes[:2] == (4, 8)
    assert variant.sizes[variant.at] == variant.size == 4


def test_the_estimate_grows_with_the_data_the_depth_and_the_budget():
    small, large = listening(n_users=200, n_items=60), listening(n_users=4000, n_items=600)
    standard = [plan.estimate_audit(each, "standard", None, 0) for each in (small, large)]
    assert standard[0] < standard[1]
    assert plan.estimate_audit(large, "quick", None, 0) < standard[1]
    assert plan.estimate_audit(large, "standard", 0.0, 0) < standard[1]
    assert plan.estimate_audit(large, "standard", None, 2) > standard[1]
    assert plan.estimate_audit(large.holdout(seed=0), "standard", None, 0) > 0


def test_the_machine_is_measured_once_per_process():
    first = plan.relative_time()
    assert 0 < first < np.inf
    assert plan.relative_time() == first


def test_fewer_users_get_lists_of_a_large_catalog_but_at_least_half():
    effort = EFFORTS["standard"]
    assert effort.users_among(3_000) == effort.users
    assert effort.users_among(effort.list_scores // 3_000) == 3_000
    assert effort.users_among(10**7) == effort.users // 2


def test_shuffled_data_keep_the_users_of_items_and_the_items_of_users_even_if_they_are_dense():
    rng = np.random.default_rng(0)
    popular = rng.random((60, 40)) < np.linspace(0.6, 0.02, 40)
    X = sp.csr_array(popular.astype(float))
    Y = shuffled(X, rng)
    assert Y.nnz > 0.99 * X.nnz
    assert Y.data.max() == 1  # no cell twice
    assert np.abs(Y.sum(axis=0) - X.sum(axis=0)).sum() <= 0.01 * X.nnz
    assert np.abs(Y.sum(axis=1) - X.sum(axis=1)).sum() <= 0.01 * X.nnz
    assert (Y != X).nnz > 0.1 * X.nnz


def test_the_estimate_of_the_search_counts_other_models_only_where_the_budget_allows_them():
    data, effort = listening(n_users=400, n_items=300), EFFORTS["standard"]
    spent = [plan._search_seconds(data, effort, budget) for budget in (0.0, 1e-3, 0.1, 1e3, 1e6)]
    assert spent == sorted(spent)
    assert spent[3] == spent[4] < 1e3  # nothing is left to try
    assert 0 < spent[0] < spent[3]  # values as given are always tried
    deep = plan._search_seconds(data, EFFORTS["deep"], 1e6)
    assert deep > spent[4]

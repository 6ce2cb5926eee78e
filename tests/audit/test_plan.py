from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions
from equipoise import metrics as m
from equipoise.audit import audit, plan, showing
from equipoise.audit.measuring import by_group_of_sample, position_of
from equipoise.data.synthetic import listening, scale

# Items that are shown of 300
SHOWN = 250


def sampled_audit():
    """An audit under limits that a few hundred users and items go beyond."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_AUC_SCORES", 1000)
        patch.setattr(plan, "_FEWEST_AUC_ITEMS", 30)
        patch.setattr(plan, "_MOST_USERS", 50)
        patch.setattr(showing, "MOST_ITEMS", SHOWN)
        patch.setattr(showing, "_N_USERS", 4)
        patch.setattr(showing, "_EXTREMES", 5)
        return audit(scale(400, 300, 9000, seed=1), rank=4, seed=2)


@pytest.fixture(scope="module")
def sampled():
    return sampled_audit()


def test_a_large_catalogue_is_sampled_and_every_sample_is_stated(sampled):
    assert len(sampled.items.ids) == SHOWN
    notes = " ".join(sampled.settings.notes)
    assert "30 of 300 items" in notes
    assert "50 users drawn at random" in notes
    assert f"{SHOWN} of 300 items are shown one by one" in notes
    known = np.isfinite(sampled.variants[0].auc_by_item)
    assert 0 < known.sum() <= 30


def test_all_extremes_are_among_the_shown_items(sampled):
    data = scale(400, 300, 9000, seed=1)
    fitted = data.holdout(seed=2).train_validation
    popularity = fitted.popularity("norm")
    order = np.argsort(-popularity, kind="stable")
    shown = set(sampled.items.columns.tolist())
    assert set(order[:5].tolist()) <= shown
    assert set(order[-5:].tolist()) <= shown
    np.testing.assert_allclose(sampled.items.popularity, popularity[sampled.items.columns])
    for view in sampled.users:
        assert max(view.history, default=0) < SHOWN
        for listed in view.recommended.values():
            assert all(0 <= one.item < SHOWN for one in listed)


def test_neighbours_of_a_sample_are_positions_in_it(sampled):
    for variant in sampled.variants:
        assert variant.neighbours.shape == (SHOWN, 10)
        assert variant.neighbours.max() < SHOWN
        own = np.arange(SHOWN)[:, None]
        assert not (variant.neighbours == own).any()


def test_sampled_audits_are_repeatable(sampled):
    again = sampled_audit()
    np.testing.assert_array_equal(again.items.columns, sampled.items.columns)
    np.testing.assert_array_equal(again.variants[3].auc["niche"], sampled.variants[3].auc["niche"])


def test_means_of_a_whole_sample_are_the_plain_means():
    rng = np.random.default_rng(0)
    groups = m.ItemGroups(("popular", "niche"), [0] * 3 + [1] * 7)
    values = rng.random((2, 10))
    values[:, 4] = np.nan
    got = by_group_of_sample(values, groups, np.arange(10))
    mean = m.mean_by_group(values, groups)
    np.testing.assert_allclose(got["all"], mean.overall)
    np.testing.assert_allclose(got["niche"], mean.by_group["niche"])


def test_the_mean_of_all_weighs_groups_by_their_size_not_by_their_sample():
    groups = m.ItemGroups(("popular", "niche"), [0] * 10 + [1] * 90)
    sample = np.array([0, 1, 10, 11])
    got = by_group_of_sample(np.array([[1.0, 1.0, 0.0, 0.0]]), groups, sample)
    assert got["all"][0] == pytest.approx(0.1)


def test_stratified_samples_take_small_groups_whole():
    groups = m.ItemGroups(("a", "b", "c"), [0] * 2 + [1] * 50 + [2] * 500)
    drawn = plan.stratified(groups, 62, np.random.default_rng(0))
    counts = np.bincount(groups.codes[drawn])
    assert counts.tolist() == [2, 30, 30]
    assert len(np.unique(drawn)) == 62


def test_depth_is_lowered_where_a_fit_would_take_too_long(monkeypatch):
    X = listening(n_users=100, n_items=60).matrix
    assert plan.depth_for(X, at_least=5) == 60
    seconds = {1024: 99.0, 512: 30.0, 256: 3.0}
    wide = sp.csr_array((1, 5000))
    monkeypatch.setattr(plan, "_fit_seconds", lambda _, rank: seconds[rank])
    assert plan.depth_for(wide, at_least=5) == 256
    assert plan.depth_for(wide, at_least=300) == 300
    monkeypatch.setattr(plan, "_fit_seconds", lambda _, __: 1e9)
    assert plan.depth_for(wide, at_least=5) == 64


def test_estimated_seconds_grow_with_depth():
    X = scale(2000, 1500, 40_000).matrix
    estimates = [plan._fit_seconds(X, rank) for rank in (8, 64)]
    assert 0 < estimates[0] <= estimates[1]


def test_heavy_users_are_judged_against_what_equal_users_would_have():
    equal = np.ones((4, 3))
    assert plan.heavy_users_share(sp.csr_array(equal)) == 0.25
    assert not plan._too_heavy(0.9, n_users=4)
    assert plan._too_heavy(0.3, n_users=1000)
    assert not plan._too_heavy(0.2, n_users=1000)


def test_a_validation_part_may_be_empty_while_there_is_a_test_part():
    X = np.zeros((30, 8))
    rng = np.random.default_rng(0)
    for user in range(30):
        X[user, rng.choice(8, 5, replace=False)] = 1
    found = audit(Interactions.from_sparse(sp.csr_array(X)), rank=2)
    assert np.isfinite(found.variants[0].accuracy["recall"]).all()
    assert "no validation part" in found.verdict.advice.why


def test_positions_of_ranks_fall_back_to_the_largest_below():
    assert position_of(3, (1, 2, 4)) == 1
    assert position_of(0, (2, 4)) == 0

"""The search of an audit: what it tries, and what it charges to its budget."""

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions
from equipoise.audit import audit, plan
from equipoise.audit.plan import EFFORTS, Preparation
from equipoise.audit.report.to_json import to_json
from equipoise.audit.search import ALS, EASE, NORMALIZED, PCA, WEIGHTED, Attempt, Search
from equipoise.data.synthetic import listening
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.plan import KeptFits, covers, variant_of
from equipoise.evaluation.tuning import Trial
from equipoise.evaluation.tuning import search as tune_search
from equipoise.models.registry import find_model

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def task():
    data = listening(n_users=300, n_items=80)
    study = plan.prepare(
        data,
        models_given=False,
        groups="interactions",
        seed=0,
        effort=EFFORTS["standard"],
        n_sizes=4,
    )
    return study.validation


@pytest.fixture(scope="module")
def done(task):
    searches = {every: Search(task, 10, 100.0, every) for every in (False, True)}
    for one in searches.values():
        one.run()
    return searches


def _prepared(search, family):
    return {Preparation.of(trial.settings) for name, trial in search.tried if name == family}


def _score(best):
    return best.score


def test_fits_that_are_kept_cost_only_their_lists(task):
    search = Search(task, 10, 100.0, every_model=False)
    grid = {"gamma": (-1.0,), "n_components": (4, 16)}
    fresh = search._cost(Attempt(WEIGHTED, grid))
    before = search.seconds
    assert search._afford(Attempt(WEIGHTED, grid))
    assert before - search.seconds == pytest.approx(fresh)
    search._try([Attempt(WEIGHTED, grid)])
    smaller = Attempt(WEIGHTED, {**grid, "n_components": (8,)})
    again = search._cost(smaller)
    search._kept = KeptFits()
    alone = search._cost(smaller)
    assert 0 < again < alone
    assert alone - again == pytest.approx(plan.fit_seconds(task.fitted, [8])[0])


def test_a_shorter_search_tries_user_scaling_with_the_best_transform_only(done, task):
    different = set(plan.preparations(task.fitted))
    assert _prepared(done[True], WEIGHTED) == different
    tried = _prepared(done[False], WEIGHTED)
    unscaled = {each for each in different if not each.user_scaling}
    assert unscaled < tried < different
    assert len(tried - unscaled) == 1


@pytest.mark.parametrize("family", [EASE, ALS])
def test_a_shorter_search_tries_others_with_binary_values_and_the_best_preparation(done, family):
    if family == ALS and done[False].missing:
        pytest.skip("implicit is not installed")
    best = max((done[False].best(one, filtered=False) for one in (PCA, WEIGHTED)), key=_score)
    assert _prepared(done[False], family) == {Preparation("binary"), best.preparation}


def test_a_shorter_search_fits_als_with_fewer_iterations_and_chooses_none_of_them(done, task):
    if done[False].missing:
        pytest.skip("implicit is not installed")
    whole = find_model(ALS).make().iterations
    for every, search in done.items():
        best = search.best(ALS)
        assert "iterations" not in best.settings
        iterations = whole if every else plan.ALS_SEARCH_ITERATIONS
        model = find_model(ALS).make(**best.settings).set_params(iterations=iterations)
        (trial,), _ = tune_search(task, model, {}, Goal.parse("ndcg@10", None, (), 10))
        assert trial.scores["ndcg@10"] == best.score


def test_a_shorter_search_tries_normalized_pca_with_the_best_preparation(done):
    best = done[False].best(WEIGHTED, filtered=False)
    assert _prepared(done[False], NORMALIZED) == {best.preparation}


def test_larger_ranks_are_tried_only_where_the_last_one_was_notably_better(task):
    def trial(rank, score):
        return WEIGHTED, Trial({"n_components": rank, "gamma": -1.0}, {"ndcg@10": score}, None)

    for last, rises in ((0.21, True), (0.2001, False)):
        search = Search(task, 10, 0.0, every_model=False, tried=[trial(16, 0.2), trial(32, last)])
        best = search.best(WEIGHTED)
        assert "n_components" in best.edge
        assert search._still_rises(best, best) is rises
        leader = best._replace(score=0.5)
        assert not search._still_rises(best, leader)


def test_a_shorter_search_has_fewer_trials_and_states_what_it_left_out(done):
    assert len(done[False].tried) < len(done[True].tried)
    assert any("--depth deep" in note for note in done[False].notes())
    assert not any("--depth deep" in note for note in done[True].notes())


def test_without_time_only_values_as_given_are_tried(task):
    search = Search(task, 10, 0.0, every_model=False)
    search.run()
    assert _prepared(search, WEIGHTED) == {plan.AS_GIVEN}
    left = search.left_out["these preparations"]
    assert "0/1 values" in left
    assert len(left) == len(set(left))


def test_an_audit_is_the_same_with_any_number_of_threads(monkeypatch):
    data = listening(n_users=150, n_items=60)
    pages = []
    for threads in ("1", "2", "3"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", threads)
        pages.append(to_json(audit(data, budget=1.0)))
    assert pages[0] == pages[1] == pages[2]


def test_a_winner_beyond_the_measured_ranks_is_fitted_on_its_own():
    rng, n_tastes, items, users = np.random.default_rng(0), 120, 12, 8
    X = np.zeros((n_tastes * users, n_tastes * items))
    for user in range(len(X)):  # as many components as tastes
        X[user, user // users * items + rng.choice(items, 10, replace=False)] = 1
    found = audit(Interactions.from_sparse(sp.csr_array(X)), depth="quick")
    rank = found.contest[1].settings["n_components"]
    assert rank > EFFORTS["quick"].components == 64
    own = found.variant("advised")
    assert own.size == own.depth == rank
    assert own.label.endswith(f", rank {rank}")
    assert max(each.depth for each in found.variants if each is not own) < rank
    assert own.mean("ndcg") == pytest.approx(found.contest[1].test.mean)


def test_branches_of_kept_fits_join_in_order(task):
    kept = KeptFits()
    first, second = kept.branch(), kept.branch()
    models = [find_model(PCA).make(n_components=size).fit(task.fitted) for size in (4, 2)]
    for branch, model in zip((first, second), models, strict=True):
        branch.keep(model)
    assert kept.find(find_model(PCA).make(n_components=2)) is None
    kept.join(second)
    kept.join(first)
    assert kept.find(find_model(PCA).make(n_components=4)) is not None
    assert second.find(find_model(PCA).make(n_components=4)) is None


def test_one_fit_serves_smaller_ranks_and_filters(task):
    def make(**settings):
        return find_model(WEIGHTED).make(gamma=-1.0, tol=1e-10, **settings)

    fitted = make(n_components=16).fit(task.fitted)
    wanted = make(n_components=8, spectral_filter="power", filter_strength=0.5)
    assert covers(fitted, wanted)
    assert not covers(wanted, fitted)
    assert not covers(fitted, make(n_components=8, value_transform="binary"))
    users = task.seen.collect().matrix[:5]
    alone = wanted.fit(task.fitted).score_items(users)
    np.testing.assert_allclose(variant_of(fitted, wanted).score_items(users), alone, atol=1e-8)

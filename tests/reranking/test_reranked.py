"""Any model with a re-ranker is a model: the contract, evaluation, tuning, saving."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.metadata import EntryPoint

import numpy as np
import pytest
import scipy.sparse as sp

import equipoise
from equipoise import EASE, Groups, evaluate, holdout, plugins, tune
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import ItemGroups
from equipoise.models import Popularity, VanillaPCA
from equipoise.reranking import FAIR, Candidates, Reranked, Reranker, XQuAD, registry
from equipoise.reranking.base import ordered
from equipoise.reranking.reranked import new_lists
from equipoise.testing import check_recommender

SPECS = ["compensation", "scaling", "xquad:form=smooth", "fair:length=10", "calibrated", "mmr"]


@pytest.fixture(scope="module")
def data():
    return listening(n_users=150, n_items=60)


@pytest.fixture(scope="module")
def split(data):
    return holdout(data, test=0.2, validation=0.2, seed=3)


@pytest.mark.medium
@pytest.mark.parametrize("spec", SPECS)
def test_a_model_with_a_re_ranker_keeps_the_contract_of_models(spec):
    check_recommender(Reranked(VanillaPCA(8), spec, candidates=30))


@pytest.mark.medium
def test_scores_that_are_all_equal_keep_the_contract_too():
    check_recommender(Reranked(Popularity(), "xquad:0.5", candidates=40))


def test_a_re_ranker_that_changes_nothing_gives_the_lists_of_the_model(data):
    plain, same = EASE().fit(data), Reranked(EASE(), "xquad:0").fit(data)
    expected, found = plain.recommend(data, 10), same.recommend(data, 10)
    np.testing.assert_array_equal(found.ids, expected.ids)
    np.testing.assert_array_equal(found.scores, expected.scores)


def test_lists_around_a_fitted_model_are_those_of_a_fit(data):
    around = Reranked.around(EASE().fit(data), "xquad:0.4", data)
    fitted = Reranked(EASE(), "xquad:0.4").fit(data)
    np.testing.assert_array_equal(around.recommend(data).ids, fitted.recommend(data).ids)
    assert around.recommend({data.item_ids[0]: 1.0}).ids.shape == (10,)


def test_filtered_items_are_replaced_by_other_candidates(data):
    model = Reranked(EASE(), "calibrated:0.5", candidates=12).fit(data)
    some = data.item_ids[:30].tolist()
    ids = model.recommend(data, 10, filter_items=some).ids
    assert not set(ids.ravel().tolist()) & set(some)


def test_saved_with_own_groups_and_loaded_by_any_name(data, tmp_path):
    labels = {item: ["a", "b", "c"][number % 3] for number, item in enumerate(data.item_ids)}
    groups = Groups.from_labels(labels)
    model = Reranked(EASE(), XQuAD(0.6), groups=groups).fit(data)
    loaded = equipoise.load(model.save(tmp_path / "model.eqp"))
    assert isinstance(loaded, Reranked)
    assert loaded.group_names_ == ["a", "b", "c"]
    assert loaded.get_params()["model__regularization"] == EASE().regularization
    np.testing.assert_array_equal(loaded.recommend(data).ids, model.recommend(data).ids)


def test_groups_of_users_are_refused(data):
    groups = Groups.by_activity(data, 3)
    with pytest.raises(InvalidParameterError, match="groups of items"):
        Reranked(EASE(), "xquad", groups=groups).fit(data)


def test_evaluate_fits_the_model_once_for_several_re_rankers(split):
    fits = []

    class Counted(EASE):
        def _fit(self, data):
            fits.append(self)
            super()._fit(data)

    grid = {"reranker": ["xquad:0.0", "xquad:0.5", "fair:0.9"]}
    model = Reranked(Counted(), "xquad", candidates=40)
    table = evaluate(split, {"EASE": EASE(), "+": model}, grid=grid, metrics=["aplt", "ndcg"], k=10)
    assert len(fits) == 1
    plain, *others = [row.value for row in table if row.metric == "aplt"]
    assert others[0] == plain
    assert others[2] > others[1] > plain


def test_the_parameters_of_the_model_are_in_the_grid(split):
    model = Reranked(VanillaPCA(), "xquad:0.3")
    table = evaluate(split, {"PCA + xQuAD": model}, ranks=[2, 4], metrics=["ndcg"], k=5)
    assert [row.settings for row in table] == [{"model__n_components": n} for n in (2, 4)]
    alone = Reranked(VanillaPCA(2), "xquad:0.3")
    expected = evaluate(split, {"one": alone}, grid={}, metrics=["ndcg"], k=5)
    assert next(iter(table)).value == next(iter(expected)).value


def test_tune_chooses_the_strength_on_validation(split):
    found = tune(split, Reranked(EASE(), "xquad"), subject_to={"aplt": (">=", 0.0)}, k=5)
    assert {trial.settings["reranker"] for trial in found.trials} == set(XQuAD.search)
    assert found.model().reranker == found.choice.settings["reranker"]
    assert "reranker=" in found.constructor()


def test_another_package_registers_a_re_ranker(data, monkeypatch):
    point = EntryPoint("reverse", f"{__name__}:Reverse", registry.ENTRY_POINTS)
    monkeypatch.setattr(plugins, "entry_points", lambda **_: [point])
    registry._of_other_packages.cache_clear()
    try:
        model = Reranked(EASE(), "reverse:2", candidates=5).fit(data)
        plain = EASE().fit(data).recommend(data, 5).ids
        np.testing.assert_array_equal(model.recommend(data, 5).ids, plain[:, ::-1])
        assert "reverse" in registry.available()
    finally:
        registry._of_other_packages.cache_clear()


@dataclass(frozen=True)
class Reverse(Reranker):
    """The last candidate first; its setting is there to be read."""

    strength: float = 1.0

    def rerank(self, candidates, k, _context):
        values = np.broadcast_to(np.arange(candidates.items.shape[1]), candidates.items.shape)
        return ordered(values.astype(float), candidates.known, k)


def test_equal_scores_stay_distinct_by_the_last_digit():
    lists = Candidates(np.array([[4, 2, 9, -1]]), np.array([[0.5, 0.5, 0.5, np.nan]]))
    ids, scores = new_lists(lists, np.array([[2, 0, 1, -1]]))
    assert ids.tolist() == [[9, 4, 2, -1]]
    assert (np.diff(scores[0, :3]) < 0).all()
    np.testing.assert_allclose(scores[0, :3], 0.5)


def test_groups_of_arrays_fit_the_columns_of_a_matrix():
    X = sp.csr_array((np.random.default_rng(0).random((30, 6)) < 0.5).astype(float))
    groups = ItemGroups(("head", "tail"), [0, 0, 0, 1, 1, 1])
    method = FAIR(0.9, length=3)
    model = Reranked(Popularity(), method, groups=groups).fit(X)
    tail = model.recommend(np.zeros(6), 3, fallback=None).ids >= 3
    assert (np.cumsum(tail) >= method.required()).all()
    assert method.required()[-1] == 2

"""Models that are not projections, in `evaluate` and in `tune`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import metrics as m
from equipoise.data import Interactions, holdout
from equipoise.evaluation import evaluate, tune
from equipoise.evaluation.plan import models_by_key
from equipoise.exceptions import InvalidParameterError, MissingExtraError
from equipoise.models import (
    EASE,
    GFCF,
    IPSMF,
    ItemKNN,
    Popularity,
    VanillaPCA,
    WeightedMF,
)
from equipoise.models.peers.base import ItemItemModel
from equipoise.models.registry import MODELS
from tests.evaluation.conftest import InterruptAt
from tests.recorded_progress import Recorded


def by_hand(model, split, metric):
    """Fit, recommend and measure without `evaluate`."""
    X = split.train_validation.matrix
    return metric(model.fit(X).recommend(X, k=20).ids, split.test.matrix).value


@pytest.mark.parametrize("model", [EASE(10.0), ItemKNN(20), Popularity()], ids=str)
def test_a_model_without_a_rank_is_fitted_once(split, model):
    results = evaluate(split, {"it": model}, metrics=["ndcg", "recall"])
    assert [row.settings for row in results] == [{}, {}]
    assert results.value("ndcg") == by_hand(model, split, m.ndcg_at_k)
    assert results.value("recall") == by_hand(model, split, m.recall_at_k)


@pytest.mark.parametrize("model", [GFCF(), IPSMF(iterations=3)], ids=str)
def test_a_model_whose_ranks_are_not_nested_is_fitted_rank_by_rank(split, model):
    results = evaluate(split, {"it": model}, grid={"n_components": [2, 5]}, metrics=["ndcg"])
    assert [row.settings["n_components"] for row in results] == [2, 5]
    for rank in (2, 5):
        alone = model.set_params(n_components=rank)
        assert results.value("ndcg", n_components=rank) == by_hand(alone, split, m.ndcg_at_k)


def test_numbers_of_projections_are_given_for_projections_alone(split):
    models = {"pca": VanillaPCA(), "ease": EASE()}
    metrics = ["recall", "specialization", "item_auc"]
    results = evaluate(split, models, grid={"n_components": [4]}, metrics=metrics)
    assert {row.metric for row in results.select(model="pca")} == set(metrics)
    assert {row.metric for row in results.select(model="ease")} == {"recall"}


def test_models_can_be_named_as_on_the_command_line(split):
    results = evaluate(
        split, ["popularity", "ease", VanillaPCA()], grid={"n_components": [2]}, metrics=["recall"]
    )
    assert [row.model for row in results] == ["Popularity", "EASE", "VanillaPCA"]
    assert [row.model for row in evaluate(split, "random", metrics=["recall"])] == ["Random"]
    assert list(models_by_key(["all"])) == [entry.title for entry in MODELS.values()]
    with pytest.raises(InvalidParameterError, match="unknown model 'svd'"):
        evaluate(split, ["svd"])
    with pytest.raises(InvalidParameterError, match="two of the models"):
        evaluate(split, ["ease", "ease"])


def test_a_missing_extra_is_an_error_of_the_fit(split, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "implicit", None)
    monkeypatch.setitem(sys.modules, "implicit.cpu.als", None)
    with pytest.raises(MissingExtraError, match=r'pip install "equipoise\[als\]"'):
        evaluate(split, {"mf": WeightedMF()}, grid={"n_components": [2]}, metrics=["recall"])


def test_every_fit_is_cached_by_itself(split, tmp_path):
    # one fit of GF-CF serves both sizes
    models = {"gfcf": GFCF(), "ease": EASE()}
    options = {"grid": {"n_components": [2, 4]}, "metrics": ["recall"], "cache": tmp_path}
    first = evaluate(split, models, **options)
    assert len(list(tmp_path.iterdir())) == 2
    seen = Recorded()
    assert evaluate(split, models, **options, progress=seen) == first
    assert seen.notes() == ["gfcf: from the cache", "ease: from the cache"]


def test_a_grid_tries_every_combination_in_order(split):
    grid = {"n_neighbors": [5, 10], "shrinkage": [0.0, 1.0, 2.0]}
    tuning = tune(split, "item-knn", grid=grid)
    tried = [tuple(trial.settings.values()) for trial in tuning.trials]
    assert tried == [(k, h) for k in (5, 10) for h in (0.0, 1.0, 2.0)]
    best = max(trial.scores["ndcg@20"] for trial in tuning.trials)
    assert tuning.choice.scores["ndcg@20"] == best


def test_scores_are_those_of_the_validation_part_and_test_is_touched_once(split):
    tuning = tune(split, EASE(), grid={"regularization": [1, 100]}, test_metrics=["gini"])
    for trial in tuning.trials:
        results = evaluate(split, [trial.model()], metrics=["ndcg", "aplt"], part="validation")
        assert trial.scores["ndcg@20"] == results.value("ndcg")
        assert trial.scores["aplt@20"] == results.value("aplt")
    final = evaluate(split, [tuning.model()], metrics=["ndcg", "gini"])
    assert tuning.test.value("ndcg") == final.value("ndcg")
    assert tuning.test.value("gini") == final.value("gini")
    assert tuning.test.costs[0].parameters_kept == split.train.n_items**2


def test_what_the_grid_does_not_name_stays_as_it_was(split):
    base = ItemKNN(shrinkage=3.0)
    tuning = tune(split, base, grid={"n_neighbors": [5, 10]})
    assert tuning.model().shrinkage == 3.0
    model = eval(tuning.constructor(), {"ItemKNN": ItemKNN})
    assert model.get_params() == tuning.model().get_params()
    assert base.n_neighbors == 100


def test_ranks_of_a_projection_come_from_one_fit(split, counted):
    grid = {"gamma": [-1.0, -0.5], "n_components": [2, 4, 8]}
    tuning = tune(split, counted, grid=grid, maximize="item_auc/niche")
    chosen = tuning.choice.settings
    last = (chosen["gamma"], chosen["n_components"])  # on train + validation
    assert counted.fits == [(-1.0, 8), (-0.5, 8), last]
    tried = [trial.settings["n_components"] for trial in tuning.trials]
    assert tried == [2, 4, 8, 2, 4, 8]
    assert tuning.test.value("item_auc", group="niche") <= 1


@pytest.mark.medium
def test_without_a_grid_the_registrys_is_searched_within_the_catalog(split):
    tuning = tune(split, "pca")
    assert {trial.settings["n_components"] for trial in tuning.trials} == {4, 8, 16, 32}  # of 60
    ease = tune(split, "ease")
    tried = dict.fromkeys(t.settings["regularization"] for t in ease.trials)
    assert list(tried) == [*MODELS["ease"].search["regularization"]]


def test_a_model_with_nothing_to_choose_is_one_trial(split):
    tuning = tune(split, "popularity")
    assert [trial.settings for trial in tuning.trials] == [{}]
    assert tuning.constructor() == "Popularity()"


@pytest.mark.medium
def test_value_transforms_are_searched_where_values_differ(world):
    counts = world.matrix.copy()
    counts.data = 1.0 + np.arange(counts.nnz) % 3
    data = holdout(Interactions.from_sparse(sp.csr_array(counts)))
    base = IPSMF(iterations=2)
    base = base.set_params(n_components=2)
    space = [{"value_transform": base.search_space(data.train)[0]["value_transform"]}]
    tuning = tune(data, base, grid=space)
    assert {t.settings["value_transform"] for t in tuning.trials} == {
        None,
        "binary",
        "log1p",
        "one_plus",
    }


def test_an_interrupted_search_keeps_its_trials_and_goes_on(split, tmp_path):
    grid = {"regularization": [1.0, 10.0, 100.0]}
    whole = tune(split, "ease", grid=grid)
    part = tune(split, "ease", grid=grid, cache=tmp_path, progress=InterruptAt(1, "Tuning"))
    assert not part.complete
    assert part.test is None
    assert part.trials == whole.trials[:1]
    seen = Recorded()
    rest = tune(split, "ease", grid=grid, cache=tmp_path, progress=seen)
    assert rest.trials == whole.trials
    assert rest.test == whole.test
    assert "EASE: from the cache" in seen.notes()
    with pytest.raises(KeyboardInterrupt):
        tune(split, "ease", grid=grid, progress=InterruptAt(0, "Tuning"))


def test_a_search_of_any_model_can_be_read_as_json_and_csv(split, tmp_path):
    tuning = tune(split, "ease", grid={"regularization": [1, 10]})
    written = json.loads(tuning.to_json())
    assert written["model"] == "EASE"
    assert set(written["choice"]) == {"regularization", "ndcg@20", "aplt@20"}
    tuning.write_csv(tmp_path / "trials.csv")
    lines = (tmp_path / "trials.csv").read_text().splitlines()
    assert lines[0] == "regularization,ndcg@20,aplt@20"
    assert len(lines) == 3


class Own(ItemItemModel):
    """A model that the registry does not know: every item speaks for itself."""

    def _fit(self, user_items):
        self.coefficients_ = np.eye(user_items.shape[1])


def test_a_model_of_ones_own_is_evaluated_and_wants_a_grid(split):
    assert evaluate(split, [Own()], metrics=["recall"]).rows[0].model == "Own"
    assert tune(split, Own(), grid={}).choice.settings == {}
    with pytest.raises(InvalidParameterError, match="no default search space"):
        tune(split, Own())


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("svd", {}, "unknown model 'svd'"),
        (
            "ease",
            {"grid": {"rank": [1]}},
            "no model has a parameter 'rank': EASE.*: regul",
        ),
        ("ease", {"grid": {"regularization": []}}, "at least one value of regularization"),
        ("ease", {"maximize": "item_auc"}, "item_auc needs a projection .* EASE is not"),
        (
            "gfcf",
            {"grid": {"n_components": [61]}},
            "n_components .*must be a whole number from 1 to 60",
        ),
        ("ease", {"grid": {"regularization": [-1.0]}}, "'regularization' parameter of EASE must"),
    ],
)
def test_what_cannot_be_searched_is_refused(split, model, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        tune(split, model, **options)

"""`tune`: everything chosen on validation, the test part touched once."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from equipoise.data import Split, holdout
from equipoise.evaluation import evaluate, tune
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models import ItemWeightedPCA
from tests.recorded_progress import Recorded

AXES = {
    "value_transform": [None, "binary"],
    "user_scaling": [0.0, 0.5],
    "gamma": [0.0, -1.0],
    "n_components": [2, 4, 8],
}
FILTERS = [("hard", 0.0), ("power", 0.5), ("ridge", 0.1)]


def grids(**axes):
    """Every filter with every combination of the axes."""
    return [
        {**AXES, **axes, "spectral_filter": [kind], "filter_strength": [strength]}
        for kind, strength in FILTERS
    ]


GRID = {"grid": grids()}


@pytest.fixture(scope="module")
def tuning(split):
    return tune(split, subject_to={"aplt": (">=", 0.05)}, **GRID)


def test_every_combination_is_tried_once_in_the_order_of_the_grid(tuning):
    settings = [tuple(trial.settings.values()) for trial in tuning.trials]
    assert len(settings) == len(set(settings)) == 2 * 2 * 2 * 3 * 3
    filters = [t.settings["spectral_filter"] for t in tuning.trials[::24]]
    assert filters == ["hard", "power", "ridge"]


def test_the_score_of_a_trial_is_that_of_the_model_on_the_validation_part(tuning, split):
    for trial in tuning.trials[::11]:
        results = evaluate(
            split, [trial.model()], grid={}, metrics=["ndcg", "aplt"], part="validation"
        )
        # the search scores in float32 and to a tolerance of 1e-5
        assert trial.scores["ndcg@20"] == pytest.approx(results.value("ndcg"), abs=2e-3)
        assert trial.scores["aplt@20"] == pytest.approx(results.value("aplt"), abs=2e-3)


def test_the_test_score_is_that_of_the_choice_fitted_on_train_and_validation(tuning, split):
    results = evaluate(split, [tuning.model()], grid={}, metrics=["ndcg", "recall"])
    for metric in ("ndcg@20", "recall@20"):
        assert tuning.test.value(metric) == results.value(metric)
        interval = tuning.test.interval(tuning.test.row(metric))
        assert interval.low < interval.mean < interval.high


def test_the_test_items_have_no_say_in_the_choice(tuning, split):
    others = np.random.default_rng(0).random(split.test.nnz) < 0.5
    changed = Split(split.train, split.validation, split.test.keep_entries(others))
    again = tune(changed, subject_to={"aplt": (">=", 0.05)}, **GRID)
    assert again.trials == tuning.trials
    assert again.choice == tuning.choice
    assert again.test != tuning.test


def test_without_a_test_part_there_is_no_test_score(split):
    nothing = split.test.keep_entries(np.zeros(split.test.nnz, dtype=bool))
    tuning = tune(Split(split.train, split.validation, nothing), **GRID)
    assert tuning.test is None
    assert tuning.complete


def test_the_choice_keeps_the_limits_and_the_frontier_shows_their_price(split):
    free = tune(split, **GRID)
    bound = float(np.median([trial.scores["aplt@20"] for trial in free.trials]))
    limited = tune(split, subject_to={"aplt": (">=", bound)}, **GRID)
    assert limited.choice.scores["aplt@20"] >= bound
    assert limited.choice.scores["ndcg@20"] <= free.choice.scores["ndcg@20"]
    tails = [trial.scores["aplt@20"] for trial in free.frontier]
    objectives = [trial.scores["ndcg@20"] for trial in free.frontier]
    assert objectives == sorted(objectives, reverse=True)
    assert tails == sorted(tails)


def test_metrics_of_items_and_of_groups_can_be_the_goal(split):
    small = {"grid": grids(value_transform=[None], user_scaling=[0.0], n_components=[2, 4])}
    tuning = tune(split, maximize="item_auc/niche", **small)
    best = max(trial.scores["item_auc/niche"] for trial in tuning.trials)
    assert best <= 1
    assert set(tuning.trials[0].scores) == {"item_auc/niche", "aplt@20"}
    items_only = tune(split, maximize="-specialization", trade_off=(), **small)
    assert items_only.choice.settings["n_components"] == 2
    assert items_only.choice.settings["gamma"] == -1.0


def test_a_search_can_be_read_as_json_csv_and_python(tuning, tmp_path):
    told = json.loads(tuning.to_json())
    assert told["maximize"] == "ndcg@20"
    assert told["subject_to"] == ["aplt@20 >= 0.05"]
    assert told["n_trials"] == len(tuning.trials)
    assert told["choice"]["n_components"] == tuning.choice.settings["n_components"]
    assert {row["metric"] for row in told["test"]} >= {"ndcg", "recall", "aplt"}
    tuning.write_csv(tmp_path / "trials.csv")
    with open(tmp_path / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(tuning.trials)
    assert float(rows[3]["ndcg@20"]) == tuning.trials[3].scores["ndcg@20"]
    model = eval(tuning.constructor(), {"ItemWeightedPCA": ItemWeightedPCA})
    assert model.get_params() == tuning.model().get_params()


def test_progress_counts_the_fits(split):
    seen = Recorded()
    tune(split, progress=seen, **GRID)
    assert (seen.first["name"], seen.first["done"], seen.first["total"]) == ("Tuning", 8, 8)
    assert seen.is_over


@pytest.mark.parametrize(
    "search",
    [{"model": "item-weighted", **GRID}, {"model": "ease", "grid": {"regularization": [1, 10]}}],
    ids=["iw", "ease"],
)
def test_progress_ends_with_the_score_of_the_choice(split, search):
    seen = Recorded()
    tuning = tune(split, progress=seen, **search)
    best = max(trial.scores["ndcg@20"] for trial in tuning.trials)
    assert seen.first["notes"][-1] == f"best so far: ndcg@20 {best:.4f}"


def test_users_held_out_whole_are_tuned_on_their_history(world):
    tuning = tune(holdout(world, method="by_user"), grid=grids(value_transform=[None]))
    assert tuning.test is not None
    assert 0 < tuning.test.value("recall@20") <= 1


def test_what_cannot_be_searched_is_refused(split):
    nothing = split.validation.keep_entries(np.zeros(split.validation.nnz, dtype=bool))
    with pytest.raises(InvalidDataError, match="the validation part of the split is empty"):
        tune(Split(split.train, nothing, split.test))
    with pytest.raises(InvalidParameterError, match="zero_division must be nan or 0"):
        tune(split, zero_division="drop")
    with pytest.raises(InvalidParameterError, match=r"none of the 2 candidates meets the limits"):
        tune(
            split,
            subject_to={"aplt": (">=", 2.0)},
            grid={"n_components": [2], "gamma": [0.0, -1.0]},
        )

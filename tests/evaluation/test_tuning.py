"""`tune`: everything chosen on validation, the test part touched once."""

from __future__ import annotations

import csv
import json
from itertools import chain

import numpy as np
import pytest

from equipoise.data import Split, holdout, synthetic
from equipoise.evaluation import evaluate, tune
from equipoise.evaluation.goal import Goal
from equipoise.evaluation.plan import KeptFits
from equipoise.evaluation.task import Task
from equipoise.evaluation.tuning import search
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models import ItemWeightedPCA, MaxMinItemWeightedPCA
from tests.evaluation.conftest import drive
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


@pytest.mark.medium
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


@pytest.mark.medium
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


@pytest.mark.medium
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
    written = json.loads(tuning.to_json())
    assert written["maximize"] == "ndcg@20"
    assert written["subject_to"] == ["aplt@20 >= 0.05"]
    assert written["n_trials"] == len(tuning.trials)
    assert written["choice"]["n_components"] == tuning.choice.settings["n_components"]
    assert {row["metric"] for row in written["test"]} >= {"ndcg", "recall", "aplt"}
    tuning.write_csv(tmp_path / "trials.csv")
    with open(tmp_path / "trials.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(tuning.trials)
    assert float(rows[3]["ndcg@20"]) == tuning.trials[3].scores["ndcg@20"]
    model = eval(tuning.constructor(), {"ItemWeightedPCA": ItemWeightedPCA})
    assert model.get_params() == tuning.model().get_params()


@pytest.mark.medium
def test_progress_counts_the_fits(split):
    seen = Recorded()
    tune(split, progress=seen, **GRID)
    assert (seen.first["name"], seen.first["done"], seen.first["total"]) == ("Tuning", 8, 8)
    assert seen.is_over


@pytest.mark.medium
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
    with pytest.raises(InvalidDataError, match=r"validation part .* is empty"):
        tune(Split(split.train, nothing, split.test))
    with pytest.raises(InvalidParameterError, match="zero_division must be nan or 0"):
        tune(split, zero_division="drop")
    with pytest.raises(InvalidParameterError, match=r"none of the 2 candidates"):
        tune(
            split,
            subject_to={"aplt": (">=", 2.0)},
            grid={"n_components": [2], "gamma": [0.0, -1.0]},
        )


@pytest.mark.medium
def test_local_global_is_searched_in_steps_of_about_fifty_settings(split):
    tuning = tune(split, "local-global", k=5, maximize="ndcg@5")
    settings = [tuple(trial.settings.items()) for trial in tuning.trials]
    assert len(settings) == len(set(settings))
    values = {name: {dict(one)[name] for one in settings} for name in dict(settings[0])}
    assert (
        {7, 15, 30} <= values["n_components"] <= {7, 15, 30, 60}
    )  # half, a quarter of the items, twice, …
    assert {-1.4, -1.0, -0.6} < values["gamma"]
    best = max(tuning.trials, key=lambda trial: trial.scores["ndcg@5"])
    assert tuning.choice.scores == best.scores
    if "value_transform" not in values:
        assert 45 <= len(settings) <= 60


def test_later_steps_start_from_the_best_settings_so_far(split):
    class Stepwise(ItemWeightedPCA):
        def search_steps(self, train):  # noqa: ARG002
            best = yield [{"n_components": (2, 4), "gamma": (0.0,)}]
            sent.append(best)
            yield [{"n_components": (best["n_components"],), "gamma": (0.0, -1.0)}]

    sent = []
    tuning = tune(split, Stepwise())
    first = max(tuning.trials[:2], key=lambda trial: trial.scores["ndcg@20"])
    assert sent == [first.settings]
    assert [t.settings["gamma"] for t in tuning.trials] == [0.0, 0.0, -1.0]  # each once


def test_the_steps_of_a_search_can_be_passed_as_a_generator(split):
    def steps():
        best = yield {"n_components": [2, 4]}
        yield {"n_components": [2 * best["n_components"]]}

    tuning = tune(split, "pca", grid=steps(), maximize="recall@5")
    first = max(tuning.trials[:2], key=lambda trial: trial.scores["recall@5"])
    ranks = [trial.settings["n_components"] for trial in tuning.trials]
    assert ranks == list(dict.fromkeys([2, 4, 2 * first.settings["n_components"]]))


def climb(train, objective):
    """Drive the steps of Item-Weighted PCA without fits; return all settings and the best."""
    return drive(ItemWeightedPCA().search_steps(train), objective)


@pytest.mark.parametrize("gamma", [-0.25, -0.75, -1.0, -1.75])
@pytest.mark.parametrize("scaling", [0.0, 0.25, 0.5])
def test_the_steps_of_item_weighted_pca_find_the_top_of_a_hill_in_few_fits(gamma, scaling):
    def objective(one):
        distance = abs(one["gamma"] - gamma) + abs(one["user_scaling"] - scaling)
        wrong_filter = (one["spectral_filter"], one["filter_strength"]) != ("power", 0.25)
        return -(distance + abs(np.log2(one["n_components"] / 32)) + 0.1 * wrong_filter)

    train = synthetic.scale(300, 200, 2000)
    tried, best = climb(train.binarize(), objective)
    assert (best["gamma"], best["user_scaling"]) == (gamma, scaling)
    assert best["n_components"] == 32
    assert (best["spectral_filter"], best["filter_strength"]) == ("power", 0.25)
    assert len({(one["gamma"], one["user_scaling"]) for one in tried}) <= 9


@pytest.mark.parametrize(("n_items", "largest"), [(200, 128), (300, 256), (1200, 512)])
def test_larger_ranks_are_tried_as_long_as_they_are_better_and_there_are_as_many_items(
    n_items, largest
):
    train = synthetic.scale(300, n_items, 4000)
    tried, best = climb(train.binarize(), lambda one: one["n_components"])
    assert best["n_components"] == max(one["n_components"] for one in tried) == largest


def test_a_search_on_some_users_compares_its_best_settings_on_five_times_as_many(split):
    grid = {"n_components": [2, 4, 8], "gamma": [0.0, -1.0, -2.0]}
    task = Task.of(split, "validation", "interactions")
    few, more = task.sample(20), task.sample(100)
    goal = Goal.parse("ndcg@20", None, ("aplt",), 20)
    some = tune(split, grid=grid, users=20)
    assert some.trials == tuple(search(few, ItemWeightedPCA(), grid, goal)[0])
    finalists = sorted(some.trials, key=lambda trial: -trial.scores["ndcg@20"])[:3]
    larger = {str(t.settings): t for t in search(more, ItemWeightedPCA(), grid, goal)[0]}
    best = max(
        (larger[str(trial.settings)] for trial in finalists), key=lambda t: t.scores["ndcg@20"]
    )
    assert some.choice.settings == best.settings
    assert some.choice.scores == pytest.approx(best.scores)
    for trial in some.frontier:  # of the same users as the choice
        assert trial.scores == pytest.approx(larger[str(trial.settings)].scores)
    assert few.held_out.n_users == 20
    assert few.held_out.items_per_user().min() > 0
    assert few.fitted is split.train


def test_a_sample_has_no_users_without_held_out_items():
    data = synthetic.scale(300, 60, 900)  # three items of a user: a tenth of them is often none
    task = Task.of(holdout(data), "validation", "interactions")
    with_items = int((task.held_out.items_per_user() > 0).sum())
    assert 0 < with_items < 299
    assert task.sample(299).seen.n_users == with_items
    assert task.sample(300) is task


def test_the_frontier_of_floors_leaves_out_those_that_cannot_be_met():
    data = synthetic.scale(200, 40, 1500)
    model = MaxMinItemWeightedPCA(4, groups=3)
    tuning = tune(data, model, grid={"floors": [0.0, 0.05, 0.99]}, maximize="recall@5")
    assert [trial.settings["floors"] for trial in tuning.trials] == [0.0, 0.05]
    with pytest.raises(InvalidParameterError, match="can be met"):
        tune(data, model, grid={"floors": [0.99]}, maximize="recall@5")


def test_max_min_is_searched_over_goals_and_floors():
    grids = MaxMinItemWeightedPCA().search_space(synthetic.scale(200, 40, 1500))
    assert {"welfare", "groups"} <= set(grids[0])
    assert "floors" in grids[1]


def test_kept_fits_give_smaller_ranks_and_other_filters_without_a_fit(split, counted):
    task = Task.of(split, "validation", "interactions")
    goal = Goal.parse("ndcg@20", None, ("aplt",), 20)
    grids = [
        {"gamma": [-1.0], "n_components": [4, 16]},
        {"gamma": [-1.0], "n_components": [2, 8], "spectral_filter": ["hard", "power"]},
        {"gamma": [-1.0, -2.0], "n_components": [16]},
    ]
    fresh = [search(task, ItemWeightedPCA(), grid, goal)[0] for grid in grids]
    kept = KeptFits()
    again = [search(task, counted, grid, goal, kept=kept)[0] for grid in grids]
    assert counted.fits == [(-1.0, 16), (-2.0, 16)]
    for one, other in zip(chain(*fresh), chain(*again), strict=True):
        assert one.settings == other.settings
        assert one.scores == pytest.approx(other.scores)


def test_kept_fits_forget_the_oldest_and_never_return_a_smaller_one(split):
    models = [ItemWeightedPCA(4, gamma=gamma).fit(split.train) for gamma in (-1.0, -2.0)]
    kept = KeptFits(most_numbers=models[0].stored_numbers())
    for model in models:
        kept.keep(model)
    assert kept.find(ItemWeightedPCA(4, gamma=-1.0)) is None
    assert kept.find(ItemWeightedPCA(8, gamma=-2.0)) is None
    found = kept.find(ItemWeightedPCA(2, gamma=-2.0, spectral_filter="power"))
    assert found.components_ is models[1].components_
    assert found.spectral_filter == "power"

"""The paper's numbers, and the goals of tuning, through the public API alone."""

from __future__ import annotations

import pytest

from equipoise.data import holdout
from equipoise.evaluation import evaluate, tune
from equipoise.models import ItemWeightedPCA
from equipoise.paper.protocol import SEED
from tests.golden import AT_RANK_30, AT_RANK_32

pytestmark = pytest.mark.data

NAMES = {"pca": "PCA", "norm": "Normalized PCA", "iw": "Item-Weighted PCA"}
METRICS = (
    "recall",
    "precision",
    "ndcg",
    "mrr:lightgcn",
    "item_auc",
    "item_precision",
    "specialization",
)


@pytest.fixture(scope="module")
def evaluated(request):
    """Both ranks of all three models, once for each data set."""
    done = {}

    def of(dataset):
        if dataset not in done:
            split = holdout(request.getfixturevalue(dataset), seed=SEED)
            done[dataset] = evaluate(
                split, grid={"n_components": [30, 32]}, metrics=METRICS, zero_division=0
            )
        return done[dataset]

    return of


@pytest.mark.parametrize(("dataset", "model"), AT_RANK_30)
def test_item_metrics_at_rank_30(evaluated, dataset, model):
    at = {"model": NAMES[model], "n_components": 30}
    results = evaluated(dataset)
    found = (
        results.value("specialization", **at),
        results.value("item_auc", **at),
        results.value("item_auc", group="niche", **at),
        results.value("item_precision@20", **at),
        results.value("item_precision@20", group="niche", **at),
    )
    assert tuple(round(value, 4) for value in found) == AT_RANK_30[dataset, model]


@pytest.mark.parametrize(("dataset", "model"), AT_RANK_32)
def test_user_metrics_at_rank_32(evaluated, dataset, model):
    at = {"model": NAMES[model], "n_components": 32}
    results = evaluated(dataset)
    names = ("recall@20", "precision@20", "ndcg@20", "mrr@20:lightgcn")
    found = tuple(round(results.value(name, **at), 4) for name in names)
    assert found == AT_RANK_32[dataset, model]


# NDCG@20 and Recall@20 on test, to be reached within .003 by what validation chose
GOALS = {
    "movielens": ("movielens", (None,), (0.384, 0.428)),
    "lastfm, 0/1": ("lastfm", ("binary",), (0.353, 0.407)),
    "lastfm, shares as they are": ("lastfm", (None,), (0.266, 0.314)),
    "lastfm, any value transform": ("lastfm", None, (0.353, 0.407)),
}


@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_the_tuned_model_reaches_its_goal_on_test(request, goal):
    dataset, transforms, (ndcg, recall) = GOALS[goal]
    split = holdout(request.getfixturevalue(dataset), seed=SEED)
    space = ItemWeightedPCA().search_space(split.train)
    if transforms is not None:
        space = [{**one, "value_transform": transforms} for one in space]
    tuning = tune(split, grid=space, trade_off=(), zero_division=0)
    assert tuning.choice.settings["n_components"] <= 128
    assert tuning.test.value("ndcg@20") >= ndcg - 0.003
    assert tuning.test.value("recall@20") >= recall - 0.003

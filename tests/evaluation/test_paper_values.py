"""The paper's numbers, and the goals of tuning, through the public API alone."""

from __future__ import annotations

import pytest

from equipoise.data import holdout
from equipoise.evaluation import evaluate, tune
from equipoise.models import ItemWeightedPCA

pytestmark = pytest.mark.data

NAMES = {"pca": "PCA", "norm": "Normalized PCA", "iw": "Item-Weighted PCA"}
# specialization, item AUC, the same of niche items, item precision@20, the same of niche items
AT_RANK_30 = {
    ("lastfm", "pca"): (0.1933, 0.8209, 0.8353, 0.1115, 0.0589),
    ("lastfm", "norm"): (0.0630, 0.8992, 0.9114, 0.2144, 0.1446),
    ("lastfm", "iw"): (0.1463, 0.8714, 0.8865, 0.1402, 0.0798),
    ("movielens", "pca"): (0.1623, 0.9083, 0.9233, 0.5238, 0.3362),
    ("movielens", "norm"): (0.0494, 0.9029, 0.9149, 0.6010, 0.4224),
    ("movielens", "iw"): (0.0777, 0.9099, 0.9216, 0.5850, 0.4140),
}
# recall, precision, NDCG, MRR as in the LightGCN code, at 20
AT_RANK_32 = {
    ("lastfm", "pca"): (0.2074, 0.0715, 0.1744, 0.4155),
    ("lastfm", "norm"): (0.2674, 0.0847, 0.2046, 0.4427),
    ("lastfm", "iw"): (0.2670, 0.0867, 0.2183, 0.5041),
    ("movielens", "pca"): (0.3471, 0.1587, 0.3052, 0.8087),
    ("movielens", "norm"): (0.3053, 0.1337, 0.2536, 0.6492),
    ("movielens", "iw"): (0.4031, 0.1812, 0.3599, 0.9552),
}
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
            data = request.getfixturevalue(dataset)
            done[dataset] = evaluate(
                data, grid={"n_components": [30, 32]}, metrics=METRICS, zero_division=0
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
    split = holdout(request.getfixturevalue(dataset))
    space = ItemWeightedPCA().search_space(split.train)
    if transforms is not None:
        space = [{**one, "value_transform": transforms} for one in space]
    tuning = tune(split, grid=space, trade_off=(), zero_division=0)
    assert tuning.choice.settings["n_components"] <= 128
    assert tuning.test.value("ndcg@20") >= ndcg - 0.003
    assert tuning.test.value("recall@20") >= recall - 0.003

"""evaluate, tune and every metric: the numbers of data in memory, on disk and on a cluster."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from sklearn.base import clone

from equipoise import Interactions, load, metrics
from equipoise.evaluation import evaluate, tune
from equipoise.metrics.collaboration import Factors, collaboration_by_block
from equipoise.metrics.projection import weighted_basis
from equipoise.models import EASE, ItemWeightedPCA, LocalGlobal, NormalizedPCA, Popularity
from equipoise.reranking import Reranked
from equipoise.serving import write_lists
from tests.backends.conftest import shuffled_rows
from tests.recorded_progress import Recorded

# Exact to the accuracy of the components: at this tolerance the same to nine digits.
MODELS = {"iw": ItemWeightedPCA(tol=1e-11), "norm": NormalizedPCA(tol=1e-11)}
EVERY_METRIC = [
    f"{name}:{convention}"
    for name, metric in metrics.available().items()
    for convention in metric.conventions
]


@pytest.fixture(scope="module")
def plays_file(tmp_path_factory):
    """400 users of 50 items in groups of taste; values from 1 to 4, users in no order."""
    rng = np.random.default_rng(3)
    taste = np.arange(400) % 5
    chance = np.where(taste[:, None] == np.arange(50) % 5, 0.5, 0.06) * rng.random(50)
    likes = rng.random((400, 50)) < chance + 0.02
    counts = Interactions.from_sparse(_csr(likes * rng.integers(1, 5, likes.shape)))
    path = tmp_path_factory.mktemp("evaluation") / "plays.parquet"
    shuffled_rows(counts.filter(min_items_per_user=4)).write_parquet(path)
    return path


def _csr(dense):
    import scipy.sparse as sp

    return sp.csr_array(dense.astype(float))


@pytest.fixture(scope="module")
def in_memory(plays_file):
    return Interactions.read(plays_file)


@pytest.fixture(params=["disk", "cluster"])
def in_blocks(request, plays_file):
    if request.param == "disk":
        data = Interactions.read(plays_file, memory="1GB", n_blocks=5)
    else:
        client = request.getfixturevalue("client")
        data = Interactions.read(plays_file, client=client, n_blocks=4)
    assert len(data.rows) > 1
    return data


def assert_same(results, expected):
    assert len(results) == len(expected) > 0
    for got, wanted in zip(results, expected, strict=True):
        assert (got.model, got.settings, got.name, got.group) == (
            wanted.model,
            wanted.settings,
            wanted.name,
            wanted.group,
        )
        assert (got.convention, got.n) == (wanted.convention, wanted.n), got.name
        assert got.value == pytest.approx(wanted.value, rel=1e-9, abs=1e-12, nan_ok=True), got.name


@pytest.mark.parametrize("method", ["per_user_random", "by_user"])
def test_every_metric_has_the_number_of_data_in_memory(in_memory, in_blocks, method):
    options = {"grid": {"n_components": [2, 6]}, "metrics": EVERY_METRIC, "k": 8}
    expected = evaluate(in_memory.holdout(method=method), MODELS, **options)
    assert {row.metric for row in expected} == set(metrics.available())
    assert_same(evaluate(in_blocks.holdout(method=method), MODELS, **options), expected)


def test_models_that_are_not_projections_and_given_lists_are_scored_by_block(in_memory, in_blocks):
    rng = np.random.default_rng(0)
    lists = np.argsort(rng.random(in_memory.shape), axis=1)[:, :10]
    local = LocalGlobal(8, tol=1e-11)  # its default, 1e-3, allows other numbers
    models = {"ease": EASE(10.0), "local": local, "popular": Popularity(), "given": lists}
    options = {"metrics": ["recall", "gini", "epc", "group_recall"], "k": [3, 10]}
    assert_same(evaluate(in_blocks, models, **options), evaluate(in_memory, models, **options))


@pytest.mark.parametrize("reranker", ["xquad:0.4", "fair:0.5,length=6", "mmr", "calibrated"])
def test_a_re_ranked_model_has_the_lists_of_data_in_memory(
    in_memory, in_blocks, reranker, tmp_path
):
    model = Reranked(ItemWeightedPCA(5, tol=1e-11), reranker, candidates=20)
    expected = clone(model).fit(in_memory)
    fitted = clone(model).fit(in_blocks)
    inner = clone(model.model).fit(in_blocks)
    around = Reranked.around(inner, reranker, in_blocks, candidates=20)
    lists = expected.recommend(in_memory, 6)
    for one in (fitted, around, load(fitted.save(tmp_path / "one.eqp"))):
        np.testing.assert_array_equal(one.item_counts_, in_memory.popularity("count"))
        np.testing.assert_array_equal(one.recommend(in_memory, 6).ids, lists.ids)
    rows = write_lists(fitted, in_blocks, tmp_path / "lists", k=6)
    table = pl.read_parquet(tmp_path / "lists").sort("user", "rank")
    wanted = {user: ids.tolist() for user, ids in zip(in_memory.user_ids, lists.ids, strict=True)}
    assert rows == len(table) == lists.ids.size
    for (user,), own in table.group_by("user", maintain_order=True):
        assert own["item"].to_list() == wanted[user]


def test_values_per_user_are_in_the_order_of_the_data(in_memory, in_blocks):
    options = {"grid": {"n_components": [4]}, "metrics": ["recall", "aplt"], "per_user": True}
    expected = evaluate(in_memory, MODELS, zero_division=0, **options)
    found = evaluate(in_blocks, MODELS, zero_division=0, **options)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(got.per_user, wanted.per_user, rtol=1e-12)


def test_a_search_tries_the_same_and_chooses_the_same(in_memory, in_blocks):
    grid = [
        {"gamma": [0.0, -1.0], "n_components": [2, 5], "spectral_filter": ["hard"]},
        {
            "gamma": [-1.0],
            "n_components": [5],
            "spectral_filter": ["power"],
            "filter_strength": [0.5],
        },
    ]
    options = {"grid": grid, "maximize": "recall@5", "trade_off": ["item_auc/niche", "coverage@5"]}
    base = ItemWeightedPCA(value_transform="binary")
    expected, found = tune(in_memory, base, **options), tune(in_blocks, base, **options)
    assert [trial.settings for trial in found.trials] == [t.settings for t in expected.trials]
    for got, wanted in zip(found.trials, expected.trials, strict=True):
        assert got.scores == pytest.approx(wanted.scores, abs=2e-3)
    assert found.choice.settings == expected.choice.settings
    assert found.test.value("ndcg@20") == pytest.approx(expected.test.value("ndcg@20"), abs=1e-4)


def test_the_default_search_space_is_that_of_data_in_memory(in_memory, in_blocks):
    assert ItemWeightedPCA().search_space(in_blocks) == ItemWeightedPCA().search_space(in_memory)


def test_a_cache_of_data_in_memory_serves_data_in_blocks(in_memory, in_blocks, tmp_path):
    options = {"grid": {"n_components": [3]}, "metrics": ["recall", "item_auc"], "cache": tmp_path}
    expected = evaluate(in_memory, MODELS, **options)
    seen = Recorded()
    assert_same(evaluate(in_blocks, MODELS, **options, progress=seen), expected)
    assert seen.notes() == [f"{name}: from the cache" for name in MODELS]


def test_item_metrics_of_arrays_take_data_in_blocks(in_memory, in_blocks):
    model = NormalizedPCA(6, tol=1e-11).fit(in_memory)
    low_rank, X = model.low_rank(), in_memory.matrix
    U, scaled = low_rank.components.T, low_rank.prepare(X)
    options = {"k": 7, "ranks": [1, 6, 3], "items": [4, 0, 9]}
    found = metrics.item_collaboration(in_blocks, U, inputs=low_rank.prepare, **options)
    expected = metrics.item_collaboration(X, U, inputs=scaled, **options)
    np.testing.assert_array_equal(found.auc, expected.auc)
    np.testing.assert_array_equal(found.precision, expected.precision)
    np.testing.assert_array_equal(found.ranks, expected.ranks)
    np.testing.assert_allclose(
        metrics.item_error(in_blocks.prepared(low_rank.prepare), U, [2, 6]),
        metrics.item_error(scaled, U, [2, 6]),
        rtol=1e-10,
    )


def test_items_are_sent_in_parts_without_changing_the_numbers(in_memory, plays_file):
    data = Interactions.read(plays_file, memory="1GB", n_blocks=3)
    U = ItemWeightedPCA(5).fit(in_memory).components_.T
    whole = metrics.item_collaboration(data, U, k=4, ranks=[2, 5])
    model = Factors(weighted_basis(U, None), np.array([2, 5]), U.dtype, lambda X: X)
    parts = collaboration_by_block(data, model, np.arange(data.n_items), 4, scores_sent=500)
    np.testing.assert_array_equal(parts.auc, whole.auc)
    np.testing.assert_array_equal(parts.precision, whole.precision)


def test_evaluation_never_collects_the_matrix(plays_file, monkeypatch):
    data = Interactions.read(plays_file, memory="1GB", n_blocks=4)

    def refuse(*_args, **_kwargs):
        raise AssertionError("the whole matrix was collected")

    monkeypatch.setattr(Interactions, "require_matrix", refuse)
    with monkeypatch.context() as patched:
        patched.setattr(Interactions, "collect", refuse)
        results = evaluate(data, MODELS, grid={"n_components": [3]}, metrics=EVERY_METRIC)
    assert len(results) > 50
    # tune collects the rows of the few users whose held-out items it compares
    assert tune(data, "pca", grid={"n_components": [2, 3]}).complete

"""Our models in a LensKit pipeline; needs LensKit, which is not part of the extra `dev`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import ItemWeightedPCA
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError

lenskit = pytest.importorskip(
    "lenskit", reason='the adapter for LensKit was NOT tested: pip install "equipoise[lenskit]"'
)
pd = pytest.importorskip("pandas")

from equipoise.serving.lenskit import EquipoiseScorer  # noqa: E402


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=200, n_items=60)


@pytest.fixture(scope="module")
def dataset(plays):
    entries = plays.matrix.tocoo()
    frame = pd.DataFrame(
        {
            "user_id": plays.user_ids[entries.row],
            "item_id": plays.item_ids[entries.col],
            "rating": entries.data,
        }
    )
    return lenskit.data.from_interactions_df(frame)


def pipeline(dataset, **config):
    scorer = EquipoiseScorer(parameters={"n_components": 6}, **config)
    built = lenskit.topn_pipeline(scorer, n=10)
    built.train(dataset)
    return built


def expected_ids(plays, user, dataset, *, counted):
    """The list that our own model gives, on the columns in LensKit's order."""
    columns = dataset.items.ids()
    data = plays.select_items(columns)
    data = data if counted else data.binarize()
    model = ItemWeightedPCA(6).fit(data)
    return model.recommend(data.select_users([user]), k=10).ids[0].tolist()


@pytest.mark.parametrize("field", [None, "rating"])
def test_a_pipeline_recommends_what_the_model_does(plays, dataset, field):
    built = pipeline(dataset, field=field)
    for user in plays.user_ids[:5]:
        found = lenskit.recommend(built, user).ids().tolist()
        assert found == expected_ids(plays, user, dataset, counted=field is not None)


def test_a_user_who_was_not_in_training_is_scored_by_the_history_of_the_query(dataset):
    built = pipeline(dataset)
    history = lenskit.data.ItemList(dataset.items.ids()[:4])
    found = lenskit.recommend(built, lenskit.data.RecQuery(user_id="new", history_items=history))
    row = np.zeros((1, dataset.item_count))
    row[0, :4] = 1.0
    scorer = built.node("scorer").component
    expected = scorer.model.recommend(row, k=10).ids[0]
    assert found.numbers(vocabulary=dataset.items).tolist() == expected.tolist()


def test_batches_are_recommended_and_measured_by_lenskit(dataset):
    from lenskit.metrics import NDCG, RunAnalysis
    from lenskit.splitting import SampleFrac, sample_users

    split = sample_users(dataset, 50, SampleFrac(0.3, rng=1), rng=1)
    built = pipeline(split.train)
    lists = lenskit.batch.recommend(built, list(split.test.keys()), n_jobs=1)
    analysis = RunAnalysis()
    analysis.add_metric(NDCG(10))
    mean = analysis.measure(lists, split.test).list_summary().loc["NDCG@10", "mean"]
    assert 0 < mean < 1


def test_what_cannot_be_scored_is_nan(dataset):
    scorer = pipeline(dataset).node("scorer").component
    unknown = lenskit.data.ItemList(["nobody's", dataset.items.ids()[0]])
    history = lenskit.data.ItemList(dataset.items.ids()[:2])
    scores = scorer(lenskit.data.RecQuery(history_items=history), unknown).scores()
    assert np.isnan(scores).tolist() == [True, False]
    assert np.isnan(scorer(lenskit.data.RecQuery(user_id="new"), unknown).scores()).all()


def test_a_history_without_the_field_is_refused(dataset):
    built = pipeline(dataset, field="rating")
    history = lenskit.data.ItemList(dataset.items.ids()[:4])
    with pytest.raises(InvalidDataError, match="no 'rating', which the model"):
        built.node("scorer").component(lenskit.data.RecQuery(history_items=history), history)


def test_training_again_is_skipped_where_lenskit_says_so(dataset):
    scorer = pipeline(dataset).node("scorer").component
    first = scorer.model
    scorer.train(dataset, lenskit.training.TrainingOptions(retrain=False))
    assert scorer.model is first
    scorer.train(dataset, lenskit.training.TrainingOptions(retrain=True))
    assert scorer.model is not first
    assert sp.issparse(scorer.model._read(np.ones((1, dataset.item_count))))


def test_the_page_for_lenskit_runs(plays, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "coming-from" / "lenskit.md"
    blocks = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    entries = plays.matrix.tocoo()
    columns = {"user_id": plays.user_ids[entries.row], "item_id": plays.item_ids[entries.col]}
    namespace = {"frame": pd.DataFrame(columns | {"rating": entries.data})}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    assert len(namespace["lists"]) == 100

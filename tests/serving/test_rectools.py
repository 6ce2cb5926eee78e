"""Our models under RecTools; needs RecTools, which is not part of the extra `dev`."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from equipoise import EASE, ItemWeightedPCA, VanillaPCA
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError

pytest.importorskip(
    "rectools", reason='the adapter for RecTools was NOT tested: pip install "equipoise[rectools]"'
)
pd = pytest.importorskip("pandas")

from rectools import Columns  # noqa: E402
from rectools.dataset import Dataset  # noqa: E402
from rectools.model_selection import TimeRangeSplitter, cross_validate  # noqa: E402

from equipoise.serving.rectools import EquipoiseModel  # noqa: E402


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=200, n_items=60)


@pytest.fixture(scope="module")
def frame(plays):
    entries = plays.matrix.tocoo()
    days = np.arange(entries.nnz) % 20
    return pd.DataFrame(
        {
            Columns.User: plays.user_ids[entries.row],
            Columns.Item: plays.item_ids[entries.col],
            Columns.Weight: entries.data,
            Columns.Datetime: np.datetime64("2026-01-01") + days.astype("timedelta64[D]"),
        }
    )


@pytest.fixture(scope="module")
def dataset(frame):
    return Dataset.construct(frame)


@pytest.fixture(scope="module")
def model(dataset):
    return EquipoiseModel(ItemWeightedPCA(n_components=6)).fit(dataset)


def test_the_table_holds_what_the_model_recommends(model, dataset, plays):
    users = plays.user_ids[:5]
    table = model.recommend(users, dataset, k=10, filter_viewed=True)
    data = plays.select_items(dataset.item_id_map.external_ids)
    expected = ItemWeightedPCA(6).fit(data).recommend(data.select_users(users), k=10)
    assert table[Columns.Item].tolist() == expected.ids.ravel().tolist()
    np.testing.assert_allclose(table[Columns.Score], expected.scores.ravel(), rtol=1e-4)
    assert table[Columns.Rank].tolist() == list(range(1, 11)) * 5


def test_only_the_items_asked_for_are_recommended(model, dataset, plays):
    wanted = plays.item_ids[5:9]
    table = model.recommend(
        plays.user_ids, dataset, k=10, filter_viewed=False, items_to_recommend=wanted
    )
    assert len(table) == 4 * plays.n_users
    assert set(table[Columns.Item]) == set(wanted)


def test_users_whom_fit_has_not_seen_are_recommended_to(model, frame, dataset, plays):
    visitors = frame[frame[Columns.User] == plays.user_ids[7]].assign(**{Columns.User: "visitor"})
    both = Dataset.construct(pd.concat([frame, visitors]))
    table = model.recommend(["visitor"], both, k=5, filter_viewed=True)
    known = model.recommend([plays.user_ids[7]], dataset, k=5, filter_viewed=True)
    assert table[Columns.Item].tolist() == known[Columns.Item].tolist()


def test_other_items_than_those_of_fit_are_refused(model, frame, plays):
    fewer = Dataset.construct(frame[frame[Columns.Item] != plays.item_ids[3]])
    with pytest.raises(InvalidDataError, match="other items than the one"):
        model.recommend(plays.user_ids[:1], fewer, k=5, filter_viewed=True)


def test_similar_items_are_those_of_the_model(model, dataset):
    target = dataset.item_id_map.external_ids[4]
    table = model.recommend_to_items([target], dataset, k=5)
    numbers = dataset.item_id_map.convert_to_internal(table[Columns.Item])
    assert numbers.tolist() == model.model.similar_items(4, k=5).ids.tolist()


def test_a_configuration_makes_the_same_model(model):
    config = model.get_config(simple_types=True)
    again = EquipoiseModel.from_config(config)
    assert again.model.get_params() == model.model.get_params()
    assert config["model"] == "item-weighted"


def test_cross_validation_of_rectools_takes_it(dataset):
    from rectools.metrics import NDCG, Recall

    measured = cross_validate(
        dataset,
        TimeRangeSplitter("3D", n_splits=2, filter_cold_users=True, filter_cold_items=True),
        {"ndcg": NDCG(10), "recall": Recall(10)},
        {"ours": EquipoiseModel(ItemWeightedPCA(6)), "EASE": EquipoiseModel(EASE(10.0))},
        k=10,
        filter_viewed=True,
    )
    assert len(measured["metrics"]) == 4
    assert all(0 < fold["ndcg"] < 1 for fold in measured["metrics"])


def test_pure_svd_and_our_pca_give_the_same_lists(frame, dataset):
    from rectools.models import PureSVDModel

    users = frame[Columns.User].unique()
    theirs = PureSVDModel(factors=6).fit(dataset)
    ours = EquipoiseModel(VanillaPCA(n_components=6)).fit(dataset)
    first, second = (m.recommend(users, dataset, k=10, filter_viewed=True) for m in (theirs, ours))
    assert (first[Columns.Item].to_numpy() == second[Columns.Item].to_numpy()).mean() > 0.99
    np.testing.assert_allclose(first[Columns.Score], second[Columns.Score], rtol=1e-3, atol=1e-2)


def test_the_page_for_rectools_runs(frame, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = Path(__file__).parents[2] / "docs" / "coming-from" / "rectools.md"
    blocks = re.findall(r"```py\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 2
    namespace = {"frame": frame}
    for block in blocks:
        exec(compile(block, str(page), "exec"), namespace)
    assert len(namespace["measured"]["metrics"]) == 4

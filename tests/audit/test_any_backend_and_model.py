"""The audit of data on disk and on a cluster, and of models of other packages."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest

import equipoise
from equipoise import EASE, Interactions, ItemWeightedPCA, LocalGlobal, Popularity
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.plan import fit_seconds
from equipoise.audit.report import render
from equipoise.data.synthetic import listening
from equipoise.models import Recommender

RANK, K, SEED = 4, 5, 1


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    """Plays as a file, users in no particular order."""
    plays = listening(n_users=260, n_items=60, seed=SEED)
    users, items = plays.matrix.nonzero()
    order = np.random.default_rng(0).permutation(len(users))
    rows = zip(
        plays.user_ids[users][order],
        plays.item_ids[items][order],
        plays.matrix.data[order],
        strict=True,
    )
    path = tmp_path_factory.mktemp("plays") / "plays.csv"
    path.write_text("user,item,plays\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows))
    return path


@pytest.fixture(scope="module")
def in_memory(csv):
    return Interactions.read(csv)


@pytest.fixture(scope="module")
def given(in_memory):
    """An item × item matrix, and a model that is measured by its lists only."""
    fitted = in_memory.normalize_rows().holdout(seed=SEED).train_validation
    return {"EASE": EASE().fit(fitted), "Popularity": Popularity().fit(fitted)}


def audited(data, given):
    shares = data.normalize_rows()
    return equipoise.audit(shares, rank=RANK, k=K, seed=SEED, models=given, budget=0)


@pytest.fixture(scope="module")
def expected(in_memory, given):
    return audited(in_memory, given)


def assert_same(found, expected):
    """The same findings, numbers to rounding."""
    assert found.results.settings == expected.results.settings
    assert len(found.results) == len(expected.results)
    for row, other in zip(found.results, expected.results, strict=True):
        assert (row.model, row.settings, row.metric, row.group, row.n) == (
            other.model,
            other.settings,
            other.metric,
            other.group,
            other.n,
        )
        assert row.value == pytest.approx(other.value, abs=1e-5, nan_ok=True), (row, other)
    assert found.advice == expected.advice
    assert found.answer == expected.answer
    assert found.settings == expected.settings
    assert found.items.ids.tolist() == expected.items.ids.tolist()
    assert [view.user for view in found.users] == [view.user for view in expected.users]
    for view, other in zip(found.users, expected.users, strict=True):
        assert (view.history, view.held_out) == (other.history, other.held_out)
        for key, listed in view.recommended.items():
            assert [one.item for one in listed] == [one.item for one in other.recommended[key]]
    for variant, other in zip(found.variants, expected.variants, strict=True):
        np.testing.assert_allclose(variant.error_by_item, other.error_by_item, atol=1e-5)
        np.testing.assert_allclose(variant.auc_by_item, other.auc_by_item, atol=1e-5)
        np.testing.assert_array_equal(
            variant.components_to_half_by_item, other.components_to_half_by_item
        )


@pytest.mark.medium
def test_an_audit_of_blocks_on_disk_finds_the_same_as_in_memory(csv, given, expected, tmp_path):
    data = Interactions.read(csv, memory="64MB", n_blocks=3, scratch=tmp_path)
    assert len(data.rows) == 3
    assert fit_seconds(data, [8, 64]) == fit_seconds(Interactions.read(csv), [8, 64])
    found = audited(data, given)
    assert_same(found, expected)


@pytest.mark.slow
def test_an_audit_on_a_cluster_finds_the_same_as_in_memory(in_memory, given, expected):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", processes=True
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        found = audited(in_memory.distribute(client, n_blocks=2), given)
    assert_same(found, expected)


class OtherModel(Recommender):
    """A model of another package: scores items by their number of users."""

    def _fit(self, data):
        self.counts_ = data.popularity("count")

    def _scores(self, user_items):
        return np.tile(self.counts_, (user_items.shape[0], 1))

    def _similarities(self, item):
        return -np.abs(self.counts_ - self.counts_[item])

    def _contributions(self, user_items, item):  # noqa: ARG002
        return np.zeros(user_items.nnz)


@pytest.mark.medium
def test_a_model_of_another_package_is_audited_by_its_lists(in_memory):
    order = np.random.default_rng(3).permutation(in_memory.n_items)
    split = in_memory.normalize_rows().holdout(seed=SEED)
    fitted = split.train
    model = OtherModel().fit(fitted.select_items(fitted.item_ids[order]))
    split = in_memory.normalize_rows().holdout(seed=SEED)
    found = audit(split, rank=RANK, k=K, seed=SEED, models={"theirs": model}, budget=0)
    variant = found.variants[-1]
    assert (variant.label, variant.kind, variant.sizes) == ("theirs", "model", (60,))
    lists = model.recommend(fitted, K).ids
    columns = fitted.item_index(lists.ravel()).reshape(lists.shape)
    table = equipoise.metrics.ranking_metrics(columns, split.test.matrix, [K])
    for metric in ("recall", "ndcg"):
        assert variant.means[metric]["all"][0] == pytest.approx(table.value(f"{metric}@{K}"))
    assert np.isnan(variant.means["item_auc"]["all"]).all()
    near = variant.neighbors[0]
    same = model.similar_items(fitted.item_ids[0], 10).ids
    assert found.items.ids[near].tolist() == same.tolist()
    assert any("by its lists only" in note for note in found.settings.notes)
    text = to_markdown(found)
    assert "theirs" in text
    assert "nan" not in text
    record = json.loads(to_json(found), parse_constant=pytest.fail)
    assert record["models"][-1]["label"] == "theirs"
    assert len(record["users"][0]["recommended"]["given:0"]) == K
    assert "theirs" in render(found)


@pytest.mark.medium
def test_local_global_is_audited_like_any_model(in_memory):
    split = in_memory.normalize_rows().holdout(seed=SEED)
    model = LocalGlobal(RANK, value_transform="binary").fit(split.train)
    variant = audit(split, k=K, seed=SEED, models={"both": model}, budget=0).variants[-1]
    assert (variant.label, variant.kind) == ("both", "model")
    assert variant.means["ndcg"]["all"][0] > 0


def test_the_audit_is_at_the_top_level():
    assert inspect.signature(equipoise.audit) == inspect.signature(audit)


@pytest.mark.medium
def test_findings_are_one_tidy_table(expected):
    table = expected.results
    pca = expected.variants[0]
    value = table.value("item_error", model="PCA", group="niche", n_components=RANK)
    assert value == pca.means["item_error"]["niche"][pca.sizes.index(RANK)]
    assert set(table.settings) == {"n_components", "gamma"}
    assert table.best(f"ndcg@{K}", model="Item-Weighted PCA").settings.keys() == {
        "gamma",
        "n_components",
    }
    assert table.to_polars().height == len(table)


@pytest.mark.medium
def test_the_repr_of_findings_is_one_line(expected):
    assert len(repr(expected)) < 160
    assert "260 users × 60 items" in repr(expected)


@pytest.mark.medium
def test_no_model_parameter_is_a_field_of_the_findings(expected):
    for part in (expected, expected.settings, expected.variants[0], expected.advice):
        assert not {"gamma", "rank", "n_components"} & set(vars(part))
    assert expected.settings.audited["gamma"] == -1.0
    assert set(expected.settings.audited) <= set(ItemWeightedPCA().get_params())

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions, ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise import metrics as m
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.report import render
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import Metric
from tests.recorded_progress import Recorded

SEED, RANK, K = 3, 8, 10
PARTS = ("train", "validation")


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=300, n_items=60, seed=SEED)


@pytest.fixture(scope="module")
def found(plays):
    return audit(plays.normalize_rows(), rank=RANK, k=K, seed=SEED, budget=0)


@pytest.fixture(scope="module")
def split(plays):
    return plays.normalize_rows().holdout(seed=SEED)


def variant(found, key):
    return next(each for each in found.variants if each.key == key)


def planted(**more):
    """Item 0 has fans of its own; items 1, 2 and items 3, 4 are always touched together.

    XᵀX is block-diagonal: 360 | 20 · ones | 10 · ones. So PCA's components are e_0, (e_1 + e_2)/√2
    and (e_3 + e_4)/√2, in this order, and there are no more. At γ = −2 all blocks are divided by
    their squared norms: eigenvalues 1 | 2 | 2, and item 0 comes last.
    """
    X = np.zeros((70, 5))
    X[:40, 0] = 3
    X[40:60, 1:3] = 1
    X[60:, 3:] = 1
    return audit(Interactions.from_sparse(sp.csr_array(X)), depth="deep", **more)


def test_planted_blocks_give_the_known_errors_and_components_to_half_error():
    found = planted(rank=2, groups="items")
    pca = variant(found, "pca")
    assert (pca.size, pca.sizes) == (2, (1, 2))
    assert pca.depth == 3
    np.testing.assert_allclose(
        pca.self_reconstruction_by_item, [[1, 0, 0, 0, 0], [1, 0.5, 0.5, 0, 0]], atol=1e-9
    )
    np.testing.assert_allclose(pca.error_by_item, [[0, 1, 1, 1, 1], [0, 0, 0, 1, 1]], atol=1e-9)
    assert pca.components_to_half_by_item.tolist() == [1, 2, 2, 3, 3]
    assert pca.components_to_half["all"] == pytest.approx(11 / 5)
    heavy = variant(found, "item-weighted:-2")
    assert heavy.components_to_half_by_item[0] == 3
    assert sorted(heavy.components_to_half_by_item[1:].tolist()) == [1, 1, 2, 2]


def test_an_item_with_a_component_of_its_own_is_its_owner_and_nobody_else_is():
    found = planted(rank=2)
    owned = variant(found, "pca").owned
    assert [(each.component, each.item) for each in owned] == [(0, 0)]
    assert owned[0].weight == pytest.approx(1.0)
    two_weighted = variant(found, "item-weighted:-2")
    assert [each.item for each in two_weighted.owned] in ([], [0])


def test_items_that_always_come_together_predict_each_other_and_a_lonely_one_nothing():
    pca = variant(planted(rank=2), "pca")
    np.testing.assert_allclose(pca.auc_by_item[:3], [0.5, 1.0, 1.0])
    assert pca.neighbors[1, 0] == 2
    assert pca.neighbors[2, 0] == 1
    assert set(pca.neighbors[0]) <= {1, 2, -1}


@pytest.mark.medium
def test_numbers_equal_direct_calls_of_the_metrics(found, split):
    X = split.train_validation.matrix
    groups = m.popularity_groups(np.bincount(X.indices, minlength=60).astype(float), "interactions")
    models = {
        "pca": VanillaPCA(RANK),
        "normalized": NormalizedPCA(RANK),
        "item-weighted:-1": ItemWeightedPCA(RANK),
    }
    for key, model in models.items():
        got = variant(found, key)
        model = type(model)(**{**model.get_params(), "n_components": got.size}).fit(X)
        U, signal = model.components_.T, model.preprocess(X)
        at = got.at
        together = m.item_collaboration(X, U, k=K, inputs=signal)
        error = m.item_error(signal, U)[-1]
        diagonal = model.self_reconstruction()
        np.testing.assert_allclose(got.self_reconstruction_by_item[at], diagonal, atol=1e-7)
        np.testing.assert_allclose(got.error_by_item[at], error, atol=1e-7)
        np.testing.assert_allclose(got.auc_by_item, together.auc, atol=1e-7)
        assert got.means["specialization"]["all"][at] == pytest.approx(
            m.specialization(diagonal), abs=1e-7
        )
        for metric, values in (
            ("self_reconstruction", diagonal),
            ("item_error", error),
            ("item_auc", together.auc),
            ("item_precision", together.precision),
        ):
            mean = m.mean_by_group(values, groups)
            means = {name: rows[at] for name, rows in got.means[metric].items()}
            assert means == pytest.approx({"all": mean.overall, **mean.by_group}, abs=1e-6)


def test_accuracy_is_that_of_recommended_lists_on_the_held_out_items(found, split):
    X, held_out = split.train_validation.matrix, split.test.matrix
    there = np.flatnonzero(np.diff(held_out.indptr))
    got = variant(found, "item-weighted:-1")
    at, rank = got.at, got.size
    top = ItemWeightedPCA(rank).fit(X).recommend(X[there], k=K).ids
    table = m.ranking_metrics(top, held_out[there], [K])
    for name in ("recall", "ndcg", "precision", "mrr"):
        assert got.means[name]["all"][at] == pytest.approx(table[f"{name}@{K}"].value)
    counts = m.recommendation_counts(top, 60)
    assert got.means["coverage"]["all"][at] == m.catalog_coverage(counts).value
    assert got.means["gini"]["all"][at] == pytest.approx(m.gini(counts).value)
    users = np.bincount(X.indices, minlength=60)
    assert got.means["arp"]["all"][at] == pytest.approx(m.average_popularity(top, users).value)


def test_neighbors_and_user_views_equal_the_calls_of_the_models(found, plays, split):
    fitted = split.train_validation
    got = variant(found, "item-weighted:-1")
    model = ItemWeightedPCA(got.size).fit(fitted.matrix)
    for item in (0, 7, 31):
        assert got.neighbors[item].tolist() == model.similar_items(item, k=10).ids.tolist()
    view = found.users[0]
    row = fitted.matrix[[plays.user_ids.tolist().index(view.user)]]
    assert set(view.history) == set(row.indices.tolist())
    recommended = view.recommended["item-weighted:-1"]
    ranking = model.recommend(row, k=K)
    assert [one.item for one in recommended] == ranking.ids[0].tolist()
    np.testing.assert_allclose([one.score for one in recommended], ranking.scores[0], atol=1e-9)
    explained = model.explain(row, recommended[0].item, k=None)
    strongest = explained.ids[np.argsort(-explained.contributions, kind="stable")][:3]
    assert recommended[0].because == tuple(strongest.tolist())
    assert set(view.recommended) == {"pca", "normalized", "item-weighted:-1"}


def test_gamma_zero_is_pca(found):
    keys = [each.key for each in found.variants]
    assert keys == ["pca", "normalized", "item-weighted:0", "item-weighted:-1"]
    pca, zero = variant(found, "pca"), variant(found, "item-weighted:0")
    np.testing.assert_array_equal(pca.self_reconstruction_by_item, zero.self_reconstruction_by_item)


@pytest.mark.medium
def test_the_rank_is_that_of_pca_and_other_sizes_are_measured_too():
    found = audit(listening(n_users=150, n_items=60, seed=1), rank=5, budget=0)
    assert (found.subject.key, found.subject.size) == ("pca", 5)
    assert {2, 5, 8, 32} <= set(found.subject.sizes)


@pytest.mark.medium
def test_without_a_rank_pca_is_audited_at_its_best_on_validation(plays):
    found = audit(plays, k=K, seed=SEED, budget=0)
    X, held_out = (getattr(plays.holdout(seed=SEED), part).matrix for part in PARTS)
    scores = {
        r: m.ndcg_at_k(VanillaPCA(r).fit(X).recommend(X, k=K).ids, held_out, K).value
        for r in (8, 32)
    }
    assert found.subject.size == max(scores, key=scores.get)


def test_the_data_summary_has_size_inequality_and_groups(found, plays):
    totals = plays.popularity("count")
    summary = found.data
    assert (summary.n_users, summary.n_items, summary.n_interactions) == (300, 60, plays.nnz)
    assert summary.gini == pytest.approx(m.gini(totals).value)
    assert summary.head_share == pytest.approx(np.sort(totals)[-6:].sum() / totals.sum())
    assert summary.popularity_curve[0].tolist() == [0, 0]
    assert summary.popularity_curve[-1].tolist() == [1, 1]
    assert (np.diff(summary.popularity_curve[:, 1]) >= 0).all()
    assert sum(group.n_items for group in summary.groups) == 60
    assert sum(group.share for group in summary.groups) == pytest.approx(1)
    sizes = np.bincount(found.items.group, minlength=3)
    assert sizes.tolist() == [group.n_items for group in summary.groups]


@pytest.mark.medium
def test_equal_input_gives_equal_bytes(found, plays):
    shares = plays.normalize_rows()
    again = audit(shares, rank=RANK, k=K, seed=SEED, budget=0)
    assert to_json(again) == to_json(found)
    other = audit(shares, rank=RANK, k=K, seed=SEED + 1, budget=0, depth="quick")
    assert other.subject.mean("ndcg") != found.subject.mean("ndcg")


@pytest.mark.parametrize(
    "X",
    [
        [[1.0]],
        [[1.0], [2.0]],
        [[1.0, 0.0], [0.0, 1.0]],
        [[1.0, 1.0, 0.0], [0.0, 1.0, 0.0]],
        np.ones((6, 7)),
    ],
    ids=[
        "one entry",
        "one item",
        "two users, nothing in common",
        "an item nobody touched",
        "all alike",
    ],
)
@pytest.mark.parametrize("groups", ["interactions", "items"])
def test_tiny_data_are_audited_with_what_is_defined(X, groups):
    found = audit(Interactions.from_sparse(sp.csr_array(X)), groups=groups, budget=0)
    assert found.settings.size <= min(np.shape(X))
    assert len(found.items.ids) == np.shape(X)[1]
    assert np.isfinite(found.variants[0].means["specialization"]["all"]).all()
    assert "nan" not in to_json(found).lower().replace("nannbsp", "")
    assert all("nan" not in text for text in found.answer)
    assert not any(each.stated for each in found.evidence)


def test_without_anything_to_hold_out_that_is_said_and_accuracy_is_unknown():
    found = planted()
    assert any("nothing could be held out" in note for note in found.settings.notes)
    assert np.isnan(found.variants[0].means["recall"]["all"]).all()
    assert "no validation part" in found.answer.advice
    assert found.subject.no_accuracy == "nothing could be held out"
    assert found.settings.size_chosen_by.startswith("the defaults")


@pytest.mark.medium
def test_items_that_nobody_touched_in_training_do_not_break_it():
    X = listening(n_users=300, n_items=60, seed=2).matrix.tolil()
    X[:, 5] = 0
    found = audit(Interactions.from_sparse(sp.csr_array(X)), rank=4, budget=0)
    ours = variant(found, "item-weighted:-1")
    assert np.isnan(ours.error_by_item[:, 5]).all()
    assert ours.neighbors[5].tolist() == [-1] * 10
    assert np.isfinite(ours.means["item_error"]["all"]).all()


@pytest.mark.medium
def test_names_and_progress_are_passed_on():
    plays = listening(n_users=100, n_items=60, seed=1)
    seen = Recorded()
    found = audit(
        plays,
        names={"artist-0001": "Velvet Harbour"},
        rank=2,
        budget=0,
        progress=seen,
        source="p.csv",
    )
    assert found.items.names[0] == "Velvet Harbour"
    assert found.data.source == "p.csv"
    assert seen.first["name"] == "Auditing"
    assert seen.first["done"] == seen.first["total"] == len(seen.first["notes"])
    assert "Testing the models, and comparing with shuffled data" in seen.first["notes"]
    assert seen.is_over


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 0}, "rank=0 must be"),
        ({"rank": 2.5}, "rank=2.5 must be a whole number"),
        ({"rank": True}, "rank=True must be"),
        ({"rank": "many"}, "rank='many' must be"),
        ({"depth": "shallow"}, "depth must be one of"),
        ({"budget": -1}, "budget must be a number of seconds"),
        ({"groups": "thirds"}, "groups must be one of"),
        ({"k": 0}, "k=0 must be"),
        ({"seed": -1}, "seed"),
    ],
)
def test_arguments_out_of_range_are_refused(plays, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        audit(plays, **options)


def test_other_types_than_interactions_are_refused():
    with pytest.raises(InvalidDataError, match="got ndarray"):
        audit(np.ones((3, 3)))
    plays = listening(n_users=50, n_items=60)
    empty = plays.keep_entries(np.zeros(plays.nnz, dtype=bool))
    with pytest.raises(InvalidDataError, match="nothing to audit: 50 users"):
        audit(empty)


def first_is_held_out(block, *_):
    return block.hits[:, 0].astype(float)


FIRST = Metric("first", "First", "first item is a hit", first_is_held_out, has_k=False)


def test_metrics_of_lists_can_be_added_and_change_nothing_else():
    plays = listening(n_users=150, n_items=60, seed=1)
    own = replace(FIRST, needs=("lists", "held_out"))
    options = {"depth": "quick", "budget": 0, "k": 5}
    plain = audit(plays, **options)
    found = audit(plays, more_metrics=["hit_rate", "epc@3", own], **options)
    assert found.settings.metrics == {"hit_rate": "hit_rate@5", "epc": "epc@3", "first": "first"}
    tested = found.subject
    assert 0 < tested.mean("first") <= tested.mean("hit_rate")
    assert tested.intervals["first"]["all"].mean == tested.mean("first")
    rest = [row for row in found.results if row.metric not in found.settings.metrics]
    assert repr(rest) == repr(list(plain.results))  # nan equals nan
    assert "| first |" in to_markdown(found)
    assert '"first"' in render(found)


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        (["item_auc"], "measures item_auc itself"),
        (["awrf"], "measures awrf itself"),
        (["ndcg@3"], "measures ndcg itself"),
        (["map@3", "map@5"], "map twice"),
        (["map@50"], "lists of 50 items"),
        (["mapp"], "unknown metric"),
    ],
)
def test_metrics_that_lists_do_not_give_are_refused(metrics, message):
    with pytest.raises(InvalidParameterError, match=message):
        audit(listening(n_users=50, n_items=60), more_metrics=metrics)

"""The audit is fair: same rows, same preparations, and nothing is found in noise."""

from __future__ import annotations

import json
import shlex

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

import equipoise
from equipoise import EASE, Interactions, Popularity, VanillaPCA
from equipoise.audit import audit, to_json
from equipoise.audit.advice import python_call
from equipoise.audit.evidence import shuffled
from equipoise.audit.verdict import answer
from equipoise.data import Split
from equipoise.data.synthetic import listening
from equipoise.exceptions import InvalidDataError

RANK = 6


def heavy_tailed(n_users=500, n_items=120, seed=0):
    """Play counts: who plays what is a matter of taste; how often has a heavy tail.

    Users like one of six genres. A few plays per item are normal, but one in fifty is a thousand
    times more, for no reason that other items could tell.
    """
    rng = np.random.default_rng(seed)
    genre, taste = np.arange(n_items) % 6, rng.integers(6, size=n_users)
    popularity = (1 + np.arange(n_items)) ** -0.3
    chance = np.where(taste[:, None] == genre, 1.8, 0.12) * popularity
    played = rng.random((n_users, n_items)) < np.minimum(chance, 0.9)
    counts = 1 + rng.poisson(2.0, size=played.shape)
    counts = np.where(rng.random(played.shape) < 0.02, counts * 1000, counts)
    return Interactions.from_sparse(sp.csr_array((played * counts).astype(float)))


@pytest.fixture(scope="module")
def heavy():
    return audit(heavy_tailed(), rank=16, budget=20)


@pytest.mark.medium
def test_owned_components_of_heavy_tails_are_explained_by_the_values(heavy):
    assert heavy.subject.key == "as-given"
    assert len(heavy.subject.owned) >= 8
    assert len(heavy.variant("pca").owned) == 0
    stated = {each.name: each.stated for each in heavy.evidence}
    assert stated["owned"]
    assert stated["preparation"]
    assert "comes from the raw values" in heavy.answer.wrong


@pytest.mark.medium
def test_every_model_is_chosen_over_the_same_preparations(heavy):
    best = {entry.model: entry for entry in heavy.contest[1:] if "filter" not in entry.title}
    models = {"pca", "normalized", "item-weighted", "popularity", "ease", "weighted-mf"}
    assert models <= set(best)
    titles = [entry.title for entry in heavy.contest[1:]]
    assert len(titles) == len(set(titles))
    assert "PCA with power filter" in titles, "the filter is not a merit of the weights"
    for model in ("pca", "normalized", "item-weighted"):
        assert best[model].preparation != "values as given"
    as_given = heavy.contest[0].test.mean
    assert best["pca"].test.mean > 1.5 * as_given, "PCA is not blamed for the values"
    assert heavy.advice.score.mean >= best["pca"].test.mean - 0.01


@pytest.mark.medium
def test_a_given_truncated_svd_equals_our_pca_in_the_report(tmp_path):
    plays = listening(n_users=300, n_items=60, seed=1)
    svd = TruncatedSVD(RANK, algorithm="arpack", random_state=0).fit(sp.csr_matrix(plays.matrix))
    np.save(tmp_path / "svd.npy", svd.components_)
    ours = VanillaPCA(RANK, tol=1e-10).fit(plays)
    models = {"sklearn": svd, "npy": tmp_path / "svd.npy", "ours": ours}
    found = audit(plays, models=models, budget=0)
    pca = found.variant("pca")
    assert found.subject.label == "sklearn"
    assert pca.size == RANK
    for label in models:
        given = next(each for each in found.variants if each.label == label)
        assert given.size == RANK
        for metric in ("self_reconstruction", "item_error", "item_auc", "item_precision"):
            for group in ("all", "popular", "niche"):
                assert given.mean(metric, group) == pytest.approx(pca.mean(metric, group), abs=1e-6)
        for metric in ("specialization", "coverage", "aplt", "arp", "gini"):
            assert given.mean(metric) == pytest.approx(pca.mean(metric), abs=1e-6)
        assert len(given.owned) == len(pca.owned)
        assert np.isnan([given.mean(metric) for metric in ("recall", "ndcg", "mrr")]).all()
        assert given.no_accuracy == "it saw the held-out items"
    assert pca.mean("ndcg") > 0
    record = json.loads(to_json(found))
    assert record["models"][-1]["no_accuracy"] == "it saw the held-out items"
    assert record["models"][-1]["means"]["ndcg"]["all"] == [None] * len(given.sizes)


@pytest.mark.medium
def test_a_model_fitted_on_the_training_part_equals_our_pca_with_its_accuracy():
    split = listening(n_users=300, n_items=60, seed=1).holdout(seed=0)
    svd = TruncatedSVD(RANK, algorithm="arpack", random_state=0)
    svd.fit(sp.csr_matrix(split.train.matrix))
    found = audit(split, models={"mine": svd}, budget=0)
    pca, mine = found.variant("pca"), found.subject
    assert mine.label == "mine"
    for metric in pca.means:
        assert mine.mean(metric) == pytest.approx(pca.mean(metric), abs=1e-6), metric
    assert mine.no_accuracy == ""
    assert found.contest[0].title == "mine"
    assert found.contest[0].test.mean == pytest.approx(mine.mean("ndcg"))


@pytest.mark.medium
def test_factors_are_measured_on_the_values_that_they_were_fitted_on():
    plays = heavy_tailed(n_users=300, n_items=60)
    svd = TruncatedSVD(RANK, algorithm="arpack", random_state=0)
    svd.fit(sp.csr_matrix(plays.binarize().matrix))
    ours = VanillaPCA(RANK, tol=1e-10, value_transform="binary").fit(plays)
    ease = EASE(100.0).fit(plays.binarize()).coefficients_
    models = {"sklearn": svd, "ours": ours, "matrix": np.asarray(ease)}
    found = audit(plays, models=models, budget=0, depth="quick")
    sklearn, known, matrix = (
        next(each for each in found.variants if each.label == label) for label in models
    )
    for metric in ("self_reconstruction", "item_error", "item_auc", "item_precision"):
        assert sklearn.mean(metric) == pytest.approx(known.mean(metric), abs=1e-6), metric
    assert sklearn.mean("item_error") < 1, "raw counts would blame the model for the values"
    assert matrix.mean("item_error") < 1
    notes = [note for note in found.settings.notes if "agrees best with 0/1 values" in note]
    assert [note.split(":")[0] for note in notes] == ["sklearn", "matrix"]


@pytest.mark.medium
def test_headline_verdict_and_advice_are_about_the_given_model():
    split = listening(n_users=400, n_items=60, seed=2).holdout(seed=0)
    found = audit(split, models={"our hits": Popularity().fit(split.train)}, budget=1)
    assert found.subject.label == "our hits"
    assert found.answer.advice.startswith("Use ")
    assert not found.advice.keep
    assert found.advice.gain.low > 0


@pytest.mark.slow
def test_the_best_model_as_the_given_one_is_kept():
    split = listening(n_users=300, n_items=60, seed=2).holdout(seed=0)
    first = audit(split, models={"hits": Popularity().fit(split.train)}, budget=1)
    names = {name: getattr(equipoise, name) for name in equipoise.__all__}
    call = python_call(first.advice)
    best = eval(call, {**names, "interactions": split.train})
    again = audit(split, models={"mine": best}, budget=1)
    assert again.advice.keep
    assert again.advised is again.subject
    assert again.answer.advice.startswith("Keep mine: no model")


@pytest.mark.medium
def test_parts_with_other_ids_are_refused_and_reordered_ids_are_matched():
    split = listening(n_users=200, n_items=60, seed=1).holdout(seed=0)
    order = np.random.default_rng(0).permutation(60)
    moved = split.test.select_items(split.test.item_ids[order])
    assert moved.item_ids.tolist() != split.test.item_ids.tolist()
    first, again = (
        audit(each, rank=4, depth="quick", budget=0).subject.mean("ndcg")
        for each in (split, Split(split.train, split.validation, moved))
    )
    assert first == again > 0
    unknown = Interactions.from_pairs(["x"], ["y"])
    with pytest.raises(InvalidDataError, match="not in train"):
        Split(split.train, split.validation, unknown)


SHAPES = ((60, 20, 0.3), (300, 40, 0.2), (80, 150, 0.1), (200, 100, 0.08))


def is_silent(shape, seed, **options):
    """Whether the audit of uniform noise states nothing and keeps PCA."""
    n_users, n_items, density = shape
    likes = np.random.default_rng(seed).random((n_users, n_items)) < density
    data = Interactions.from_sparse(sp.csr_array(likes.astype(float)))
    found = audit(data, seed=seed, depth="quick", **options)
    stated = any(each.stated for each in found.evidence)
    assert stated or found.advice.keep
    assert stated or found.answer.wrong.startswith("Nothing is wrong")
    assert stated or found.answer.whom.startswith("No group gets less")
    return not stated


@pytest.mark.medium
def test_nothing_is_found_in_noise():
    silent = sum(is_silent(SHAPES[seed % len(SHAPES)], seed, budget=0) for seed in range(8))
    assert silent >= 7


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*SHAPES, (2000, 300, 0.05), (1000, 1000, 0.02)])
def test_nothing_is_found_in_noise_of_any_shape(shape):
    assert sum(is_silent(shape, seed) for seed in range(20)) >= 19


@pytest.mark.slow
def test_items_with_one_user_each_do_not_hide_the_structure_of_the_others():
    core = sp.csr_array(heavy_tailed(n_users=400, n_items=100).matrix)
    rng = np.random.default_rng(3)
    single = sp.csr_array((np.ones(400), (rng.integers(400, size=400), np.arange(400))), (400, 400))
    found = audit(Interactions.from_sparse(sp.hstack([core, single], format="csr")), budget=0)
    stated = {each.name: each.stated for each in found.evidence}
    assert stated["structure"]
    assert stated["owned"]
    assert "describe one item each" in answer(found).wrong


def test_shuffled_data_have_the_same_margins_and_no_structure():
    X = sp.csr_array(heavy_tailed(n_users=200, n_items=50).matrix)
    Y = shuffled(X, np.random.default_rng(0))
    for axis in (0, 1):
        np.testing.assert_array_equal((X > 0).sum(axis=axis), (Y > 0).sum(axis=axis))
    np.testing.assert_allclose(np.sort(Y.sum(axis=1)), np.sort(X.sum(axis=1)))
    assert ((X > 0).multiply(Y > 0)).nnz < X.nnz


@pytest.mark.medium
def test_groups_with_too_few_items_are_not_judged():
    plays = listening(n_users=300, n_items=60, seed=1)
    found = audit(plays, rank=8, budget=0)
    sizes = {group.name: group.n_items for group in found.data.groups}
    assert sizes["popular"] < 5
    (niche,) = (each for each in found.evidence if each.name == "niche")
    assert not niche.stated
    assert "too few" in niche.why_not


@pytest.mark.medium
def test_intervals_contain_the_means_and_narrow_with_more_users():
    few, many = (
        audit(listening(n_users=n, n_items=60, seed=1), rank=8, budget=0) for n in (150, 800)
    )
    widths = []
    for found in (few, many):
        subject = found.subject
        for metric, by_group in subject.intervals.items():
            for group, one in by_group.items():
                assert one.low - 1e-12 <= subject.mean(metric, group) <= one.high + 1e-12
        sizes = {group.name: group.n_items for group in found.data.groups}
        error = subject.intervals["item_error"]
        assert {name: error[name].n_users for name in sizes} == sizes
        assert error["all"].n_users == 60
        ndcg = subject.intervals["ndcg"]["all"]
        widths.append(ndcg.high - ndcg.low)
    assert widths[1] < 0.6 * widths[0]
    assert widths[1] > 0


@pytest.mark.medium
def test_the_advised_commands_fit_the_model_and_reproduce_its_number(tmp_path, monkeypatch, capsys):
    from equipoise.cli.app import run

    plays = heavy_tailed(n_users=200, n_items=60)
    users, items = plays.matrix.nonzero()
    rows = [f"u{u},i{i},{v:g}" for u, i, v in zip(users, items, plays.matrix.data, strict=True)]
    (tmp_path / "plays.csv").write_text("user,item,plays\n" + "\n".join(rows))
    monkeypatch.chdir(tmp_path)
    assert run(["audit", "plays.csv", "--json", "--budget", "3", "-k", "10"]) == 0
    advice = json.loads(capsys.readouterr().out)["advice"]
    assert not advice["keep"]
    assert run(shlex.split(advice["command"])[1:]) == 0
    assert (tmp_path / "model.eqp").exists()
    capsys.readouterr()
    assert run([*shlex.split(advice["check"])[1:], "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    (row,) = [each for each in _rows(printed) if each["metric"] == "ndcg"]
    assert row["value"] == pytest.approx(advice["score"]["mean"], abs=1e-4)


def _rows(printed):
    return printed if isinstance(printed, list) else printed["rows"]

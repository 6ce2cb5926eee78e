from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.audit import audit
from equipoise.audit.advice import advise
from equipoise.audit.choice import Choice
from equipoise.audit.fitting import Steps
from equipoise.audit.phrases import Pair, moves
from equipoise.audit.verdict import judge
from equipoise.cli.audit import data_summary
from equipoise.data import Interactions
from equipoise.data.synthetic import listening
from equipoise.progress import NoProgress


@pytest.fixture(scope="module")
def found():
    return audit(listening(n_users=600, n_items=120, seed=3), rank=8, seed=3)


def judged(found, **changes):
    """The verdict if Item-Weighted PCA at γ = −1 had other numbers."""
    variants = [
        replace(each, **changes) if each.key == "item-weighted:-1" else each
        for each in found.variants
    ]
    return judge(found.portrait, found.settings, variants, None, normalized=False)


def everywhere(means, value):
    return {name: np.full_like(rows, value) for name, rows in means.items()}


def said(verdict):
    return " ".join(verdict.sentences)


def test_both_mechanisms_are_found_in_data_that_have_them_by_construction(found):
    text = said(found.verdict)
    pca = found.variants[0]
    at = pca.ranks.index(8)
    assert pca.diagonal["popular"][at] > 0.9 > 0.1 > pca.diagonal["niche"][at]
    assert pca.halving["niche"] > 10 * pca.halving["popular"]
    assert "PCA fails niche items" in text
    assert "It memorises popular items" in text
    assert "lowers specialization" in text
    assert "raises NDCG@20" in text


def test_the_three_headlines_are_waiting_copying_and_accuracy(found):
    first, second, third = found.verdict.headlines
    pca, ours = found.variants[0], found.variants[4]
    at = pca.ranks.index(8)
    ratio = pca.halving["niche"] / pca.halving["popular"]
    assert first.number == f"{ratio:.0f}×"
    assert second.number == f"{pca.diagonal['popular'][at]:.0%}"
    best = re.search(r"(\d+) for PCA, (\d+) for Item-Weighted PCA", third.says)
    theirs, own = (int(rank) for rank in best.groups())
    before = pca.accuracy["ndcg"][pca.ranks.index(theirs)]
    after = ours.accuracy["ndcg"][ours.ranks.index(own)]
    assert third.number == f"{after / before - 1:+.0%}"
    assert f"{before:.3f} to {after:.3f}" in third.says


def test_worse_numbers_are_told_as_worse(found):
    ours = found.variants[4]
    worse = judged(
        found,
        specialization=np.ones_like(ours.specialization),
        auc=everywhere(ours.auc, 0.4),
        accuracy=everywhere(ours.accuracy, 0.001),
    )
    text = said(worse)
    assert "raises specialization" in text
    assert "lowers item AUC" in text
    assert "lowers NDCG@20" in text
    assert worse.headlines[2].number.startswith("-")


def test_no_change_is_told_as_no_change(found):
    pca = found.variants[0]
    same = judged(
        found,
        specialization=pca.specialization,
        diagonal=pca.diagonal,
        error=pca.error,
        auc=pca.auc,
        accuracy=pca.accuracy,
    )
    text = said(same)
    assert "leaves specialization at" in text
    assert "leaves item AUC" in text
    assert "leaves NDCG@20 at" in text
    assert "stays at" in text
    assert "its weights buy" not in text
    assert same.headlines[2].number == "+0%"


def test_a_small_change_is_told_to_a_tenth_of_a_percent():
    assert moves("it", Pair(0.819, 0.818)) == "lowers it from 0.819 to 0.818 (-0.1%)"
    assert moves("it", Pair(0.5, 0.6)) == "raises it from 0.500 to 0.600 (+20%)"


def test_what_rounds_to_nothing_is_no_base_for_a_percentage():
    assert moves("error", Pair(1e-16, 0.054)) == "raises error from 0.000 to 0.054"


def test_at_full_rank_every_item_is_said_to_be_copied():
    whole = audit(listening(n_users=200, n_items=60), rank=500)
    sentences = " ".join(whole.verdict.sentences)
    assert "It copies every item from itself" in sentences
    assert "does not memorise" not in sentences
    assert data_summary(whole).count("rank 60 (given as 500; the data hold no more than 60") == 1


def test_a_model_from_outside_is_not_praised_for_what_it_may_have_seen():
    plays = listening(n_users=200, n_items=60)
    found = audit(plays, rank=4, factors={"theirs": np.eye(60)[:, :4]})
    beside = {line.split(" at ")[0]: line for line in found.verdict.sentences if " at rank" in line}
    assert beside["theirs"].endswith("flattered if it was fitted on all data.")
    assert "flattered" not in beside["Normalized PCA"]


def test_a_reader_who_divides_finds_the_ratio_of_the_headline(found):
    pca = found.variants[0]
    waits = replace(
        pca,
        halving={**pca.halving, "popular": 7 / 3, "niche": 63.0},
        not_halved=dict.fromkeys(pca.not_halved, 0),
    )
    variants = [waits, *found.variants[1:]]
    first = judge(found.portrait, found.settings, variants, None, normalized=False).headlines[0]
    assert first.number == "27×"
    assert "(63) as of a popular one (2.3)" in first.says


def test_a_model_that_treats_all_alike_is_not_accused(found):
    pca = found.variants[0]
    flat = replace(
        pca, error=everywhere(pca.error, 0.5), diagonal=everywhere(pca.diagonal, 0.1), owned=()
    )
    variants = [flat, *found.variants[1:4], replace(found.variants[4], owned=())]
    text = said(judge(found.portrait, found.settings, variants, None, normalized=False))
    assert "as much of a niche item unexplained as of a popular one: 50%" in text
    assert "It does not memorise popular items" in text
    assert "No component belongs to a single item" in text


def test_popular_items_may_be_the_ones_that_fail(found):
    pca = found.variants[0]
    error = {**everywhere(pca.error, 0.2), "popular": np.full_like(pca.error["popular"], 0.9)}
    variants = [replace(pca, error=error), *found.variants[1:]]
    text = said(judge(found.portrait, found.settings, variants, None, normalized=False))
    assert "PCA fails popular items, not niche ones" in text


def test_models_are_compared_at_the_rank_that_suits_each_as_well(found):
    pca, ours = found.variants[0], found.variants[4]
    ndcg = np.array([[0.4, 0.2], [0.1, 0.3]])
    best = Choice((0.0, -1.0), (4, 8), ndcg, 0.0, 4)
    text = said(judge(found.portrait, found.settings, found.variants, best, normalized=False))
    before = pca.accuracy["ndcg"][pca.ranks.index(4)]
    after = ours.accuracy["ndcg"][ours.ranks.index(8)]
    assert "(4 for PCA, 8 for Item-Weighted PCA)" in text
    assert f"NDCG@20 from {before:.3f} to {after:.3f}" in text


def test_a_lower_bound_is_told_as_one(found):
    pca = found.variants[0]
    open_end = replace(pca, not_halved={**pca.not_halved, "niche": 3})
    variants = [open_end, *found.variants[1:]]
    verdict = judge(found.portrait, found.settings, variants, None, normalized=False)
    assert verdict.headlines[0].number.startswith("≥ ")
    assert "at least" in said(verdict)


def test_two_lower_bounds_are_not_made_a_ratio(found):
    pca = found.variants[0]
    open_ends = replace(pca, not_halved={**pca.not_halved, "niche": 3, "popular": 1})
    variants = [open_ends, *found.variants[1:]]
    verdict = judge(found.portrait, found.settings, variants, None, normalized=False)
    first = verdict.headlines[0]
    assert "×" not in first.number
    assert first.number == f"{pca.error['niche'][pca.ranks.index(8)]:.0%}"
    assert "of a niche item is left unexplained" in first.says


def choice(gamma):
    ndcg = np.array([[0.1, 0.2], [0.3, 0.15]]) if gamma else np.array([[0.1, 0.4], [0.3, 0.15]])
    return Choice((0.0, -1.0), (4, 8), ndcg, gamma, 4 if gamma else 8)


def test_advice_names_the_setting_the_calls_and_the_reason(found):
    portrait = replace(found.portrait, source="my plays.csv")
    advice = advise(portrait, found.settings, choice(-1.0), normalized=True)
    assert (advice.gamma, advice.rank) == (-1.0, 4)
    assert advice.python == (
        "ItemWeightedPCA(n_components=4, gamma=-1).fit(interactions.normalize_rows())"
    )
    assert advice.command == (
        "equipoise fit 'my plays.csv' --rank 4 --gamma -1 --normalize-rows --out model.eqp"
    )
    assert "NDCG@20 0.300" in advice.why
    assert "PCA (γ = 0) reaches 0.200" in advice.why
    assert "Its γ is at the edge of what was tried." in advice.why


def test_advice_says_when_plain_pca_is_not_beaten(found):
    advice = advise(found.portrait, found.settings, choice(0.0), normalized=False)
    assert (advice.gamma, advice.rank) == (0.0, 8)
    assert "plain PCA (γ = 0) is not beaten" in advice.why


def test_the_recommended_python_call_runs(found):
    from equipoise import ItemWeightedPCA  # noqa: F401

    interactions = listening(n_users=600, n_items=120, seed=3)  # noqa: F841
    model = eval(found.verdict.advice.python)
    assert model.n_components_ == found.verdict.advice.rank


def test_of_equal_settings_the_smaller_rank_then_the_gamma_nearer_to_zero_is_taken():
    from equipoise.audit.choice import choose
    from equipoise.audit.plan import study

    data = listening(n_users=200, n_items=60, seed=1)
    prepared = study(data, groups="interactions", seed=0, normalize=None, n_ranks=1)
    found = choose(prepared, (0.0, -1e-12), (3,), 10, Steps(NoProgress()))
    assert found is not None
    assert found.ndcg[0, 0] == found.ndcg[1, 0]
    assert found.gamma == 0.0
    assert np.isnan(found.at(-5.0, 3))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models_that_are_the_same_at_full_rank_are_not_compared(dtype):
    likes = (np.random.default_rng(0).random((40, 12)) < 0.4).astype(dtype)
    found = audit(Interactions.from_sparse(sp.csr_array(likes)), rank=12)
    by_key = {variant.key: variant for variant in found.variants}
    for key in ("pca", "item-weighted:-1"):
        assert by_key[key].auc["all"][-1] == 0.5
    for metric, values in by_key["pca"].accuracy.items():
        assert values[-1] == by_key["item-weighted:-1"].accuracy[metric][-1]
    text = said(found.verdict)
    assert "are the same model" in text
    assert "raises" not in text
    assert "lowers" not in text
    assert found.verdict.headlines[2].number == "none"


def test_models_one_component_short_of_full_rank_are_compared():
    likes = (np.random.default_rng(0).random((40, 12)) < 0.4) * 1.0
    found = audit(Interactions.from_sparse(sp.csr_array(likes)), rank=11)
    assert "are the same model" not in said(found.verdict)

from __future__ import annotations

import re
import shlex
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.audit import audit
from equipoise.audit.advice import Selection, advise, command, python_call, select
from equipoise.audit.findings import Advice
from equipoise.audit.formatting import Pair, moves
from equipoise.audit.plan import prepare
from equipoise.audit.verdict import judge
from equipoise.cli.audit import data_summary
from equipoise.data import Interactions
from equipoise.data.synthetic import listening
from equipoise.evaluation.tuning import Trial
from equipoise.metrics import Results
from equipoise.models.registry import find_model


@pytest.fixture(scope="module")
def found():
    return audit(listening(n_users=600, n_items=120, seed=3), rank=8, seed=3)


def verdict_of(found, variants, selection=None):
    return judge(found.data, found.settings, variants, selection, found.verdict.advice)


def changed(variant, means):
    """The variant with other means: (metric, group) or metric → a number, or values by size."""
    rows = []
    for row in variant.results:
        value = means.get((row.metric, row.group), means.get(row.metric, row.value))
        if isinstance(value, np.ndarray):
            value = value[variant.sizes.index(row.settings["n_components"])]
        rows.append(replace(row, value=float(value)))
    return replace(variant, results=Results(tuple(rows)))


def judged(found, means, **changes):
    """The verdict if Item-Weighted PCA at γ = −1 had other numbers."""
    variants = [
        replace(changed(each, means), **changes) if each.key == "item-weighted:-1" else each
        for each in found.variants
    ]
    return verdict_of(found, variants)


def said(verdict):
    return " ".join(verdict.sentences)


def test_both_mechanisms_are_found_in_data_that_have_them_by_construction(found):
    text = said(found.verdict)
    pca = found.variants[0]
    at = pca.sizes.index(8)
    assert (
        pca.means["self_reconstruction"]["popular"][at]
        > 0.9
        > 0.1
        > pca.means["self_reconstruction"]["niche"][at]
    )
    assert pca.components_to_half["niche"] > 10 * pca.components_to_half["popular"]
    assert "PCA fails niche items" in text
    assert "It memorizes popular items" in text
    assert "lowers specialization" in text
    assert "raises NDCG@20" in text


def test_the_three_headlines_are_components_self_reconstruction_and_accuracy(found):
    first, second, third = found.verdict.headlines
    pca, ours = found.variants[0], found.variants[4]
    at = pca.sizes.index(8)
    ratio = pca.components_to_half["niche"] / pca.components_to_half["popular"]
    assert first.number == f"{ratio:.0f}×"
    assert second.number == f"{pca.means['self_reconstruction']['popular'][at]:.0%}"
    best = re.search(r"(\d+) for PCA, (\d+) for Item-Weighted PCA", third.meaning)
    theirs, own = (int(rank) for rank in best.groups())
    before = pca.means["ndcg"]["all"][pca.sizes.index(theirs)]
    after = ours.means["ndcg"]["all"][ours.sizes.index(own)]
    assert third.number == f"{after / before - 1:+.0%}"
    assert f"{before:.3f} to {after:.3f}" in third.meaning


def test_worse_numbers_are_reported_as_worse(found):
    worse = judged(found, {"specialization": 1.0, "item_auc": 0.4, "ndcg": 0.001})
    text = said(worse)
    assert "raises specialization" in text
    assert "lowers item AUC" in text
    assert "lowers NDCG@20" in text
    assert worse.headlines[2].number.startswith("-")


def test_no_change_is_reported_as_no_change(found):
    pca = found.variants[0]
    same = judged(
        found, {(row.metric, row.group): pca.means[row.metric][row.group] for row in pca.results}
    )
    text = said(same)
    assert "leaves specialization at" in text
    assert "leaves item AUC" in text
    assert "leaves NDCG@20 at" in text
    assert "stays at" in text
    assert "its weights favor" not in text
    assert same.headlines[2].number == "+0%"


def test_a_small_change_is_written_to_a_tenth_of_a_percent():
    assert moves("it", Pair(0.819, 0.818)) == "lowers it from 0.819 to 0.818 (-0.1%)"
    assert moves("it", Pair(0.5, 0.6)) == "raises it from 0.500 to 0.600 (+20%)"


def test_what_rounds_to_nothing_is_no_base_for_a_percentage():
    assert moves("error", Pair(1e-16, 0.054)) == "raises error from 0.000 to 0.054"


def test_at_full_rank_every_item_is_reconstructed_from_itself():
    whole = audit(listening(n_users=200, n_items=60), rank=500)
    sentences = " ".join(whole.verdict.sentences)
    assert "It reconstructs every item from itself" in sentences
    assert "does not memorize" not in sentences
    assert "rank: given as 500; the data have only 60 components" in data_summary(whole)


def test_a_model_from_outside_is_not_praised_for_what_it_may_have_seen():
    plays = listening(n_users=200, n_items=60)
    found = audit(plays, rank=4, factors={"theirs": np.eye(60)[:, :4]})
    beside = {line.split(" at ")[0]: line for line in found.verdict.sentences if " at rank" in line}
    assert beside["theirs"].endswith("(too high if it was fitted on all data).")
    assert "too high" not in beside["Normalized PCA"]


def test_a_reader_who_divides_finds_the_ratio_of_the_headline(found):
    pca = found.variants[0]
    waits = replace(
        pca,
        components_to_half={**pca.components_to_half, "popular": 7 / 3, "niche": 63.0},
        not_halved=dict.fromkeys(pca.not_halved, 0),
    )
    variants = [waits, *found.variants[1:]]
    first = verdict_of(found, variants).headlines[0]
    assert first.number == "27×"
    assert "(63) as of a popular one (2.3)" in first.meaning


def test_a_model_that_treats_all_alike_is_not_accused(found):
    pca = found.variants[0]
    flat = replace(changed(pca, {"item_error": 0.5, "self_reconstruction": 0.1}), owned=())
    variants = [flat, *found.variants[1:4], replace(found.variants[4], owned=())]
    text = said(verdict_of(found, variants))
    assert "the same share of niche and popular items unreconstructed: 50%" in text
    assert "It does not memorize popular items" in text
    assert "No component belongs to a single item" in text


def test_popular_items_may_be_the_ones_that_fail(found):
    pca = found.variants[0]
    failing = changed(pca, {"item_error": 0.2, ("item_error", "popular"): 0.9})
    variants = [failing, *found.variants[1:]]
    text = said(verdict_of(found, variants))
    assert "PCA fails popular items, not niche ones" in text


def test_models_are_compared_at_the_rank_that_suits_each_as_well(found):
    pca, ours = found.variants[0], found.variants[4]
    best = selection({(4, 0.0): 0.4, (8, 0.0): 0.2, (4, -1.0): 0.1, (8, -1.0): 0.3})
    text = said(verdict_of(found, found.variants, best))
    before = pca.means["ndcg"]["all"][pca.sizes.index(4)]
    after = ours.means["ndcg"]["all"][ours.sizes.index(8)]
    assert "(4 for PCA, 8 for Item-Weighted PCA)" in text
    assert f"NDCG@20 from {before:.3f} to {after:.3f}" in text


def test_a_lower_bound_is_marked_as_one(found):
    pca = found.variants[0]
    open_end = replace(pca, not_halved={**pca.not_halved, "niche": 3})
    variants = [open_end, *found.variants[1:]]
    verdict = verdict_of(found, variants)
    assert verdict.headlines[0].number.startswith("≥ ")
    assert "at least" in said(verdict)


def test_two_lower_bounds_are_not_made_a_ratio(found):
    pca = found.variants[0]
    open_ends = replace(pca, not_halved={**pca.not_halved, "niche": 3, "popular": 1})
    variants = [open_ends, *found.variants[1:]]
    verdict = verdict_of(found, variants)
    first = verdict.headlines[0]
    assert "×" not in first.number
    assert first.number == f"{pca.means['item_error']['niche'][pca.sizes.index(8)]:.0%}"
    assert "of a niche item is not reconstructed" in first.meaning


def selection(scores):
    """What validation finds: (rank, γ) → NDCG@20."""
    base = find_model("item-weighted").make()
    trials = tuple(
        Trial({"n_components": rank, "gamma": gamma}, {"ndcg@20": score}, base)
        for (rank, gamma), score in scores.items()
    )
    return Selection(trials, max(trials, key=lambda trial: trial.scores["ndcg@20"]), "ndcg@20")


BETTER = {(4, 0.0): 0.1, (8, 0.0): 0.2, (4, -1.0): 0.3, (8, -1.0): 0.15}


def test_advice_has_the_setting_the_calls_and_the_reason(found):
    options = {"normalize_rows": True}
    advice = advise("item-weighted", found.settings, selection(BETTER), "my plays.csv", options)
    assert advice.settings == {"n_components": 4, "gamma": -1.0}
    assert python_call(advice) == (
        "ItemWeightedPCA(n_components=4, gamma=-1).fit(interactions.normalize_rows())"
    )
    assert command(advice) == (
        "equipoise fit 'my plays.csv' --normalize-rows --rank 4 --gamma -1 --out model.eqp"
    )
    assert "NDCG@20 0.300" in advice.why
    assert "PCA (γ = 0) reaches 0.200" in advice.why
    assert "Its γ is at the edge of what was tried." in advice.why


def test_advice_states_when_item_weights_do_not_improve_on_pca(found):
    scores = BETTER | {(8, 0.0): 0.4}
    advice = advise("item-weighted", found.settings, selection(scores), "plays.csv", {})
    assert advice.settings == {"n_components": 8, "gamma": 0.0}
    assert "do not improve on PCA" in advice.why


def test_the_advised_command_repeats_every_option_with_shell_quoting():
    options = {"user": "who is it", "delimiter": "\t", "min_items_per_user": 5, "binarize": True}
    settings = {"n_components": 3, "gamma": -0.5}
    advice = Advice("item-weighted", settings, "plays.csv", options, "")
    assert shlex.split(command(advice)) == [
        *("equipoise", "fit", "plays.csv", "--user", "who is it", "--delimiter", "\t"),
        *("--min-items-per-user", "5", "--binarize", "--rank", "3", "--gamma", "-0.5"),
        *("--out", "model.eqp"),
    ]
    filtered = "interactions.filter(min_items_per_user=5).binarize()"
    assert python_call(advice) == f"ItemWeightedPCA(n_components=3, gamma=-0.5).fit({filtered})"


def test_the_recommended_python_call_runs(found):
    from equipoise import ItemWeightedPCA  # noqa: F401

    interactions = listening(n_users=600, n_items=120, seed=3)  # noqa: F841
    model = eval(python_call(found.verdict.advice))
    assert model.n_components_ == found.verdict.advice.settings["n_components"]


def test_of_equal_settings_the_smaller_rank_then_the_gamma_nearer_to_zero_is_chosen():
    data = listening(n_users=200, n_items=60, seed=1)
    study = prepare(data, groups="interactions", seed=0, normalize=None, n_sizes=1)
    base = find_model("item-weighted").make()
    grid = {"n_components": (3,), "gamma": (0.0, -1e-12)}
    chosen = select(study.validation, base, grid, 10)
    assert chosen is not None
    first, second = (chosen.score(trial) for trial in chosen.trials)
    assert first == second
    assert chosen.choice.settings == {"n_components": 3, "gamma": 0.0}
    assert select(None, base, grid, 10) is None


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_models_that_are_the_same_at_full_rank_are_not_compared(dtype):
    likes = (np.random.default_rng(0).random((40, 12)) < 0.4).astype(dtype)
    found = audit(Interactions.from_sparse(sp.csr_array(likes)), rank=12)
    by_key = {variant.key: variant for variant in found.variants}
    for key in ("pca", "item-weighted:-1"):
        assert by_key[key].means["item_auc"]["all"][-1] == 0.5
    for metric in ("recall", "ndcg", "coverage"):
        first, second = (
            by_key[key].means[metric]["all"][-1] for key in ("pca", "item-weighted:-1")
        )
        assert first == second
    text = said(found.verdict)
    assert "are the same model" in text
    assert "raises" not in text
    assert "lowers" not in text
    assert found.verdict.headlines[2].number == "none"


def test_models_one_component_short_of_full_rank_are_compared():
    likes = (np.random.default_rng(0).random((40, 12)) < 0.4) * 1.0
    found = audit(Interactions.from_sparse(sp.csr_array(likes)), rank=11)
    assert "are the same model" not in said(found.verdict)

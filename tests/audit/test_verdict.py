from __future__ import annotations

import shlex
from dataclasses import replace

import numpy as np
import pytest

import equipoise
from equipoise.audit import audit
from equipoise.audit.advice import advise, check_command, command, python_call
from equipoise.audit.evidence import better
from equipoise.audit.findings import Advice, Entry
from equipoise.audit.verdict import failing, memorizing
from equipoise.data.synthetic import listening
from equipoise.metrics import ndcg_at_k
from equipoise.metrics.intervals import Interval


@pytest.fixture(scope="module")
def plays():
    return listening(n_users=800, n_items=300, seed=3)


@pytest.fixture(scope="module")
def found(plays):
    return audit(plays, rank=8, seed=3, budget=3)


def interval(mean, low, high):
    return Interval(mean, low, high, 0.95, 100)


@pytest.mark.medium
def test_the_answer_states_the_numbers_of_the_findings(found):
    subject = found.subject
    text = found.answer.wrong
    assert all(each.stated for each in found.evidence if each.name in ("structure", "niche"))
    error = subject.intervals["item_error"]["niche"]
    assert f"{1 - error.mean:.0%} ({1 - error.high:.0%} to {1 - error.low:.0%})" in text
    own = subject.intervals["self_reconstruction"]["popular"]
    assert f"{own.mean:.0%} ({own.low:.0%} to {own.high:.0%})" in text
    assert failing(found) in text
    assert memorizing(found) in text


@pytest.mark.medium
def test_a_finding_that_does_not_exceed_chance_is_not_stated(found):
    unsupported = tuple(replace(each, stated=False) for each in found.evidence)
    silent = replace(found, evidence=unsupported)
    text = silent.answer.wrong
    assert "niche" not in text
    assert "memorized" not in text
    assert "does not differ beyond chance" in failing(silent)
    assert "beyond chance" in memorizing(silent)


@pytest.mark.medium
def test_at_full_rank_every_item_is_reconstructed_from_itself():
    whole = audit(listening(n_users=200, n_items=60), rank=500, budget=0)
    assert "reconstructs every item from itself" in whole.answer.wrong
    assert whole.subject.size == 60


def entry(model="pca", test=None, gain=None, edge=(), **settings):
    return Entry(model, model.upper(), settings, "values as given", 0.3, test, gain, edge)


MINE = entry(test=interval(0.2, 0.19, 0.21), n_components=8)
BEST = entry(
    "item-weighted",
    interval(0.3, 0.29, 0.31),
    interval(0.1, 0.08, 0.12),
    n_components=4,
    gamma=-1.0,
    value_transform="binary",
)
READING = {"source": "my plays.csv", "data_options": {"delimiter": ";"}}


def test_advice_has_the_setting_the_calls_the_gain_and_its_interval():
    check = {"metrics": "ndcg@20", "seed": 0}
    advice = advise([BEST, MINE], MINE, better=True, check=check, **READING)
    assert (advice.keep, advice.gain) == (False, BEST.gain)
    assert shlex.split(command(advice)) == [
        *("equipoise", "fit", "my plays.csv", "--delimiter", ";", "--rank", "4", "--gamma", "-1"),
        *("--set", "value_transform=binary", "--out", "model.eqp"),
    ]
    assert shlex.split(check_command(advice))[:3] == ["equipoise", "evaluate", "my plays.csv"]


def test_advice_is_to_keep_what_is_not_beaten_beyond_chance():
    advice = advise([BEST], MINE, better=False, check={}, **READING)
    assert advice.keep
    assert (advice.model, advice.settings) == ("pca", {"n_components": 8})
    theirs = entry("given:0", test=interval(0.2, 0.19, 0.21))
    kept = advise([BEST], theirs, better=False, check={}, **READING)
    assert kept.model == command(kept) == python_call(kept) == check_command(kept) == ""


def test_a_model_that_saw_the_held_out_items_is_not_compared():
    advice = advise([replace(BEST, gain=None)], entry("given:0"), better=False, check={}, **READING)
    assert not advice.keep
    assert advice.gain is None


def test_a_choice_at_the_edge_is_flagged():
    advice = advise([replace(BEST, edge=("gamma",))], MINE, better=True, check={}, **READING)
    assert advice.edge == ("gamma",)


@pytest.mark.parametrize(
    ("gain", "is_better"),
    [(None, False), ((0.1, 0.08, 0.12), True), ((0.1, 0.02, 0.2), False), ((-0.1, -0.2, 0), False)],
)
def test_a_gain_counts_if_its_interval_is_far_from_zero(gain, is_better):
    assert better(replace(BEST, gain=None if gain is None else interval(*gain))) is is_better


def test_the_advised_command_repeats_every_option_with_shell_quoting():
    options = {"user": "who is it", "delimiter": "\t", "min_items_per_user": 5, "binarize": True}
    settings = {"n_components": 3, "gamma": -0.5}
    advice = Advice("item-weighted", settings, "plays.csv", options)
    assert shlex.split(command(advice)) == [
        *("equipoise", "fit", "plays.csv", "--user", "who is it", "--delimiter", "\t"),
        *("--min-items-per-user", "5", "--binarize", "--rank", "3", "--gamma", "-0.5"),
        *("--out", "model.eqp"),
    ]
    filtered = "interactions.filter(min_items_per_user=5).binarize()"
    calls = python_call(advice).replace("\n", "").replace("    ", "")
    assert calls == f"ItemWeightedPCA(n_components=3, gamma=-0.5).fit({filtered})"


@pytest.mark.medium
def test_the_advice_is_what_wins_on_validation_and_its_number_is_reproduced(plays, found):
    ranked = [entry for entry in found.contest[1:] if not np.isnan(entry.validation)]
    assert ranked[0].validation == max(entry.validation for entry in ranked)
    advice = found.advice
    assert (advice.model, advice.settings) == (ranked[0].model, ranked[0].settings)
    split = plays.holdout(seed=3)
    interactions = split.train_validation
    names = {name: getattr(equipoise, name) for name in equipoise.__all__}
    model = eval(python_call(advice), {**names, "interactions": interactions})
    lists = model.recommend(interactions, k=20).ids
    columns = plays.item_index(lists.ravel()).reshape(lists.shape)
    value = ndcg_at_k(columns, split.test.matrix, 20).value
    assert advice.score.mean == pytest.approx(value, abs=1e-6)


@pytest.mark.medium
def test_gains_are_paired_by_user(found):
    first, *others = found.contest
    for entry in others:
        assert entry.gain.mean == pytest.approx(entry.test.mean - first.test.mean)
        assert entry.gain.low < entry.gain.mean < entry.gain.high

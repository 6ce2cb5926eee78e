"""The measures by group: against the metrics on arrays, and by hand."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Groups, Interactions
from equipoise import metrics as m
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.formatting import MEASURES
from equipoise.audit.group_section import measure
from equipoise.audit.models.audited import ItemNumbers
from equipoise.audit.report.tables import main_measure
from equipoise.data.synthetic import listening
from equipoise.evaluation.task import Task
from equipoise.exceptions import InvalidParameterError

N_USERS, N_ITEMS, K = 120, 40, 5


@pytest.fixture(scope="module")
def case():
    """Random users, items, lists and numbers of items; item AUC is known for every second item."""
    rng = np.random.default_rng(2)
    X = (rng.random((N_USERS, N_ITEMS)) < np.linspace(0.5, 0.1, N_ITEMS)) * 1.0
    X[:, 0] = 1
    held = (X > 0) & (rng.random(X.shape) < 0.2)
    users, items = np.arange(100, 100 + N_USERS), np.arange(N_ITEMS) + 1000
    seen, test = (
        Interactions.from_sparse(sp.csr_array(part), user_ids=users, item_ids=items)
        for part in (np.where(held, 0.0, X), held * 1.0)
    )
    groups = m.popularity_groups(seen.matrix)
    task = Task(seen, seen, test, groups)
    sample = np.arange(0, N_ITEMS, 2)
    numbers = ItemNumbers(
        rng.random((2, N_ITEMS)), rng.random((2, N_ITEMS)), np.ones(N_ITEMS),
        rng.random((2, len(sample))), rng.random((2, len(sample))),
    )  # fmt: skip
    lists = np.array([rng.permutation(N_ITEMS)[:K] for _ in range(N_USERS)])
    study = SimpleNamespace(data=seen, fitted=seen, groups=groups, auc_items=sample)
    model = SimpleNamespace(key="mine")
    return study, SimpleNamespace(model=model, items=numbers, at=1, lists=lists, task=task), task


def labels_of_items() -> Groups:
    """Two large groups that overlap, one too small; every fourth item has none."""
    labels = {
        1000 + j: ["even"] * (j % 2 == 0) + ["low"] * (j < 15) + ["tiny"] * (j < 3)
        for j in range(N_ITEMS)
    }
    return Groups.from_labels(labels)


@pytest.fixture(scope="module")
def sections(case):
    study, measured, _ = case
    age = {user: "young" if user % 3 else "old" for user in range(100, 100 + N_USERS)}
    users = Groups.from_labels(age, of="users")
    return measure(study, [measured], labels_of_items(), users)


def test_each_number_equals_the_metric_on_arrays(case, sections):
    study, measured, task = case
    own = labels_of_items().align(study.data)
    found, lists, test = sections[0].numbers["mine"], measured.lists, task.held_out.matrix
    relative = m.exposure_by_group(lists, own, convention="discounted_relative").by_group
    expected = {
        "recall": m.recall_by_group(lists, test, own).by_group,
        "exposure": m.exposure_by_group(lists, own, convention="discounted").by_group,
        "exposure_relative": relative,
        "exposure_to_relevance": m.exposure_to_relevance(lists, test, own).by_group,
        "coverage": m.coverage_by_group(lists, own).by_group,
        "self_reconstruction": m.mean_by_group(measured.items.self_reconstruction[1], own).by_group,
    }
    for name, by_group in expected.items():
        for group in ("even", "low"):
            assert found[name][group].mean == pytest.approx(by_group[group]), name
    best = max(relative["even"], relative["low"])  # the tiny group is left out
    assert found["impact_ratio"]["low"].mean == pytest.approx(relative["low"] / best)
    assert found["awrf"]["all"].mean == pytest.approx(m.awrf(lists, own).value)
    loss = m.expected_exposure_loss(lists, task.seen.matrix, test, own).value
    assert found["expected_exposure_loss"]["all"].mean == pytest.approx(loss)


def test_the_retained_share_weighs_items_by_their_squares(case, sections):
    study, measured, _ = case
    low = np.arange(N_ITEMS) < 15
    squares = (study.fitted.matrix.toarray() ** 2).sum(axis=0)
    kept = 1 - measured.items.error[1]
    found = sections[0].numbers["mine"]["retained_share"]["low"].mean
    assert found == pytest.approx((squares * kept)[low].sum() / squares[low].sum())


def test_item_auc_is_the_mean_of_the_sampled_items_of_the_group(case, sections):
    study, measured, _ = case
    sampled = study.auc_items < 15
    found = sections[0].numbers["mine"]["item_auc"]["low"].mean
    assert found == pytest.approx(measured.items.auc[1][sampled].mean())


def test_users_of_a_group_have_their_mean_and_its_difference_from_all(case, sections):
    _, measured, task = case
    per_user = m.ndcg_at_k(measured.lists, task.held_out.matrix, K).per_user
    young = np.arange(100, 100 + N_USERS) % 3 > 0
    found = sections[1].numbers["mine"]
    assert found["ndcg"]["young"].mean == pytest.approx(np.nanmean(per_user[young]))
    difference = np.nanmean(per_user[young]) - np.nanmean(per_user)
    assert found["ndcg_difference"]["young"].mean == pytest.approx(difference)


def test_the_interval_of_a_mean_over_users_agrees_with_the_bootstrap_of_means(case, sections):
    _, measured, task = case
    per_user = m.ndcg_at_k(measured.lists, task.held_out.matrix, K).per_user
    expected = m.intervals.bootstrap_mean(per_user)
    found = sections[1].numbers["mine"]["ndcg"]["all"]
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=0.05)


def test_a_group_that_is_too_small_has_a_size_and_no_numbers(case, sections):
    items, _ = sections
    sizes = {group.name: (group.size, group.reported) for group in items.groups}
    assert sizes == {"even": (20, True), "low": (15, True), "tiny": (3, False)}
    assert all("tiny" not in by_group for by_group in items.numbers["mine"].values())
    assert "1 group has fewer than 10" in items.note
    assert "in no group" in items.note
    study, measured, _ = case
    protected = measure(study, [measured], labels_of_items(), smallest=16)[0]
    assert [group.reported for group in protected.groups] == [True, False, False]


def test_without_groups_of_ones_own_popularity_and_activity_are_used(case):
    study, measured, _ = case
    items, users = measure(study, [measured])
    assert (items.rule, users.rule) == ("popularity", "activity")
    assert [group.name for group in items.groups] == ["popular", "medium", "niche"]
    assert [group.size for group in users.groups] == [24] * 5
    assert users.note == ""


def test_a_model_without_held_out_items_has_exposure_and_no_recall(case):
    study, measured, task = case
    nothing = Interactions.wrap(sp.csr_array((N_USERS, N_ITEMS)))
    unknown = Task(task.fitted, task.seen, nothing, study.groups)
    served = SimpleNamespace(**{**vars(measured), "task": unknown})
    items, users = measure(study, [served], labels_of_items())
    assert np.isfinite(items.numbers["mine"]["exposure"]["low"].mean)
    assert np.isnan(items.numbers["mine"]["recall"]["low"].mean)
    assert "recall" not in items.measures
    assert users.numbers["mine"] == {}


def test_every_measure_has_a_title_and_a_meaning(sections):
    for section in sections:
        assert section.measures
        assert set(section.numbers["mine"]) <= set(MEASURES)
        assert set(section.to_dict()["measures"]) == set(section.measures)


def test_the_note_of_a_measure_keeps_its_capitals(sections):
    notes = [main_measure(section, []).notes[0] for section in sections if section.of == "users"]
    assert notes
    assert all(note.startswith("NDCG: ") for note in notes)


def test_groups_of_the_other_side_are_refused(case):
    study, measured, _ = case
    with pytest.raises(InvalidParameterError, match="Groups of items"):
        measure(study, [measured], Groups.from_labels({1: "a"}, of="users"))


@pytest.mark.slow
def test_ndcg_by_group_of_users_equals_ranx(case, sections):
    ranx = pytest.importorskip("ranx")
    _, measured, task = case
    held_out = task.held_out.matrix
    young = [row for row in np.flatnonzero(np.diff(held_out.indptr)) if (100 + row) % 3]
    wanted = {str(row): {str(j): 1 for j in held_out[[row]].indices} for row in young}
    given = {
        str(row): {str(j): K - place for place, j in enumerate(measured.lists[row])}
        for row in young
    }
    expected = ranx.evaluate(ranx.Qrels(wanted), ranx.Run(given), f"ndcg@{K}")
    assert sections[1].numbers["mine"]["ndcg"]["young"].mean == pytest.approx(expected)


@pytest.mark.medium
def test_floors_of_given_groups_have_prices_up_to_a_certified_limit():
    plays = listening(n_users=300, n_items=60, seed=3)
    labels = {item: "abc"[place % 3] for place, item in enumerate(plays.item_ids)}
    found = audit(plays, item_groups=Groups.from_labels(labels), rank=6, budget=0)
    items, users = found.groups
    assert {price.group for price in items.prices} == set("abc")
    assert users.prices == ()
    for price in items.prices:
        assert price.share <= price.floors[-1] <= price.limit
        assert list(price.kept) == sorted(price.kept, reverse=True)
    assert "The price of a floor" in to_markdown(found)
    assert len(json.loads(to_json(found))["groups"][0]["prices"]) == 3


def test_groups_that_were_not_given_have_no_prices(sections):
    assert all(section.prices == () for section in sections)

"""The audit offers re-ranking for the audited model, with its price."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from equipoise import audit, evaluate, holdout
from equipoise.audit import to_json, to_markdown
from equipoise.audit.advice import SPECS, best_mitigation
from equipoise.audit.models.given import read_models
from equipoise.audit.report import render
from equipoise.data.synthetic import listening
from equipoise.evaluation.task import Task
from equipoise.models import VanillaPCA
from equipoise.reranking import Reranked, make_reranker


@pytest.fixture(scope="module")
def split():
    return holdout(listening(n_users=400, n_items=120), test=0.2, validation=0.1, seed=5)


@pytest.fixture(scope="module")
def found(split):
    model = VanillaPCA(8).fit(split.train)
    return audit(split, models={"mine": model}, budget=0)


@pytest.mark.medium
def test_the_offer_names_a_re_ranker_and_its_price(found):
    offer = found.mitigation
    assert offer.spec in SPECS
    assert make_reranker(offer.spec)
    assert f"--rerank {offer.spec} raises" in str(offer)
    assert "at a price of" in offer.change
    assert str(offer) in render(found)
    assert json.loads(to_json(found))["mitigation"] == str(offer)
    assert "Without retraining" in to_markdown(found)


@pytest.mark.medium
def test_the_offer_holds_for_the_model_that_it_names(split, found):
    models = {"plain": VanillaPCA(8), "offered": Reranked(VanillaPCA(8), found.mitigation.spec)}
    table = evaluate(split, models, grid={}, metrics=["aplt", "ndcg"], k=20)
    tail = {row.model: row.value for row in table if row.metric == "aplt"}
    assert tail["offered"] > tail["plain"]


@pytest.mark.medium
def test_nothing_is_offered_where_it_cannot_be_measured(split):
    seen = VanillaPCA(8).fit(split.train_validation)
    assert "depth quick" in audit(split, models={"mine": seen}, depth="quick").mitigation
    lists = pl.DataFrame(
        {
            "user": np.repeat(split.train.user_ids, 20),
            "item": VanillaPCA(8).fit(split.train).recommend(split.train, 20).ids.ravel(),
            "rank": np.tile(np.arange(1, 21), split.train.n_users),
        }
    )
    assert "20 items" in audit(split, models={"live": lists}, budget=0).mitigation
    whole = listening(n_users=120, n_items=80)
    given = audit(whole, models={"mine": VanillaPCA(4).fit(whole)}, budget=0)
    assert "saw the held-out items" in given.mitigation


@pytest.mark.medium
def test_the_reason_is_given_if_users_are_few_or_every_re_ranking_costs_too_much():
    few = holdout(listening(n_users=80, n_items=60), seed=0)
    (model,) = read_models({"mine": VanillaPCA(4).fit(few.train)}, few.train)
    task = Task.of(few, "test", "interactions")
    given = best_mitigation(model, task, 4, k=20, seed=0)
    assert "fewer than 100 users" in given
    # only ten times the NDCG is enough
    given = best_mitigation(model, task, 4, k=20, seed=0, fewest_users=20, budget=-9.0)
    assert "none of 14 that were tried" in given


@pytest.mark.medium
def test_intervals_count_their_users(found):
    counts = {entry.test.n_users for entry in found.contest if entry.test is not None}
    assert min(counts) > 100

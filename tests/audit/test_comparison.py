from __future__ import annotations

from html.parser import HTMLParser

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions, ItemWeightedPCA
from equipoise.audit import compare, render
from equipoise.audit.page import table
from equipoise.data.synthetic import listening


@pytest.fixture(scope="module")
def comparison():
    return compare(listening(n_users=600, n_items=120, seed=3), rank=8, seed=3)


def test_both_mechanisms_are_there_under_pca(comparison):
    pca = comparison["PCA"]
    assert pca.diagonal["high"] > 0.9 > 0.1 > pca.diagonal["low"]
    assert pca.halving["low"] > 10 * pca.halving["high"]


def test_item_weights_lower_specialization_and_raise_recall(comparison):
    pca, ours = comparison["PCA"], comparison["Item-Weighted PCA"]
    assert ours.specialization < pca.specialization
    assert ours.recall > pca.recall
    assert ours.auc["low"] > pca.auc["low"]


def test_numbers_equal_those_of_the_dense_definitions(comparison):
    plays = listening(n_users=600, n_items=120, seed=3)
    split = plays.normalize_rows().holdout(seed=3)
    X = split.train_validation.matrix.toarray()
    C, p = X.T @ X, np.linalg.norm(X, axis=0)
    w = np.divide(1, p, out=np.zeros_like(p), where=p > 0)
    U = np.linalg.eigh((w[:, None] * C + C * w) / 2)[1][:, ::-1][:, :8]
    P = U @ U.T
    ours = comparison["Item-Weighted PCA"]
    np.testing.assert_allclose(ours.diagonal_by_item, P.diagonal(), atol=1e-8)
    top = P.diagonal()[P.diagonal() >= np.percentile(P.diagonal(), 90)]
    assert ours.specialization == pytest.approx(top.mean())
    scores = np.where(X > 0, -np.inf, X @ P)
    lists = np.argsort(-scores, axis=1, kind="stable")[:, :20]
    held = split.test.matrix.toarray() > 0
    hits = np.take_along_axis(held, lists, axis=1).sum(axis=1)
    with_test = held.any(axis=1)
    recall = (hits[with_test] / held.sum(axis=1)[with_test]).mean()
    assert ours.recall == pytest.approx(recall)


def test_words_tell_the_direction_that_was_measured(comparison):
    words = comparison.in_words()
    assert "lowers specialization" in words
    assert "raises Recall@20" in words
    worse = compare(listening(n_users=600, n_items=120, seed=3), rank=8, seed=3)
    pca, norm, ours = worse.models
    from dataclasses import replace

    flipped = replace(worse, models=(replace(pca, recall=1.0), norm, ours))
    assert "lowers Recall@20 from 1.000" in flipped.in_words()


def test_same_data_give_the_same_page(comparison):
    again = compare(listening(n_users=600, n_items=120, seed=3), rank=8, seed=3)
    assert render(comparison) == render(again)


class Parser(HTMLParser):
    """Collects the tags of a page, and what it would load."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href")]


def test_page_loads_nothing_and_hostile_names_are_inert():
    plays = listening(n_users=200, n_items=60, seed=1)
    evil = '<script>alert(1)</script>"><img src=x onerror=alert(2)>'
    named = plays.with_names(dict.fromkeys(plays.item_ids.tolist(), evil))
    page = render(compare(named, rank=4))
    parser = Parser()
    parser.feed(page)
    assert parser.loads == []
    assert "script" not in parser.tags
    assert "img" not in parser.tags
    assert page.count("&lt;script&gt;") >= 60


def test_table_has_a_value_for_every_model(comparison):
    lines = table(comparison)
    assert len(lines) == 9
    assert all(len(line.values) == 3 for line in lines)
    assert lines[0].title == "specialization"


def test_items_that_nobody_touched_in_training_do_not_break_it():
    X = listening(n_users=300, n_items=60, seed=2).matrix.tolil()
    X[:, 5] = 0
    X[0, 5] = 1
    comparison = compare(Interactions.from_sparse(sp.csr_array(X)), rank=4)
    assert np.isfinite(comparison["Item-Weighted PCA"].specialization)


def test_model_at_rank_equals_a_fit_at_that_rank(comparison):
    split = listening(n_users=600, n_items=120, seed=3).normalize_rows().holdout(seed=3)
    model = ItemWeightedPCA(8).fit(split.train_validation)
    np.testing.assert_allclose(
        comparison["Item-Weighted PCA"].diagonal_by_item, model.projection_diagonal(), atol=1e-8
    )

"""Metrics by name."""

from __future__ import annotations

import re

import numpy as np
import pytest

from equipoise import plugins
from equipoise.evaluation import evaluate
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import Metric, available, find_metric, registry
from equipoise.metrics.registry import parse_metrics


@pytest.mark.parametrize("name", available())
def test_every_metric_is_read_back_from_its_label_in_every_convention(name):
    for convention in find_metric(name).conventions:
        (spec,) = parse_metrics([f"{name}:{convention}"], [7])
        assert spec.convention == convention
        assert parse_metrics([spec.label], [99]) == (spec,)


def test_a_metric_without_a_cut_off_takes_each_default_one_and_doubles_are_dropped():
    specs = parse_metrics(["recall", "recall@10", "specialization"], [10, 20])
    assert [spec.label for spec in specs] == ["recall@10", "recall@20", "specialization"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recal", "unknown metric 'recal'. Did you mean 'recall'"),
        ("mrr:first", "convention of mrr must be one of ['standard', 'lightgcn'], got 'first'"),
        ("item_auc@5", "item_auc has no cut-off: write 'item_auc', not 'item_auc@5'"),
        ("ndcg@0", "ndcg@0: k=0 must be a whole number"),
        ("ndcg@ten", "ndcg@ten: k='ten' must be a whole number"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_can(text, message):
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        parse_metrics([text], [20])


def test_no_metric_at_all_is_refused():
    with pytest.raises(InvalidParameterError, match=r"metrics is empty\. Name some of: recall"):
        parse_metrics([], [20])


@pytest.mark.parametrize("k", [-3, 0, 3.5, True, [3.5], "5"])
def test_a_cut_off_that_is_not_a_positive_whole_number_is_refused(k):
    with pytest.raises(InvalidParameterError, match="must be a whole number"):
        parse_metrics(["ndcg"], k)


def test_one_cut_off_or_several_are_given():
    assert parse_metrics(["ndcg"], np.int64(5)) == parse_metrics(["ndcg"], [5])


def test_every_metric_states_its_formula_its_needs_and_its_conventions():
    needs = {"lists", "held_out", "seen", "factors", "popularity", "groups", "tail"}
    for name, metric in available().items():
        assert metric.name == name
        assert metric.title
        assert metric.formula
        assert set(metric.needs) <= needs
        assert all(metric.conventions.values())
        assert metric.direction in ("higher", "lower", None)


class EntryPoint:
    name, value = "shown", "another_package:shown"

    def __init__(self, loaded):
        self.loaded = loaded

    def load(self):
        return self.loaded


@pytest.fixture
def installed(monkeypatch):
    """Register metrics like the entry points of an installed package."""

    def install(*loaded):
        found = [EntryPoint(one) for one in loaded]
        monkeypatch.setattr(plugins, "entry_points", lambda group: found if group else [])
        registry._of_other_packages.cache_clear()

    yield install
    registry._of_other_packages.cache_clear()


def shown(block, _context, k, _convention):
    """Whether item 0 is in the list."""
    return (block.lists[:, :k] == 0).any(axis=1)


def test_a_metric_of_another_package_is_found_by_name(installed, split):
    installed(Metric("shown", "Shown", "share of users with item 0", shown))
    lists = np.tile(np.arange(20), (300, 1))
    results = evaluate(split, {"same": lists}, metrics=["shown@5"], per_user=True)
    assert results.value("shown@5") == 1
    assert results.rows[0].per_user.tolist() == [1.0] * 300


def test_a_metric_may_be_passed_as_an_object_and_is_not_cached(split, tmp_path):
    metric = Metric("shown", "Shown", "share of users with item 0", shown)
    lists = np.tile(np.arange(1, 21), (300, 1))
    results = evaluate(split, {"same": lists}, metrics=["recall", metric], cache=tmp_path)
    assert [row.name for row in results] == ["recall@20", "shown@20"]
    assert results.value("shown") == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("loaded", "message"),
    [("recall", "must be a Metric"), (Metric("ndcg", "", "", shown), "another one")],
)
def test_entry_points_that_cannot_be_registered_are_refused(installed, loaded, message):
    installed(loaded)
    with pytest.raises(InvalidParameterError, match=message):
        available()

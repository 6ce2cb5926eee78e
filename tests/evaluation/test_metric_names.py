"""Metrics by name."""

from __future__ import annotations

import re

import pytest

from equipoise.evaluation.catalogue import METRICS, MetricSpec, parse_metrics
from equipoise.exceptions import InvalidParameterError


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_read_back_from_its_label_in_every_convention(name):
    for convention in METRICS[name]:
        (spec,) = parse_metrics([f"{name}:{convention}"], [7])
        assert spec.convention == convention
        assert parse_metrics([spec.label], [99]) == (spec,)


def test_a_metric_without_a_cut_off_takes_each_default_one_and_doubles_are_dropped():
    specs = parse_metrics(["recall", "recall@10", "specialization"], [10, 20])
    assert specs == (
        MetricSpec("recall", 10, "standard"),
        MetricSpec("recall", 20, "standard"),
        MetricSpec("specialization", None, "standard"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recal", "unknown metric 'recal' in 'recal'. Known: recall"),
        ("mrr:first", "unknown convention 'first' in 'mrr:first'. mrr has: standard, lightgcn"),
        ("item_auc@5", "item_auc has no cut-off: write 'item_auc', not 'item_auc@5'"),
        ("ndcg@0", "cut-off of 'ndcg@0' must be a whole number of at least 1, got '0'"),
        ("ndcg@ten", "must be a whole number of at least 1, got 'ten'"),
    ],
)
def test_what_cannot_be_read_is_refused_with_what_can(text, message):
    with pytest.raises(InvalidParameterError, match=re.escape(message)):
        parse_metrics([text], [20])


def test_no_metric_at_all_is_refused():
    with pytest.raises(InvalidParameterError, match=r"metrics is empty\. Name some of: recall"):
        parse_metrics([], [20])


def test_a_fractional_default_cut_off_is_refused():
    with pytest.raises(InvalidParameterError, match="must be a whole number"):
        parse_metrics(["ndcg"], [-3])

from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import GroupResult, MetricResult, MetricTable, ranking_metrics


def test_a_table_is_found_by_name_and_read_as_tidy_rows():
    table = ranking_metrics([[0, 1]], [[0, 1, 0]], ks=(1, 2), metrics=["recall", "mrr"])
    assert [result.name for result in table] == ["recall@1", "recall@2", "mrr@1", "mrr@2"]
    assert len(table) == 4
    assert table["mrr@2"].value == 0.5
    assert table.rows()[1] == {"metric": "recall", "k": 2, "convention": "standard", "value": 1.0}


def test_a_name_that_is_not_in_the_table_is_refused_with_the_names():
    table = MetricTable((MetricResult("gini", 0.5, "standard"),))
    with pytest.raises(InvalidParameterError, match=r"No metric 'recall@20'.*It has: gini\."):
        table["recall@20"]


def test_a_metric_without_k_goes_by_its_bare_name():
    assert MetricResult("gini", 0.5, "standard").name == "gini"


def test_results_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        MetricResult("gini", 0.5, "standard").value = 0.1
    with pytest.raises(dataclasses.FrozenInstanceError):
        GroupResult(0.5, {"a": 0.5}, "recall", "pooled").overall = 0.1


def test_group_results_carry_difference_and_ratio_as_fields():
    result = GroupResult(0.4, {"a": 0.8, "b": 0.2}, "recall", "pooled")
    assert dataclasses.asdict(result)["difference"] == pytest.approx(0.6)
    assert dataclasses.asdict(result)["ratio"] == 0.25


def test_groups_of_nan_only_differ_by_nan():
    result = GroupResult(np.nan, {"a": np.nan, "b": np.nan}, "recall", "pooled")
    assert np.isnan(result.difference)
    assert np.isnan(result.ratio)


def test_importing_the_metrics_brings_in_no_heavy_library():
    code = (
        "import sys, equipoise.metrics; "
        "print([n for n in ('numba', 'polars', 'sklearn', 'scipy.stats', 'pandas') "
        "if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

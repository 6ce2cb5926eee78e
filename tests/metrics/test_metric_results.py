from __future__ import annotations

import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import GroupResult, Result, Results, ranking_metrics


def test_a_table_is_found_by_name_and_read_as_tidy_rows():
    table = ranking_metrics([[0, 1]], [[0, 1, 0]], k=(1, 2), metrics=["recall", "mrr"])
    assert [result.name for result in table] == ["recall@1", "recall@2", "mrr@1", "mrr@2"]
    assert len(table) == 4
    assert table["mrr@2"].value == 0.5
    row = {"metric": "recall", "k": 2, "convention": "standard", "value": 1.0, "n": 1}
    assert table.to_dicts()[1] == {"model": "", "group": "all", **row}


def test_a_name_that_is_not_in_the_table_is_refused_with_the_names():
    table = Results((Result("gini", 0.5, "standard"),))
    with pytest.raises(InvalidParameterError, match=r"no row for 'recall@20'.*They have: gini"):
        table["recall@20"]


def test_a_metric_without_k_goes_by_its_bare_name():
    assert Result("gini", 0.5, "standard").name == "gini"


def test_settings_are_columns_of_every_table(tmp_path):
    rows = (
        Result("recall", 0.5, "standard", 20, n=4, model="A", settings={"size": 8}),
        Result("recall", float("nan"), "standard", 20, n=0, model="B", settings={"rate": "low"}),
    )
    table = Results(rows)
    assert table.settings == ("size", "rate")
    assert table.value("recall", size=8) == 0.5
    assert table.select(rate="low").rows == rows[1:]
    columns = ["model", "size", "rate", "group", "metric", "k", "convention", "value", "n"]
    assert table.to_polars().columns == columns
    assert table.to_pandas().columns.tolist() == columns
    table.write_csv(tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines == [
        ",".join(columns),
        "A,8,,all,recall,20,standard,0.5,4",
        "B,,low,all,recall,20,standard,,0",
    ]
    with pytest.raises(InvalidParameterError, match="no column 'color'"):
        table.select(color="red")


def test_results_cannot_be_changed():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Result("gini", 0.5, "standard").value = 0.1
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


@pytest.mark.medium
def test_importing_the_metrics_brings_in_no_heavy_library():
    code = (
        "import sys, equipoise.metrics; "
        "print([n for n in ('numba', 'polars', 'sklearn', 'scipy.stats', 'pandas') "
        "if n in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"

"""The search of the comparison on sparse data: it ends inside its grid, or at its time limit."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from tests.evaluation.conftest import drive

ROOT = Path(__file__).parents[2]


@pytest.fixture
def compared(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("sys.argv", ["compare_models.py", "--threads", "1"])
    import compare_models

    return compare_models


def hill(one):
    return -abs(math.log(one["alpha"] / 500)) - abs(math.log2(one["n_components"] / 64))


def test_a_search_goes_on_until_its_best_is_inside_its_grid(compared):
    axes = ((compared.Axis("alpha", 3.0),), (compared.Axis("n_components", 2.0, low=8, high=512),))
    first = (step for step in [[{"alpha": [16.0], "n_components": [128]}]])
    tried, best = drive(compared.climb(first, axes), hill)
    assert best == {"alpha": 16.0 * 27, "n_components": 64}
    for name in best:
        values = {one[name] for one in tried}
        assert min(values) < best[name] < max(values)


def test_the_time_limit_of_a_search_covers_earlier_processes(compared, tmp_path):
    spent = tmp_path / "seconds"
    compared.Budget(1e9, spent).advance()
    spent.write_text("1000.0")
    used_up = compared.Budget(500.0, spent)
    for _ in range(compared.FEWEST - 1):
        used_up.advance()
    with pytest.raises(KeyboardInterrupt):
        used_up.advance()
    assert float(spent.read_text()) >= 1000


def test_values_near_a_value_keep_to_the_limits(compared):
    assert compared.Axis("n_components", 2.0, low=8, high=512).beside(512) == (256,)
    assert compared.Axis("popularity_discount", step=0.1).beside(0.2) == (0.1, 0.3)

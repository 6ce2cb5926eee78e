"""The statistic of the study of item measures is right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def study(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("sys.argv", ["item_measures.py", "--threads", "1"])
    import item_measures

    return item_measures


def test_popularity_is_taken_out_of_the_correlation(study):
    rng = np.random.default_rng(0)
    popularity, quality, noise = rng.normal(size=(3, 4000))
    by_popularity = study.correlations(popularity + noise, popularity + quality, popularity)
    by_quality = study.correlations(popularity + quality, quality - popularity, popularity)
    assert by_popularity[0] > 0.3
    assert abs(by_popularity[1]) < 0.05
    assert abs(by_quality[0]) < 0.05
    assert by_quality[1] > 0.9


def test_the_recall_of_an_item_counts_its_own_test_users(study):
    import scipy.sparse as sp

    lists = np.array([[0, 1], [1, -1], [2, 0]])
    held_out = sp.csr_array([[1.0, 0, 1], [0, 2.0, 0], [3.0, 0, 0]])
    hits, wanted = study.item_recall(lists, held_out)
    assert hits.tolist() == [2, 1, 0]
    assert wanted.tolist() == [2, 1, 1]

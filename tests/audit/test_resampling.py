"""Intervals of numbers that are not means over items."""

from __future__ import annotations

import numpy as np
import pytest

from equipoise.audit.measure import specialization_interval, vector_intervals
from equipoise.metrics import anisotropy, effective_rank, popularity_direction, specialization


@pytest.fixture
def vectors():
    rng = np.random.default_rng(0)
    popularity = rng.pareto(1.0, size=300) + 1
    return rng.normal(size=(300, 5)) + 0.3 * np.log(popularity)[:, None], popularity


def test_the_point_is_the_metric(vectors):
    V, popularity = vectors
    found = vector_intervals(V, popularity, seed=0)
    direction = popularity_direction(V, popularity)
    expected = {
        "popularity_cosine": direction.cosine,
        "popularity_share": np.nanmean(direction.shares),
        "effective_rank": effective_rank(V),
        "anisotropy": anisotropy(V),
    }
    assert {name: one.mean for name, one in found.items()} == pytest.approx(expected, rel=1e-9)
    assert all(one.low < one.mean < one.high for one in found.values())


def test_the_spread_is_that_of_samples_of_items():
    """Oracle: other samples from the same distribution, instead of draws from one of them."""
    rng = np.random.default_rng(1)

    def sample():
        popularity = rng.pareto(3.0, size=400) + 1
        return rng.normal(size=(400, 4)) + popularity[:, None], popularity

    samples = [sample() for _ in range(60)]
    others = np.array([[anisotropy(V), effective_rank(V)] for V, _ in samples])
    widths = [vector_intervals(V, p, seed=0) for V, p in samples[:10]]
    for place, name in enumerate(("anisotropy", "effective_rank")):
        half = np.mean([(each[name].high - each[name].low) / 2 for each in widths])
        assert half == pytest.approx(1.96 * others[:, place].std(), rel=0.5)


def test_specialization_of_equal_items_has_no_spread_and_of_others_some():
    assert specialization_interval(np.full(40, 0.5), 0).low == pytest.approx(0.5)
    diagonal = np.random.default_rng(0).random(200) ** 3
    found = specialization_interval(diagonal, 0)
    assert found.mean == specialization(diagonal)
    assert 0.01 < found.high - found.low < 0.3


def test_equal_seeds_give_equal_intervals_and_one_item_has_none(vectors):
    V, popularity = vectors
    assert vector_intervals(V, popularity, 3) == vector_intervals(V, popularity, 3)
    assert vector_intervals(V[:1], popularity[:1], 0) == {}

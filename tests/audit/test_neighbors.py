"""Nearest items by cosine against all cosines at once."""

import numpy as np
import pytest

from equipoise.audit.models.audited import nearest


def nearest_by_cosine(unit, count):
    return nearest(lambda rows: unit[rows] @ unit.T, len(unit), count)


@pytest.mark.parametrize("n", [2, 3, 20])
def test_neighbors_are_those_of_all_cosines_at_once(n):
    rng = np.random.default_rng(n)
    # cosines that are exact in floating point, many of them equal
    unit = np.eye(8)[rng.integers(8, size=n)] * rng.choice([-1.0, 1.0], size=(n, 1))
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    expected = np.full((n, 5), -1)
    order = np.lexsort((np.broadcast_to(np.arange(n), (n, n)), -cosines))[:, : min(5, n - 1)]
    expected[:, : order.shape[1]] = order
    found = nearest_by_cosine(unit, 5)
    assert found.tolist() == expected.tolist()


def test_one_item_has_no_neighbor():
    assert nearest_by_cosine(np.ones((1, 1)), 3).tolist() == [[-1, -1, -1]]


def test_no_items_have_no_neighbors():
    assert nearest_by_cosine(np.ones((0, 4)), 3).shape == (0, 3)

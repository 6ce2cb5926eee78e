"""The geometry of item vectors against definitions by loops, and on vectors made to have it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from equipoise.exceptions import InvalidDataError
from equipoise.metrics import anisotropy, effective_rank, popularity_direction

RNG = np.random.default_rng(3)
V = RNG.normal(size=(40, 6)) * [5, 1, 1, 1, 1, 1]
P = RNG.integers(1, 100, 40)


def test_the_popularity_direction_is_that_of_the_largest_variance_about_zero():
    found = popularity_direction(V, P)
    d = np.linalg.eigh(V.T @ V)[1][:, -1]
    along = V @ d
    assert found.cosine == pytest.approx(abs(along @ P) / np.linalg.norm(along) / np.linalg.norm(P))
    by_item = [(row @ d) ** 2 / (row @ row) for row in V]
    np.testing.assert_allclose(found.shares, by_item)


def test_vectors_that_are_popularity_along_one_direction_have_cosine_one():
    direction = RNG.normal(size=6)
    found = popularity_direction(np.outer(P, direction), P)
    assert found.cosine == pytest.approx(1)
    np.testing.assert_allclose(found.shares, 1)


def test_rotation_and_scale_change_nothing():
    Q = np.linalg.qr(RNG.normal(size=(6, 6)))[0]
    for measure in (effective_rank, anisotropy, lambda X: popularity_direction(X, P).cosine):
        assert measure(7 * V @ Q) == pytest.approx(measure(V))


def test_effective_rank_counts_equal_directions():
    assert effective_rank(np.eye(9)[:, :4]) == pytest.approx(4)
    assert effective_rank(np.outer(P, [1.0, 2.0])) == pytest.approx(1)
    sigma = np.linalg.svd(V, compute_uv=False)
    q = sigma / sigma.sum()
    assert effective_rank(V) == pytest.approx(np.prod(q**-q))


def test_anisotropy_is_the_mean_cosine_of_all_pairs():
    pairs = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in combinations(V, 2)]
    assert anisotropy(V) == pytest.approx(np.mean(pairs))
    assert anisotropy(V + 1e6) == pytest.approx(1, abs=1e-6)


def test_zero_vectors_have_no_direction():
    with_zero = np.vstack([V, np.zeros(6)])
    assert np.isnan(popularity_direction(with_zero, [*P, 3]).shares[-1])
    assert anisotropy(with_zero) == pytest.approx(anisotropy(V))
    zeros = np.zeros((3, 2))
    assert np.isnan([effective_rank(zeros), anisotropy(zeros)]).all()
    assert np.isnan(popularity_direction(zeros, [1, 2, 3]).cosine)


@pytest.mark.parametrize("popularity", [[1, 2], np.zeros(40), np.full(40, np.nan)])
def test_popularity_that_does_not_fit_is_refused(popularity):
    with pytest.raises(InvalidDataError, match="popularity must be 40"):
        popularity_direction(V, popularity)

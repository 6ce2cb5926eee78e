"""Popularity and Random: scores by counting, and by nothing but the row and the seed."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidParameterError
from equipoise.models.peers.baselines import Popularity, Random

MODELS = [Popularity(), Random(random_state=3)]


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


def scores_of(model, X) -> np.ndarray:
    ids, scores = model.recommend(X, k=np.shape(X)[1], filter_already_liked_items=False)
    by_item = np.empty_like(scores)
    np.put_along_axis(by_item, ids, scores, axis=1)
    return by_item


def test_popularity_counts_users_and_not_values(X):
    X[3, 5] = 1000.0
    model = Popularity().fit(X)
    np.testing.assert_array_equal(model.user_counts_, (X > 0).sum(axis=0))
    np.testing.assert_array_equal(scores_of(model, X), np.tile((X > 0).sum(axis=0), (40, 1)))


def test_equally_popular_items_are_ranked_by_position():
    X = np.array([[1.0, 0, 1, 1, 0], [0, 0, 1, 1, 1]])
    assert Popularity().fit(X).recommend(np.zeros(5), k=5).ids.tolist() == [2, 3, 0, 4, 1]


def test_stored_zeros_do_not_count_as_users():
    stored = sp.csr_array((np.array([1.0, 0.0]), np.array([0, 1]), np.array([0, 2])), shape=(1, 2))
    assert Popularity().fit(stored).user_counts_.tolist() == [1, 0]


def test_random_scores_are_those_of_the_definition_with_big_integers():
    mask = 2**64 - 1

    def mix(z: int) -> int:
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return z ^ (z >> 31)

    X = np.array([[0.0, 2.5, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    model = Random(random_state=11).fit(np.ones((2, 4)))
    for row, found in zip(X, scores_of(model, X), strict=True):
        bits = row.view(np.uint64)
        total = sum(mix((mix(i) + int(bits[i])) & mask) for i in range(4) if row[i] > 0)
        start = mix((model.seed_ + total) & mask)
        draws = [mix((start + (j + 1) * 0x9E3779B97F4A7C15) & mask) >> 11 for j in range(4)]
        np.testing.assert_array_equal(found, np.array(draws, dtype=float) / 2**53)


def test_random_scores_look_uniform_and_unrelated():
    X = sp.random_array(
        (400, 250), density=0.04, random_state=np.random.default_rng(0), format="csr"
    )
    scores = scores_of(Random().fit(X), X)
    assert scores.min() >= 0
    assert scores.max() < 1
    counts = np.histogram(scores, bins=20, range=(0, 1))[0]
    expected = scores.size / 20
    assert ((counts - expected) ** 2 / expected).sum() < 43.8  # χ² with 19 degrees, p = 0.001
    distinct = scores[np.unique(X.toarray(), axis=0, return_index=True)[1]]
    for vectors in (distinct, distinct.T):
        correlation = np.corrcoef(vectors)
        n, length = vectors.shape
        off = correlation[~np.eye(n, dtype=bool)]
        assert np.abs(off).max() < 6 / np.sqrt(length)


def test_one_changed_value_or_item_changes_the_whole_list(X):
    model = Random().fit(X)
    row, other, moved = np.zeros((3, 14))
    row[2], other[2], moved[3] = 1.0, 2.0, 1.0
    scores = scores_of(model, np.array([row, other, moved]))
    assert len(np.unique(scores)) == 3 * 14


def test_random_scores_do_not_depend_on_the_batch_the_order_or_the_precision(X):
    model = Random(random_state=5).fit(X)
    scores = scores_of(model, X)
    np.testing.assert_array_equal(scores_of(model, X[::-1])[::-1], scores)
    np.testing.assert_array_equal(scores_of(model, X.astype(np.float32)), scores)
    for i in (0, 17, 39):
        np.testing.assert_array_equal(scores_of(model, X[i : i + 1])[0], scores[i])


def test_same_seed_same_bits_and_another_seed_others(X):
    first, again, other = (scores_of(Random(random_state=s).fit(X), X) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.any(first == other)
    np.testing.assert_array_equal(scores_of(Random().fit(X), X), scores_of(Random().fit(X), X))


def test_a_generator_draws_a_new_seed_for_each_fit(X):
    generator = np.random.RandomState(0)
    model = Random(random_state=generator)
    assert model.fit(X).seed_ != model.fit(X).seed_


@pytest.mark.parametrize("model", MODELS)
class TestBothBaselines:
    def test_no_item_is_similar_to_another(self, model, X):
        ids, scores = model.fit(X).similar_items(3, k=4)
        np.testing.assert_array_equal(ids, [-1] * 4)
        assert np.all(np.isnan(scores))

    def test_explanation_puts_the_whole_score_into_the_rest(self, model, X):
        model.fit(X)
        explanation = model.explain(X[5], 2, k=None)
        np.testing.assert_array_equal(explanation.contributions, np.zeros(np.count_nonzero(X[5])))
        assert explanation.score == explanation.rest == scores_of(model, X)[5, 2]
        assert set(explanation.ids) == set(np.flatnonzero(X[5]))


def test_what_is_not_a_seed_is_refused(X):
    with pytest.raises(InvalidParameterError, match="'random_state' parameter"):
        Random(random_state="today").fit(X)

"""ItemKNN against cosines computed by hand and densely, ties and empty items included."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import cosine_similarity

from equipoise.exceptions import InvalidParameterError
from equipoise.models.peers import item_knn
from equipoise.models.peers.item_knn import ItemKNN
from equipoise.models.ranking import rank_items


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


def dense_weights(X: np.ndarray, k: int, shrinkage: float = 0.0) -> np.ndarray:
    """The definition, one pair of items after the other."""
    m = X.shape[1]
    S = np.zeros((m, m))
    for i in range(m):
        for j in range(m):
            divisor = np.linalg.norm(X[:, i]) * np.linalg.norm(X[:, j]) + shrinkage
            if i != j and divisor > 0:
                S[i, j] = X[:, i] @ X[:, j] / divisor
    kept = np.zeros_like(S)
    for j in range(m):
        best = np.argsort(-S[:, j].round(12), kind="stable")[:k]
        kept[best, j] = S[best, j]
    return kept


@pytest.mark.parametrize("k", [1, 3, 13, 100])
@pytest.mark.parametrize("shrinkage", [0.0, 7.5])
def test_weights_are_the_nearest_neighbors_of_each_item(X, k, shrinkage):
    model = ItemKNN(k, shrinkage=shrinkage).fit(X)
    assert isinstance(model.coefficients_, sp.csr_array)
    assert np.diff(model.coefficients_.tocsc().indptr).max() <= k
    expected = dense_weights(X, k, shrinkage)
    np.testing.assert_allclose(model.coefficients_.toarray(), expected, rtol=1e-12)
    np.testing.assert_allclose(model._scores(sp.csr_array(X)), X @ expected, rtol=1e-12, atol=1e-12)


def test_all_neighbors_without_shrinkage_are_scikit_learns_cosines(X):
    expected = cosine_similarity(X.T)
    np.fill_diagonal(expected, 0.0)
    found = ItemKNN(n_neighbors=13).fit(X).coefficients_.toarray()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_cosines_of_a_small_table_by_hand():
    X = np.array([[1.0, 1, 0], [1, 1, 1], [0, 0, 1], [1, 0, 0]])  # norms² 3, 2, 2
    found = ItemKNN(n_neighbors=2, shrinkage=1.0).fit(X).coefficients_.toarray()
    a, b, c = 2 / (np.sqrt(6) + 1), 1 / (np.sqrt(6) + 1), 1 / (2 + 1)
    np.testing.assert_allclose(found, [[0, a, b], [a, 0, c], [b, c, 0]], rtol=1e-14)


def test_equal_cosines_keep_the_items_that_come_first():
    X = np.ones((3, 6))
    found = ItemKNN(n_neighbors=2).fit(X).coefficients_.toarray() > 0
    expected = np.zeros((6, 6), dtype=bool)
    expected[[1, 2], 0] = expected[[0, 2], 1] = True
    expected[:2, 2:] = True
    np.testing.assert_array_equal(found, expected)


def test_item_that_nobody_touched_has_no_neighbors_and_is_none(X):
    X[:, 6] = 0
    model = ItemKNN(n_neighbors=13).fit(X)
    assert model.coefficients_[[6]].nnz == model.coefficients_[:, [6]].nnz == 0
    np.testing.assert_array_equal(model.similar_items(6, k=2).ids, [-1, -1])
    assert 6 not in model.similar_items(3, k=13).ids


def test_items_without_a_common_user_are_not_neighbors():
    model = ItemKNN().fit(np.eye(4))
    assert model.coefficients_.nnz == 0
    np.testing.assert_array_equal(model.similar_items(0, k=2).ids, [-1, -1])


def test_similar_items_are_the_items_own_neighbors(X):
    model = ItemKNN(n_neighbors=4).fit(X)
    S = dense_weights(X, 13)
    for item in range(14):
        ids, scores = model.similar_items(item, k=4)
        np.testing.assert_array_equal(ids, np.argsort(-S[:, item], kind="stable")[:4])
        np.testing.assert_allclose(scores, S[ids, item], rtol=1e-12)


def test_blocks_of_items_give_the_same_bits_as_all_at_once(X, monkeypatch):
    whole = ItemKNN(n_neighbors=5).fit(X).coefficients_
    heights = []

    def in_small_blocks(cosines, *args, **kwargs):
        def watched(block):
            heights.append(block.stop - block.start)
            return cosines(block)

        return rank_items(watched, *args, block_bytes=3 * 14 * 8, **kwargs)

    monkeypatch.setattr(item_knn, "rank_items", in_small_blocks)
    parts = ItemKNN(n_neighbors=5).fit(X).coefficients_
    assert max(heights) == 3
    np.testing.assert_array_equal(parts.toarray(), whole.toarray())


@given(seed=st.integers(0, 10_000), k=st.integers(1, 6))
def test_any_small_table_agrees_with_the_definition(seed, k):
    rng = np.random.default_rng(seed)
    X = (rng.random((5, 6)) < 0.4).astype(float)
    X[0, 0] = 1.0
    found = ItemKNN(k).fit(X).coefficients_.toarray()
    S = dense_weights(X, 6)
    # the neighbors kept are never farther than those left out
    for j in range(6):
        kept = np.flatnonzero(found[:, j])
        np.testing.assert_allclose(found[kept, j], S[kept, j], rtol=1e-12)
        left = np.delete(S[:, j], kept)
        assert len(kept) == min(k, np.count_nonzero(S[:, j]))
        assert not len(kept) or left.max(initial=0) <= S[kept, j].min() + 1e-12


def test_empty_rows_score_zero(X):
    ranking = ItemKNN().fit(X).recommend(np.zeros(14), k=3, fallback=None)
    assert ranking.ids.tolist() == [0, 1, 2]
    assert ranking.scores.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_neighbors": 0}, "'n_neighbors' parameter of ItemKNN must be an int in the range"),
        ({"n_neighbors": 2.5}, "'n_neighbors' parameter of ItemKNN must be an int in the range"),
        ({"shrinkage": -1.0}, "'shrinkage' parameter of ItemKNN must be a float in the range"),
    ],
)
def test_bad_parameters_are_refused(X, parameters, message):
    with pytest.raises(InvalidParameterError, match=message):
        ItemKNN(**parameters).fit(X)

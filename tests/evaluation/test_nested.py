"""Every rank from one fit: the same lists as fitting, truncating and recommending one by one."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise.evaluation import evaluate
from equipoise.evaluation.nested import NestedLists, nested_lists
from equipoise.metrics.growing import growing_scores
from equipoise.models import ItemWeightedPCA, LocalGlobal, NormalizedPCA, VanillaPCA
from equipoise.models.ranking import best_of_rows
from equipoise.parallel import Tally

MODELS = [
    VanillaPCA(12),
    NormalizedPCA(12),
    ItemWeightedPCA(12, gamma=-1.5),
    ItemWeightedPCA(12, spectral_filter="power", filter_strength=0.4, user_scaling=0.5),
    ItemWeightedPCA(12, spectral_filter="ridge", filter_strength=0.1, value_transform="log1p"),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda m: f"{type(m).__name__}-{m.get_params()}"[:40])
def test_lists_at_every_rank_are_those_of_the_truncated_model(model, world):
    X = world.matrix.astype(np.float64)
    fitted = model.fit(X)
    ranks = [1, 3, 4, 12]
    lists = nested_lists(fitted.low_rank(), X, ranks, 7)
    for rank, found in zip(ranks, lists, strict=True):
        np.testing.assert_array_equal(found, fitted.truncate(rank).recommend(X, k=7).ids)


def test_block_size_starting_lists_and_precision_of_counting_do_not_change_the_lists(world):
    X = world.matrix.astype(np.float64)
    model = ItemWeightedPCA(8).fit(X).low_rank()
    whole = nested_lists(model, X, [2, 5, 8], 10)
    small_blocks = nested_lists(model, X, [2, 5, 8], 10, block_bytes=1)
    near = nested_lists(model, X, [2, 5, 8], 10, near=whole[::-1].copy())
    given_coordinates = nested_lists(model, X, [2, 5, 8], 10, coordinates=model.coordinates(X))
    for other in (small_blocks, near, given_coordinates):
        np.testing.assert_array_equal(other, whole)


@pytest.mark.medium
def test_compiled_selection_gives_the_same_lists(world, monkeypatch):
    X = world.matrix.astype(np.float64)
    model = ItemWeightedPCA(8).fit(X).low_rank()
    plain = nested_lists(model, X, [2, 5, 8], 10)
    monkeypatch.setattr(Tally, "is_large", lambda *_, **__: True)
    np.testing.assert_array_equal(nested_lists(model, X, [2, 5, 8], 10), plain)


def test_ranks_beyond_the_last_component_use_all_components():
    X = sp.csr_array(np.ones((4, 1)) @ np.array([[3.0, 2.0, 1.0, 0.0]]))
    E, U = np.ones((4, 1)), np.array([[1.0, 0.5, 0.25, 0.0]])
    scores = [s.copy() for s in growing_scores(E, U, [1, 2, 9])]
    np.testing.assert_array_equal(scores[0], scores[2])
    assert scores[0].shape == X.shape


def test_every_filter_and_size_comes_from_one_fit(world):
    X = world.matrix.astype(np.float64)
    hard = ItemWeightedPCA(8).fit(X)
    graded = copy.copy(hard).set_params(spectral_filter="power", filter_strength=0.5)
    models = (hard, graded)
    weights = [each.low_rank().component_weights for each in models]
    found = list(NestedLists.of(hard.low_rank(), [3, 8], weights).lists(X, 6))
    expected = [each.truncate(r).recommend(X, k=6).ids for each in models for r in (3, 8)]
    np.testing.assert_array_equal(found, expected)


@st.composite
def scored_rows(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, m = draw(st.integers(1, 5)), draw(st.integers(1, 150))
    levels = draw(st.sampled_from([1, 2, 5, 1000]))
    scores = rng.integers(-levels, levels + 1, (n, m)).astype(
        draw(st.sampled_from([np.float32, np.float64]))
    )
    seen = sp.csr_array((rng.random((n, m)) < draw(st.sampled_from([0.0, 0.3, 1.0]))).astype(float))
    k = draw(st.integers(1, 12))
    return scores, seen, k, rng


@given(scored_rows())
@pytest.mark.medium
def test_compiled_and_plain_selection_agree_whatever_the_guess_and_the_ties(case):
    raw, seen, k, rng = case
    scores = np.where(seen.toarray() > 0, -np.inf, raw)
    plain = best_of_rows(scores, k, compiled=False).ids
    np.testing.assert_array_equal(best_of_rows(scores, k).ids, plain)
    shuffled = rng.permutation(scores.ravel()).reshape(scores.shape)
    other = best_of_rows(shuffled, k, compiled=False).ids
    for guess in (plain, other):
        np.testing.assert_array_equal(best_of_rows(scores, k, guess).ids, plain)


@pytest.mark.medium
def test_one_fit_of_local_global_serves_every_filter_discount_and_rank(split):
    grid = {"n_components": [3, 8], "ridge": [0.03, 0.3], "popularity_discount": [0.0, 0.2]}
    base = LocalGlobal(tol=1e-9)
    table = evaluate(split, {"both": base}, grid=grid, metrics=["ndcg"], k=5)
    assert len({cost.fit_seconds for cost in table.costs}) == 1
    assert len(table.rows) == 8
    for row in table.rows:
        alone = {name: [value] for name, value in row.settings.items()}
        again = evaluate(split, {"both": base}, grid=alone, metrics=["ndcg"], k=5)
        assert row.value == pytest.approx(again.rows[0].value, abs=1e-12)

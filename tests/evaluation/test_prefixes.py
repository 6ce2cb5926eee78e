"""Every rank from one fit: the same lists as fitting, truncating and recommending one by one."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from equipoise.evaluation.prefixes import Prefixes, growing_scores, top_items_by_rank
from equipoise.evaluation.selection import top_items
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA

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
    lists = top_items_by_rank(Prefixes.of(fitted), X, ranks, 7)
    for rank, found in zip(ranks, lists, strict=True):
        np.testing.assert_array_equal(found, fitted.truncate(rank).recommend(X, N=7).ids)


def test_block_size_starting_lists_and_precision_of_counting_do_not_change_the_lists(world):
    X = world.matrix.astype(np.float64)
    prefixes = Prefixes.of(ItemWeightedPCA(8).fit(X))
    whole = top_items_by_rank(prefixes, X, [2, 5, 8], 10)
    small_blocks = top_items_by_rank(prefixes, X, [2, 5, 8], 10, block_bytes=1)
    near = top_items_by_rank(prefixes, X, [2, 5, 8], 10, near=whole[::-1].copy())
    given_coordinates = top_items_by_rank(
        prefixes, X, [2, 5, 8], 10, coordinates=prefixes.coordinates(X)
    )
    for other in (small_blocks, near, given_coordinates):
        np.testing.assert_array_equal(other, whole)


@pytest.mark.medium
def test_compiled_selection_gives_the_same_lists(world, monkeypatch):
    X = world.matrix.astype(np.float64)
    prefixes = Prefixes.of(ItemWeightedPCA(8).fit(X))
    plain = top_items_by_rank(prefixes, X, [2, 5, 8], 10)
    monkeypatch.setattr("equipoise.evaluation.prefixes._COMPILED_FROM", 0)
    np.testing.assert_array_equal(top_items_by_rank(prefixes, X, [2, 5, 8], 10), plain)


def test_ranks_beyond_the_last_component_use_all_components():
    X = sp.csr_array(np.ones((4, 1)) @ np.array([[3.0, 2.0, 1.0, 0.0]]))
    E, U = np.ones((4, 1)), np.array([[1.0, 0.5, 0.25, 0.0]])
    scores = [s.copy() for s in growing_scores(E, U, [1, 2, 9])]
    np.testing.assert_array_equal(scores[0], scores[2])
    assert scores[0].shape == X.shape


def test_progress_counts_every_user_once(world):
    done = []
    prefixes = Prefixes.of(VanillaPCA(4).fit(world.matrix))
    top_items_by_rank(prefixes, world.matrix, [4], 5, advance=done.append, block_bytes=1)
    assert sum(done) == world.n_users
    assert len(done) > 1


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
    scores, seen, k, rng = case
    plain = top_items(scores, seen, k)
    np.testing.assert_array_equal(top_items(scores, seen, k, compiled=True), plain)
    other = top_items(rng.permutation(scores.ravel()).reshape(scores.shape), seen, k)
    for guess in (plain, other):
        found = top_items(scores, seen, k, guess, compiled=True)
        np.testing.assert_array_equal(found, plain)

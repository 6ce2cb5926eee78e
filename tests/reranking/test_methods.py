"""Each re-ranker on a case that can be computed by hand, and on random lists against a loop."""

from __future__ import annotations

from math import log

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import ItemGroups
from equipoise.reranking import (
    FAIR,
    Calibrated,
    Candidates,
    ItemContext,
    MarginalRelevance,
    PopularityCompensation,
    PopularityScaling,
    XQuAD,
    available,
    make_reranker,
)
from equipoise.reranking.base import ordered

HEAD_TAIL = ItemGroups(("head", "tail"), [0, 0, 0, 1, 1, 1])
POPULARITY = np.array([9.0, 8.0, 7.0, 2.0, 1.0, 0.0])


def one_user(scores, items=(0, 1, 2, 3), own=(0, 3)):
    row = np.zeros((1, 6))
    row[0, list(own)] = 1
    return Candidates(np.array([items]), np.array([scores], dtype=float), sp.csr_array(row))


def random_lists(seed, n_users=40, n_items=60, pool=25, n_groups=3):
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((n_users, n_items)), axis=1)[:, :pool]
    scores = -np.sort(-rng.random((n_users, pool)), axis=1)
    short = rng.integers(0, pool + 1, n_users)
    short[:5] = pool
    beyond = np.arange(pool) >= short[:, None]
    items[beyond], scores[beyond] = -1, np.nan
    own = sp.csr_array((rng.random((n_users, n_items)) < 0.1).astype(float))
    membership = (rng.random((n_items, n_groups)) < 0.5).astype(float)
    groups = ItemGroups(tuple(f"group {g}" for g in range(n_groups)), membership)
    context = ItemContext(
        rng.integers(0, 50, n_items).astype(float), groups, rng.normal(size=(n_items, 4))
    )
    return Candidates(items, scores, own), context


def test_the_largest_values_come_first_and_equal_ones_keep_their_order():
    rng = np.random.default_rng(0)
    for n, m in ((0, 3), (20, 1), (20, 7), (20, 60)):
        values = rng.integers(0, 8, (n, m)).astype(float)
        known = rng.random((n, m)) < 0.7
        for k in {1, (m + 1) // 2, m}:
            found = ordered(values, known, k)
            assert found.shape == (n, k)
            for row, mask, got in zip(values, known, found, strict=True):
                places = sorted(np.flatnonzero(mask).tolist(), key=lambda j: (-row[j], j))
                assert got.tolist() == (places + [-1] * m)[:k]


def test_compensation_adds_by_the_published_formula():
    # n = √((1 + 1)/2) = 1; β = 1/2: C = (1/2 + 1/2)/(pop + 1) = 1/10, 1/2; m = √((.01 + .25)/2)
    context = ItemContext(np.array([9.0, 1.0]), ItemGroups(("all",), [0, 0]))
    lists = Candidates(np.array([[0, 1]]), np.array([[1.0, 1.0]]))
    m = np.sqrt((0.01 + 0.25) / 2)
    found = PopularityCompensation(alpha=0.4, beta=0.5).corrected(lists, context)
    np.testing.assert_allclose(found, [[1 + 0.4 * 0.1 / m, 1 + 0.4 * 0.5 / m]])


def test_compensation_with_norms_over_all_items_is_that_of_the_script():
    """Euclidean norms, as in the script of the authors, give the same as root mean squares."""
    lists, context = random_lists(3)
    complete = lists.take(slice(0, 5))
    alpha, beta = 0.7, 0.3
    scores, popularity = complete.scores, context.popularity[complete.items]
    expected = np.empty_like(scores)
    for user, row in enumerate(scores):
        n_u = np.sqrt((row**2).sum() / len(row))
        added = (beta * row / n_u + 1 - beta) / (popularity[user] + 1)
        expected[user] = row + alpha * added * np.linalg.norm(row) / np.linalg.norm(added)
    found = PopularityCompensation(alpha, beta).corrected(complete, context)
    np.testing.assert_allclose(found, expected)


def test_scaling_divides_by_a_power_of_the_popularity():
    context = ItemContext(POPULARITY, HEAD_TAIL)
    lists = one_user([1.0, 0.8, 0.5, 0.2], items=(0, 1, 4, 5))
    found = PopularityScaling(alpha=1.0).corrected(lists, context)
    np.testing.assert_allclose(found, [[0.8 / 10, 0.6 / 9, 0.3 / 2, 0.0]])
    assert PopularityScaling(1.0).rerank(lists, 4, context).tolist() == [[2, 0, 1, 3]]


def test_dynamic_scaling_starts_without_a_correction():
    lists, context = random_lists(4)
    start, end = PopularityScaling(1.0, elapsed=0.0), PopularityScaling(1.0, elapsed=1.0)
    unchanged = np.where(lists.known, np.arange(lists.items.shape[1]), -1)
    np.testing.assert_array_equal(start.rerank(lists, 25, context), unchanged)
    half = PopularityScaling(1.0, elapsed=0.5).rerank(lists, 25, context)
    np.testing.assert_array_equal(half, PopularityScaling(0.5).rerank(lists, 25, context))
    assert (end.rerank(lists, 25, context) != unchanged).any()


def test_binary_xquad_pays_for_a_group_once():
    # relevance 1, .9, .5, 0; λ = .5; both groups have the share 1/2 of the user's own items.
    # First: .5·1 + .25. Then item 1: .45; item 3: .25 + .25 = .5 wins. Then item 1 (.45).
    lists = one_user([1.0, 0.9, 0.5, 0.0], items=(1, 2, 4, 5))
    order = XQuAD(0.5).rerank(lists, 4, ItemContext(POPULARITY, HEAD_TAIL))
    assert order.tolist() == [[0, 2, 1, 3]]


def test_smooth_xquad_keeps_paying_for_the_group_that_the_list_lacks():
    # λ = .6. Step 1: .4 + .3 for item 0. Step 2 (head covered): .36 against .2 + .3 of item 2.
    # Step 3, |S| = 2 with one of each, so every group pays .15: .36 + .15 against .15.
    lists = one_user([1.0, 0.9, 0.5, 0.0], items=(1, 2, 4, 5))
    context = ItemContext(POPULARITY, HEAD_TAIL)
    assert XQuAD(0.6, "smooth").rerank(lists, 4, context).tolist() == [[0, 2, 1, 3]]
    # step 3 of the binary form pays nothing to either group
    assert XQuAD(0.6, "binary").rerank(lists, 4, context).tolist() == [[0, 2, 1, 3]]
    # all candidates of the head but one, which is last: smooth brings it up, binary too
    lists = one_user([1.0, 0.9, 0.8, 0.0], items=(0, 1, 2, 4), own=(3, 5))
    assert XQuAD(0.6, "smooth").rerank(lists, 2, context).tolist() == [[3, 0]]


def slow_xquad(lists, context, strength, form, k):
    shares = context.shares.toarray()
    found = []
    for user in range(len(lists.items)):
        m = int(lists.known[user].sum())
        items, scores = lists.items[user, :m], lists.scores[user, :m]
        width = scores.max() - scores.min() if m else 0
        relevance = (scores - scores.min()) / width if width else np.ones(m)
        own = shares[lists.profiles[[user]].indices].sum(axis=0)
        own = own / own.sum() if own.sum() else np.full(shares.shape[1], 1 / shares.shape[1])
        chosen = []
        while len(chosen) < min(k, m):
            inside = shares[items[chosen]].sum(axis=0)
            lacking = inside == 0 if form == "binary" else 1 - inside / max(len(chosen), 1)
            gains = [
                -np.inf
                if j in chosen
                else (1 - strength) * relevance[j]
                + strength * float((own * lacking * shares[items[j]]).sum())
                for j in range(m)
            ]
            chosen.append(int(np.argmax(gains)))
        found.append(chosen + [-1] * (k - len(chosen)))
    return np.array(found)


@pytest.mark.parametrize("form", ["binary", "smooth"])
def test_xquad_equals_a_plain_loop(form):
    lists, context = random_lists(5)
    found = XQuAD(0.4, form).rerank(lists, 12, context)
    np.testing.assert_array_equal(found, slow_xquad(lists, context, 0.4, form, 12))


def test_calibration_takes_the_smaller_divergence():
    # After item 1 (head), q̃ with a second head item is (.99 + .005, .005), with a tail item
    # (.5, .5): KL = ½ log(.5/.995) + ½ log(.5/.005) = 1.958 against 0.
    lists = one_user([1.0, 0.8, 0.5, 0.0], items=(1, 2, 4, 5))
    divergence = 0.5 * log(0.5 / 0.995) + 0.5 * log(0.5 / 0.005)
    context = ItemContext(POPULARITY, HEAD_TAIL)
    equal = (0.8 - 0.5) / (0.8 - 0.5 + divergence)  # at this λ both candidates are equally good
    assert Calibrated(equal - 0.01).rerank(lists, 2, context).tolist() == [[0, 1]]
    assert Calibrated(equal + 0.01).rerank(lists, 2, context).tolist() == [[0, 2]]


def test_marginal_relevance_subtracts_the_nearest_item_of_the_list():
    # cosines to item 0: 1, .6, 0; λ = .5: .5·.9 − .5 and .5·.5 − .3 are less than 0 − 0
    vectors = np.array([[1.0, 0], [2, 0], [3, 4], [0, 1]])
    context = ItemContext(np.ones(4), ItemGroups(("all",), [0] * 4), vectors)
    lists = Candidates(np.array([[0, 1, 2, 3]]), np.array([[1.0, 0.9, 0.5, 0.0]]))
    found = MarginalRelevance(0.5).rerank(lists, 4, context).tolist()
    # after items 0 and 3, item 2 has the cosine .8 to item 3: .25 − .4 < .45 − .5
    assert found == [[0, 3, 1, 2]]


def test_fair_moves_protected_items_to_the_places_where_they_are_needed():
    lists = one_user([1.0, 0.9, 0.8, 0.7], items=(0, 1, 3, 4))
    context = ItemContext(POPULARITY, HEAD_TAIL)
    method = FAIR(p=0.8, alpha=0.3, length=4)
    assert method.required().tolist() == [1, 2, 2, 3]
    # two protected items first; the fourth place needs a third one, and there is none left
    assert method.rerank(lists, 4, context).tolist() == [[2, 3, 0, 1]]
    other = FAIR(p=0.8, alpha=0.3, length=4, protected="head")
    assert other.rerank(lists, 4, context).tolist() == [[0, 1, 2, 3]]


def slow_fair(protected, required, k):
    inside = [j for j, one in enumerate(protected) if one]
    outside = [j for j, one in enumerate(protected) if not one]
    found = []
    while len(found) < k and (inside or outside):
        place = len(found)
        needed = sum(protected[j] for j in found) < (
            required[place] if place < len(required) else 0
        )
        use = inside and (needed or not outside or inside[0] < outside[0])
        found.append((inside if use else outside).pop(0))
    return found + [-1] * (k - len(found))


def test_fair_equals_a_plain_loop():
    lists, context = random_lists(6, n_groups=2)
    method = FAIR(p=0.6, length=15)
    inside = np.isin(lists.items, context.groups.items("group 1")) & lists.known
    expected = [
        slow_fair(row[:m].tolist(), method.required(), 20)
        for row, m in zip(inside, lists.known.sum(axis=1), strict=True)
    ]
    np.testing.assert_array_equal(method.rerank(lists, 20, context), expected)


@pytest.mark.parametrize(
    ("settings", "required"),
    [
        # LensKit 2025.8.1: FAIRReranker._compute_m_list at its adjusted significance
        ((0.5, 0.1, 10), [0, 0, 0, 1, 1, 1, 2, 2, 2, 3]),
        ((0.3, 0.1, 20), [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3]),
        ((0.6, 0.1, 20), [0, 0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]),
        ((0.5, 0.05, 20), [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 6]),
    ],
)
def test_fair_thresholds_are_those_of_lenskit(settings, required):
    assert FAIR(*settings).required().tolist() == required


ALL = ["compensation", "scaling", "xquad", "xquad:form=smooth", "fair", "calibrated", "mmr"]


@pytest.mark.parametrize("spec", ALL)
def test_every_list_is_a_prefix_of_a_longer_one_and_names_each_candidate_once(spec):
    lists, context = random_lists(7)
    method = make_reranker(spec)
    long, short = method.rerank(lists, 25, context), method.rerank(lists, 6, context)
    np.testing.assert_array_equal(long[:, :6], short)
    for row, m in zip(long, lists.known.sum(axis=1), strict=True):
        assert sorted(row[:m]) == list(range(m))
        assert (row[m:] == -1).all()


@pytest.mark.parametrize("spec", ALL)
def test_a_list_does_not_depend_on_the_other_users(spec):
    lists, context = random_lists(8)
    method = make_reranker(spec)
    every = method.rerank(lists, 10, context)
    for user in (0, 7, 39):
        alone = method.rerank(lists.take(slice(user, user + 1)), 10, context)
        np.testing.assert_array_equal(alone, every[[user]])


# FA*IR has no such strength, and exposure floors need prices
@pytest.mark.parametrize(
    "spec", [f"{name}:0" for name in sorted({*available()} - {"fair", "exposure"})]
)
def test_a_strength_of_zero_keeps_the_lists(spec):
    lists, context = random_lists(9)
    unchanged = np.where(lists.known, np.arange(25), -1)
    np.testing.assert_array_equal(make_reranker(spec).rerank(lists, 25, context), unchanged)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("unknown:0.3", "unknown re-ranker 'unknown'"),
        ("xquad:strong", "must be a number"),
        ("xquad:0.3,0.4", "not a setting"),
        ("xquad:width=3", "strength, form"),
        ("xquad:1.5", "between 0 and 1"),
        ("xquad:form=soft", "binary"),
        ("fair:0", "between 0 and 1"),
        ("fair:length=2.5", "a whole number"),
    ],
)
def test_a_wrong_spec_is_refused(spec, message):
    with pytest.raises(InvalidParameterError, match=message):
        make_reranker(spec)


def test_calibration_without_the_users_own_items_is_refused():
    lists = Candidates(np.array([[0, 1]]), np.array([[1.0, 0.5]]))
    with pytest.raises(InvalidDataError, match="own items"):
        Calibrated().rerank(lists, 2, ItemContext(np.ones(6), HEAD_TAIL))

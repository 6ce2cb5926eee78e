"""Exposure floors: by hand, against a linear program, on streams, and as a model."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from equipoise import EASE
from equipoise.data.synthetic import listening
from equipoise.exceptions import InfeasibleError, InvalidParameterError
from equipoise.metrics import ItemGroups, exposure_by_group
from equipoise.metrics.fairness import attention
from equipoise.models import VanillaPCA
from equipoise.reranking import Candidates, Reranked, exposure_lists, solve_exposure
from equipoise.testing import check_recommender


def random_problem(seed, n_items=30, pool=10, membership="one"):
    rng = np.random.default_rng(seed)
    n_users, n_groups = int(rng.integers(6, 30)), int(rng.integers(2, 6))
    items = np.argsort(rng.random((n_users, n_items)), axis=1)[:, :pool].astype(np.int32)
    scores = -np.sort(-rng.random((n_users, pool)), axis=1)
    names = tuple(f"group {g}" for g in range(n_groups))
    if membership == "one":
        groups = ItemGroups(names, rng.integers(0, n_groups, n_items))
    else:
        S = rng.random((n_items, n_groups)) * (rng.random((n_items, n_groups)) < 0.5)
        groups = ItemGroups(names, S)
    return Candidates(items, scores), groups, rng


def by_linear_program(lists, groups, floors, k):
    """Solve the assignment of candidates to places with HiGHS; None if it is infeasible."""
    n, m = lists.items.shape
    d = attention(k)
    index = np.arange(n * m * k).reshape(n, m, k)
    value = lists.relevance()[:, :, None] * d
    inside = groups.membership.toarray()[lists.items]
    once = sp.csr_array((np.ones(index.size), (np.repeat(np.arange(n * m), k), index.ravel())))
    shown = [-(inside[:, :, g][:, :, None] * d).ravel() for g in range(inside.shape[2])]
    places = np.repeat(np.arange(n), m * k) * k + np.tile(np.arange(k), n * m)
    filled = sp.csr_array((np.ones(index.size), (places, np.arange(index.size))))
    total = n * d.sum()
    found = linprog(
        -value.ravel(),
        A_ub=sp.vstack([once, sp.csr_array(np.array(shown))]),
        b_ub=np.r_[np.ones(n * m), -np.asarray(floors) * total],
        A_eq=filled,
        b_eq=np.ones(n * k),
        bounds=(0, 1),
        method="highs",
    )
    return -found.fun / total if found.status == 0 else None


@pytest.mark.medium
@pytest.mark.parametrize("membership", ["one", "several"])
@pytest.mark.parametrize("seed", range(8))
def test_the_bound_is_the_optimum_of_the_linear_program(seed, membership):
    lists, groups, rng = random_problem(seed, membership=membership)
    free = solve_exposure(lambda: [lists], groups, [0.0] * len(groups.names), 4)
    target = rng.dirichlet(np.full(len(groups.names), 5.0)) * free.exposure.sum()
    floors = np.minimum(1.0, 0.75 * target)
    optimum = by_linear_program(lists, groups, floors, 4)
    if optimum is None:
        with pytest.raises(InfeasibleError, match="Proof"):
            solve_exposure(lambda: [lists], groups, floors.tolist(), 4, tol=1e-9)
        return
    found = solve_exposure(lambda: [lists], groups, floors.tolist(), 4, tol=1e-9)
    assert found.bound == pytest.approx(optimum, abs=1e-7)
    assert found.relevance <= optimum + 1e-9
    assert found.shortfall == 0
    assert found.gap < 0.02  # a few users of 6 to 30 have another list than the relaxation


def test_two_users_by_hand():
    """User 1 gives up 0.2 for the niche item, user 0 would give up 1."""
    items = np.array([[0, 1, 2], [0, 1, 2]], dtype=np.int32)
    lists = Candidates(items, np.array([[1.0, 0.0, 0.0], [1.0, 0.8, 0.0]]))
    groups = ItemGroups(("popular", "niche"), [0, 1, 0])
    found = solve_exposure(lambda: [lists], groups, {"niche": 0.5}, k=1)
    assert (found.relevance, found.bound, found.before) == pytest.approx((0.9, 0.9, 1.0))
    assert 0.2 <= found.prices[1] <= 1.0
    (order,) = exposure_lists(lambda: [lists], groups, found, 1)
    assert order.tolist() == [[0], [1]]
    assert "relative gap" in str(found)


def test_users_who_are_all_alike_are_divided_among_lists():
    """One price per group would give all of them the same list."""
    n = 200
    items = np.tile(np.array([0, 1, 2], dtype=np.int32), (n, 1))
    lists = Candidates(items, np.tile([1.0, 0.5, 0.0], (n, 1)))
    groups = ItemGroups(("a", "b", "c"), [0, 1, 2])
    found = solve_exposure(lambda: [lists], groups, {"b": 0.25, "c": 0.1}, k=1)
    assert found.bound == pytest.approx(0.65 + 0.25 * 0.5, abs=1e-6)
    assert found.shortfall == 0
    assert found.relevance == pytest.approx(found.bound, abs=0.02)


@pytest.mark.parametrize(("seed", "floor"), [(2, 0.34), (4, 0.38), (8, 0.46)])
def test_lists_without_scores_come_close_to_the_bound(seed, floor):
    """Relevance that falls evenly makes many ties, so all lists change at the same price."""
    rng = np.random.default_rng(seed)
    items = np.argsort(rng.random((300, 80)), axis=1)[:, :40].astype(np.int32)
    lists = Candidates(items, np.tile(-np.arange(40.0), (300, 1)))
    groups = ItemGroups(("head", "tail"), np.repeat([0, 1], [60, 20]))
    found = solve_exposure(lambda: [lists], groups, {"tail": floor}, k=10)
    assert found.shortfall == 0
    assert found.gap < 2e-4


def test_lists_of_a_stream_are_those_of_one_batch():
    lists, groups, _ = random_problem(3)
    floors = [0.1] * len(groups.names)
    parts = [lists.take(slice(start, start + 4)) for start in range(0, len(lists.items), 4)]
    whole = solve_exposure(lambda: [lists], groups, floors, 4)
    stream = solve_exposure(lambda: iter(parts), groups, floors, 4)
    assert stream.bound == pytest.approx(whole.bound, abs=1e-6)
    (expected,) = exposure_lists(lambda: [lists], groups, whole, 4)
    found = np.concatenate(list(exposure_lists(lambda: iter(parts), groups, whole, 4)))
    np.testing.assert_array_equal(found, expected)


def test_the_exposure_is_that_of_the_metric():
    lists, groups, _ = random_problem(4)
    found = solve_exposure(lambda: [lists], groups, [0.1] * len(groups.names), 4)
    (order,) = exposure_lists(lambda: [lists], groups, found, 4)
    listed = np.take_along_axis(lists.items, order, axis=1)
    measured = exposure_by_group(listed, groups, convention="discounted").by_group
    np.testing.assert_allclose([measured[name] for name in groups.names], found.exposure)


def test_short_lists_count_only_their_own_places():
    items = np.array([[0, 1, -1], [-1, -1, -1], [2, 0, 1]], dtype=np.int32)
    scores = np.array([[1.0, 0.5, np.nan], [np.nan] * 3, [3.0, 2.0, 1.0]])
    groups = ItemGroups(("a", "b"), [0, 1, 1])
    found = solve_exposure(lambda: [Candidates(items, scores)], groups, {"b": 0.6}, k=2)
    (order,) = exposure_lists(lambda: [Candidates(items, scores)], groups, found, 2)
    assert (order[1] == -1).all()
    assert found.shortfall == 0


def test_without_floors_the_lists_are_unchanged():
    lists, groups, _ = random_problem(5)
    found = solve_exposure(lambda: [lists], groups, [0.0] * len(groups.names), 6)
    (order,) = exposure_lists(lambda: [lists], groups, found, 6)
    np.testing.assert_array_equal(order, np.tile(np.arange(6), (len(order), 1)))
    assert found.gap == pytest.approx(0)


def test_wrong_floors_are_refused():
    lists, groups, _ = random_problem(6)
    with pytest.raises(InvalidParameterError, match="group of a floor"):
        solve_exposure(lambda: [lists], groups, {"no such": 0.1}, 4)
    with pytest.raises(InvalidParameterError, match="one share"):
        solve_exposure(lambda: [lists], groups, [2.0] * len(groups.names), 4)
    empty = Candidates(np.full((2, 3), -1, np.int32), np.full((2, 3), np.nan))
    with pytest.raises(InvalidParameterError, match="no user has a candidate"):
        solve_exposure(lambda: [empty], groups, {"group 0": 0.1}, 2)


@pytest.mark.medium
def test_a_model_with_floors_meets_them_for_its_training_users():
    data = listening(n_users=300, n_items=80)
    plain = VanillaPCA(8).fit(data)
    model = Reranked(VanillaPCA(8), "exposure:0.9,target=items,length=10", candidates=60).fit(data)
    groups = ItemGroups(tuple(model.group_names_), model.membership_)
    before, after = (
        exposure_by_group(
            one.rank(data.matrix, 10, seen=data.matrix).ids, groups, convention="discounted"
        ).by_group["tail"]
        for one in (plain, model)
    )
    floor = 0.9 * groups.sizes["tail"] / 80
    assert before < floor <= after


@pytest.mark.medium
def test_a_model_with_floors_keeps_the_contract_of_models():
    check_recommender(Reranked(EASE(), "exposure:0.5,length=5"))

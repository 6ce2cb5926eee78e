"""What a search is after, and where it looks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.evaluation.goal import Goal, Target
from equipoise.evaluation.plan import expand
from equipoise.exceptions import InvalidParameterError
from equipoise.metrics import Result


def table(*points):
    return [{"ndcg@20": a, "aplt@20": b} for a, b in points]


def test_the_best_is_the_highest_that_keeps_the_limits():
    goal = Goal.parse("ndcg", {"aplt": (">=", 0.3)}, [], 20)
    scores = table((0.9, 0.1), (0.5, 0.3), (0.6, 0.4), (0.7, float("nan")))
    assert goal.best(scores) == 2


@pytest.mark.parametrize(
    ("comparison", "bound", "best"), [(">", 0.3, 2), ("<", 0.3, 0), ("<=", 0.3, 1), (">=", 0.3, 1)]
)
def test_every_comparison_means_what_it_says(comparison, bound, best):
    goal = Goal.parse("ndcg", {"aplt": (comparison, bound)}, [], 20)
    scores = table((0.5, 0.2), (0.6, 0.3), (0.4, 0.4))
    assert goal.best(scores) == best


def test_a_minus_in_front_minimizes():
    goal = Goal.parse("-gini", None, [], 20)
    assert goal.best([{"gini@20": 0.9}, {"gini@20": 0.2}]) == 1


def test_limits_that_nothing_keeps_are_refused_with_what_was_reached():
    goal = Goal.parse("ndcg", {"aplt": (">=", 0.9)}, [], 20)
    with pytest.raises(
        InvalidParameterError,
        match=r"aplt@20 >= 0\.9 \(best reached alone: 0\.4",
    ):
        goal.best(table((0.5, 0.4), (0.6, 0.2)))


def test_an_objective_without_a_value_is_refused():
    goal = Goal.parse("ndcg", None, [], 20)
    with pytest.raises(InvalidParameterError, match="ndcg@20 is nan"):
        goal.best(table((float("nan"), 0.1)))


@pytest.mark.parametrize("rule", [("=", 1), (">=", "much"), ">=", (">=", float("nan"))])
def test_a_limit_that_is_none_is_refused(rule):
    with pytest.raises(InvalidParameterError, match=r"subject_to\['aplt'\] must be a comparison"):
        Goal.parse("ndcg", {"aplt": rule}, [], 20)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=25))
def test_the_frontier_is_what_no_other_beats_in_everything(points):
    goal = Goal.parse("ndcg", None, ["aplt"], 20)
    kept = goal.frontier(table(*points))
    at = [points[i] for i in kept]
    assert len(set(at)) == len(at)
    dominated = {p for p in points for q in points if q != p and q[0] >= p[0] and q[1] >= p[1]}
    assert set(at) == set(points) - dominated
    assert [p[0] for p in at] == sorted((p[0] for p in at), reverse=True)


def test_a_limit_from_above_turns_its_axis_of_the_frontier():
    goal = Goal.parse("ndcg", {"arp": ("<=", 5)}, [], 20)
    scores = [{"ndcg@20": 0.5, "arp@20": 9.0}, {"ndcg@20": 0.5, "arp@20": 2.0}]
    assert goal.frontier(scores) == [1]


def test_a_target_reads_the_number_of_its_group_and_convention():
    numbers = [
        Result("mrr", 0.1, "standard, users without held-out items count 0", 20),
        Result("mrr", 0.2, "lightgcn, users without held-out items count 0", 20),
        Result("item_auc", 0.3, "item mean", group="niche"),
    ]
    assert Target.parse("mrr", 20).read(numbers) == 0.1
    assert Target.parse("mrr:lightgcn", 20).read(numbers) == 0.2
    assert Target.parse("item_auc/niche", 20).read(numbers) == 0.3
    with pytest.raises(InvalidParameterError, match=r"'item_auc/tail' is not a number.*: niche"):
        Target.parse("item_auc/tail", 20).read(numbers)


def test_grids_are_expanded_in_the_order_given_and_repeats_are_dropped():
    assert expand({"a": [1, 2], "b": ["x", "y"]}) == [
        {"a": 1, "b": "x"},
        {"a": 1, "b": "y"},
        {"a": 2, "b": "x"},
        {"a": 2, "b": "y"},
    ]
    assert expand([{"a": [1, 2]}, {"a": [2], "b": [3]}, {"a": [1]}]) == [
        {"a": 1},
        {"a": 2},
        {"a": 2, "b": 3},
    ]
    assert expand({}) == [{}]


def test_long_arrays_that_print_alike_are_different_settings():
    ones, other = np.ones(5000), np.ones(5000)
    other[2500] = 2
    assert len(expand({"weights": [ones, other, ones.copy()]})) == 2


def test_an_empty_list_of_values_is_refused_and_one_value_is_a_list():
    with pytest.raises(InvalidParameterError, match="at least one value"):
        expand({"a": []})
    assert expand({"a": "abc", "b": [3]}) == [{"a": "abc", "b": 3}]

"""Parameters of the same name have the same default and place everywhere."""

from __future__ import annotations

import importlib
import inspect
from dataclasses import dataclass
from typing import Annotated, NewType

import numpy as np
import pytest

from equipoise.models import Popularity
from equipoise.models.parameters import rules_of
from equipoise.models.registry import MODELS

Key = NewType("Key", int)

# The lists that a recommender serves, and the lists that are measured.
SERVED, MEASURED = 10, 20
PACKAGES = {
    "equipoise.audit": MEASURED,
    "equipoise.evaluation": MEASURED,
    "equipoise.metrics": MEASURED,
    "equipoise.models": SERVED,
    "equipoise.reranking": SERVED,
    "equipoise.serving": SERVED,
    "equipoise.data": None,
    "equipoise.data.synthetic": None,
}
#: where these are keywords, they come in this order
ORDER = ["models", "grid", "k", "groups", "item_groups", "user_groups", "seed", "cache", "progress"]
#: other libraries' names of `k`, `n_components`, `seed` and `train`
OTHER_NAMES = {
    *("N", "ks", "top_k", "topk", "cutoff", "n_factors", "factors", "r", "rng", "random_seed"),
    "training",
}


def public_functions(package):
    module = importlib.import_module(package)
    for name in module.__all__:
        try:
            found = getattr(module, name)
        except ImportError:  # an extra that is not installed
            continue
        methods = vars(found).items() if inspect.isclass(found) else [("", found)]
        for method, function in methods:
            function = getattr(function, "__func__", function)
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{name}.{method}".rstrip("."), inspect.signature(function).parameters


def defaults_of(package, parameter):
    """The defaults of a parameter in all functions and methods, without those that have none."""
    found = {
        name: parameters[parameter].default
        for name, parameters in public_functions(package)
        if parameter in parameters
    }
    return {n: value for n, value in found.items() if value not in (None, inspect.Parameter.empty)}


@pytest.mark.parametrize("package", PACKAGES)
def test_defaults_are_the_same_everywhere(package):
    assert set(defaults_of(package, "k").values()) <= {PACKAGES[package]}
    assert set(defaults_of(package, "seed").values()) <= {0}
    assert set(defaults_of(package, "unknown").values()) <= {"error"}
    assert set(defaults_of(package, "filter_already_liked_items").values()) <= {True}
    assert np.isnan([*defaults_of(package, "zero_division").values()]).all()
    for never in ("random_state", "progress", "item_groups", "user_groups"):
        assert not defaults_of(package, never)


@pytest.mark.parametrize("package", PACKAGES)
def test_names_and_order_are_the_same_everywhere(package):
    for function, parameters in public_functions(package):
        assert not OTHER_NAMES & {*parameters}, function
        keywords = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
        known = [name for name in keywords if name in ORDER]
        assert known == sorted(known, key=ORDER.index), function


@pytest.mark.parametrize("name", MODELS)
def test_models_begin_with_their_rank_and_take_the_rest_by_name(name):
    _, *others = inspect.signature(MODELS[name].load_class()).parameters.values() or [None]
    names = [one.name for one in others]
    assert "n_components" not in names
    assert "seed" not in names
    assert all(one.kind is one.KEYWORD_ONLY for one in others)


def test_types_that_cannot_be_checked_leave_a_parameter_unchecked():
    @dataclass
    class Noted(Popularity):
        share: Annotated[float, "a note"] = 0.5
        key: Key = Key(1)

    assert [str(each) for each in rules_of(Noted)["share"]] == ["an instance of 'Real'"]
    assert rules_of(Noted)["key"][0].is_satisfied_by("anything")

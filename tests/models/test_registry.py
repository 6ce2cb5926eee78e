"""The table of models: true to the classes, and light."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import equipoise
from equipoise import models
from equipoise.exceptions import InvalidParameterError
from equipoise.models import Recommender, registry
from equipoise.models.pca.projection import ProjectionModel
from equipoise.models.registry import BY_CLASS, MODELS, find_model, find_models

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "models.md"
ANSWERS = {True: "✓", False: "", None: "–"}

# The paper's Table 2: convex optimization, hard rank, beyond missing data.
TABLE_2 = {
    "ips-mf": (False, True, False),
    "popularity-mf": (False, True, True),
    "trace-norm": (True, False, True),
    "item-weighted": (True, True, True),
}


@pytest.mark.parametrize("key", MODELS)
def test_an_entry_names_a_model_that_can_be_made_without_its_extra(key):
    entry = MODELS[key]
    model = entry.make()
    assert isinstance(model, Recommender)
    assert type(model).__name__ == entry.class_name
    assert getattr(models, entry.class_name) is getattr(equipoise, entry.class_name) is type(model)
    assert entry.class_name in equipoise.__all__
    assert entry.class_name in models.__all__


@pytest.mark.parametrize("key", MODELS)
def test_the_search_space_is_made_of_the_models_own_parameters(key):
    entry = MODELS[key]
    assert set(entry.search) <= set(entry.make().get_params())
    for values in entry.search.values():
        assert len(values) == len(set(values)) > 0
    assert not entry.search or max(map(len, entry.search.values())) > 1


@pytest.mark.parametrize("key", MODELS)
def test_a_hard_rank_is_one_that_the_user_sets(key):
    entry = MODELS[key]
    ranked = "n_components" in entry.make().get_params()
    # these two add a matrix of full rank to their components, which then bound no rank
    assert entry.hard_rank == (ranked and key not in ("gfcf", "local-global"))
    if issubclass(entry.load_class(), ProjectionModel):
        assert (entry.convex, entry.computation) == (True, "closed form")


@pytest.mark.parametrize("key", TABLE_2)
def test_facts_agree_with_the_papers_table(key):
    entry = MODELS[key]
    assert (entry.convex, entry.hard_rank, entry.beyond_missing_data) == TABLE_2[key]


def test_only_the_models_of_user_groups_ask_for_labels():
    asking = {key for key, entry in MODELS.items() if entry.needs_labels}
    assert asking == {"fair-pca", "hidden-groups"}


def test_models_are_found_by_name_once_or_all_together():
    assert find_model("ease").class_name == "EASE"
    assert [entry.key for entry in find_models(["pca", "ease", "pca"])] == ["pca", "ease"]
    assert [entry.key for entry in find_models(["ease", "all"])][:2] == ["ease", "item-weighted"]
    assert len(find_models(["ease", "all"])) == len(MODELS) == len(BY_CLASS)
    with pytest.raises(InvalidParameterError, match=r"unknown model 'svd'\. Known: item-weighted,"):
        find_models(["svd"])


def test_a_missing_extra_is_found_without_importing_it(monkeypatch):
    asked = []

    def find_spec(name):
        asked.append(name)

    monkeypatch.setattr(importlib.util, "find_spec", find_spec)
    assert not MODELS["weighted-mf"].installed
    assert MODELS["weighted-mf"].install_command == 'pip install "equipoise[als]"'
    assert not MODELS["lightgcn"].installed
    assert MODELS["ease"].installed
    assert MODELS["ease"].install_command is None
    assert asked == ["implicit", "torch"]


def test_a_module_that_was_blocked_counts_as_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "implicit", None)
    assert not MODELS["weighted-mf"].installed


def test_facts_can_be_written_as_json():
    facts = MODELS["ease"].facts()
    assert json.loads(json.dumps(facts)) == facts
    assert facts["paper"] == "Steck 2019"
    assert MODELS["random"].paper == ""


def test_reading_the_table_imports_no_numerics():
    code = (
        "import sys, equipoise.models.registry as r\n"
        "[e.installed for e in r.MODELS.values()]\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert not loaded & {"numpy", "scipy", "sklearn", "implicit", "torch", "torch_geometric"}


def test_names_that_do_not_exist_are_refused_as_python_does():
    with pytest.raises(AttributeError, match=r"module 'equipoise\.models' has no attribute"):
        _ = models.SVD
    assert {"EASE", "load"} <= set(dir(models))


def test_the_guides_table_is_that_of_the_registry():
    rows = re.findall(r"^\| `([a-z-]+)` \|(.*)\|$", GUIDE.read_text(encoding="utf-8"), flags=re.M)
    told = {key: [cell.strip() for cell in cells.split("|")] for key, cells in rows}
    assert list(told) == list(MODELS)
    for key, entry in MODELS.items():
        assert told[key] == [
            f"`{entry.class_name}`",
            entry.paper or "–",
            ANSWERS[entry.convex],
            ANSWERS[entry.hard_rank],
            ANSWERS[entry.beyond_missing_data],
            entry.computation,
            f"`{entry.extra}`" if entry.extra else "–",
        ]


def test_every_extra_lists_the_modules_it_brings():
    extras = {entry.extra for entry in MODELS.values()} - {None}
    assert extras == set(registry._MODULES)

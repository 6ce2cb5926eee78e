"""The constraints of `make oldest` are the lower bounds of pyproject.toml."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def oldest():
    spec = importlib.util.spec_from_file_location("oldest", ROOT / ".ci" / "oldest.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_constraints_are_the_lower_bounds(oldest):
    written = (ROOT / ".ci" / "oldest.txt").read_text("utf-8")
    assert written == oldest.constraints(), "run: python .ci/oldest.py"


def test_every_dependency_of_the_core_has_a_lower_bound(oldest):
    names = {line.partition("==")[0] for line in oldest.constraints().splitlines()}
    assert {"numpy", "scipy", "polars", "numba", "click", "plotly", "sqlalchemy"} <= names

"""Every row of the tables of the paper, as the guide lists them, is a class that can be fitted."""

from __future__ import annotations

import re

import numpy as np
import pytest
import scipy.sparse as sp

import equipoise
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "guide" / "models.md").read_text(encoding="utf-8")
SECTION = PAGE[PAGE.index("## The paper's tables") : PAGE.index("## Compare them")]
ROWS = re.findall(r"^\|.*\| `([^`]+)` \|$", SECTION, re.MULTILINE)

# What the letters of the table stand for: limits that the data below can meet.
LETTERS = {"groups": 2, "δ": 2.0, "τ": 5.0, "κ": 0.5, "λ": 0.1, "s": 0.05}


def test_both_tables_are_found():
    assert len(ROWS) >= 10 + 4


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_the_tables_is_a_class_that_can_be_fitted(row):
    X = np.random.default_rng(0).poisson(0.6, (60, 12)).astype(float)
    names = {name: getattr(equipoise, name) for name in equipoise.__all__} | LETTERS
    made = eval(row, {"__builtins__": {}}, names)
    model = made() if isinstance(made, type) else made
    if "n_components" in model.get_params():
        model.set_params(n_components=3)
    scores = model.fit(sp.csr_array(X)).score_items(sp.csr_array(X))
    assert scores.shape == X.shape
    assert np.all(np.isfinite(scores))

"""Small data in place of the paper's, for everything except the numbers themselves."""

from __future__ import annotations

import pytest

from equipoise.data.synthetic import listening
from equipoise.paper.measurements import ExperimentRunner
from equipoise.paper.protocol import NAMED_ARTIST


@pytest.fixture(scope="session")
def small_data():
    """200 listeners and 120 artists, one of which is the artist that the text names."""
    plays = listening(n_users=200, n_items=120, seed=3).normalize_rows()
    names = {item: f"artist {item}" for item in plays.item_ids.tolist()}
    names[plays.item_ids.tolist()[-1]] = NAMED_ARTIST
    return plays.with_names(names)


@pytest.fixture
def load_small(small_data):
    return lambda _name: small_data


@pytest.fixture(scope="session")
def runner(small_data):
    return ExperimentRunner(quick=True, load=lambda _name: small_data)

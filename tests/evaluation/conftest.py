"""Small worlds with known answers, and the paper's data through the public API."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise.data import Interactions, Split, holdout, synthetic
from equipoise.evaluation.plan import expand
from equipoise.models import ItemWeightedPCA
from tests.recorded_progress import Recorded


class Counted(ItemWeightedPCA):
    """An Item-Weighted PCA that lists the settings of its fits."""

    fits: ClassVar[list[tuple[float, int]]] = []

    def fit_many(self, X, settings, *, progress=None):
        fitted = super().fit_many(X, settings, progress=progress)
        self.fits.extend((one.gamma, one.n_components) for one in fitted)
        return fitted


@pytest.fixture
def counted() -> Counted:
    Counted.fits.clear()
    return Counted()


class InterruptAt(Recorded):
    """Press Ctrl-C when tasks called so have done so much."""

    def __init__(self, done, name):
        super().__init__()
        self.limit, self.name = done, name

    def advance(self, amount=1):
        super().advance(amount)
        self._interrupt()

    def note(self, text):
        super().note(text)
        self._interrupt()

    def _interrupt(self):
        if sum(one["done"] for one in self.tasks if one["name"] == self.name) >= self.limit:
            raise KeyboardInterrupt


def drive(steps, objective):
    """Try all settings of all steps of a search, without fits; return them and the best."""
    tried, grid = [], next(steps)
    while True:
        tried += [one for one in expand(grid) if one not in tried]
        best = max(tried, key=objective)
        try:
            grid = steps.send(best)
        except StopIteration:
            return tried, best


@pytest.fixture(scope="session")
def world() -> Interactions:
    """Three hundred users of sixty items, popular ones and rare ones."""
    return synthetic.scale(300, 60, 4000, seed=5)


@pytest.fixture(scope="session")
def split(world) -> Split:
    return holdout(world)


@pytest.fixture(scope="session")
def checkerboard() -> Interactions:
    """Even users like even items, odd users odd ones: the right items are known."""
    board = (np.add.outer(np.arange(30), np.arange(20)) % 2 == 0).astype(float)
    return Interactions.from_sparse(sp.csr_array(board))


@pytest.fixture(scope="session")
def lastfm(data_dir) -> Interactions:
    plays = Interactions.read(data_dir / "lastfm-2k" / "user_artists.dat")
    return plays.filter(min_users_per_item=10, min_items_per_user=10).normalize_rows()


@pytest.fixture(scope="session")
def movielens(data_dir) -> Interactions:
    ratings = Interactions.read(data_dir / "ml-1m" / "interactions.csv").binarize()
    return ratings.filter(min_users_per_item=5).sample_items(1200, seed=2020)

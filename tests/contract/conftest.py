from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions
from equipoise.models import Recommender
from tests.contract.variants import build


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


@pytest.fixture
def plays(X: np.ndarray) -> Interactions:
    users = [f"user-{i}" for i in range(40)]
    items = [f"song-{j}" for j in range(14)]
    return Interactions.from_sparse(sp.csr_array(X), user_ids=users, item_ids=items)


@pytest.fixture(scope="session")
def fits() -> dict[tuple[str, bool], Recommender]:
    """Models by name and by whether they were fitted with ids; tests do not change them."""
    return {}


@pytest.fixture
def fitted(name: str, X: np.ndarray, fits: dict) -> Recommender:
    """The model `name` of the test, fitted on X."""
    if (name, False) not in fits:
        fits[name, False] = build(name).fit(X)
    return fits[name, False]


@pytest.fixture
def fitted_by_id(name: str, plays: Interactions, fits: dict) -> Recommender:
    """The model `name` of the test, fitted on data with ids."""
    if (name, True) not in fits:
        fits[name, True] = build(name).fit(plays)
    return fits[name, True]

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from equipoise import Interactions


@pytest.fixture
def X() -> np.ndarray:
    rng = np.random.default_rng(7)
    return rng.poisson(rng.pareto(1.5, 14) + 0.2, (40, 14)).astype(float)


@pytest.fixture
def plays(X: np.ndarray) -> Interactions:
    users = [f"user-{i}" for i in range(40)]
    items = [f"song-{j}" for j in range(14)]
    return Interactions.from_sparse(sp.csr_array(X), user_ids=users, item_ids=items)

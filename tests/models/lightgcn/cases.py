"""Small graphs and quick trainings, and what they are by hand."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from equipoise.models.peers.lightgcn import LightGCN, hold_out
from equipoise.models.peers.lightgcn_training import Task, Trainer

torch = pytest.importorskip("torch", reason="torch is not installed: LightGCN was NOT tested")
geometric = pytest.importorskip(
    "torch_geometric", reason="torch_geometric is not installed: LightGCN was NOT tested"
)

# users 0-3, items 0-3: eight edges, degrees from 1 to 3 on either side
R = np.array([[1, 1, 0, 0], [0, 1, 1, 0], [1, 0, 1, 1], [0, 1, 0, 0]], dtype=float)
SETTINGS = LightGCN(
    n_components=2,
    n_layers=3,
    learning_rate=0.05,
    regularization=0.01,
    batch_size=4,
    max_epochs=5,
    patience=5,
    device="cpu",
)


def dense_adjacency(R: np.ndarray) -> np.ndarray:
    """D^−½ A D^−½, straight from the definition."""
    A = np.block([[np.zeros((len(R), len(R))), R], [R.T, np.zeros((R.shape[1], R.shape[1]))]])
    degrees = A.sum(axis=1)
    roots = np.where(degrees > 0, 1 / np.sqrt(np.maximum(degrees, 1)), 0)
    return roots[:, None] * A * roots


def mean_of_powers(A: np.ndarray, n_layers: int) -> np.ndarray:
    powers = [np.linalg.matrix_power(A, k) for k in range(n_layers + 1)]
    return sum(powers) / (n_layers + 1)


def trainer(seed: int = 0, **changes) -> Trainer:
    chosen = clone(SETTINGS).set_params(**changes)
    task = Task(sp.csr_array(R))
    return Trainer(task, chosen, np.random.default_rng(seed))


def trained_again(model: LightGCN, X: np.ndarray) -> Trainer:
    """The training of a model without validation, epoch by epoch and from the same seed."""
    task, rng = Task(sp.csr_array(X)), np.random.default_rng(model.random_state)
    hold_out(task.train, 0, rng)
    run = Trainer(task, model, rng)
    for _ in range(model.max_epochs):
        run.run_epoch()
    return run


def taste(n_users: int = 60, n_items: int = 30, seed: int = 3) -> np.ndarray:
    """Two groups of users who mostly keep to their own half of the items."""
    rng = np.random.default_rng(seed)
    own = np.add.outer(np.arange(n_users), np.arange(n_items)) % 2 == 0
    X = (rng.random((n_users, n_items)) < np.where(own, 0.5, 0.05)).astype(float)
    X[:, 0] = 1
    return X


def quick(**changes) -> LightGCN:
    settings = {
        "n_components": 4,
        "max_epochs": 12,
        "learning_rate": 0.05,
        "random_state": 0,
        "refit": False,
    }
    return LightGCN(**(settings | changes))

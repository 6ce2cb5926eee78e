"""Nasty but legal preference matrices for property tests."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray


@st.composite
def preference_matrices(draw: st.DrawFn, max_users: int = 14, max_items: int = 9) -> NDArray:
    """Non-negative matrices with empty columns, single users, ties, heavy tails, low rank."""
    n = draw(st.integers(1, max_users))
    m = draw(st.integers(2, max_items))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["binary", "counts", "heavy", "low-rank", "equal", "blocks"]))
    if kind == "binary":
        X = (rng.random((n, m)) < draw(st.sampled_from([0.2, 0.5, 0.9]))).astype(float)
    elif kind == "counts":
        X = rng.poisson(1.0, (n, m)).astype(float)
    elif kind == "heavy":
        X = np.where(rng.random((n, m)) < 0.5, rng.pareto(0.5, (n, m)), 0.0)
        X = np.minimum(X, 1e6)
    elif kind == "low-rank":
        X = rng.integers(0, 3, (n, 1)) @ rng.integers(0, 3, (1, m)).astype(float)
    elif kind == "equal":
        X = np.repeat(rng.integers(0, 2, (n, 1)), m, axis=1).astype(float)
    else:
        X = np.kron(np.eye(2), np.ones((n, m)))[: n + 1, : m + 1]
    if draw(st.booleans()):
        X[:, draw(st.integers(0, X.shape[1] - 1))] = 0.0
    if not X.any():
        X[0, 0] = 1.0
    return X

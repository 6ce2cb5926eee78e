"""Theorem 4 and diminishing returns: what the leading components contain."""

from __future__ import annotations

import numpy as np
import polars as pl

from equipoise.data import synthetic
from equipoise.models import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.paper.theory.experiment import Experiment, Floats, finding
from equipoise.paper.verdicts import CLAIMS, Finding

#: Share of the leading components on popular items, by Theorem 4.
PREDICTED_SHARES = {"PCA": 1.0, "Normalized PCA": 0.0, "Item-Weighted PCA, γ = −1": 0.5}


def theorem_4(quick: bool = False) -> Experiment:
    """Measure which items the components cover on data with exclusive tastes."""
    worlds = [(4, 2)] if quick else [(4, 2), (3, 3), (5, 2), (2, 4)]
    table = pl.concat([_shares(rank, beta) for rank, beta in worlds])
    title = "Theorem 4: each baseline covers one side"
    return Experiment("theorem-4", title, (judge_shares(table),), table)


def judge_shares(table: pl.DataFrame) -> Finding:
    """Whether every share is as predicted."""
    spans, worst = [], 0.0
    for curve, predicted in PREDICTED_SHARES.items():
        shares = table.filter(curve=curve)["share"].to_numpy()
        worst = max(worst, float(np.abs(shares - predicted).max()))
        low, high = f"{abs(shares.min()):.3f}", f"{abs(shares.max()):.3f}"
        spans.append(f"{curve}: {low if low == high else f'{low} to {high}'}")
    note = (
        "With γ = −1 eigenvalues tie in pairs: at an odd number of components the subspace is not "
        "unique, so shares are taken after whole pairs."
    )
    return finding("theorem-4", worst <= CLAIMS["theorem-4"].bound, "; ".join(spans), note)


def _shares(rank: int, beta: int) -> pl.DataFrame:
    """Share of the leading components of each model on the popular items."""
    world = synthetic.exclusive_tastes(rank, beta)
    models = (
        VanillaPCA(rank, solver="dense"),
        NormalizedPCA(rank, solver="dense"),
        ItemWeightedPCA(2 * rank, gamma=-1.0, solver="dense"),
    )
    rows = []
    for (curve, predicted), model in zip(PREDICTED_SHARES.items(), models, strict=True):
        components = model.fit(world.interactions).components_
        on_popular = np.cumsum((components[:, : world.n_popular] ** 2).sum(axis=1))
        step = 2 if predicted == 0.5 else 1  # tied pairs
        rows += [
            (curve, f"r = {rank}, β = {beta}", k, float(on_popular[k - 1] / k))
            for k in range(step, len(components) + 1, step)
        ]
    return pl.DataFrame(rows, schema=["curve", "matrix", "components", "share"], orient="row")


def diminishing_returns(quick: bool = False) -> Experiment:
    """Measure by how much each component lowers the error."""
    planted = synthetic.planted_spectrum(120, 60, 10 * 0.8 ** np.arange(20))
    X = planted.interactions.matrix.toarray()
    returns = [measure_returns("planted σ", X, planted.singular_values)]
    for seed in range(1 if quick else 3):
        X = np.random.default_rng([5, seed]).gamma(0.3, size=(150, 40)) * np.geomspace(3, 0.1, 40)
        sigma: Floats = np.linalg.svd(X, compute_uv=False).astype(np.float64)
        returns.append(measure_returns(f"random {seed + 1}", X, sigma))
    table = pl.concat(returns)
    return Experiment("diminishing-returns", "Diminishing returns", (judge_returns(table),), table)


def judge_returns(returns: pl.DataFrame) -> Finding:
    """Whether every drop is the squared singular value."""
    worst = float(returns["relative_difference"].to_numpy().max())
    matrices = returns["curve"].n_unique()
    note = f"{len(returns)} components of {matrices} matrices; difference relative to ‖X‖²."
    # Each error is a sum of n·m squares in float64: about 1e-15 of ‖X‖², times some hundreds.
    holds = worst <= CLAIMS["diminishing-returns"].bound
    return finding("diminishing-returns", holds, worst, note)


def measure_returns(curve: str, X: Floats, singular_values: Floats) -> pl.DataFrame:
    """Compare the drop of the error at every component, from the residuals, with σ_i²."""
    U = VanillaPCA(len(singular_values), solver="dense").fit(X).components_.T
    errors = [float(((X - X @ U[:, :i] @ U[:, :i].T) ** 2).sum()) for i in range(U.shape[1] + 1)]
    drops, squares = -np.diff(errors), singular_values**2
    columns = {
        "component": np.arange(1, len(drops) + 1),
        "drop": drops,
        "squared_singular_value": squares,
        "relative_difference": np.abs(drops - squares) / (X**2).sum(),
    }
    return pl.DataFrame({"curve": [curve] * len(drops)} | columns)

"""Theorems 2 and 3: the closed form solves the semidefinite program and includes both baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import polars as pl

from equipoise.data import synthetic
from equipoise.exceptions import MissingExtraError
from equipoise.models import ItemWeightedPCA
from equipoise.models.pca.sdp import solve_sdp
from equipoise.paper.theory.experiment import Experiment, Floats, finding
from equipoise.paper.verdicts import CLAIMS, Finding

# A projector is determined by eigenvalues to eps / gap: 1e-8 leaves two orders of magnitude.
_CLEAR_GAP = 1e-5


def theorem_2(quick: bool = False) -> Experiment:
    """Solve random instances as a semidefinite program and in closed form."""
    name, title = "theorem-2", "Theorem 2: the relaxation is tight"
    try:
        rows = [solved for seed in range(2 if quick else 8) for solved in _solve(seed)]
    except MissingExtraError as error:
        return Experiment(name, title, left_out=str(error))
    table = pl.DataFrame(rows)
    return Experiment(name, title, judge_solutions(table), table)


def judge_solutions(table: pl.DataFrame) -> tuple[Finding, Finding, Finding]:
    """Whether optima agree without and with a budget, which is kept, and all are projections."""
    free, limited = table.filter(curve="free"), table.filter(curve="budget")
    apart, apart_limited = (
        float(part["relative_difference"].to_numpy().max()) for part in (free, limited)
    )
    bound, used = CLAIMS["theorem-2-budget"].bound, limited["error_ratio"] / (1 + limited["budget"])
    kept, active = bool((used <= 1 + bound).all()), (used > 1 - bound).sum()
    note = (
        f"{len(limited)} random instances, the bound is active in {active} and "
        f"{'kept in all' if kept else 'NOT kept in all'}."
    )
    good = table.filter("sdp_is_projection", pl.col("sdp_rank") <= pl.col("rank"))
    shown = f"{len(good)} of {len(table)} solutions"
    holds, counted = apart <= CLAIMS["theorem-2"].bound, f"{len(free)} random instances."
    return (
        finding("theorem-2", holds, apart, counted),
        finding("theorem-2-budget", kept and apart_limited <= bound, apart_limited, note),
        finding("theorem-2-projection", len(good) == len(table), shown),
    )


def _solve(seed: int) -> Iterator[dict[str, Any]]:
    """One random matrix: unconstrained, with an active budget, and with one close to PCA."""
    n, m, rank, gamma = 20 + 5 * seed, 6 + seed, 2 + seed % 3, (-1.0, -0.5, -2.0)[seed % 3]
    # Columns differ tenfold in size: a popular item, and niche items.
    X = np.random.default_rng([2, seed]).gamma(0.5, size=(n, m)) * np.geomspace(1.0, 0.1, m)
    weights = np.linalg.norm(X, axis=0) ** gamma
    best_error = float((np.linalg.svd(X, compute_uv=False)[rank:] ** 2).sum())
    for budget in (None, 0.1, 0.01):
        # Solvers of the program differ in how far they get; the claims need less.
        solution = solve_sdp(X, rank, gamma, budget, tol=1e-8)
        model = ItemWeightedPCA(rank, gamma=gamma, error_budget=budget, solver="dense", tol=1e-10)
        U = model.fit(X).components_.T
        X_hat = X @ U @ U.T
        ours, program = float((weights * (X * X_hat).sum(axis=0)).sum()), solution.objective
        yield {
            "n": n,
            "m": m,
            "rank": rank,
            "gamma": gamma,
            "budget": budget,
            "sdp": program,  # Σ w_j ⟨X_j, X̂_j⟩
            "closed_form": ours,
            "sdp_rank": solution.rank,
            "sdp_is_projection": solution.is_projection,
            "error_ratio": float(((X - X_hat) ** 2).sum()) / best_error,  # relative to PCA's E_r
            "curve": "free" if budget is None else "budget",
            "relative_difference": abs(program - ours) / abs(program),
        }


PCA_CASE, BLOCK_CASE, GENERAL_CASE = (
    "γ = 0 against PCA",
    "γ = −2 against Normalized PCA, item-regular blocks",
    "γ = −2 against Normalized PCA, general matrices",
)


def theorem_3(quick: bool = False) -> Experiment:
    """Compare projectors at every rank where the baseline's is unique."""
    cases: dict[str, tuple[Callable[[int], Floats], float]] = {
        PCA_CASE: (_general_matrix, 0.0),
        BLOCK_CASE: (item_regular_matrix, -2.0),
        GENERAL_CASE: (_general_matrix, -2.0),
    }
    rows = []
    for curve, (draw, gamma) in cases.items():
        for seed in range(2 if quick else 6):
            X = draw(seed)
            scale = np.linalg.norm(X, axis=0) if gamma == -2.0 else np.ones(X.shape[1])
            found = projector_distances(X, X / scale, gamma)
            rows += [(curve, seed, rank, distance) for rank, distance in found]
    table = pl.DataFrame(rows, schema=["curve", "matrix", "rank", "distance"], orient="row")
    title = "Theorem 3: PCA and Normalized PCA are instances"
    return Experiment("theorem-3", title, judge_distances(table), table)


def judge_distances(table: pl.DataFrame) -> tuple[Finding, Finding]:
    """Whether both equivalences hold at every rank, and γ = −2 differs on each general matrix."""
    largest = table.group_by("curve", "matrix").agg(pl.col("distance").max())
    pca, blocks, general = (
        largest.filter(curve=case)["distance"].to_numpy()
        for case in (PCA_CASE, BLOCK_CASE, GENERAL_CASE)
    )
    worst, least = float(max(pca.max(), blocks.max())), float(general.min())
    equal = f"Largest distance: {pca.max():.1e} for γ = 0, {blocks.max():.1e} for γ = −2."
    apart = "The smallest over the matrices of the largest distance over the ranks."
    return (
        finding("theorem-3", worst <= CLAIMS["theorem-3"].bound, worst, equal),
        finding("theorem-3-general", least > CLAIMS["theorem-3-general"].bound, least, apart),
    )


def projector_distances(X: Floats, baseline: Floats, gamma: float) -> Iterator[tuple[int, float]]:
    """Distance from the PCA of `baseline` at each rank up to half the items."""
    _, sigma, Vt = np.linalg.svd(baseline, full_matrices=False)
    model = ItemWeightedPCA(X.shape[1] // 2, gamma=gamma, solver="dense").fit(X)
    for rank in range(1, model.n_components_ + 1):
        if sigma[rank - 1] ** 2 - sigma[rank] ** 2 < _CLEAR_GAP * sigma[0] ** 2:
            continue  # tied eigenvalues: the subspace is not unique
        U, V = model.components_[:rank].T, Vt[:rank].T
        yield rank, float(np.linalg.norm(U @ U.T - V @ V.T))


def _general_matrix(seed: int) -> Floats:
    """Counts, 0/1 or real numbers, with items of very different popularity."""
    rng = np.random.default_rng([3, seed])
    n, m = (60, 24) if seed % 2 else (30, 40)
    mean = rng.gamma(0.5, size=(n, 3)) @ rng.gamma(0.5, size=(3, m)) * np.geomspace(4, 0.2, m)
    X = (rng.poisson(mean), mean, rng.poisson(mean) > 0)[seed % 3].astype(float)
    X[rng.integers(n, size=m), np.arange(m)] = 1.0  # every item has a user
    return X


def item_regular_matrix(seed: int) -> Floats:
    """A matrix of three blocks, in each of which all items have the same popularity."""
    users, items, popularity = [40, 30, 25], [9, 12, 15], [20, 9, 4]
    return synthetic.item_regular_blocks(users, items, popularity, seed).matrix.toarray()

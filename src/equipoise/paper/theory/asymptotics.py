"""Theorem 1 and Figure 5: what happens as the number of users grows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from equipoise.data import synthetic
from equipoise.models import VanillaPCA
from equipoise.paper.theory.experiment import Experiment, Floats, finding, log_slope
from equipoise.paper.verdicts import CLAIMS, Finding

_POPULAR = 5  # M of Theorem 1
_USERS_OF_A_RARE_ITEM = 3  # K
# Five seeds leave about ±0.02 of noise in a slope over two decades of n. The bound of 0.1 is well
# above that and well below the distance to the next simple rate, n^(-1/2) against n^(-1).
_SLOPE_BOUND = CLAIMS["theorem-1"].bound

_BERNOULLI_ITEMS = 20  # M of Figure 5
# Small n do not test growth: there s²_min is below its limit by about 2√(M/n).
_LARGE = 0.2  # n counts as large from this share of the largest n
_BLOCK_ROWS = 10_000  # 800 kB of float32, which fit into the cache


def theorem_1(quick: bool = False) -> Experiment:
    """Measure ‖P_n − I_{n,M}‖_F on growing matrices, with fixed and with growing m."""
    sizes = [250 * 2**k for k in range(5 if quick else 9)]
    seeds = range(2 if quick else 5)
    curves: dict[str, Callable[[int], int]] = {
        "m fixed": lambda _: 40,
        "m growing as √n": lambda n: round(2 * n**0.5),
    }
    decays = []
    for curve, n_rare in curves.items():
        m = np.array([_POPULAR + n_rare(n) for n in sizes], float)
        pairs = np.array([[distance_and_bound(n, n_rare(n), s) for s in seeds] for n in sizes])
        decays.append(decay_table(curve, np.array(sizes, float), m, *np.moveaxis(pairs, 2, 0)))
    table = pl.concat(decays)
    return Experiment("theorem-1", "Theorem 1: PCA is unfair", judge_decay(table), table)


def decay_table(
    curve: str, n: Floats, m: Floats, distances: Floats, bounds: Floats
) -> pl.DataFrame:
    """One row per size of the distances and proof bounds (sizes × seeds).

    `predicted` is c·mK/n through the first measured point.
    """
    rate, mean = m / n, distances.mean(axis=1)
    columns = {
        "n": n,
        "m": m,
        "distance": mean,
        "distance_low": distances.min(axis=1),
        "distance_high": distances.max(axis=1),
        "proof_bound": bounds.mean(axis=1),
        "share_of_bound": (distances / bounds).max(axis=1),
        "predicted": rate * mean[0] / rate[0],
    }
    return pl.DataFrame({"curve": [curve] * len(n)} | columns)


def judge_decay(table: pl.DataFrame) -> tuple[Finding, Finding]:
    """Whether every decay is at least as fast as mK/n, and no draw exceeds the proof's bound."""
    parts = {str(curve): part for (curve,), part in table.group_by("curve", maintain_order=True)}
    found, predicted = (
        {curve: log_slope(part["n"], part[column]) for curve, part in parts.items()}
        for column in ("distance", "predicted")
    )
    holds = all(found[curve] <= predicted[curve] + _SLOPE_BOUND for curve in parts)
    measured, shown = (
        "; ".join(f"{curve}: n^{slope:.2f}" for curve, slope in slopes.items())
        for slopes in (found, predicted)
    )
    worst = float(table["share_of_bound"].to_numpy().max())
    return (
        finding("theorem-1", holds, measured, f"mK/n falls as {shown}."),
        finding("theorem-1-bound", worst <= CLAIMS["theorem-1-bound"].bound, worst),
    )


def distance_and_bound(n: int, n_rare: int, seed: int) -> tuple[float, float]:
    """‖P − I‖_F on one random matrix, and the bound of the proof."""
    X = synthetic.popular_and_rare(n, _POPULAR, n_rare, _USERS_OF_A_RARE_ITEM, seed).matrix
    model = VanillaPCA(_POPULAR, solver="matrix_free", tol=1e-11).fit(X)
    P = model.components_.T @ model.components_
    popular = np.arange(len(P)) < _POPULAR
    distance = float(np.linalg.norm(P - np.diag(popular.astype(float))))
    return distance, _davis_kahan(X, popular)


def _davis_kahan(X: Any, popular: Any) -> float:
    """2√2 ‖C − C′‖_F / λ_M(C′), where C′ is C = XᵀX restricted to its popular block."""
    C = (X.T @ X).toarray()
    block = C[np.ix_(popular, popular)]
    rest = C * ~np.outer(popular, popular)
    return float(2 * np.sqrt(2) * np.linalg.norm(rest) / np.linalg.eigvalsh(block)[0])


def figure_5(quick: bool = False) -> Experiment:
    """Draw Bernoulli matrices of 20 columns and follow their smallest singular value."""
    sizes = [100, 200, 500, 1000, 2000, 5000, *range(10_000, 100_001, 10_000)]
    if quick:
        sizes = [n for n in sizes if n <= 10_000]
    n = np.array(sizes)
    smallest = measure_growth(n, draws=20 if quick else 500)
    title = "Figure 5: singular values of Bernoulli matrices"
    return Experiment("figure-5", title, *judge_growth(n, smallest))


def judge_growth(n: NDArray[np.int64], smallest: Floats) -> tuple[tuple[Finding], pl.DataFrame]:
    """Whether the mean grows as n, and the 1st percentile ("with high probability") no slower.

    The band narrows as 1/√n relative to the mean, so its lower edge grows a little faster.
    """
    p01, p99 = np.percentile(smallest, [1, 99], axis=0)
    table = pl.DataFrame({"n": n, "mean": smallest.mean(axis=0), "p01": p01, "p99": p99})
    large, bound = table.filter(pl.col("n") >= _LARGE * n[-1]), CLAIMS["figure-5"].bound
    mean, low = (log_slope(large["n"], large[column]) for column in ("mean", "p01"))
    holds = abs(mean - 1) <= bound and low >= 1 - bound
    note = (
        f"{len(smallest)} draws for each n up to {n[-1]:,}; the 1st percentile grows "
        f"as n^{low:.3f}. A draw of more users continues the draw of fewer."
    )
    return (finding("figure-5", holds, mean, note),), table


def measure_growth(n: NDArray[np.int64], draws: int, seed: int = 0) -> Floats:
    """Draw matrices for one set of p_j ~ U[0.1, 1] and return their s²_min, draws × sizes.

    Each draw passes through all n: the first 100 rows, then the next ones. At any one n the
    matrices are independent and distributed as if drawn for it alone, at half the cost.
    """
    probabilities = np.random.default_rng(seed).uniform(0.1, 1.0, _BERNOULLI_ITEMS)
    steps = np.diff(n, prepend=0)
    increments = [
        [bernoulli_gram(probabilities, rows, rng) for rows in steps]
        for rng in map(np.random.default_rng, np.random.SeedSequence(seed).spawn(draws))
    ]
    grams = np.cumsum(np.array(increments), axis=1)
    # A matrix with two equal columns has s_min = 0, which rounding may turn negative.
    return np.maximum(np.linalg.eigvalsh(grams)[..., 0], 0.0)


def bernoulli_gram(probabilities: Floats, n_rows: int, rng: np.random.Generator) -> Floats:
    """XᵀX of independent Bernoulli rows; counts below 2²⁴ are exact in float32."""
    gram = np.zeros((len(probabilities), len(probabilities)))
    thresholds = probabilities.astype(np.float32)
    for start in range(0, n_rows, _BLOCK_ROWS):
        shape = (min(_BLOCK_ROWS, n_rows - start), len(probabilities))
        X = (rng.random(shape, dtype=np.float32) < thresholds).astype(np.float32)
        gram += X.T @ X
    return gram

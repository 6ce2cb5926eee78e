"""Figure 5: the smallest squared singular value of a Bernoulli matrix grows linearly in n."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from equipoise.paper.theory.experiment import (
    Experiment,
    Floats,
    Panel,
    Series,
    Table,
    judge,
    log_slope,
)
from equipoise.paper.verdicts import Claim, Finding

_ITEMS = 20  # M
# Small n are no test of growth: s²_min is short of its limit by about 2√(M/n) there.
_LARGE = 0.2  # n at least this share of the largest n counts as large
_SLOPE_TOLERANCE = 0.05
_ROWS_AT_ONCE = 10_000  # 800 kB of float32, which stay in the cache

TITLE = "Figure 5: singular values of Bernoulli matrices"
CLAIM = Claim(
    id="figure-5",
    what="The smallest squared singular value of a Bernoulli matrix grows linearly in n",
    where="Appendix B.1, Figure 5",
    published=1.0,
    how=(
        "log-log slope for n from a fifth of the largest: of the mean over the draws, within "
        f"1 ± {_SLOPE_TOLERANCE}; of the 1st percentile, at least 1 − {_SLOPE_TOLERANCE}"
    ),
)


@dataclass(frozen=True)
class Growth:
    """Smallest squared singular values of random matrices.

    Attributes
    ----------
    n : ndarray of shape (sizes,)
        Numbers of users.
    values : ndarray of shape (draws, sizes)
        s²_min of each draw.
    """

    n: NDArray[np.int64]
    values: Floats

    def quantity(self, name: str) -> Floats:
        """Mean or percentile over the draws: ``"mean"``, ``"p01"`` or ``"p99"``."""
        if name == "mean":
            mean: Floats = self.values.mean(axis=0)
            return mean
        percentile: Floats = np.percentile(self.values, float(name[1:]), axis=0)
        return percentile

    def exponent(self, name: str) -> float:
        """Power of n with which a quantity grows at large n."""
        large = self.n >= _LARGE * self.n[-1]
        return log_slope(self.n[large], self.quantity(name)[large])


def bernoulli(quick: bool = False) -> Experiment:
    """Draw Bernoulli matrices of 20 columns and follow their smallest singular value."""
    sizes = [100, 200, 500, 1000, 2000, 5000, *range(10_000, 100_001, 10_000)]
    if quick:
        sizes = [n for n in sizes if n <= 10_000]
    growth = measure_growth(np.array(sizes), draws=20 if quick else 500)
    return Experiment(CLAIM.id, TITLE, CLAIM, (judge_growth(growth),), _table(growth), _panels())


def judge_growth(growth: Growth) -> Finding:
    """Whether the mean grows as n, and the 1st percentile, for "with high probability", no slower.

    The band narrows as 1/√n relative to the mean, so its lower edge grows a little faster.
    """
    mean, low = growth.exponent("mean"), growth.exponent("p01")
    holds = abs(mean - 1) <= _SLOPE_TOLERANCE and low >= 1 - _SLOPE_TOLERANCE
    note = (
        f"{len(growth.values)} draws for each n up to {growth.n[-1]:,}; the 1st percentile grows "
        f"as n^{low:.3f}. A draw of more users continues the draw of fewer."
    )
    return judge(CLAIM, holds, mean, note)


def measure_growth(n: NDArray[np.int64], draws: int, seed: int = 0) -> Growth:
    """Draw matrices for one set of chances p_j ~ U[0.1, 1] and return their s²_min.

    Each draw goes through all n: the first 100 rows, then the next ones. At any one n the matrices
    are independent and distributed as if drawn for it alone, at half the cost.
    """
    chances = np.random.default_rng(seed).uniform(0.1, 1.0, _ITEMS)
    steps = np.diff(n, prepend=0)
    increments = [
        [_gram(chances, rows, rng) for rows in steps]
        for rng in map(np.random.default_rng, np.random.SeedSequence(seed).spawn(draws))
    ]
    grams = np.cumsum(np.array(increments), axis=1)
    # a matrix with two equal columns has s_min = 0, which rounding may put below zero
    return Growth(n, np.maximum(np.linalg.eigvalsh(grams)[..., 0], 0.0))


def _gram(chances: Floats, n_rows: int, rng: np.random.Generator) -> Floats:
    """XᵀX of n_rows independent rows; counts below 2²⁴ are exact in float32."""
    gram = np.zeros((len(chances), len(chances)))
    thresholds = chances.astype(np.float32)
    for start in range(0, n_rows, _ROWS_AT_ONCE):
        shape = (min(_ROWS_AT_ONCE, n_rows - start), len(chances))
        X = (rng.random(shape, dtype=np.float32) < thresholds).astype(np.float32)
        gram += X.T @ X
    return gram


def _table(growth: Growth) -> Table:
    names = ("mean", "p01", "p99")
    return {"n": growth.n} | {name: growth.quantity(name) for name in names}


def _panels() -> tuple[Panel, ...]:
    band = Series("mean; 1st to 99th percentile", "n", "mean", low="p01", high="p99")
    labels = ("number of users n", "smallest squared singular value")
    return (
        Panel("Smallest squared singular value", *labels, (band,)),
        Panel("The same, logarithmic", *labels, (band,), "log", "log"),
    )

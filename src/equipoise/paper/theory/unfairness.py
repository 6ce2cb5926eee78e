"""Theorem 1: with many users, PCA copies the popular items and forgets the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from equipoise.data import synthetic
from equipoise.models import VanillaPCA
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

_POPULAR = 5  # M
_USERS_OF_A_RARE_ITEM = 3  # K
# Five seeds leave about ±0.02 of noise in a slope over two decades of n; 0.1 is well beyond that
# and well below the distance to the next simple rate, n^(-1/2) against n^(-1).
_SLOPE_TOLERANCE = 0.1

TITLE = "Theorem 1: PCA is unfair"
CLAIM = Claim(
    id="theorem-1",
    what="PCA of rank M tends to the identity on the M popular items, at least as fast as mK/n",
    where="Theorem 1 and its proof",
    published="‖P_n − I_{n,M}‖_F → 0, as O(mK/n)",
    how=(
        "log-log slope of the mean distance against n, at most the slope of mK/n "
        f"+ {_SLOPE_TOLERANCE}; with a fixed number of items, and with m growing as √n"
    ),
)
BOUND_CLAIM = Claim(
    id="theorem-1-bound",
    what="The proof's Davis-Kahan bound holds at every n",
    where="Appendix A.1",
    published="‖P_n − I‖_F ≤ 2√2 ‖C − C′‖_F / λ_M(C′)",
    how="largest ratio of the measured distance to the bound over all draws, at most 1",
)


@dataclass(frozen=True)
class Decay:
    """Distances of PCA's projector from the identity on the popular items.

    Attributes
    ----------
    curve : str
        How the number of items goes with n.
    n, m : ndarray of shape (sizes,)
        Users and items.
    distances, bounds : ndarray of shape (sizes, seeds)
        ‖P_n − I_{n,M}‖_F, and the right-hand side of the proof's inequality.
    """

    curve: str
    n: Floats
    m: Floats
    distances: Floats
    bounds: Floats

    @property
    def slope(self) -> float:
        """Exponent of n in the mean distance."""
        return log_slope(self.n, self.distances.mean(axis=1))

    @property
    def predicted_slope(self) -> float:
        """Exponent of n in mK/n."""
        return log_slope(self.n, self.m / self.n)


def unfairness(quick: bool = False) -> Experiment:
    """Measure ‖P_n − I_{n,M}‖_F on growing matrices, with fixed and with growing m."""
    sizes = [250 * 2**k for k in range(5 if quick else 9)]
    seeds = range(2 if quick else 5)
    decays = (
        _measure("m fixed", sizes, seeds, lambda _: 40),
        _measure("m growing as √n", sizes, seeds, lambda n: round(2 * n**0.5)),
    )
    findings = (judge_decay(decays), judge_bound(decays))
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(decays), _panels(decays))


def judge_decay(decays: Sequence[Decay]) -> Finding:
    """Whether every decay is at least as fast as mK/n."""
    holds = all(d.slope <= d.predicted_slope + _SLOPE_TOLERANCE for d in decays)
    measured = "; ".join(f"{d.curve}: n^{d.slope:.2f}" for d in decays)
    bounds = "; ".join(f"{d.curve}: n^{d.predicted_slope:.2f}" for d in decays)
    return judge(CLAIM, holds, measured, f"mK/n itself goes as {bounds}.")


def judge_bound(decays: Sequence[Decay]) -> Finding:
    """Whether no draw exceeds the bound of the proof."""
    worst = max(float((d.distances / d.bounds).max()) for d in decays)
    return judge(BOUND_CLAIM, worst <= 1, worst)


def _measure(
    curve: str, sizes: Sequence[int], seeds: Sequence[int], rare_items: Callable[[int], int]
) -> Decay:
    pairs = np.array([[_distance_and_bound(n, rare_items(n), s) for s in seeds] for n in sizes])
    items = np.array([_POPULAR + rare_items(n) for n in sizes], float)
    return Decay(curve, np.array(sizes, float), items, pairs[..., 0], pairs[..., 1])


def _distance_and_bound(n: int, n_rare: int, seed: int) -> tuple[float, float]:
    X = synthetic.popular_and_rare(n, _POPULAR, n_rare, _USERS_OF_A_RARE_ITEM, seed).matrix
    model = VanillaPCA(_POPULAR, solver="matrix_free", tol=1e-11).fit(X)
    P = model.components_.T @ model.components_
    popular = np.arange(len(P)) < _POPULAR
    distance = float(np.linalg.norm(P - np.diag(popular.astype(float))))
    return distance, _davis_kahan(X, popular)


def _davis_kahan(X: Any, popular: Any) -> float:
    """2√2 ‖C − C′‖_F / λ_M(C′), where C′ keeps the popular block of C = XᵀX alone."""
    C = (X.T @ X).toarray()
    block = C[np.ix_(popular, popular)]
    rest = C * ~np.outer(popular, popular)
    return float(2 * np.sqrt(2) * np.linalg.norm(rest) / np.linalg.eigvalsh(block)[0])


def _table(decays: Sequence[Decay]) -> Table:
    columns = {
        "n": [d.n for d in decays],
        "m": [d.m for d in decays],
        "distance": [d.distances.mean(axis=1) for d in decays],
        "distance_low": [d.distances.min(axis=1) for d in decays],
        "distance_high": [d.distances.max(axis=1) for d in decays],
        "proof_bound": [d.bounds.mean(axis=1) for d in decays],
        "predicted": [_through_the_first_point(d) for d in decays],
    }
    curve = np.repeat([d.curve for d in decays], [len(d.n) for d in decays])
    return {"curve": curve} | {name: np.concatenate(parts) for name, parts in columns.items()}


def _through_the_first_point(decay: Decay) -> Floats:
    """c·mK/n with c such that it starts where the measured curve starts."""
    rate = decay.m / decay.n
    predicted: Floats = rate * decay.distances[0].mean() / rate[0]
    return predicted


def _panels(decays: Sequence[Decay]) -> tuple[Panel, ...]:
    low, high = "distance_low", "distance_high"
    return tuple(
        Panel(
            f"Popular and rare items, {d.curve}",
            "users n",
            "‖P − I‖ (Frobenius)",
            (
                Series(
                    f"measured, slope {d.slope:.2f}", "n", "distance", d.curve, "line", low, high
                ),
                Series(
                    f"mK/n, slope {d.predicted_slope:.2f}", "n", "predicted", d.curve, "reference"
                ),
                Series("Davis-Kahan bound", "n", "proof_bound", d.curve, "reference"),
            ),
            "log",
            "log",
        )
        for d in decays
    )

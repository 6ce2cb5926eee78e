"""Diminishing returns: the i-th component of PCA lowers the error by exactly σ_i²."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from equipoise.data import synthetic
from equipoise.models import VanillaPCA
from equipoise.paper.theory.experiment import Experiment, Floats, Panel, Series, Table, judge
from equipoise.paper.verdicts import Claim, Finding

# Each error is a sum of n·m squares in double precision: about 1e-15 of ‖X‖², times some hundreds.
_TOLERANCE = 1e-10

TITLE = "Diminishing returns"
CLAIM = Claim(
    id="diminishing-returns",
    what="The i-th principal component lowers the reconstruction error by exactly σ_i²",
    where="§3.2 and Appendix A.4.1",
    published="σ_i²",
    how=(
        "‖X − XU_{i−1}U_{i−1}ᵀ‖² − ‖X − XU_iU_iᵀ‖² from the residuals themselves, against planted "
        f"singular values and those of LAPACK: largest difference at most {_TOLERANCE:g} ‖X‖²"
    ),
)


@dataclass(frozen=True)
class Returns:
    """What each component of PCA takes off the error of one matrix.

    Attributes
    ----------
    curve : str
        The matrix.
    drops, squares : ndarray of shape (components,)
        Measured fall of the error, and σ_i².
    total : float
        ‖X‖².
    """

    curve: str
    drops: Floats
    squares: Floats
    total: float

    @property
    def error(self) -> float:
        """Largest difference, relative to ‖X‖²."""
        return float(np.abs(self.drops - self.squares).max() / self.total)


def diminishing_returns(quick: bool = False) -> Experiment:
    """Measure what each component takes off the error."""
    planted = synthetic.planted_spectrum(120, 60, 10 * 0.8 ** np.arange(20))
    returns = [
        _measure("planted σ", planted.interactions.matrix.toarray(), planted.singular_values)
    ]
    for seed in range(1 if quick else 3):
        X = np.random.default_rng([5, seed]).gamma(0.3, size=(150, 40)) * np.geomspace(3, 0.1, 40)
        sigma: Floats = np.linalg.svd(X, compute_uv=False).astype(np.float64)
        returns.append(_measure(f"random {seed + 1}", X, sigma))
    findings = (judge_returns(returns),)
    return Experiment(CLAIM.id, TITLE, CLAIM, findings, _table(returns), _panels(returns))


def judge_returns(returns: Sequence[Returns]) -> Finding:
    """Whether every drop is the squared singular value."""
    worst = max(r.error for r in returns)
    components = sum(len(r.drops) for r in returns)
    note = f"{components} components of {len(returns)} matrices; difference relative to ‖X‖²."
    return judge(CLAIM, worst <= _TOLERANCE, worst, note)


def _measure(curve: str, X: Floats, singular_values: Floats) -> Returns:
    U = VanillaPCA(len(singular_values), solver="dense").fit(X).components_.T
    errors = [float(((X - X @ U[:, :i] @ U[:, :i].T) ** 2).sum()) for i in range(U.shape[1] + 1)]
    return Returns(curve, -np.diff(errors), singular_values**2, float((X**2).sum()))


def _table(returns: Sequence[Returns]) -> Table:
    lengths = [len(r.drops) for r in returns]
    return {
        "curve": np.repeat([r.curve for r in returns], lengths),
        "component": np.concatenate([np.arange(1, length + 1) for length in lengths]),
        "drop": np.concatenate([r.drops for r in returns]),
        "squared_singular_value": np.concatenate([r.squares for r in returns]),
    }


def _panels(returns: Sequence[Returns]) -> tuple[Panel, ...]:
    x, y = "squared_singular_value", "drop"
    series = (
        Series("equal", x, x, style="reference"),
        *(Series(r.curve, x, y, r.curve, "points") for r in returns),
    )
    title = "What a component takes off the error"
    return (Panel(title, "σ_i²", "fall of ‖X − X̂‖²", series, "log", "log"),)

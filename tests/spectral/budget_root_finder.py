"""Another solver of the error budget: the multiplier as the root of one function, by regula falsi.

tr(CP_μ) never falls as μ grows, so the μ that meets the budget is bracketed and narrowed, one dense
eigenproblem per step. Between the two ends of the bracket the budget is met on a geodesic.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg as sl

_AGREE = 1e-12


def solve_by_root_finding(
    C: np.ndarray, w: np.ndarray, rank: int, budget: float
) -> tuple[float, float]:
    """Return the largest tr(MP) within a budget that is above 0, and its multiplier."""
    M = (w[:, None] * C + C * w) / 2

    def at(mu: float) -> np.ndarray:
        values, U = np.linalg.eigh(M + mu * C)
        return U[:, -rank:][:, values[-rank:] > 0]

    def captured(U: np.ndarray) -> float:
        return float(np.sum(U * (C @ U)))

    least = np.trace(C) - np.linalg.eigvalsh(C)[-rank:].sum()
    b = np.trace(C) - (1 + budget) * least
    short, low_mu = at(0.0), 0.0
    if captured(short) >= b:
        return float(np.sum(short * (M @ short))), 0.0
    high_mu = float(w.max())
    while captured(enough := at(high_mu)) < b:
        short, low_mu, high_mu = enough, high_mu, 4 * high_mu
    low, high, stayed = captured(short) - b, captured(enough) - b, 0
    while high_mu - low_mu > _AGREE * high_mu:
        # steps to an end of the bracket would not shrink it
        fraction = min(max(-low / (high - low), 1e-3), 1 - 1e-3)
        mu = low_mu + fraction * (high_mu - low_mu)
        U = at(mu)
        excess = captured(U) - b
        # the rule of Illinois halves the weight of an end that stays
        if excess >= 0:
            enough, high_mu, high = U, mu, excess
            low, stayed = (low / 2 if stayed == 1 else low), 1
        else:
            short, low_mu, low = U, mu, excess
            high, stayed = (high / 2 if stayed == -1 else high), -1
    U = _meet(enough, short, captured, b)
    return float(np.sum(U * (M @ U))), high_mu


def _meet(A: np.ndarray, B: np.ndarray, captured, b: float) -> np.ndarray:
    """The point of the geodesic from A, which captures enough, to B that captures b."""
    Y, cosines, Zt = sl.svd(A.T @ B)
    start, toward = A @ Y, B @ Zt.T
    angles = np.arccos(np.clip(cosines, -1.0, 1.0))
    turning = angles > 1e-7
    sines = np.where(turning, np.sin(angles), 1.0)
    normal = np.where(turning, (toward - start * cosines) / sines, 0.0)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        U = start * np.cos(middle * angles) + normal * np.sin(middle * angles)
        low, high = (middle, high) if captured(U) >= b else (low, middle)
    return start * np.cos(low * angles) + normal * np.sin(low * angles)

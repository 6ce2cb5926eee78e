"""What is maximized over groups: the minimum or an α-fair sum, subject to constraints or not.

Every goal is a concave function φ of utilities u_g = ⟨A_g, P⟩ + b_g. Its conjugate ψ appears in the
dual: min over y of S_r(Σ y_g A_g) + b·y + ψ(y), where S_r is the sum of the positive values among
the r largest eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from equipoise.spectral.matmul import Floats

Kind = Literal["min", "alpha"]

# A constraint u_g ≥ 0 counts as met down to this share of the largest term of the problem: the
# barrier method approaches active constraints from both sides of rounding.
FEASIBLE = 1e-9


class Conjugate(NamedTuple):
    """ψ(y), its gradient, and its diagonal second derivative."""

    value: float
    gradient: Floats
    curvature: Floats


@dataclass(frozen=True)
class Welfare:
    """A goal over utilities.

    Attributes
    ----------
    kind : {"min", "alpha"}
        min_g u_g, or Σ_g u_g^(1−α)/(1−α), which is Σ log u_g for α = 1.
    alpha : float
        α > 0, for "alpha" only.
    goals : int, optional
        The goal is over the first so many utilities, and all others must be at least 0. By default
        there are no constraints.

    Examples
    --------
    >>> u = np.array([1.0, 2.0])
    >>> Welfare("min").value(u), Welfare("alpha", 2.0).value(u), Welfare(goals=1).value(-u)
    (1.0, -1.5, -inf)
    """

    kind: Kind = "min"
    alpha: float = 1.0
    goals: int | None = None

    def value(self, u: Floats, unit: float = 0.0) -> float:
        """φ(u); −inf outside its domain.

        Parameters
        ----------
        u : ndarray of shape (k,)
            Utilities.
        unit : float
            The size of the terms that u was computed from: decides what counts as zero.
        """
        least = float(u[self.goals :].min()) if self.constrained(len(u)) else 0.0
        if least < -FEASIBLE * max(unit, float(np.abs(u).max())):
            return -np.inf
        goal = u[: self.goals]
        if self.kind == "min":
            return float(goal.min())
        if goal.min() <= 0:
            return -np.inf
        if self.alpha == 1:
            return float(np.log(goal).sum())
        return float((goal ** (1 - self.alpha)).sum() / (1 - self.alpha))

    def constrained(self, k: int) -> bool:
        """Whether some of k utilities are constraints."""
        return self.goals is not None and self.goals < k

    def conjugate(self, y: Floats) -> Conjugate:
        """ψ(y) with its derivatives; 0 except for α-fair sums."""
        gradient, curvature = np.zeros_like(y), np.zeros_like(y)
        if self.kind != "alpha":
            return Conjugate(0.0, gradient, curvature)
        a, goal = self.alpha, y[: self.goals]
        if a == 1:
            value = -float(np.log(goal).sum()) - len(goal)
        else:
            value = a / (1 - a) * float((goal ** (1 - 1 / a)).sum())
        gradient[: self.goals] = -(goal ** (-1 / a))
        curvature[: self.goals] = goal ** (-1 / a - 1) / a
        return Conjugate(value, gradient, curvature)

    def normal(self, k: int) -> Floats | None:
        """The vector c of the equation c·y = 1 that the dual weights satisfy; None if free."""
        return None if self.kind == "alpha" else (np.arange(k) < (self.goals or k)).astype(float)

    def start(self, k: int) -> Floats:
        """Dual weights to begin with."""
        return np.full(k, 1 / (self.goals or k)) if self.kind == "min" else np.ones(k)

    def on_equation(self, y: Floats) -> Floats:
        """Remove the rounding by which dual weights miss their equation: bounds need it exact."""
        if self.kind == "alpha":
            return y
        goal = y[: self.goals]
        return np.append(goal / goal.sum(), y[len(goal) :])

    def inside(self, y: Floats) -> Floats:
        """Move dual weights away from zero, and back onto their equation."""
        return self.on_equation(np.maximum(y, 1e-4 * float(y[: self.goals].max())))

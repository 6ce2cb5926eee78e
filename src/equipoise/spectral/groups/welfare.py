"""What is maximized over groups: the minimum, an α-fair sum, or one value subject to the others.

Every goal is a concave function φ of utilities u_g = ⟨A_g, P⟩ + b_g. Its conjugate ψ appears in the
dual: min over y of S_r(Σ y_g A_g) + b·y + ψ(y), where S_r is the sum of the positive values among
the r largest eigenvalues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.spectral.matmul import Floats

Kind = Literal["min", "alpha", "constrained"]

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
    kind : {"min", "alpha", "constrained"}
        min_g u_g; Σ_g u_g^(1−α)/(1−α), or Σ log u_g for α = 1; u_0 subject to u_1, u_2, … ≥ 0.
    alpha : float
        α > 0, for "alpha" only.

    Examples
    --------
    >>> u = np.array([1.0, 2.0])
    >>> Welfare("min").value(u), Welfare("alpha", 2.0).value(u)
    (1.0, -1.5)
    """

    kind: Kind = "min"
    alpha: float = 1.0

    def value(self, u: Floats, unit: float = 0.0) -> float:
        """φ(u); −inf outside its domain.

        Parameters
        ----------
        u : ndarray of shape (k,)
            Utilities.
        unit : float
            The size of the terms that u was computed from: decides what counts as zero.
        """
        if self.kind == "min":
            return float(u.min())
        if self.kind == "constrained":
            met = u[1:].min(initial=np.inf) >= -FEASIBLE * max(unit, float(np.abs(u).max()))
            return float(u[0]) if met else -np.inf
        if u.min() <= 0:
            return -np.inf
        if self.alpha == 1:
            return float(np.log(u).sum())
        return float((u ** (1 - self.alpha)).sum() / (1 - self.alpha))

    def conjugate(self, y: Floats) -> Conjugate:
        """ψ(y) with its derivatives; 0 except for α-fair sums."""
        if self.kind != "alpha":
            return Conjugate(0.0, np.zeros_like(y), np.zeros_like(y))
        a = self.alpha
        if a == 1:
            value = -float(np.log(y).sum()) - len(y)
        else:
            value = a / (1 - a) * float((y ** (1 - 1 / a)).sum())
        return Conjugate(value, -(y ** (-1 / a)), y ** (-1 / a - 1) / a)

    def barred(self, k: int) -> NDArray[np.bool_]:
        """Which of the k dual weights must be positive: all, except that of the objective."""
        positive = np.ones(k, dtype=bool)
        positive[0] = self.kind != "constrained"
        return positive

    def normal(self, k: int) -> Floats | None:
        """The vector c of the equation c·y = 1 that the dual weights satisfy; None if free."""
        if self.kind == "alpha":
            return None
        return np.ones(k) if self.kind == "min" else np.eye(k)[0]

    def start(self, k: int) -> Floats:
        """Dual weights to begin with."""
        return np.full(k, 1 / k) if self.kind == "min" else np.ones(k)

    def on_equation(self, y: Floats) -> Floats:
        """Remove the rounding by which dual weights miss their equation: bounds need it exact."""
        if self.kind == "constrained":
            return np.append(1.0, y[1:])
        return y / y.sum() if self.kind == "min" else y

    def inside(self, y: Floats) -> Floats:
        """Move dual weights away from zero, and back onto their equation."""
        least = 1e-4 * (1.0 if self.kind == "constrained" else float(np.abs(y).max()))
        return self.on_equation(np.maximum(y, least))

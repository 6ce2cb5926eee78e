"""The result of a theory experiment: findings, and the numbers behind them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from equipoise.paper.verdicts import CLAIMS, Finding, Outcome, judge

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Experiment:
    """A test of the paper's theory.

    Attributes
    ----------
    name : str
        Used for files and on the command line, e.g. ``"theorem-1"``.
    title : str
        The heading.
    findings : tuple of Finding
        The first one judges the main claim. Empty if the experiment was left out.
    table : polars.DataFrame
        The numbers behind the findings.
    left_out : str
        Why the experiment was left out, if it was.
    """

    name: str
    title: str
    findings: tuple[Finding, ...] = ()
    table: pl.DataFrame = field(default_factory=pl.DataFrame)
    left_out: str = ""


def finding(claim: str, holds: bool, measured: float | str, note: str = "") -> Finding:
    """Judge a claim of the theory by its id; numbers are rounded to four digits.

    Examples
    --------
    >>> finding("theorem-1-bound", True, 0.123456).measured
    0.1235
    """
    value = float(f"{measured:.4g}") if isinstance(measured, float) else measured
    return judge(CLAIMS[claim], Outcome(value, holds), note=note)


def log_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of log y against log x: the exponent a of y ∝ x^a.

    Examples
    --------
    >>> round(log_slope([1, 10, 100], [5, 50, 500]), 12)
    1.0
    """
    slope, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(slope)

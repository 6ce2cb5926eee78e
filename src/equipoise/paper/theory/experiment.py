"""The result of a theory experiment: findings, the numbers behind them, and charts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from equipoise.paper.verdicts import CLAIMS, Finding, Outcome, judge

Floats = NDArray[np.float64]
Scale = Literal["linear", "log"]


class Series(NamedTuple):
    """One curve of a panel.

    Attributes
    ----------
    label : str
        The text in the legend.
    x, y : str
        Columns of the experiment's table.
    curve : str
        Draw the rows with this value in the column ``"curve"``; empty means all rows.
    style : {"points", "line", "reference"}
        Measured points, measured points joined by a line, or a thin line of theory.
    band : tuple of str
        Columns that bound a shaded band; empty without one.
    """

    label: str
    x: str
    y: str
    curve: str = ""
    style: Literal["points", "line", "reference"] = "line"
    band: tuple[str, ...] = ()

    def rows(self, table: pl.DataFrame) -> pl.DataFrame:
        """Select this series' rows of the table."""
        return table.filter(curve=self.curve) if self.curve else table


class Panel(NamedTuple):
    """One pair of axes and its curves."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


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
        The numbers behind the panels.
    panels : tuple of Panel
        The charts.
    left_out : str
        Why the experiment was left out, if it was.
    """

    name: str
    title: str
    findings: tuple[Finding, ...] = ()
    table: pl.DataFrame = field(default_factory=pl.DataFrame)
    panels: tuple[Panel, ...] = ()
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

"""What an experiment hands back: verdicts, the numbers behind them, and how to draw them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from equipoise.paper.verdicts import Claim, Finding, Verdict

Floats = NDArray[np.float64]
Table = dict[str, NDArray[Any]]
Style = Literal["points", "line", "reference"]
Scale = Literal["linear", "log"]


class Points(NamedTuple):
    """What a series draws; `low` and `high` bound its shaded band, and are empty without one."""

    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True)
class Series:
    """One curve of a panel.

    Attributes
    ----------
    label : str
        For the legend.
    x, y : str
        Columns of the experiment's table.
    curve : str
        Draw the rows whose column ``"curve"`` says this; empty means all rows.
    style : {"points", "line", "reference"}
        Measured points, measured points joined by a line, or a thin line of theory.
    low, high : str
        Columns that bound a shaded band; empty without one.
    """

    label: str
    x: str
    y: str
    curve: str = ""
    style: Style = "line"
    low: str = ""
    high: str = ""

    def points(self, table: Table) -> Points:
        """Pick this series' rows out of the table.

        Examples
        --------
        >>> table = {"curve": np.array(["a", "b"]), "n": np.array([1, 2]), "y": np.array([3.0, 4])}
        >>> Series("b only", "n", "y", curve="b").points(table).y.tolist()
        [4.0]
        """
        rows = table["curve"] == self.curve if self.curve else np.ones(len(table[self.x]), bool)
        names = (self.x, self.y, self.low, self.high)
        return Points(*(table[name][rows].astype(float) if name else np.empty(0) for name in names))


@dataclass(frozen=True)
class Panel:
    """One pair of axes and what is drawn on it."""

    title: str
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"


@dataclass(frozen=True)
class Experiment:
    """A claim of the paper's theory, put to the test.

    Attributes
    ----------
    name : str
        For files and the command line, e.g. ``"theorem-1"``.
    title : str
        For a heading.
    claim : Claim
        The main assertion.
    findings : tuple of Finding
        The first one judges `claim`; the others judge what the paper says beside it. Empty if the
        experiment was left out.
    table : dict of arrays
        Columns of equal length: the numbers behind the panels, tidy.
    panels : tuple of Panel
        How to draw them.
    note : str
        Why the experiment was left out, if it was.
    """

    name: str
    title: str
    claim: Claim
    findings: tuple[Finding, ...] = ()
    table: Table = field(default_factory=dict)
    panels: tuple[Panel, ...] = ()
    note: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """What is said of the main claim; None if the experiment was left out."""
        return self.findings[0].verdict if self.findings else None


def judge(claim: Claim, holds: bool, measured: float | str | bool, note: str = "") -> Finding:
    """Turn the answer of a check into a finding."""
    verdict = Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED
    value = significant(measured) if isinstance(measured, float) else measured
    return Finding(claim, value, verdict, note)


def significant(value: float, digits: int = 4) -> float:
    """Round to a number of significant digits: rounding noise has no place in a report.

    Examples
    --------
    >>> significant(-0.99876543)
    -0.9988
    """
    return float(f"{value:.{digits}g}")


def log_slope(x: ArrayLike, y: ArrayLike) -> float:
    """Least-squares slope of log y against log x: the exponent a of y ∝ x^a.

    Examples
    --------
    >>> round(log_slope([1, 10, 100], [5, 50, 500]), 12)
    1.0
    """
    slope, _ = np.polyfit(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)), 1)
    return float(slope)

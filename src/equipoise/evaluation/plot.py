"""Figures of results: metrics over a setting, and the frontier of a search. Needs extra `plot`."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from equipoise.evaluation.tuning import Tuning
from equipoise.exceptions import InvalidParameterError, require_extra
from equipoise.files import by_ending, write_whole
from equipoise.metrics import Result, Results

# Equal results give equal bytes: files contain neither the date nor the version of matplotlib.
_FORMATS: dict[str, dict[str, Any]] = {
    "png": {"metadata": {"Software": None}, "pil_kwargs": {"optimize": True}},
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "pdf": {"metadata": {"CreationDate": None, "Creator": None, "Producer": None}},
}
_PANEL = (4.2, 3.2)
_COLUMNS = 3


def plot_results(results: Results, path: str | PathLike[str], across: str | None = None) -> None:
    """Draw each metric over the values of a setting, one line per model and other settings.

    Parameters
    ----------
    results : Results
        Rows over all items are drawn; groups are left out.
    path : path
        Ends in .png, .svg or .pdf.
    across : str, optional
        The setting on the horizontal axis; by default the first that is a number in all rows
        that have it and has the most values.
    """
    rows_of_all = results.select(group="all").rows
    axis_name = across or _widest(rows_of_all)
    ranked = [row for row in rows_of_all if row.settings.get(axis_name) is not None]
    if not ranked:
        raise InvalidParameterError("nothing to draw: no row of the results has a numeric setting.")
    panels = list(dict.fromkeys((row.metric, row.k, row.convention) for row in ranked))
    rows = -(-len(panels) // _COLUMNS)
    columns = min(len(panels), _COLUMNS)

    def draw(figure: Any) -> None:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            rows_here = [r for r in ranked if (r.metric, r.k, r.convention) == panel]
            _panel(axis, rows_here, axis_name)
        for axis in axes[len(panels) :]:
            axis.set_visible(False)
        handles, labels = axes[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)

    _save(draw, (columns * _PANEL[0], rows * _PANEL[1] + 0.5), path)


def plot_tuning(tuning: Tuning, path: str | PathLike[str]) -> None:
    """Draw every trial of a search, its frontier and its choice.

    Parameters
    ----------
    tuning : Tuning
        With at least one limit or trade-off: that is the horizontal axis.
    path : path
        Ends in .png, .svg or .pdf.
    """
    objective, *others = [target.label for target in tuning.goal.targets]
    if not others:
        raise InvalidParameterError(
            "a frontier needs a second metric: give tune a trade_off or subject_to."
        )
    across = others[0]

    def draw(figure: Any) -> None:
        axis = figure.subplots()
        for trials, style in (
            (tuning.trials, {"s": 6, "color": "0.75", "label": "tried"}),
            (tuning.frontier, {"s": 14, "color": "C0", "label": "frontier"}),
            ([tuning.choice], {"s": 80, "color": "C3", "marker": "*", "label": "choice"}),
        ):
            x = [trial.scores[across] for trial in trials]
            y = [trial.scores[objective] for trial in trials]
            axis.scatter(x, y, **style)
        axis.set(xlabel=f"{across} on validation", ylabel=f"{objective} on validation")
        axis.legend(frameon=False)

    _save(draw, (6.4, 4.8), path)


def _widest(rows: Sequence[Result]) -> str:
    """Return the numeric setting with the most values, the first of several; "" for none."""
    values: dict[str, set[Any]] = {}
    for row in rows:
        for name, value in row.settings.items():
            values.setdefault(name, set()).add(value)
    numeric = {
        name: len(found)
        for name, found in values.items()
        if all(isinstance(v, int | float) and not isinstance(v, bool) for v in found)
    }
    return max(numeric, key=numeric.__getitem__, default="")


def _panel(axis: Any, rows: list[Result], across: str) -> None:
    lines: dict[str, list[Result]] = {}
    for row in rows:
        others = [f"{name} = {v}" for name, v in row.settings.items() if name != across]
        lines.setdefault(", ".join([row.model, *others]), []).append(row)
    for label, line in lines.items():
        points = sorted((row.settings[across], row.value) for row in line)
        axis.plot(*zip(*points, strict=True), "o-", ms=3, label=label)
    if min(row.settings[across] for row in rows) > 0:
        axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set(xlabel=across, title=rows[0].name)


def _save(
    draw: Callable[[Any], None], size: tuple[float, float], path: str | PathLike[str]
) -> None:
    write_whole(Path(path), render(draw, size, format_of(path)))


def format_of(path: str | PathLike[str]) -> str:
    """Return the format of a figure by the ending of its name; refuse other endings."""
    return by_ending(path, {f".{name}": name for name in _FORMATS})


def render(
    draw: Callable[[Any], None],
    size: tuple[float, float],
    file_format: str,
    style: Path | None = None,
) -> bytes:
    """Return a picture; what `draw` does to an empty figure decides its bytes.

    Parameters
    ----------
    draw : callable
        Receives an empty matplotlib figure.
    size : tuple of float
        Inches.
    file_format : {"png", "svg", "pdf"}
        The format.
    style : Path, optional
        A matplotlib style that replaces all settings of the user.
    """
    matplotlib = require_extra("matplotlib", "plot", "drawing figures")
    figures = require_extra("matplotlib.figure", "plot", "drawing figures")
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "equipoise"}):
        if style is not None:
            matplotlib.rc_file(style)  # starts from the defaults
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(content, format=file_format, **_FORMATS[file_format])
    return content.getvalue()

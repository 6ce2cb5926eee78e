"""Pictures of results: metrics over ranks, and the frontier of a search. Needs the extra `plot`."""

from __future__ import annotations

import io
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

from equipoise.evaluation.results import Results, Row
from equipoise.evaluation.trials import Tuning
from equipoise.exceptions import InvalidParameterError, require_extra
from equipoise.files import write_whole

# Equal results should give equal bytes: no date in the file, and ids that do not change.
_FORMATS: dict[str, dict[str, None]] = {
    ".png": {},
    ".svg": {"Date": None},
    ".pdf": {"CreationDate": None},
}
_PANEL = (4.2, 3.2)
_COLUMNS = 3


def plot_results(results: Results, path: str | PathLike[str]) -> None:
    """Draw each metric over the ranks, one line for each model and γ.

    Parameters
    ----------
    results : Results
        Rows over all items are drawn; groups are left out.
    path : path
        Ends in .png, .svg or .pdf.
    """
    ranked = [row for row in results.select(group="all") if row.rank is not None]
    if not ranked:
        raise InvalidParameterError("there is nothing to draw: no row of the results has a rank.")
    panels = list(dict.fromkeys((row.metric, row.k, row.convention) for row in ranked))
    rows = -(-len(panels) // _COLUMNS)
    columns = min(len(panels), _COLUMNS)

    def draw(figure: Any) -> None:
        axes = figure.subplots(rows, columns, squeeze=False).ravel()
        for axis, panel in zip(axes, panels, strict=False):
            _panel(axis, [r for r in ranked if (r.metric, r.k, r.convention) == panel])
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


def _panel(axis: Any, rows: list[Row]) -> None:
    lines: dict[str, list[Row]] = {}
    for row in rows:
        label = row.model if row.gamma is None else f"{row.model}, γ = {row.gamma:g}"
        lines.setdefault(label, []).append(row)
    for label, line in lines.items():
        axis.plot([row.rank for row in line], [row.value for row in line], "o-", ms=3, label=label)
    first = rows[0]
    axis.set_xscale("log", base=2)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set(xlabel="rank", title=first.metric + ("" if first.k is None else f"@{first.k}"))


def _save(
    draw: Callable[[Any], None], size: tuple[float, float], path: str | PathLike[str]
) -> None:
    target = Path(path)
    suffix = target.suffix.lower()
    if suffix not in _FORMATS:
        raise InvalidParameterError(
            f"a picture's name must end in {', '.join(_FORMATS)}, got {target.name!r}."
        )
    matplotlib = require_extra("matplotlib", "plot", "drawing results")
    figures = require_extra("matplotlib.figure", "plot", "drawing results")
    content = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "equipoise"}):
        figure = figures.Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(content, format=suffix[1:], metadata=_FORMATS[suffix])
    write_whole(target, content.getvalue())

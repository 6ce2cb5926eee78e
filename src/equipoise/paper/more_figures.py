"""Figures 5 and 7, and one figure for each experiment on the theory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from equipoise.paper.baselines import WEIGHTED_MF, Curves
from equipoise.paper.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION, Figure
from equipoise.paper.figures import draw_users, user_table
from equipoise.paper.measurements import Evaluation
from equipoise.paper.protocol import DATASETS, ITEM_WEIGHTED, USER_METRICS
from equipoise.paper.recorded import LIGHTGCN, Recorded
from equipoise.paper.theory.experiment import Experiment, Panel, Series, Table
from equipoise.paper.tidy import Tidy

_COLORS = (BLUE, VERMILION, GREEN, ORANGE, PURPLE)
_MARKERS = ("o", "s", "^", "D", "v")
_REFERENCES = (":", "--", "-.")
_FIGURE_OF = {"figure-5": "fig5"}


def figure_7(
    evaluations: Sequence[Evaluation],
    curves: dict[str, Curves] | None,
    lightgcn: Recorded | None = None,
) -> Figure:
    """Item-Weighted PCA beside Weighted MF, where `implicit` is installed, and LightGCN.

    Parameters
    ----------
    evaluations : sequence of Evaluation
        Of both data sets.
    curves : dict, optional
        Data set -> metric -> rank -> value of Weighted MF.
    lightgcn : Recorded, optional
        A recorded run of LightGCN.
    """
    metrics = tuple(USER_METRICS)
    table = user_table(evaluations, metrics).where(model=ITEM_WEIGHTED)
    extra = [
        row for name, found in (curves or {}).items() for row in _rows(WEIGHTED_MF, name, found)
    ]
    if lightgcn is not None:
        extra += _rows(LIGHTGCN, lightgcn.dataset, lightgcn.curves)
    return Figure(
        "fig7",
        "Figure 7: Item-Weighted PCA and broader baselines",
        "Recall, Precision, NDCG and MRR at 20 on held-out interactions over the rank. Weighted MF "
        "is implicit's alternating least squares on R + (R > 0) with 50 iterations."
        f"{_told(curves, lightgcn)}",
        Tidy.of(table.columns, [*table.rows, *extra]),
        lambda canvas, shown: draw_users(canvas, shown, metrics),
        (12.0, 5.0),
    )


def _rows(model: str, dataset: str, curves: Curves) -> list[tuple[Any, ...]]:
    return [
        (dataset, metric, "all", model, rank, value)
        for metric, curve in curves.items()
        for rank, value in curve.items()
    ]


def _told(curves: dict[str, Curves] | None, lightgcn: Recorded | None) -> str:
    """Which curve was not measured in this run, and which are not there."""
    told = ""
    if lightgcn is not None:
        title = DATASETS[lightgcn.dataset].title
        told = (
            f" {LIGHTGCN}, for 0/1 data and so for {title} alone, is from a recorded training run."
        )
    left_out = [*([] if curves else [WEIGHTED_MF]), *([] if lightgcn else [LIGHTGCN])]
    if left_out:
        told += f" {' and '.join(left_out)} {'is' if len(left_out) == 1 else 'are'} left out."
    return told


def theory_figure(experiment: Experiment) -> Figure:
    """An experiment as its panels say; "figure-5" is the paper's Figure 5."""
    width = 4.2 * len(experiment.panels)
    return Figure(
        _FIGURE_OF.get(experiment.name, experiment.name),
        experiment.title,
        f"{experiment.claim.what}.",
        Tidy.of_columns(experiment.table),
        lambda canvas, _: _draw_panels(canvas, experiment),
        (max(width, 5.4), 4.0),
    )


def _draw_panels(canvas: Any, experiment: Experiment) -> None:
    grid = canvas.subplots(1, len(experiment.panels), squeeze=False)[0]
    for axes, panel in zip(grid, experiment.panels, strict=True):
        _draw_panel(axes, panel, experiment.table)


def _draw_panel(axes: Any, panel: Panel, table: Table) -> None:
    from matplotlib.ticker import NullFormatter

    drawn = {"reference": 0, "measured": 0}
    for series in panel.series:
        kind = "reference" if series.style == "reference" else "measured"
        _draw_series(axes, series, table, drawn[kind])
        drawn[kind] += 1
    axes.set(title=panel.title, xlabel=panel.x_label, ylabel=panel.y_label)
    axes.set(xscale=panel.x_scale, yscale=panel.y_scale)
    for axis in (axes.xaxis, axes.yaxis):  # labels between the decades would run into each other
        axis.set_minor_formatter(NullFormatter())
    axes.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.2))


def _draw_series(axes: Any, series: Series, table: Table, place: int) -> None:
    points = series.points(table)
    if series.style == "reference":
        line = _REFERENCES[place % len(_REFERENCES)]
        axes.plot(points.x, points.y, line, color=GREY, linewidth=1.2, label=series.label)
        return
    color, marker = _COLORS[place % len(_COLORS)], _MARKERS[place % len(_MARKERS)]
    line = "-" if series.style == "line" else ""
    axes.plot(points.x, points.y, line, color=color, marker=marker, label=series.label)
    if len(points.low):
        axes.fill_between(points.x, points.low, points.high, color=color, alpha=0.25, linewidth=0)

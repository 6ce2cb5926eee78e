"""The paper's figures: tables of numbers, and charts with equal bytes for equal numbers."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import resources
from operator import itemgetter
from typing import Any, Literal

import polars as pl
import polars.selectors as cs

from equipoise.evaluation.plot import render
from equipoise.paper.measurements import ExperimentRunner, recorded_lightgcn
from equipoise.paper.protocol import (
    DATASETS,
    GROUPS,
    ITEM_WEIGHTED,
    LIGHTGCN,
    MODELS,
    NORMALIZED,
    PCA,
    USER_METRICS,
    USER_RANK,
    WEIGHTED_MF,
)
from equipoise.paper.theory.experiment import Experiment

Format = Literal["svg", "png"]
# More digits than any figure shows, fewer than differ between processors.
_DIGITS = 6

# The colors of Okabe and Ito are distinguishable with every kind of color blindness.
_BLACK, _ORANGE, _SKY, _GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
_YELLOW, _BLUE, _VERMILION, _PURPLE = "#F0E442", "#0072B2", "#D55E00", "#CC79A7"
_GREY = "#777777"

# Color, line and marker: curves differ without color too.
_LOOKS = {
    PCA: (_VERMILION, "--", "o"),
    NORMALIZED: (_GREEN, ":", "s"),
    ITEM_WEIGHTED: (_BLUE, "-", "^"),
    WEIGHTED_MF: (_PURPLE, "-.", "D"),
    LIGHTGCN: (_ORANGE, "--", "v"),
}
_ARTISTS = (_VERMILION, _ORANGE, _YELLOW, _GREEN, _SKY, _BLUE, _PURPLE, _BLACK)
_GROUP_COLORS = dict(zip(GROUPS, (_VERMILION, _BLUE, _GREEN), strict=True))


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of the paper: the numbers, and how to draw them.

    Attributes
    ----------
    name : str
        Used for files and on the command line, e.g. ``"fig2"``.
    title : str
        The heading.
    caption : str
        What the figure shows, in a sentence or two; also its alternative text.
    table : polars.DataFrame
        The numbers.
    draw : callable
        Draws the table onto an empty matplotlib figure.
    size : tuple of float
        Inches.
    """

    name: str
    title: str
    caption: str
    table: pl.DataFrame
    draw: Callable[[Any, pl.DataFrame], None]
    size: tuple[float, float]

    def render(self, file_format: Format) -> bytes:
        """Return the picture; equal tables give equal bytes."""
        style = resources.files("equipoise.paper") / "figures.mplstyle"
        with resources.as_file(style) as path:
            return render(
                lambda figure: self.draw(figure, self.table), self.size, file_format, path
            )


def _titled(
    name: str,
    table: pl.DataFrame,
    draw: Callable[[Any, pl.DataFrame], None],
    size: tuple[float, float],
) -> Figure:
    """Return a figure with its title and its caption in figures.toml."""
    text = (resources.files("equipoise.paper") / "figures.toml").read_text(encoding="utf-8")
    return Figure(name, **tomllib.loads(text)[name], table=table, draw=draw, size=size)


def figure_1(runner: ExperimentRunner) -> Figure:
    """PCA on LastFM: error by artist, components to half error, diagonal by popularity."""
    pca = runner.pca
    rows: list[tuple[str, str, float, float]] = []
    for name, errors in (*pca.artists.items(), ("overall", pca.overall)):
        rows += [("A", name, rank, error) for rank, error in enumerate(errors)]
    halves = zip(pca.item_norms, pca.components_to_half_error, strict=True)
    rows += [("B", "artist", norm, components) for norm, components in halves]
    for rule in ("interactions", "items"):
        for group, values in pca.diagonal[rule].items():
            every_fifth = range(0, len(values), 5)
            rows += [("C", f"{group}, by {rule}", rank, values[rank]) for rank in every_fifth]
    return _titled(
        "fig1", _table(rows, panel=str, curve=str, x=float, y=float), _draw_1, (12.0, 4.2)
    )


def _draw_1(canvas: Any, table: pl.DataFrame) -> None:
    left, middle, right = canvas.subplots(1, 3)
    below = {"fontsize": 7.5, "loc": "upper center", "bbox_to_anchor": (0.5, -0.17)}
    errors = table.filter(panel="A")
    artists = [name for name in errors["curve"].unique(maintain_order=True) if name != "overall"]
    looks = [*((name, color, "-") for name, color in zip(artists, _ARTISTS, strict=False))]
    for name, color, style in (*looks, ("overall", _GREY, ":")):
        curve = errors.filter(curve=name)
        left.plot(curve["x"], curve["y"], style, color=color, label=name)
    left.set(title="A: error by artist", xlabel="rank r", ylabel="normalized item error")
    # Popular artists fall within ten components, niche artists after a thousand.
    left.set_xscale("symlog", linthresh=1)
    left.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    left.legend(**below, ncols=3)
    dots = table.filter(panel="B")
    middle.scatter(dots["x"], dots["y"], s=5, color=_BLUE, alpha=0.4, linewidths=0)
    middle.set(title="B: components to half error", xlabel="popularity of the artist (norm)")
    middle.set(ylabel="components", xscale="log")
    for group, color in _GROUP_COLORS.items():
        for rule, style, cut in (
            ("interactions", "-", "by sum of values"),
            ("items", ":", "by tenths"),
        ):
            curve = table.filter(panel="C", curve=f"{group}, by {rule}")
            label = f"{group}, {cut}"
            right.plot(curve["x"], curve["y"], style, color=color, label=label)
    right.set(title="C: specialization by popularity", xlabel="rank r", ylabel="mean diagonal of P")
    right.legend(**below, ncols=2)


_GRID_COLUMNS = dict.fromkeys(("dataset", "metric", "group", "model"), str) | {
    "rank": int,
    "value": float,
}


#: The axes of each data set in a figure: metric, group, title and label.
_PANELS: dict[str, list[tuple[str, str, str, str]]] = {
    "fig2": [
        ("specialization", "all", "overall", "specialization"),
        *(("self_reconstruction", g, f"{g} items", "mean diagonal of P") for g in GROUPS),
    ],
    "fig3": [
        ("item_auc", "all", "overall", "item AUC-ROC"),
        ("item_auc", "niche", "niche items", "item AUC-ROC"),
        ("item_precision@20", "all", "overall", "item Precision@20"),
        ("item_precision@20", "niche", "niche items", "item Precision@20"),
    ],
    "fig4": [(m, "all", USER_METRICS[m], "") for m in ("recall@20", "ndcg@20")],
    "fig6": [(m, "all", title, "") for m, title in USER_METRICS.items()],
}


def _curves(name: str, runner: ExperimentRunner, panels: str | None = None) -> Figure:
    """Return curves over the rank in two rows: of a data set, in Figure 3 of a metric."""
    cells, rows = [], []
    for e in runner.evaluations:
        for metric, group, title, label in _PANELS[panels or name]:
            cells.append((e.dataset, metric, group, f"{e.title}: {title}", label))
            ranks = e.user_ranks if metric in USER_METRICS else e.item_ranks
            for model in MODELS:
                curve = zip(ranks, e.curve(metric, model, ranks, group), strict=True)
                rows += [(e.dataset, metric, group, model, rank, value) for rank, value in curve]
    if name == "fig3":
        cells.sort(key=itemgetter(1))
    size = (7.2, 5.4) if name == "fig4" else (12.0, 5.0)
    return _titled(name, _table(rows, **_GRID_COLUMNS), partial(_draw_curves, cells=cells), size)


def figure_7(runner: ExperimentRunner) -> Figure:
    """Item-Weighted PCA compared with Weighted MF and LightGCN."""
    ours = _curves("fig7", runner, panels="fig6")
    weighted_mf, lightgcn = runner.weighted_mf, recorded_lightgcn()
    others = [(WEIGHTED_MF, *one) for one in weighted_mf.items()] + [(LIGHTGCN, *lightgcn)]
    rows = [
        (dataset, metric, "all", model, rank, value)
        for model, dataset, curves in others
        for metric, curve in curves.items()
        for rank, value in curve.items()
    ]
    extra = _table(rows, **_GRID_COLUMNS)
    caption = ours.caption.format(
        left_out="" if weighted_mf else " (left out: implicit is not installed)",
        dataset=DATASETS[lightgcn[0]].title,
    )
    table = pl.concat([ours.table.filter(model=ITEM_WEIGHTED), extra])
    return replace(ours, caption=caption, table=table)


def figure_8(runner: ExperimentRunner) -> Figure:
    """Sensitivity to γ on MovieLens."""
    movielens = runner.movielens
    rows: list[tuple[float | None, str, float]] = [
        (gamma, ITEM_WEIGHTED, value) for gamma, value in sorted(runner.sweep["recall@20"].items())
    ]
    rows += [(None, m, movielens.value("recall@20", m, USER_RANK)) for m in (PCA, NORMALIZED)]
    return _titled(
        "fig8", _table(rows, gamma=float, model=str, **{"recall@20": float}), _draw_8, (5.4, 3.5)
    )


def _draw_8(canvas: Any, table: pl.DataFrame) -> None:
    axes = canvas.subplots()
    for model in (ITEM_WEIGHTED, PCA, NORMALIZED):
        color, style, marker = _LOOKS[model]
        curve = table.filter(model=model)
        if model == ITEM_WEIGHTED:
            x, y = curve["gamma"], curve["recall@20"]
            axes.plot(x, y, style, color=color, marker=marker, label=model)
        else:  # the baselines do not depend on γ
            axes.plot([-2, 0], [*curve["recall@20"]] * 2, style, color=color, label=model)
    axes.set(xlabel="γ", ylabel="Recall@20", title="MovieLens, r = 32")
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.37))


def _draw_curves(canvas: Any, table: pl.DataFrame, cells: Sequence[tuple[str, ...]]) -> None:
    grid = canvas.subplots(2, len(cells) // 2)
    for axes, (dataset, metric, group, title, label) in zip(grid.flat, cells, strict=True):
        shown = table.filter(dataset=dataset, metric=metric, group=group)
        for model in shown["model"].unique(maintain_order=True):
            curve, (color, style, marker) = shown.filter(model=model), _LOOKS[model]
            values = curve["value"].fill_null(float("nan"))  # a missing value is a gap
            axes.plot(curve["rank"], values, style, color=color, marker=marker, label=model)
        _rank_axis(axes)
        axes.set(title=title, ylabel=label)
        axes.set_ylim(bottom=0 if metric in USER_METRICS else None)
    _legend_below(canvas, grid[:, 0])


def _rank_axis(axes: Any) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    axes.set(xscale="log", xlabel="rank r")
    axes.xaxis.set_major_locator(FixedLocator([1, 4, 10, 32, 100, 300, 1000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")


def _legend_below(canvas: Any, panels: Iterable[Any]) -> None:
    """One legend with the curves of any of these panels."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found = dict(zip(labels, handles, strict=True)) | found
    canvas.legend(found.values(), found.keys(), loc="outside lower center", ncols=4)


#: The figures on real data; Figure 5 is an experiment of the theory.
FIGURES: dict[str, Callable[[ExperimentRunner], Figure]] = {
    "fig1": figure_1,
    **{name: partial(_curves, name) for name in _PANELS},
    "fig7": figure_7,
    "fig8": figure_8,
}


def figure_5(experiment: Experiment) -> Figure:
    """Figure 5 from the numbers of its experiment: once with linear, once with log axes."""
    caption = f"{experiment.findings[0].claim.what}."
    return Figure("fig5", experiment.title, caption, rounded(experiment.table), _draw_5, (8.4, 4.0))


def _draw_5(canvas: Any, table: pl.DataFrame) -> None:
    for axes, scale in zip(canvas.subplots(1, 2), ("linear", "log"), strict=True):
        axes.plot(table["n"], table["mean"], "-", color=_BLUE, marker="o", label="mean")
        label = "1st to 99th percentile"
        band = {"color": _BLUE, "alpha": 0.25, "linewidth": 0, "label": label}
        axes.fill_between(table["n"], table["p01"], table["p99"], **band)
        axes.set(title=f"{scale} axes", xlabel="number of users n", xscale=scale, yscale=scale)
        axes.set(ylabel="smallest squared singular value")
    _legend_below(canvas, [axes])


def _table(rows: Iterable[tuple[Any, ...]], **columns: type) -> pl.DataFrame:
    # With explicit types: polars would infer whole numbers from the first rows and cut the others.
    return rounded(pl.DataFrame(list(rows), schema=columns, orient="row"))


def rounded(table: pl.DataFrame) -> pl.DataFrame:
    """Round, without negative zeros; nan becomes null."""
    return table.with_columns(cs.float().fill_nan(None).round(_DIGITS) + 0.0)

"""Figures 1 to 4, 6 and 8: from measurements to tables, from tables to pictures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from equipoise.paper.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    LOOKS,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    Figure,
    Look,
    legend_below,
    line,
    rank_axis,
)
from equipoise.paper.measurements import Evaluation
from equipoise.paper.protocol import (
    DATASETS,
    GROUPS,
    ITEM_WEIGHTED,
    MODELS,
    NORMALIZED,
    PCA,
    USER_METRICS,
    USER_RANK,
)
from equipoise.paper.teaser import Teaser
from equipoise.paper.tidy import Tidy

_COLUMNS = ("dataset", "metric", "group", "model", "rank", "value")
_ARTISTS = (VERMILION, ORANGE, YELLOW, GREEN, SKY, BLUE, PURPLE, BLACK)
_GROUP_COLORS = dict(zip(GROUPS, (VERMILION, BLUE, GREEN), strict=True))
_STEP = 5  # ranks between two points of the smooth curves of Figure 1C
_PANEL = (3.0, 2.5)


def figure_1(teaser: Teaser) -> Figure:
    """PCA on LastFM: error by artist, components to halve it, diagonal by popularity."""
    rows: list[tuple[Any, ...]] = []
    for name, errors in (*teaser.artists.items(), ("overall", teaser.overall)):
        rows += [("A", name, rank, error) for rank, error in enumerate(errors)]
    rows += [("B", "artist", p, h) for p, h in zip(teaser.popularity, teaser.halving, strict=True)]
    for rule, groups in teaser.diagonal.items():
        for group, values in groups.items():
            every = range(0, len(values), _STEP)
            rows += [("C", f"{group}, by {rule}", rank, values[rank]) for rank in every]
    return Figure(
        "fig1",
        "Figure 1: unfairness of PCA on LastFM",
        "A: normalized error of eight artists falls sharply, each at its own rank, while the "
        "overall error (dotted) shows diminishing returns. B: the less popular an artist, the "
        "more components it takes to halve its error. C: the mean diagonal entry of the "
        "projection rises at once for popular artists and slowly for the others; solid lines are "
        "groups cut by mass, as in the published code, dotted ones tenths of the artists.",
        Tidy.of(("panel", "curve", "x", "y"), rows),
        _draw_1,
        (12.0, 4.2),
    )


def _draw_1(canvas: Any, table: Tidy) -> None:
    left, middle, right = canvas.subplots(1, 3)
    panel = table.where(panel="A")
    names = [name for name in dict.fromkeys(panel.column("curve")) if name != "overall"]
    for name, color in zip(names, _ARTISTS, strict=False):
        curve = panel.where(curve=name)
        line(left, curve.column("x"), curve.column("y"), name, Look(color))
    overall = panel.where(curve="overall")
    line(left, overall.column("x"), overall.column("y"), "overall", Look(GREY, ":"))
    left.set(title="A: error by artist", xlabel="rank r", ylabel="normalized item error")
    # hits fall within ten components and niche artists after a thousand
    left.set_xscale("symlog", linthresh=1)
    left.set_xticks([0, 1, 10, 100, 1000], ["0", "1", "10", "100", "1000"])
    left.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3)
    dots = table.where(panel="B")
    middle.scatter(dots.column("x"), dots.column("y"), s=5, color=BLUE, alpha=0.4, linewidths=0)
    middle.set(title="B: components to halve the error", xlabel="popularity of the artist (norm)")
    middle.set(ylabel="components", xscale="log")
    panel = table.where(panel="C")
    for group, color in _GROUP_COLORS.items():
        for rule, style in (("mass", "-"), ("items", ":")):
            curve = panel.where(curve=f"{group}, by {rule}")
            label = f"{group}, {'by mass' if rule == 'mass' else 'tenths of the artists'}"
            line(right, curve.column("x"), curve.column("y"), label, Look(color, style))
    right.set(title="C: specialization by popularity", xlabel="rank r", ylabel="mean diagonal of P")
    right.legend(fontsize=7.5, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=2)


def figure_2(evaluations: Sequence[Evaluation]) -> Figure:
    """Specialization: overall and by popularity."""
    rows = []
    for e in evaluations:
        rows += list(_curves(e, "specialization", "all", e.item_ranks))
        for group in GROUPS:
            rows += list(_curves(e, "diagonal", group, e.item_ranks))
    return Figure(
        "fig2",
        "Figure 2: Item-Weighted PCA reduces specialization",
        "Specialization (left) and mean diagonal entry of P for items of high, medium and low "
        "popularity, over the rank. Item-Weighted PCA lies between PCA and Normalized PCA, most "
        "visibly for popular items. Groups cut by mass.",
        Tidy.of(_COLUMNS, rows),
        _draw_2,
        (4 * _PANEL[0], 2 * _PANEL[1]),
    )


def _draw_2(canvas: Any, table: Tidy) -> None:
    panels = [("specialization", "all"), *(("diagonal", group) for group in GROUPS)]
    grid = canvas.subplots(2, 4, squeeze=False)
    for row, dataset in zip(grid, DATASETS, strict=True):
        for axes, (metric, group) in zip(row, panels, strict=True):
            _draw_curves(axes, table.where(dataset=dataset, metric=metric, group=group))
            shown = "overall" if group == "all" else f"{group} popularity"
            label = "specialization" if group == "all" else "mean diagonal of P"
            axes.set(title=f"{DATASETS[dataset].title}: {shown}", ylabel=label)
    legend_below(canvas, grid[0][0])


def figure_3(evaluations: Sequence[Evaluation]) -> Figure:
    """In-sample item AUC and precision: overall and for unpopular items."""
    rows = []
    for metric in ("item_auc", "item_precision@20"):
        for e in evaluations:
            for group in ("all", "low"):
                rows += list(_curves(e, metric, group, e.item_ranks))
    return Figure(
        "fig3",
        "Figure 3: Item-Weighted PCA increases collaboration",
        "In-sample item AUC-ROC (top) and item Precision@20 (bottom) with the diagonal of P set "
        "to zero, over all items and over those of low popularity. Item-Weighted PCA lies between "
        "the baselines at low rank, but for AUC on MovieLens; all curves fall at high rank.",
        Tidy.of(_COLUMNS, rows),
        _draw_3,
        (4 * _PANEL[0], 2 * _PANEL[1]),
    )


def _draw_3(canvas: Any, table: Tidy) -> None:
    grid = canvas.subplots(2, 4, squeeze=False)
    names = {"item_auc": "item AUC-ROC", "item_precision@20": "item Precision@20"}
    for row, (metric, name) in zip(grid, names.items(), strict=True):
        panels = ((dataset, group) for dataset in DATASETS for group in ("all", "low"))
        for axes, (dataset, group) in zip(row, panels, strict=True):
            _draw_curves(axes, table.where(dataset=dataset, metric=metric, group=group))
            shown = "overall" if group == "all" else "low"
            axes.set(title=f"{DATASETS[dataset].title}: {shown}", ylabel=name)
    legend_below(canvas, grid[0][0])


def figure_4(evaluations: Sequence[Evaluation]) -> Figure:
    """Recall and NDCG on held-out interactions."""
    metrics = ("recall@20", "ndcg@20")
    return Figure(
        "fig4",
        "Figure 4: recommendations for users",
        "Recall@20 and NDCG@20 on held-out interactions over the rank. Item-Weighted PCA has the "
        "highest peak, but for Recall@20 on LastFM, where Normalized PCA is higher by 0.0004.",
        user_table(evaluations, metrics),
        lambda canvas, table: draw_users(canvas, table, metrics),
        (2 * 3.6, 2 * 2.7),
    )


def figure_6(evaluations: Sequence[Evaluation]) -> Figure:
    """All four user metrics."""
    metrics = tuple(USER_METRICS)
    return Figure(
        "fig6",
        "Figure 6: all user metrics",
        "Recall, Precision, NDCG and MRR at 20 on held-out interactions over the rank, for LastFM "
        "(top) and MovieLens (bottom).",
        user_table(evaluations, metrics),
        lambda canvas, table: draw_users(canvas, table, metrics),
        (4 * _PANEL[0], 2 * _PANEL[1]),
    )


def figure_8(sweep: dict[str, dict[float, float]], movielens: Evaluation) -> Figure:
    """Sensitivity to γ on MovieLens."""
    rows: list[tuple[Any, ...]] = [
        (gamma, ITEM_WEIGHTED, value) for gamma, value in sorted(sweep["recall@20"].items())
    ]
    baselines = (PCA, NORMALIZED)
    rows += [(None, m, movielens.value("recall@20", m, USER_RANK)) for m in baselines]
    return Figure(
        "fig8",
        "Figure 8: sensitivity to γ",
        "Recall@20 of Item-Weighted PCA on MovieLens at r = 32 for γ from -2 to 0: highest at "
        "γ = -1, equal to PCA at γ = 0, different from Normalized PCA at γ = -2.",
        Tidy.of(("gamma", "model", "recall@20"), rows),
        _draw_8,
        (5.4, 3.5),
    )


def _draw_8(canvas: Any, table: Tidy) -> None:
    axes = canvas.subplots()
    ours = table.where(model=ITEM_WEIGHTED)
    line(axes, ours.column("gamma"), ours.column("recall@20"), ITEM_WEIGHTED, LOOKS[ITEM_WEIGHTED])
    for model in (PCA, NORMALIZED):
        value = table.where(model=model).column("recall@20")[0]
        line(axes, [-2, 0], [value, value], model, LOOKS[model]._replace(marker=""))
    axes.set(xlabel="γ", ylabel="Recall@20", title="MovieLens, r = 32")
    axes.legend(loc="center right", bbox_to_anchor=(1.0, 0.37))


def user_table(evaluations: Iterable[Evaluation], metrics: Sequence[str]) -> Tidy:
    """User metrics of the three models over the ranks."""
    rows = [
        row
        for e in evaluations
        for metric in metrics
        for row in _curves(e, metric, "all", e.user_ranks)
    ]
    return Tidy.of(_COLUMNS, rows)


def draw_users(canvas: Any, table: Tidy, metrics: Sequence[str]) -> None:
    """A row for each data set, a column for each metric."""
    grid = canvas.subplots(2, len(metrics), squeeze=False)
    for row, dataset in zip(grid, DATASETS, strict=True):
        for axes, metric in zip(row, metrics, strict=True):
            _draw_curves(axes, table.where(dataset=dataset, metric=metric))
            axes.set_title(f"{DATASETS[dataset].title}: {USER_METRICS[metric]}")
            axes.set_ylim(bottom=0)
    legend_below(canvas, *grid[:, 0])


def _curves(
    evaluation: Evaluation, metric: str, group: str, ranks: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    for model in MODELS:
        for rank, value in zip(ranks, evaluation.curve(metric, model, ranks, group), strict=True):
            yield (evaluation.dataset, metric, group, model, rank, value)


def _draw_curves(axes: Any, table: Tidy) -> None:
    for model in dict.fromkeys(table.column("model")):
        curve = table.where(model=model)
        line(axes, curve.column("rank"), curve.column("value"), model, LOOKS[model])
    rank_axis(axes)

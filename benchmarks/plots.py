"""What a benchmark found, drawn: lines over sizes, and accuracy against what it costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any

Point = tuple[str | float, float]


@dataclass(frozen=True)
class Plot:
    """Lines of points, one color per method; logarithmic, because what counts are ratios.

    Attributes
    ----------
    title : str
        What is seen.
    x, y : str
        Names of the axes.
    series : mapping of str to sequence of (x, y)
        The points of every method. Where x is text, places in the order of their appearance, and
        the points are not joined.
    """

    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[Point]]

    @classmethod
    def of(
        cls, title: str, cells: Iterable[Mapping[str, Any]], *, by: str, x: str, y: str, unit: str
    ) -> Plot:
        """Draw field `y` of the cells over field `x`, one color per value of field `by`."""
        series: dict[str, list[Point]] = {}
        for cell in cells:
            if cell[y] is not None:
                series.setdefault(str(cell[by]), []).append((cell[x], cell[y]))
        return cls(title, "", unit, series)

    def png(self) -> bytes:
        """Draw it."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        points = [point for line in self.series.values() for point in line]
        names = list(dict.fromkeys(x for x, _ in points if isinstance(x, str)))
        figure, axes = plt.subplots(figsize=(max(6.0, 0.7 * len(names) + 2), 4.0))
        for name, line in self.series.items():
            places = [names.index(x) if isinstance(x, str) else x for x, _ in line]
            joined = "" if names else "-"
            axes.plot(places, [y for _, y in line], f"o{joined}", label=name, alpha=0.85)
        if names:
            axes.set_xticks(range(len(names)), names, rotation=35, ha="right")
        else:
            axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set(title=self.title, xlabel=self.x, ylabel=self.y)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(fontsize="small")
        drawn = BytesIO()
        figure.savefig(drawn, dpi=110, bbox_inches="tight")
        plt.close(figure)
        return drawn.getvalue()


def undominated(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the points that no other one exceeds in both coordinates, from left to right."""
    found: list[tuple[float, float]] = []
    for x, y in sorted(set(points), reverse=True):
        if not found or y > found[-1][1]:
            found.append((x, y))
    return found[::-1]


@dataclass(frozen=True)
class Frontiers:
    """Accuracy against other goals: one row of panels per data set, one color per model.

    A line joins the points of a model that no other of its points exceeds in both; those that
    are exceeded are pale.

    Attributes
    ----------
    y : str
        Name of the accuracy.
    panels : mapping of str to mapping of str to mapping of str to sequence of (x, y)
        By data set, name of the x axis, and model. Panels without points are left empty.
    """

    y: str
    panels: Mapping[str, Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]]

    def png(self) -> bytes:
        """Draw it."""
        import matplotlib as mpl

        mpl.use("Agg")
        from matplotlib import pyplot as plt

        columns = list(dict.fromkeys(x for row in self.panels.values() for x in row))
        models = dict.fromkeys(
            m for row in self.panels.values() for one in row.values() for m in one
        )
        colors = {model: f"C{number}" for number, model in enumerate(models)}
        size = (3.6 * len(columns), 3.0 * len(self.panels))
        figure, grid = plt.subplots(len(self.panels), len(columns), figsize=size, squeeze=False)
        for axes_of_row, (title, row) in zip(grid, self.panels.items(), strict=True):
            for axes, x in zip(axes_of_row, columns, strict=True):
                for model, points in row.get(x, {}).items():
                    axes.plot(
                        *zip(*points, strict=True), "o", color=colors[model], ms=3, alpha=0.25
                    )
                    best = undominated(points)
                    axes.plot(
                        *zip(*best, strict=True), "o-", color=colors[model], ms=4, label=model
                    )
                axes.set(xlabel=x, ylabel=self.y if x == columns[0] else "")
                axes.grid(visible=True, alpha=0.3)
            axes_of_row[0].set_title(title, loc="left")
        lines = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
        shown = [lines[model] for model in models]
        figure.legend(shown, [*models], loc="lower center", ncols=5, fontsize="small")
        figure.tight_layout(rect=(0, 0.3 / size[1], 1, 1))
        drawn = BytesIO()
        figure.savefig(drawn, dpi=110)
        plt.close(figure)
        return drawn.getvalue()

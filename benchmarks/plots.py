"""What a benchmark found, drawn: one kind of picture for all of them."""

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

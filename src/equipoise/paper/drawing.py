"""Pictures with equal bytes for equal numbers. Needs the extra `plot`."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from equipoise.exceptions import require_extra
from equipoise.paper.protocol import ITEM_WEIGHTED, NORMALIZED, PCA
from equipoise.paper.tidy import Tidy

# Raised when the same numbers would be drawn differently.
STYLE = 1

Format = Literal["svg", "png"]
# Neither the date nor the version of matplotlib goes into a file.
_SAVING: dict[Format, dict[str, Any]] = {
    "svg": {"metadata": {"Date": None, "Creator": None}},
    "png": {"metadata": {"Software": None}, "pil_kwargs": {"optimize": True}},
}
_DPI = 80

# Okabe and Ito's colours: told apart with every kind of colour blindness.
BLACK, ORANGE, SKY, GREEN = "#000000", "#E69F00", "#56B4E9", "#009E73"
YELLOW, BLUE, VERMILION, PURPLE, GREY = "#F0E442", "#0072B2", "#D55E00", "#CC79A7", "#777777"

_RC: Any = {
    "axes.grid": True,
    "axes.labelsize": 10,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlesize": 10.5,
    "figure.dpi": _DPI,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.6,
    "lines.markersize": 3.6,
    "svg.fonttype": "path",
    "svg.hashsalt": "equipoise",
}


class Look(NamedTuple):
    """How one curve looks; line and marker tell curves apart without colour."""

    color: str
    line: str = "-"
    marker: str = ""


LOOKS = {
    PCA: Look(VERMILION, "--", "o"),
    NORMALIZED: Look(GREEN, ":", "s"),
    ITEM_WEIGHTED: Look(BLUE, "-", "^"),
    "Weighted MF": Look(PURPLE, "-.", "D"),
    "LightGCN": Look(ORANGE, "--", "v"),
}


@dataclass(frozen=True, eq=False)
class Figure:
    """A figure of the paper: the numbers, and how to draw them.

    Attributes
    ----------
    name : str
        For files and the command line, e.g. ``"fig2"``.
    title : str
        For a heading.
    caption : str
        What is seen, in a sentence or two; also the text of the picture for those who cannot see
        it.
    table : Tidy
        The numbers.
    draw : callable
        Draws the table onto an empty matplotlib figure.
    size : tuple of float
        Inches.
    """

    name: str
    title: str
    caption: str
    table: Tidy
    draw: Callable[[Any, Tidy], None]
    size: tuple[float, float]

    def render(self, file_format: Format) -> bytes:
        """Return the picture; equal tables give equal bytes."""
        require_extra("matplotlib", "plot", "drawing the paper's figures")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas

        content = io.BytesIO()
        with _style():
            canvas = Canvas(figsize=self.size, layout="constrained")
            FigureCanvasAgg(canvas)
            self.draw(canvas, self.table)
            canvas.savefig(content, format=file_format, **_SAVING[file_format])
        return content.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    """Our settings and no one else's: a reader's matplotlibrc must not change the bytes."""
    import matplotlib

    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(_RC)
        yield


def line(axes: Any, x: Sequence[Any], y: Sequence[Any], label: str, look: Look) -> None:
    """One curve; a value that is not known is a gap."""
    known = [float("nan") if value is None else value for value in y]
    axes.plot(x, known, look.line, color=look.color, marker=look.marker, label=label)


def legend_below(canvas: Any, *panels: Any, columns: int = 4) -> None:
    """One legend for all panels, of the curves that any of these has."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, labels = axes.get_legend_handles_labels()
        found = dict(zip(labels, handles, strict=True)) | found
    canvas.legend(found.values(), found.keys(), loc="outside lower center", ncols=columns)


def rank_axis(axes: Any) -> None:
    """Ranks on a logarithmic axis, written as plain numbers."""
    from matplotlib.ticker import FixedLocator, NullLocator, ScalarFormatter

    axes.set_xscale("log")
    axes.xaxis.set_major_locator(FixedLocator([1, 4, 10, 32, 100, 300, 1000]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.set_xlabel("rank r")

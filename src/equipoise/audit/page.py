"""A comparison as one self-contained HTML page: no script, no request, names escaped."""

from __future__ import annotations

from html import escape
from string import Template
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.comparison import GLOSSARY, NORMALIZED, PCA, WEIGHTED, Comparison

_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>equipoise: who is served by the components</title>
<style>
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --paper: #fff; --rule: #d9dee4;
  --pca: #b5471b; --ours: #0b6e99; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #9aa6b2; --paper: #14181d;
  --rule: #333c46; --pca: #ff9d6b; --ours: #5cc1ec; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 58rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .2rem; }
h2 { margin-top: 2.2rem; }
.soft { color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 1.4rem 0;
  font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .7rem; text-align: right; border-bottom: 1px solid var(--rule); }
th:first-child { text-align: left; font-weight: 400; }
thead th, thead th:first-child { font-weight: 600; vertical-align: bottom; }
svg { width: 100%; height: auto; }
svg text { fill: var(--soft); font-size: 12px; }
svg line { stroke: var(--rule); }
.pca { fill: var(--pca); } .ours { fill: var(--ours); }
circle { opacity: .55; } circle:hover { opacity: 1; stroke: var(--ink); }
.key { display: inline-block; width: .8rem; height: .8rem; border-radius: 50%;
  margin: 0 .35rem 0 1rem; }
</style>
<h1>$headline</h1>
<p class="soft">$portrait</p>
<p>$words</p>
<div class="scroll"><table>
<thead><tr>$head</tr></thead>
<tbody>
$rows
</tbody>
</table></div>
<p class="soft">$glossary</p>
<p class="soft">Each dot below is an item. Point at it for its name.
<span class="key" style="background: var(--pca)"></span>PCA
<span class="key" style="background: var(--ours)"></span>Item-Weighted PCA</p>
<h2>Hits are memorised</h2>
<p class="soft">How much of an item is rebuilt from that item alone (its entry on the diagonal of
the projector): 1 is a component of its own.</p>
$memorised
<h2>Niche items wait</h2>
<p class="soft">How many components it takes until half of an item is rebuilt.</p>
$waiting
</html>
""")

_WIDTH, _HEIGHT, _MARGIN = 860, 360, 52


class Line(NamedTuple):
    """One line of the table: what was measured, and the number of each model."""

    title: str
    values: tuple[str, ...]


def table(comparison: Comparison) -> list[Line]:
    """The comparison as lines of text: one for each measure, a value for each model."""
    models, groups = comparison.models, comparison.group_sizes
    lines = [Line("specialization", tuple(f"{m.specialization:.3f}" for m in models))]
    lines += [
        Line(f"rebuilt from itself, {g}", tuple(f"{m.diagonal[g]:.3f}" for m in models))
        for g in groups
    ]
    lines += [
        Line(f"error halved after, {g}", tuple(f"{m.halving[g]:.0f}" for m in models))
        for g in groups
    ]
    lines += [
        Line("item AUC from other items, low", tuple(f"{m.auc['low']:.3f}" for m in models)),
        Line(f"Recall@{comparison.k}", tuple(f"{m.recall:.3f}" for m in models)),
    ]
    return lines


def portrait(comparison: Comparison) -> str:
    """What was compared, in one line."""
    groups = ", ".join(f"{size} {name}" for name, size in comparison.group_sizes.items())
    return (
        f"{comparison.n_users:,} users × {comparison.n_items:,} items, "
        f"{comparison.n_interactions:,} interactions; models of rank {comparison.rank}; "
        f"popularity groups by mass: {groups}."
    )


def render(comparison: Comparison, title: str = "") -> str:
    """Return the page; equal comparisons give equal text.

    Parameters
    ----------
    comparison : Comparison
        What was measured.
    title : str
        What the data are, for the reader.
    """
    pca, ours = comparison[PCA], comparison[WEIGHTED]
    headline = (
        f"Specialization {pca.specialization:.3f} under PCA, {ours.specialization:.3f} with item "
        f"weights; Recall@{comparison.k} {pca.recall:.3f} and {ours.recall:.3f}"
    )
    models = comparison.models
    return _PAGE.substitute(
        headline=escape(headline),
        portrait=escape(f"{title} {portrait(comparison)}".strip()),
        words=escape(comparison.in_words()),
        glossary=escape(GLOSSARY),
        head="".join(f'<th scope="col">{escape(t)}</th>' for t in ("", *(m.name for m in models))),
        rows="\n".join(_row(line) for line in table(comparison)),
        memorised=_scatter(comparison, [m.diagonal_by_item for m in models], "{:.2f}"),
        waiting=_scatter(comparison, [m.halving_by_item for m in models], "{:.0f}"),
    )


def _row(line: Line) -> str:
    values = "".join(f"<td>{escape(value)}</td>" for value in line.values)
    return f'<tr><th scope="row">{escape(line.title)}</th>{values}</tr>'


def _scatter(comparison: Comparison, by_model: list[NDArray[np.float64]], form: str) -> str:
    """A number of each item against its popularity, for PCA and Item-Weighted PCA."""
    shown = np.flatnonzero(comparison.popularity > 0)
    x = np.log10(comparison.popularity[shown])
    low, high = float(x.min()), float(x.max())
    left = _MARGIN + (x - low) / max(high - low, 1e-9) * (_WIDTH - 2 * _MARGIN)
    most = max(float(np.nanmax(values)) for values in by_model)
    dots = []
    for model, values in zip(comparison.models, by_model, strict=True):
        if model.name == NORMALIZED:
            continue
        style = "ours" if model.name == WEIGHTED else "pca"
        top = _HEIGHT - _MARGIN - values[shown] / most * (_HEIGHT - 2 * _MARGIN)
        dots += [
            f'<circle class="{style}" cx="{cx:.1f}" cy="{cy:.1f}" r="3.2"><title>'
            f"{escape(str(comparison.item_names[j]))}: {form.format(values[j])} ({model.name})"
            "</title></circle>"
            for j, cx, cy in zip(shown, left, top, strict=True)
        ]
    label = "One dot an item: the number above against the item's popularity"
    start = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(label)}">'
    return "\n".join([start, *_axes(low, high, most, form), *dots, "</svg>"])


def _axes(low: float, high: float, most: float, form: str) -> list[str]:
    bottom, right = _HEIGHT - _MARGIN, _WIDTH - _MARGIN
    lines = [
        f'<line x1="{_MARGIN}" y1="{bottom}" x2="{right}" y2="{bottom}"/>',
        f'<line x1="{_MARGIN}" y1="{_MARGIN}" x2="{_MARGIN}" y2="{bottom}"/>',
        f'<text x="{_WIDTH / 2:.0f}" y="{_HEIGHT - 10}" text-anchor="middle">'
        "popularity (norm of the item's column, log scale)</text>",
    ]
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * (bottom - _MARGIN) + 4
        x = _MARGIN + share * (right - _MARGIN)
        mark, popularity = form.format(share * most), 10 ** (low + share * (high - low))
        lines += [
            f'<text x="{_MARGIN - 8}" y="{y:.0f}" text-anchor="end">{mark}</text>',
            f'<text x="{x:.0f}" y="{bottom + 20}" text-anchor="middle">{popularity:.2g}</text>',
        ]
    return lines

"""A reproduction as one self-contained HTML page: no script, no request, everything escaped."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from html import escape
from string import Template
from typing import Any

from equipoise.paper.gallery import Hung
from equipoise.paper.judging import show
from equipoise.paper.report import Reproduction
from equipoise.paper.settings import settings, versions
from equipoise.paper.tidy import Tidy
from equipoise.paper.verdicts import Finding, Verdict

_MARKS = {
    Verdict.REPRODUCED: ("yes", "✓ reproduced"),
    Verdict.BY_CODE_ONLY: ("code", "≈ by the published code only"),
    Verdict.NOT_REPRODUCED: ("no", "✗ not reproduced"),
}

_PAGE = Template("""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<title>equipoise: the paper, reproduced</title>
<style>
:root { color-scheme: light dark; --ink: #1d2733; --soft: #5b6775; --paper: #fff; --rule: #d9dee4;
  --yes: #00664b; --code: #8a5a00; --no: #a33a00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaef; --soft: #9aa6b2; --paper: #14181d;
  --rule: #333c46; --yes: #4cc9a4; --code: #f0b429; --no: #ff9d6b; } }
body { font: 16px/1.55 system-ui, sans-serif; color: var(--ink); background: var(--paper);
  max-width: 76rem; margin: 2.5rem auto; padding: 0 1.2rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin-bottom: .2rem; }
h2 { margin-top: 2.4rem; } h3 { margin-bottom: .3rem; }
.soft { color: var(--soft); } .scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; margin: 1rem 0; font-size: .9rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .6rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--rule); }
th { font-weight: 600; } td small { color: var(--soft); display: block; }
.yes { color: var(--yes); } .code { color: var(--code); } .no { color: var(--no); }
.lost { outline: 2px solid var(--no); }
figure { margin: 1.6rem 0; } img { max-width: 100%; height: auto; background: #fff; }
figcaption { color: var(--soft); font-size: .9rem; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem 0; overflow-wrap: anywhere; }
</style>
<h1>$headline</h1>
<p class="soft">David Liu, Jackie Baek and Tina Eliassi-Rad, “When Collaborative Filtering is not
Collaborative: Unfairness of PCA for Recommendations”, measured again with an exact solver.</p>
$told
$verdicts
$figures
$tables
$settings
</html>
""")


def render(reproduction: Reproduction) -> str:
    """Return the page; equal reproductions give equal text."""
    return _PAGE.substitute(
        headline=escape(headline(reproduction)),
        told=_told(reproduction),
        verdicts=_verdicts(reproduction.findings),
        figures=_section("Figures", "".join(map(_figure, reproduction.figures))),
        tables=_section("Tables", "".join(_titled(t.title, t.table) for t in reproduction.tables)),
        settings=_settings(reproduction),
    )


def headline(reproduction: Reproduction) -> str:
    """The result in one line."""
    counts = {verdict: reproduction.count(verdict) for verdict in Verdict}
    words = (
        f"Of {len(reproduction.findings)} claims {counts[Verdict.REPRODUCED]} are reproduced, "
        f"{counts[Verdict.BY_CODE_ONLY]} by the published code's definition only, "
        f"{counts[Verdict.NOT_REPRODUCED]} are not"
    )
    if not reproduction.findings:
        return "Figures and tables of the paper"
    return words + (f"; {len(reproduction.lost)} LOST" if reproduction.lost else "")


def _told(reproduction: Reproduction) -> str:
    lists = (
        ("What to know before quoting the paper", reproduction.headlines),
        ("Left out", reproduction.missing),
    )
    return "".join(
        _section(title, f"<ul>{''.join(f'<li>{escape(item)}</li>' for item in items)}</ul>")
        for title, items in lists
        if items
    )


def _verdicts(findings: Iterable[Finding]) -> str:
    head = "".join(
        f'<th scope="col">{escape(title)}</th>'
        for title in ("claim", "where", "published", "measured", "verdict")
    )
    rows = "\n".join(map(_row, findings))
    if not rows:
        return ""
    table = f"<table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}\n</tbody>\n</table>"
    return _section("Claims", f'<div class="scroll">{table}</div>')


def _row(finding: Finding) -> str:
    claim, (style, mark) = finding.claim, _MARKS[finding.verdict]
    lost = " · LOST: it used to be" if finding.lost else ""
    note = f"<small>{escape(finding.note)}</small>" if finding.note else ""
    cells = (
        f"<td>{escape(claim.what)}<small>{escape(claim.id)}: {escape(claim.how)}</small></td>",
        f"<td>{escape(claim.where)}</td>",
        f"<td>{escape(show(claim.published))}</td>",
        f"<td>{escape(show(finding.measured))}{note}</td>",
        f'<td class="{style}">{escape(mark + lost)}</td>',
    )
    opening = '<tr class="lost">' if finding.lost else "<tr>"
    return f"{opening}{''.join(cells)}</tr>"


def _figure(hung: Hung) -> str:
    figure = hung.figure
    picture = '<p class="soft">No picture without matplotlib.</p>'
    if hung.svg:
        content = base64.b64encode(hung.svg).decode("ascii")
        picture = f'<img alt="{escape(figure.caption)}" src="data:image/svg+xml;base64,{content}">'
    caption = f"{escape(figure.caption)} Numbers: figures/{escape(figure.name)}.csv"
    return (
        f'<figure id="{escape(figure.name)}"><h3>{escape(figure.title)}</h3>\n{picture}\n'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _titled(title: str, table: Tidy) -> str:
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in table.columns)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(_cell(cell))}</td>" for cell in row) + "</tr>"
        for row in table.rows
    )
    return f"<h3>{escape(title)}</h3>\n<table><thead><tr>{head}</tr></thead>\n{rows}</table>\n"


def _settings(reproduction: Reproduction) -> str:
    blocks: dict[str, dict[str, Any]] = {
        "Settings": settings(quick=reproduction.quick),
        "Versions": versions(),
        "Data (SHA-256 of matrix and ids)": reproduction.data,
    }
    return "".join(_section(title, _pairs(pairs)) for title, pairs in blocks.items() if pairs)


def _pairs(pairs: dict[str, Any]) -> str:
    items = (f"<dt>{escape(k)}</dt><dd>{escape(_cell(v))}</dd>" for k, v in pairs.items())
    return f"<dl>{''.join(items)}</dl>"


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_cell(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool):
        return show(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _section(title: str, content: str) -> str:
    return f"<h2>{escape(title)}</h2>\n{content}\n" if content else ""

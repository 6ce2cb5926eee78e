"""The result of a reproduction, and its rendering as JSON, Markdown and one HTML page."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import resources
from importlib.metadata import PackageNotFoundError, version
from string import Template
from typing import Any, NamedTuple

from equipoise import __version__
from equipoise.data.split import PAPER_SEED
from equipoise.paper.figures import Figure
from equipoise.paper.protocol import DATASETS, GAMMAS, USER_METRICS, item_ranks, user_ranks
from equipoise.paper.tables import PaperTable
from equipoise.paper.verdicts import Finding, Verdict, show, show_measured

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib", "cvxpy", "implicit")
_CLAIM_COLUMNS = ("claim", "where", "published", "measured", "verdict")


class SavedFigure(NamedTuple):
    """A figure and its SVG, which is empty without matplotlib."""

    figure: Figure
    svg: bytes


@dataclass
class Reproduction:
    """The result of `equipoise.paper.reproduction.run`.

    Attributes
    ----------
    quick : bool
        Whether it was a quick run.
    findings : list of Finding
        The claims with their verdicts.
    headlines : list of str
        Where text, published code and exact optimum differ.
    figures : list of SavedFigure
        In the order of the paper, then the theory.
    tables : list of PaperTable
        In the order of the paper.
    missing : list of str
        Requested parts that were not made, each with the reason and what to do.
    data : dict of str to str
        Data set -> SHA-256 of its matrix and ids.
    """

    quick: bool = False
    findings: list[Finding] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)
    figures: list[SavedFigure] = field(default_factory=list)
    tables: list[PaperTable] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    data: dict[str, str] = field(default_factory=dict)

    @property
    def lost(self) -> list[Finding]:
        """Claims that used to be reproduced and no longer are."""
        return [finding for finding in self.findings if finding.lost]

    def count(self, verdict: Verdict) -> int:
        """Number of claims with this verdict."""
        return sum(finding.verdict is verdict for finding in self.findings)

    def headline(self) -> str:
        """The result in one line."""
        if not self.findings:
            return "Figures and tables of the paper"
        reproduced, by_code, failed = map(self.count, Verdict)
        return (
            f"Of {len(self.findings)} claims {reproduced} are reproduced, {by_code} by the "
            f"published code's definition only, {failed} are not"
            f"{f'; {len(self.lost)} LOST' if self.lost else ''}"
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; equal measurements give equal text."""
        return {
            "summary": {
                "claims": len(self.findings),
                **{verdict.name.lower(): self.count(verdict) for verdict in Verdict},
                "lost": [finding.claim.id for finding in self.lost],
            },
            "headlines": self.headlines,
            "findings": [finding.as_dict() for finding in self.findings],
            "figures": [saved.figure.name for saved in self.figures],
            "tables": [table.name for table in self.tables],
            "missing": self.missing,
            "settings": _settings(quick=self.quick),
            "versions": _versions(),
            "data": self.data,
        }

    def claims_markdown(self) -> str:
        """The claims as a Markdown table."""
        rows = (
            (
                finding.claim.what,
                finding.claim.where,
                show(finding.claim.published),
                show_measured(finding),
                f"{finding.verdict}{' (LOST)' if finding.lost else ''}",
            )
            for finding in self.findings
        )
        return markdown_table(_CLAIM_COLUMNS, rows)


def _settings(*, quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "split": f"of each user's items a fifth is test, a tenth validation; seed {PAPER_SEED}",
        "fit": "train + validation, float64, eigenvector residuals below 1e-8",
        "in-sample ranks": {
            data.title: list(item_ranks(data.n_items, quick=quick)) for data in DATASETS.values()
        },
        "out-of-sample ranks": {
            data.title: list(user_ranks(data.n_items)) for data in DATASETS.values()
        },
        "out-of-sample metrics": list(USER_METRICS),
        "users without test items": "count 0",
        "popularity groups": "by the sum of values at 10 % and 90 % (published code); tenths of "
        "the items by norm (text) where both are shown",
        "gammas": list(GAMMAS),
    }


def _versions() -> dict[str, str]:
    found = {"equipoise": __version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found


def markdown_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    r"""Format rows as a Markdown table.

    Examples
    --------
    >>> print(markdown_table(["a", "b"], [(1000, "x|y")]))
    | a | b |
    | --- | --- |
    | 1,000 | x\|y |
    """
    lines = [columns, ["---"] * len(columns), *rows]
    cells = ([_cell(cell).replace("|", "\\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def _cell(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{name}: {_cell(part)}" for name, part in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    if isinstance(value, bool):
        return show(value)
    return f"{value:,}" if isinstance(value, int) else str(value)


_MARKS = {
    Verdict.REPRODUCED: ("yes", "✓ reproduced"),
    Verdict.BY_CODE_ONLY: ("code", "≈ by the published code only"),
    Verdict.NOT_REPRODUCED: ("no", "✗ not reproduced"),
}


def render_html(reproduction: Reproduction) -> str:
    """Return one self-contained page without scripts or requests; everything is escaped."""
    claims = [_claim_cells(finding) for finding in reproduction.findings]
    sections = {
        "Know before you quote the paper": _list(reproduction.headlines),
        "Left out": _list(reproduction.missing),
        "Claims": _html_table(_CLAIM_COLUMNS, claims) if claims else "",
        "Figures": "".join(map(_figure, reproduction.figures)),
        "Tables": "".join(map(_paper_table, reproduction.tables)),
        "Settings": _pairs(_settings(quick=reproduction.quick)),
        "Versions": _pairs(_versions()),
        "Data (SHA-256 of matrix and ids)": _pairs(reproduction.data),
    }
    page = (resources.files("equipoise.paper") / "report.html").read_text(encoding="utf-8")
    return Template(page).substitute(
        headline=escape(reproduction.headline()),
        sections="\n".join(f"<h2>{title}</h2>\n{text}" for title, text in sections.items() if text),
    )


def _list(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _pairs(pairs: dict[str, Any]) -> str:
    items = (f"<dt>{escape(k)}</dt><dd>{escape(_cell(v))}</dd>" for k, v in pairs.items())
    return f"<dl>{''.join(items)}</dl>" if pairs else ""


def _html_table(columns: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table whose cells are HTML already."""
    head = "".join(f'<th scope="col">{escape(column)}</th>' for column in columns)
    body = "\n".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n{body}</table></div>\n'


def _claim_cells(finding: Finding) -> tuple[str, ...]:
    claim, (style, mark) = finding.claim, _MARKS[finding.verdict]
    lost = " · LOST: it used to be" if finding.lost else ""
    note = f"<small>{escape(finding.note)}</small>" if finding.note else ""
    return (
        f"{escape(claim.what)}<small>{escape(claim.id)}: {escape(claim.how)}</small>",
        escape(claim.where),
        escape(show(claim.published)),
        f"{escape(show(finding.measured))}{note}",
        f'<span class="{style}">{escape(mark + lost)}</span>',
    )


def _figure(saved: SavedFigure) -> str:
    figure, picture = saved.figure, '<p class="soft">Not drawn: matplotlib is not installed.</p>'
    if saved.svg:
        content = base64.b64encode(saved.svg).decode("ascii")
        picture = f'<img alt="{escape(figure.caption)}" src="data:image/svg+xml;base64,{content}">'
    caption = f"{escape(figure.caption)} Numbers: figures/{escape(figure.name)}.csv"
    return (
        f'<figure id="{escape(figure.name)}"><h3>{escape(figure.title)}</h3>\n{picture}\n'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )


def _paper_table(table: PaperTable) -> str:
    rows = ([escape(_cell(cell)) for cell in row] for row in table.table.rows())
    return f"<h3>{escape(table.title)}</h3>\n{_html_table(table.table.columns, rows)}"

"""The result of a reproduction, and its rendering as JSON, Markdown and one HTML page."""

from __future__ import annotations

import base64
import platform
from dataclasses import dataclass, field
from html import escape
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

from equipoise import __version__
from equipoise.display import Shown, page
from equipoise.paper.figures import Figure
from equipoise.paper.protocol import DATASETS, GAMMAS, SEED, USER_METRICS, item_ranks, user_ranks
from equipoise.paper.tables import PaperTable
from equipoise.paper.verdicts import Finding, Verdict, show, show_measured

_PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "matplotlib", "cvxpy", "implicit")
_CLAIM_COLUMNS = ("claim", "where", "published", "measured", "verdict", "judged by")


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

    def claims(self) -> Shown:
        """The claims as a table."""
        rows = [
            (
                finding.claim.what,
                finding.claim.where,
                show(finding.claim.published),
                show_measured(finding),
                f"{finding.verdict}{' (LOST)' if finding.lost else ''}",
                finding.claim.how,
            )
            for finding in self.findings
        ]
        return Shown(self.headline(), _CLAIM_COLUMNS, rows)

    def sections(self) -> list[Shown]:
        """The tables of the page."""
        pairs = {
            "Settings": _settings(quick=self.quick),
            "Versions": _versions(),
            "Data (SHA-256 of matrix and ids)": self.data,
        }
        found = [
            self.claims(),
            Shown("Know before you quote the paper", (), (), self.headlines),
            Shown("Left out", (), (), self.missing),
            *(Shown(one.title, one.table.columns, one.table.rows()) for one in self.tables),
            *(Shown(title, ("", ""), list(facts.items())) for title, facts in pairs.items()),
        ]
        return [section for section in found if section.rows or section.notes]


def _settings(*, quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "split": f"of each user's items a fifth is test, a tenth validation; seed {SEED}",
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


def render_html(reproduction: Reproduction) -> str:
    """Return one self-contained page without scripts or requests; everything is escaped."""
    sections = [section.html(None) for section in reproduction.sections()]
    return page(
        "equipoise: the paper, reproduced", [*sections, *map(_figure, reproduction.figures)]
    )


def _figure(saved: SavedFigure) -> str:
    figure, picture = saved.figure, "<p>Not drawn: matplotlib is not installed.</p>"
    if saved.svg:
        content = base64.b64encode(saved.svg).decode("ascii")
        picture = f'<img alt="{escape(figure.caption)}" src="data:image/svg+xml;base64,{content}">'
    caption = f"{escape(figure.caption)} Numbers: figures/{escape(figure.name)}.csv"
    return (
        f'<figure id="{escape(figure.name)}"><h3>{escape(figure.title)}</h3>\n{picture}\n'
        f"<figcaption>{caption}</figcaption></figure>\n"
    )

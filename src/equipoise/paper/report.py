"""What a reproduction comes to, before anybody paints it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from equipoise.paper.gallery import Hung
from equipoise.paper.judging import show, tell
from equipoise.paper.settings import settings, versions
from equipoise.paper.tables import PaperTable
from equipoise.paper.tidy import Tidy
from equipoise.paper.verdicts import Finding, Verdict


@dataclass
class Reproduction:
    """What came out.

    Attributes
    ----------
    findings : list of Finding
        The claims, measured.
    headlines : list of str
        Where text, published code and exact optimum part ways, in plain words.
    figures : list of Hung
        In the order of the paper, then the theory.
    tables : list of PaperTable
        In the order of the paper.
    missing : list of str
        What was asked for but not made, each with the reason and what to do.
    data : dict of str to str
        Data set -> SHA-256 of its matrix and ids.
    quick : bool
        Whether it was a quick run.
    """

    quick: bool = False
    findings: list[Finding] = field(default_factory=list)
    headlines: list[str] = field(default_factory=list)
    figures: list[Hung] = field(default_factory=list)
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

    def verdicts(self) -> Tidy:
        """Claim · published · measured · verdict, as a table."""
        rows = (
            (
                finding.claim.what,
                finding.claim.where,
                show(finding.claim.published),
                tell(finding),
                f"{finding.verdict}{' (LOST)' if finding.lost else ''}",
            )
            for finding in self.findings
        )
        return Tidy.of(("claim", "where", "published", "measured", "verdict"), rows)

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
            "figures": [hung.figure.name for hung in self.figures],
            "tables": [table.name for table in self.tables],
            "missing": self.missing,
            "settings": settings(quick=self.quick),
            "versions": versions(),
            "data": self.data,
        }

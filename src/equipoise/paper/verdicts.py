"""From a claim of the paper and what was measured to a verdict."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import resources
from typing import Any, NamedTuple

Value = float | str | bool

# Below this, four decimals would show almost nothing.
_SMALL = 1e-3


class Verdict(StrEnum):
    """Whether a claim holds."""

    REPRODUCED = "reproduced"
    BY_CODE_ONLY = "reproduced by the published code's definition but not by the text's"
    NOT_REPRODUCED = "not reproduced"


@dataclass(frozen=True)
class Claim:
    """Something that the paper asserts: one row of ``claims.csv``.

    Attributes
    ----------
    id : str
        A short name, e.g. ``"halve-top"``.
    what : str
        The assertion in words.
    where : str
        Its place in the paper, e.g. ``"§3.2, Figure 1B"``.
    published : float, str or bool
        The value in the paper; True for an assertion without a number.
    how : str
        How it is measured here.
    bound : float
        The threshold that `how` mentions, if any.
    expected : Verdict
        The verdict at release. Losing a reproduced claim is a failure.
    dataset : str
        ``"lastfm"``, ``"movielens"``, ``"both"`` or ``"theory"``.
    """

    id: str
    what: str
    where: str
    published: Value
    how: str
    bound: float = 0.0
    expected: Verdict = Verdict.REPRODUCED
    dataset: str = "theory"


@dataclass(frozen=True)
class Finding:
    """A claim with its measured value and verdict.

    Attributes
    ----------
    claim : Claim
        The tested claim.
    measured : float, str or bool
        The measured value, by the definition that decided the verdict.
    verdict : Verdict
        Whether the claim holds.
    note : str
        Context for the number, e.g. where text and published code differ.
    """

    claim: Claim
    measured: Value
    verdict: Verdict
    note: str = ""

    @property
    def lost(self) -> bool:
        """Whether a claim that used to be reproduced no longer is."""
        expected = self.claim.expected
        return expected is not Verdict.NOT_REPRODUCED and self.verdict is not expected

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return asdict(self) | {"lost": self.lost}


class Outcome(NamedTuple):
    """What was measured by one definition, and whether the claim holds by it."""

    measured: Value
    holds: bool


def judge(
    claim: Claim, by_text: Outcome | float, by_code: Outcome | float | None = None, note: str = ""
) -> Finding:
    """Return the verdict on a claim.

    Parameters
    ----------
    claim : Claim
        The claim to judge.
    by_text : Outcome or float
        Measured as the text defines it. A number must lie within `claim.bound` of the published.
    by_code : Outcome or float, optional
        Measured as the published code does, where that differs.
    note : str
        Context for the number.

    Examples
    --------
    >>> claim = Claim("half-error", "components", "§3.2", 455, "by counting", bound=0.5)
    >>> finding = judge(claim, 758.3, 455.4)
    >>> finding.verdict.name, finding.measured, finding.note
    ('BY_CODE_ONLY', 455.4, 'by the text: 758.3; by the code: 455.4')
    """
    text = _outcome(claim, by_text)
    if by_code is None:
        return Finding(claim, text.measured, _verdict(text.holds), note)
    code = _outcome(claim, by_code)
    both = f"by the text: {show(text.measured)}; by the code: {show(code.measured)}"
    note = f"{both}; {note}" if note else both
    if code.holds and not text.holds:
        return Finding(claim, code.measured, Verdict.BY_CODE_ONLY, note)
    return Finding(claim, text.measured, _verdict(text.holds), note)


def _outcome(claim: Claim, measured: Outcome | float) -> Outcome:
    if isinstance(measured, Outcome):
        return measured
    return Outcome(measured, abs(measured - float(claim.published)) <= claim.bound)


def _verdict(holds: bool) -> Verdict:
    return Verdict.REPRODUCED if holds else Verdict.NOT_REPRODUCED


def tally(cases: Iterable[tuple[str, bool]]) -> Outcome:
    """Count how often something holds; the claim requires all cases.

    Examples
    --------
    >>> tally([("r = 4", True), ("r = 8", False)])
    Outcome(measured='1 of 2, not r = 8', holds=False)
    """
    listed = list(cases)
    failing = [name for name, holds in listed if not holds]
    exceptions = f", not {', '.join(failing)}" if failing else ""
    return Outcome(f"{len(listed) - len(failing)} of {len(listed)}{exceptions}", not failing)


def show(value: Value) -> str:
    """Format a measured or published value.

    Examples
    --------
    >>> show(True), show(1060), show(77.74342), show(-24.3123), show(0.26703), show(1.257e-11)
    ('yes', '1060', '77.7', '-24.3', '0.2670', '1.3e-11')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, str):
        return value
    if float(value).is_integer():
        return f"{value:.0f}"
    if abs(value) < _SMALL:
        return f"{value:.1e}"
    return f"{value:.1f}" if abs(value) >= 1 else f"{value:.4f}"


def show_measured(finding: Finding) -> str:
    """Format what was measured, with both numbers where only the code's definition holds."""
    measured = show(finding.measured)
    by_code = finding.verdict is Verdict.BY_CODE_ONLY
    return f"{measured} ({finding.note})" if by_code and finding.note else measured


def _read_claims() -> dict[str, Claim]:
    text = (resources.files("equipoise.paper") / "claims.csv").read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["id"]: _claim(**row) for row in rows}


def _claim(*, published: str, bound: str, expected: str, how: str, **texts: str) -> Claim:
    limit = float(bound or 0)
    return Claim(
        **texts,
        published=_parsed(published),
        how=how.replace("<bound>", f"{limit:g}"),
        bound=limit,
        expected=Verdict[expected],
    )


def _parsed(published: str) -> Value:
    try:
        value: Value = json.loads(published)
    except ValueError:
        return published
    return value


#: Every claim by its id, in the order of the report.
CLAIMS = _read_claims()

"""From a claim and measurements to a verdict, by the text's definition and by the code's."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from equipoise.paper.measurements import Measurements
from equipoise.paper.verdicts import Claim, Finding, Verdict

# Below this four decimals would show next to nothing.
_SMALL = 1e-3


class Outcome(NamedTuple):
    """What came out by one definition, and whether the claim holds by it."""

    measured: float | str | bool
    holds: bool


Measure = Callable[[Measurements], Outcome]
Words = Callable[[Measurements], str]


@dataclass(frozen=True)
class Check:
    """A claim and how to test it.

    Attributes
    ----------
    claim : Claim
        What is asserted.
    by_text : callable
        Measures as the text defines it.
    by_code : callable, optional
        Measures as the published code does, where that is something else.
    note : callable, optional
        What a reader must know beside the number.
    """

    claim: Claim
    by_text: Measure
    by_code: Measure | None = None
    note: Words | None = None

    def judge(self, measurements: Measurements) -> Finding:
        """Measure, and say what that means for the claim."""
        text = self.by_text(measurements)
        code = None if self.by_code is None else self.by_code(measurements)
        notes = [] if self.note is None else [self.note(measurements)]
        if code is not None:
            both = f"by the text: {show(text.measured)}; by the code: {show(code.measured)}"
            notes.insert(0, both)
        verdict = _verdict(text, code)
        told = code if code is not None and verdict is Verdict.BY_CODE_ONLY else text
        return Finding(self.claim, told.measured, verdict, "; ".join(notes))


def _verdict(text: Outcome, code: Outcome | None) -> Verdict:
    if text.holds:
        return Verdict.REPRODUCED
    if code is not None and code.holds:
        return Verdict.BY_CODE_ONLY
    return Verdict.NOT_REPRODUCED


def near(published: float, tolerance: float, measure: Callable[[Measurements], float]) -> Measure:
    """A number that must come within `tolerance` of the published one."""

    def outcome(measurements: Measurements) -> Outcome:
        value = float(measure(measurements))
        return Outcome(value, abs(value - published) <= tolerance)

    return outcome


def tally(cases: Iterable[tuple[str, bool]]) -> Outcome:
    """How often something holds; it must hold always.

    Examples
    --------
    >>> tally([("r = 4", True), ("r = 8", False)])
    Outcome(measured='1 of 2, not r = 8', holds=False)
    >>> tally([("r = 4", True)]).measured
    '1 of 1'
    """
    listed = list(cases)
    failing = [name for name, holds in listed if not holds]
    but = f", not {', '.join(failing)}" if failing else ""
    return Outcome(f"{len(listed) - len(failing)} of {len(listed)}{but}", not failing)


def number_check(
    claim: Claim,
    tolerance: float,
    by_text: Callable[[Measurements], float],
    by_code: Callable[[Measurements], float] | None = None,
    note: Words | None = None,
) -> Check:
    """A claim of a number; its tolerance is told where it says how it is measured."""
    published = float(claim.published)
    told = replace(claim, how=f"{claim.how}; must agree within ±{tolerance:g}")
    text = near(published, tolerance, by_text)
    return Check(told, text, None if by_code is None else near(published, tolerance, by_code), note)


def show(value: float | str | bool) -> str:
    """A measured or published value as a reader wants it.

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


def tell(finding: Finding) -> str:
    """What was measured, in a cell: with both numbers where text and code differ.

    Examples
    --------
    >>> claim = Claim("halving", "components", "§3.2", 455, "by counting")
    >>> tell(Finding(claim, 455.5, Verdict.BY_CODE_ONLY, "by the text: 758.3; by the code: 455.5"))
    '455.5 (by the text: 758.3; by the code: 455.5)'
    >>> tell(Finding(claim, 455.5, Verdict.REPRODUCED, "all is well"))
    '455.5'
    """
    measured = show(finding.measured)
    both = finding.verdict is Verdict.BY_CODE_ONLY and finding.note
    return f"{measured} ({finding.note})" if both else measured

"""What the paper asserts about its data, claim by claim, with the verdict of an exact solver.

Numbers must agree to the last digit that is printed. Orders must hold wherever the claim says.
"""

from __future__ import annotations

from equipoise.paper.claims.in_sample import in_sample_checks
from equipoise.paper.claims.mechanisms import mechanism_checks
from equipoise.paper.claims.out_of_sample import out_of_sample_checks
from equipoise.paper.claims.told import headlines
from equipoise.paper.judging import Check
from equipoise.paper.measurements import Measurements
from equipoise.paper.verdicts import Finding

__all__ = ["checks", "headlines", "judge"]


def checks() -> tuple[Check, ...]:
    """Every claim on real data, in the order of the paper."""
    return (*mechanism_checks(), *in_sample_checks(), *out_of_sample_checks())


def judge(measurements: Measurements) -> tuple[Finding, ...]:
    """Test every claim on real data."""
    return tuple(check.judge(measurements) for check in checks())

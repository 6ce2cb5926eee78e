"""How numbers are said: the same in sentences, tables and headlines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Relative changes below this are told to a tenth of a percent.
_TENTHS_BELOW = 0.005

# Means below this are told to a tenth, so that a reader who divides finds the ratio that is told.
_WHOLE_FROM = 10


class Pair(NamedTuple):
    """A number under PCA and under Item-Weighted PCA."""

    before: float
    after: float


def moves(what: str, pair: Pair) -> str:
    """How a number changes, as it was measured.

    Examples
    --------
    >>> moves("recall", Pair(0.2, 0.25)), moves("recall", Pair(0.2, 0.2001))
    ('raises recall from 0.200 to 0.250 (+25%)', 'leaves recall at 0.200')
    """
    before, after = pair
    if three(before) == three(after):
        return f"leaves {what} at {three(before)}"
    verb = "raises" if after > before else "lowers"
    # what rounds to nothing is rounding error or no base: a percentage of it says nothing
    change = f" ({_percent(before, after)})" if float(three(before)) else ""
    return f"{verb} {what} from {three(before)} to {three(after)}{change}"


def goes(pair: Pair) -> str:
    """How a number changes, without a judgement."""
    before, after = map(three, pair)
    return f"stays at {before}" if before == after else f"goes from {before} to {after}"


def listed(parts: Sequence[str]) -> str:
    """Parts of a sentence, one after the other."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def count(mean: float, missed: int) -> str:
    """A mean number of components; at least that many where some items were never halved."""
    return f"at least {components(mean)}" if missed else components(mean)


def components(mean: float) -> str:
    """A mean number of components, the same in sentences and tables.

    Examples
    --------
    >>> components(63.6), components(7 / 3), components(2.0)
    ('64', '2.3', '2')
    """
    return f"{mean:.0f}" if mean >= _WHOLE_FROM else f"{mean:.1f}".removesuffix(".0")


def three(value: float) -> str:
    """A number to three places."""
    return "not defined" if np.isnan(value) else f"{value:.3f}"


def signed(before: float, after: float) -> str:
    """A change in percent, or as it is where there is nothing to take a percentage of."""
    if np.isnan(before) or np.isnan(after):
        return "n/a"
    if not float(three(before)):
        return f"{after - before:+.3f}"
    return _percent(before, after)


def _percent(before: float, after: float) -> str:
    """A relative change; a small one to a tenth, because "-0%" says nothing."""
    change = (after - before) / before
    return f"{change:+.0%}" if not change or abs(change) >= _TENTHS_BELOW else f"{change:+.1%}"

"""How numbers and parameters are written: the same in sentences, tables and headlines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

# Smaller relative changes are written to a tenth of a percent.
_TENTHS_BELOW = 0.005

# Smaller means are written to a tenth; their ratio then agrees with the ratio in a headline.
_WHOLE_FROM = 10

# Parameters that have a shorter name in reports.
_SYMBOLS = {"gamma": "γ", "n_components": "rank"}


class Pair(NamedTuple):
    """A number under PCA and under Item-Weighted PCA."""

    before: float
    after: float


def symbol(parameter: str) -> str:
    """Return the name of a parameter in reports.

    Examples
    --------
    >>> symbol("gamma"), symbol("n_components"), symbol("alpha")
    ('γ', 'rank', 'alpha')
    """
    return _SYMBOLS.get(parameter, parameter)


def plain(value: Any) -> str:
    """Return the value of a parameter without needless zeros.

    Examples
    --------
    >>> plain(-1.0), plain(32), plain("hard")
    ('-1', '32', 'hard')
    """
    return f"{value:g}" if isinstance(value, float) else str(value)


def setting(values: Mapping[str, Any]) -> str:
    """Return a setting in words.

    Examples
    --------
    >>> setting({"n_components": 32, "gamma": -1.0})
    'rank 32, γ = -1'
    """
    return ", ".join(
        f"{symbol(name)} {plain(v)}" if symbol(name) == "rank" else f"{symbol(name)} = {plain(v)}"
        for name, v in values.items()
    )


def moves(what: str, pair: Pair) -> str:
    """Return how a number changes.

    Examples
    --------
    >>> moves("recall", Pair(0.2, 0.25)), moves("recall", Pair(0.2, 0.2001))
    ('raises recall from 0.200 to 0.250 (+25%)', 'leaves recall at 0.200')
    """
    before, after = pair
    if three(before) == three(after):
        return f"leaves {what} at {three(before)}"
    verb = "raises" if after > before else "lowers"
    # a percentage of a number that rounds to zero has no meaning
    change = f" ({_percent(before, after)})" if float(three(before)) else ""
    return f"{verb} {what} from {three(before)} to {three(after)}{change}"


def goes(pair: Pair) -> str:
    """Return how a number changes, without a judgment."""
    before, after = map(three, pair)
    return f"stays at {before}" if before == after else f"goes from {before} to {after}"


def listed(parts: Sequence[str]) -> str:
    """Join the parts of a sentence."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def count(mean: float, missed: int) -> str:
    """Return a mean number of components; a lower bound if some items were never halved."""
    return f"at least {components(mean)}" if missed else components(mean)


def components(mean: float) -> str:
    """Return a mean number of components.

    Examples
    --------
    >>> components(63.6), components(7 / 3), components(2.0)
    ('64', '2.3', '2')
    """
    return f"{mean:.0f}" if mean >= _WHOLE_FROM else f"{mean:.1f}".removesuffix(".0")


def three(value: float) -> str:
    """Return a number to three places."""
    return "not defined" if np.isnan(value) else f"{value:.3f}"


def signed(before: float, after: float) -> str:
    """Return a change in percent, or the difference if the number before rounds to zero."""
    if np.isnan(before) or np.isnan(after):
        return "n/a"
    if not float(three(before)):
        return f"{after - before:+.3f}"
    return _percent(before, after)


def _percent(before: float, after: float) -> str:
    change = (after - before) / before
    return f"{change:+.0%}" if not change or abs(change) >= _TENTHS_BELOW else f"{change:+.1%}"

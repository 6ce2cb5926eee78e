"""How numbers and parameters are written, and what terms mean: the same everywhere."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from equipoise.metrics.intervals import Interval

if TYPE_CHECKING:
    from equipoise.audit.findings import Variant

# Smaller means are written to a tenth; their ratio then agrees with the ratio in a sentence.
_WHOLE_FROM = 10

# Parameters that have a shorter name in reports.
_SYMBOLS = {"gamma": "γ", "n_components": "rank"}


# How given item vectors lie: the metric, and its title in tables.
_GEOMETRY = {
    "popularity_cosine": "leading direction: cosine with popularity",
    "popularity_share": "leading direction: share of squared length",
    "effective_rank": "effective rank of item vectors",
    "anisotropy": "mean cosine of two items",
}


def geometry(variants: Iterable[Variant]) -> dict[str, str]:
    """Return the metrics of item vectors and their titles; nothing if no variant has them."""
    return _GEOMETRY if any("effective_rank" in each.means for each in variants) else {}


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


def mean_cell(variant: Variant, metric: str, group: str = "all") -> str:
    """Return a mean of a model with its interval, for a table; – where it is not defined."""
    value, interval = variant.mean(metric, group), variant.intervals.get(metric, {}).get(group)
    return interval_cell(interval or Interval(value, np.nan, np.nan), value)


def interval_cell(interval: Interval | None, value: float | None = None) -> str:
    """Return a number, by default the mean, with its interval, for a table; – for none."""
    if interval is None or np.isnan(shown := interval.mean if value is None else value):
        return "–"
    return f"{shown:.3f}" if np.isnan(interval.low) else f"{shown:.3f} ({between(interval)})"


def half_error_cell(variant: Variant, group: str) -> str:
    """Return the components to half error; a bound if some items were never halved."""
    mean, bound = variant.components_to_half[group], "≥ " * bool(variant.not_halved[group])
    return "–" if np.isnan(mean) else f"{bound}{components(mean)}"


def percent(interval: Interval, decimals: int = 0, *, rest: bool = False) -> str:
    """Return a share with its 95 % interval; with `rest`, what is missing to all.

    Examples
    --------
    >>> print(percent(Interval(0.2, 0.15, 0.25, 0.95, 40)))
    20% (15% to 25%)
    >>> print(percent(Interval(0.0002, 0.0001, 0.0003, 0.95, 40), 1))
    almost nothing (under 0.05%)
    >>> print(percent(Interval(0.0, 0.0, 0.0, 0.95, 40)))
    none
    """
    values = (interval.mean, interval.low, interval.high)
    if rest:
        values = (1 - interval.mean, 1 - interval.high, 1 - interval.low)
    smallest = 0.5 * 10 ** -(decimals + 2)
    if values[2] < smallest:  # 0.0% (0.0% to 0.0%) would look like an error
        return "none" if values[2] == 0 else f"almost nothing (under {smallest:.{decimals + 1}%})"
    mean, low, high = (f"{value:.{decimals}%}" for value in values)
    return mean if np.isnan(interval.low) else f"{mean} ({low} to {high})"


def between(interval: Interval) -> str:
    """Return a 95 % interval.

    Examples
    --------
    >>> between(Interval(0.2, 0.151, 0.25, 0.95, 40))
    '0.151 to 0.250'
    """
    if np.isnan(interval.low):
        return "without an interval"
    return f"{interval.low:.3f} to {interval.high:.3f}"


class Measure(NamedTuple):
    """A measure of groups: its title, what it means, and which values are better."""

    title: str
    meaning: str
    better: Literal["higher", "lower", "1", ""] = ""


_TEXTS = tomllib.loads(Path(__file__).with_name("glossary.toml").read_text(encoding="utf-8"))
#: term -> what it means; in the order of the glossary
TERMS: Mapping[str, str] = _TEXTS["terms"]
MEASURES: Mapping[str, Measure] = {
    name: Measure(**fields) for name, fields in _TEXTS["measures"].items()
}
#: how given models and intervals are measured
NOTES: Mapping[str, str] = _TEXTS["notes"]
#: what an audit cannot show
LIMITS: Sequence[str] = _TEXTS["limits"]
_FORMS = {"components": "component", "hits": "popular", "memorizes": "memorized"}
_KEYS = {term.lower(): term for term in TERMS} | _FORMS
_ANY = re.compile(
    r"(?<![\w-])(?:"
    + "|".join(re.escape(form) for form in sorted(_KEYS, key=len, reverse=True))
    + r")(?![\w-])",
    re.IGNORECASE,
)


def mark_terms(html: str, marked: set[str]) -> str:
    """Give each term in escaped text its meaning on hover, the first time it occurs.

    Parameters
    ----------
    html : str
        Escaped text without tags.
    marked : set of str
        Terms that were marked before; new ones are added.

    Examples
    --------
    >>> marked = mark_terms("Gini, Gini", set())
    >>> marked.count("<dfn"), marked.count("Gini"), marked.endswith("Gini")
    (1, 2, True)
    """

    def mark(found: re.Match[str]) -> str:
        term = _KEYS[found[0].lower()]
        if term in marked:
            return found[0]
        marked.add(term)
        return f'<dfn tabindex="0" data-meaning="{TERMS[term]}">{found[0]}</dfn>'

    return _ANY.sub(mark, html)

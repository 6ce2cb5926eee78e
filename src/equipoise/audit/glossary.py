"""The terms of the audit, each explained once: for the page's hovers and the glossaries."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple


class Measure(NamedTuple):
    """A measure of groups: its title, what it means, and which values are better."""

    title: str
    meaning: str
    better: Literal["higher", "lower", "1", ""] = ""


_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
#: term -> what it means; in the order of the glossary
TERMS: Mapping[str, str] = _TEXTS["terms"]
MEASURES: Mapping[str, Measure] = {
    name: Measure(**fields) for name, fields in _TEXTS["measures"].items()
}
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

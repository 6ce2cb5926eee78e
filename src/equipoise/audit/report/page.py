"""The HTML page: text is rendered here, the scripts in `sources` do everything interactive."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from collections.abc import Iterable
from html import escape
from importlib import resources
from string import Template

from equipoise.audit.advice import command, python_call
from equipoise.audit.findings import DataSummary, Findings, Verdict
from equipoise.audit.formatting import plain, setting, symbol
from equipoise.audit.report.encoding import zipped
from equipoise.audit.report.payload import payload

# Mail and chat accept 8 MB; the text and the library are subtracted first.
_LARGEST = 7_900_000

# Control characters other than tab and line ends, and halves of surrogate pairs: not valid in HTML.
_INVALID = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

# The modules of the page, each after those that it imports.
MODULES = (
    "text.js",
    "data.js",
    "state.js",
    "charts.js",
    "shapes.js",
    "mechanisms.js",
    "outcomes.js",
    "card.js",
    "items.js",
    "users.js",
    "controls.js",
    "main.js",
)

_STYLES = ("style.css", "parts.css", "media.css")

_IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async |const |function |let |class ))", re.MULTILINE)


def render(findings: Findings) -> str:
    """Return the report as one HTML file that loads nothing; equal findings give equal text.

    Parameters
    ----------
    findings : Findings
        Of `equipoise.audit.audit`.

    Returns
    -------
    str
        HTML, to be written in UTF-8. Below 8 MB for 20,000 items.
    """
    application, library = script(), _library()
    spent = len(application) + len(library) + len(style()) + 60_000
    packed = payload(findings, _LARGEST - spent)
    settings, advice = findings.settings, findings.verdict.advice
    notes = (*settings.notes, packed.fidelity.description())
    (exponent, weighting), *_ = settings.weighting.items()
    return Template(source("page.html")).substitute(
        policy=_policy(application),
        style=style(),
        source=_safe(findings.data.source),
        size=_size(findings.data),
        headlines=_headlines(findings.verdict),
        sentences=_paragraphs(findings.verdict.sentences),
        why=_safe(advice.why),
        advice=_minus(setting(advice.settings)),
        python=_code(python_call(advice)),
        command=_code(command(advice)),
        parameter=_safe(symbol(exponent)),
        audited_weighting=_minus(plain(weighting)),
        audited=_minus(setting(settings.audited)),
        audited_size=settings.size,
        size_chosen_by=_safe(settings.size_chosen_by),
        k=settings.k,
        groups=_groups(findings.data),
        notes="\n".join(f"<li>{_safe(note)}</li>" for note in notes),
        version=_safe(findings.version),
        summary=packed.summary,
        blocks=packed.blocks,
        library=library,
        application=application,
    )


def source(name: str) -> str:
    """Return a file of `sources` as text."""
    place = resources.files("equipoise.audit.report") / "sources" / name
    return place.read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def script() -> str:
    """Return the modules as one script, without imports and exports: the page fetches nothing."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source(name))) for name in MODULES)


@functools.cache
def style() -> str:
    """Return the style sheets as one."""
    return "\n".join(source(name) for name in _STYLES)


@functools.cache
def plotly() -> str:
    """Return Plotly.js from the Python package of that name."""
    place = resources.files("plotly") / "package_data" / "plotly.min.js"
    return place.read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def _library() -> str:
    return zipped(plotly().encode("utf-8"))


def _policy(application: str) -> str:
    """Return a policy by which only these two scripts run, and nothing is fetched."""
    scripts = " ".join(f"'{content_hash(text)}'" for text in (application, plotly()))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def content_hash(text: str) -> str:
    """Return the hash that allows a script in a content security policy.

    Examples
    --------
    >>> content_hash("")
    'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='
    """
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode("utf-8")).digest()).decode()


def _safe(text: str) -> str:
    """Return HTML that shows the text, whatever it contains."""
    return escape(_INVALID.sub("\N{REPLACEMENT CHARACTER}", text))


def _code(text: str) -> str:
    """Return a call that breaks between words, not inside `--options`; copying restores it."""
    words = re.split(r"([ \n]+)", text)
    return "".join(w if set(w) <= {" ", "\n"} else f"<span>{_safe(w)}</span>" for w in words)


def _minus(text: str) -> str:
    return _safe(text).replace("-", "\N{MINUS SIGN}")


def _size(data: DataSummary) -> str:
    return (
        f"{data.n_users:,} users × {data.n_items:,} items, "
        f"{data.n_interactions:,} interactions, {data.density:.2%} of the cells filled"
    )


def _headlines(verdict: Verdict) -> str:
    return "\n".join(
        f'<li><span class="figure">{_safe(h.number)}</span> <span>{_safe(h.meaning)}</span></li>'
        for h in verdict.headlines
    )


def _paragraphs(sentences: Iterable[str]) -> str:
    return "\n".join(f"<p>{_safe(sentence)}</p>" for sentence in sentences)


def _groups(data: DataSummary) -> str:
    return "\n".join(
        f'<tr><th scope="row">{_safe(g.name)}</th><td>{g.n_items:,}</td><td>{g.share:.0%}</td></tr>'
        for g in data.groups
    )

"""The page: words are set here, everything that moves is done by the scripts in `sources`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from html import escape
from string import Template

from equipoise.audit.findings import Findings, Portrait, Verdict
from equipoise.audit.report import assets
from equipoise.audit.report.encoding import zipped
from equipoise.audit.report.payload import payload

# 8 MB is what mail and chat still carry; the words and the library come off it first.
_LARGEST = 7_900_000

# Control characters other than tab and line ends, and halves of surrogate pairs: not valid in HTML.
_INVALID = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")


def render(findings: Findings) -> str:
    """Return the report as one HTML file that loads nothing; equal findings give equal text.

    Parameters
    ----------
    findings : Findings
        What `equipoise.audit.audit` found.

    Returns
    -------
    str
        HTML, to be written in UTF-8. Below 8 MB for 20,000 items.
    """
    application, library = assets.script(), _library()
    spent = len(application) + len(library) + len(assets.style()) + 60_000
    data = payload(findings, _LARGEST - spent)
    notes = (*findings.settings.notes, data.fidelity.in_words())
    return Template(assets.source("page.html")).substitute(
        policy=_policy(application),
        style=assets.style(),
        source=_safe(findings.portrait.source),
        size=_size(findings.portrait),
        headlines=_headlines(findings.verdict),
        sentences=_paragraphs(findings.verdict.sentences),
        why=_safe(findings.verdict.advice.why),
        gamma=_number(findings.verdict.advice.gamma),
        rank=findings.verdict.advice.rank,
        python=_code(findings.verdict.advice.python),
        command=_code(findings.verdict.advice.command),
        audited_gamma=_number(findings.settings.gamma),
        audited_rank=findings.settings.rank,
        rank_chosen_by=_safe(findings.settings.rank_chosen_by),
        k=findings.settings.k,
        groups=_groups(findings.portrait),
        notes="\n".join(f"<li>{_safe(note)}</li>" for note in notes),
        version=_safe(findings.version),
        summary=data.summary,
        blocks=data.blocks,
        library=library,
        application=application,
    )


@functools.cache
def _library() -> str:
    return zipped(assets.plotly().encode("utf-8"))


def _policy(application: str) -> str:
    """Only these two scripts may run, and nothing may be fetched."""
    scripts = " ".join(f"'{assets.content_hash(text)}'" for text in (application, assets.plotly()))
    return (
        f"default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'"
    )


def _safe(text: str) -> str:
    """Text as HTML that shows it, whatever it holds."""
    return escape(_INVALID.sub("\N{REPLACEMENT CHARACTER}", text))


def _code(text: str) -> str:
    """A call that is broken between words, not inside `--options`; copying gives the text back."""
    words = re.split(r"([ \n]+)", text)
    return "".join(w if set(w) <= {" ", "\n"} else f"<span>{_safe(w)}</span>" for w in words)


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "\N{MINUS SIGN}")


def _size(portrait: Portrait) -> str:
    return (
        f"{portrait.n_users:,} users × {portrait.n_items:,} items, "
        f"{portrait.n_interactions:,} interactions, {portrait.density:.2%} of the cells filled"
    )


def _headlines(verdict: Verdict) -> str:
    return "\n".join(
        f'<li><span class="figure">{_safe(h.number)}</span> <span>{_safe(h.says)}</span></li>'
        for h in verdict.headlines
    )


def _paragraphs(sentences: Iterable[str]) -> str:
    return "\n".join(f"<p>{_safe(sentence)}</p>" for sentence in sentences)


def _groups(portrait: Portrait) -> str:
    return "\n".join(
        f'<tr><th scope="row">{_safe(g.name)}</th><td>{g.n_items:,}</td><td>{g.mass:.0%}</td></tr>'
        for g in portrait.groups
    )

"""The HTML page: text is rendered here, the scripts in `sources` do everything interactive."""

from __future__ import annotations

import base64
import functools
import graphlib
import hashlib
import re
from concurrent.futures import ThreadPoolExecutor
from html import escape
from importlib import resources
from string import Template

from equipoise.audit.advice import command, python_call, rerank_command
from equipoise.audit.dossier.manifest import lines
from equipoise.audit.findings import QUESTIONS, DataSummary, Findings
from equipoise.audit.formatting import TERMS, mark_terms, plain, setting, symbol
from equipoise.audit.report.encoding import zipped
from equipoise.audit.report.payload import payload
from equipoise.audit.verdict import Answer, failing, memorizing, name_of

# Mail and chat accept 8 MB; the text and the library are subtracted first.
_LARGEST = 7_900_000

# Control characters other than tab and line ends, and halves of surrogate pairs: not valid in HTML.
_INVALID = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")

_NO_MODEL = """\
  <p class="whose">No model of yours was given (<code>--model</code>), so this is about PCA, the
  standard low-rank model.</p>"""

_STYLES = ("style.css", "parts.css", "media.css")

_IMPORT = re.compile(r'^import [^;]*"\./([^"]+)";\n', re.MULTILINE)
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
    application = script()
    with ThreadPoolExecutor(1) as pool:  # zlib works while Python packs the data
        zipping = pool.submit(_library)
        most = _LARGEST - len(application) - len(style()) - 60_000
        packed = payload(findings, lambda: most - len(zipping.result()))
        library = zipping.result()
    settings, advice = findings.settings, findings.advice
    python = python_call(advice)
    commands = "\n".join(filter(None, (command(advice), rerank_command(findings))))
    notes = (*settings.notes, packed.fidelity.description(), *lines(findings.manifest))
    (exponent, weighting), *_ = settings.weighting.items()
    return Template(_explained(source("page.html"))).substitute(
        policy=_policy(application),
        style=style(),
        source=_safe(findings.data.source),
        size=f"{findings.data.size}, {findings.data.density:.2%} of the cells filled",
        subject=_safe(name_of(findings.subject)),
        whose="" if findings.subject_key.startswith("given:") else _NO_MODEL,
        answer=_answer(findings.answer),
        niche=_safe(failing(findings)),
        memorized=_safe(memorizing(findings)),
        glossary="\n".join(f"<dt>{_safe(t)}</dt><dd>{_safe(m)}</dd>" for t, m in TERMS.items()),
        mitigation=_safe(str(findings.mitigation)),
        advice=_safe(_advised(findings)),
        python=_code(python),
        no_python="" if python else " hidden",
        command=_code(commands),
        no_command="" if commands else " hidden",
        parameter=_safe(symbol(exponent)),
        audited_weighting=_minus(plain(weighting)),
        audited=_minus(setting(settings.audited)),
        audited_size=settings.size,
        size_chosen_by=_safe(settings.size_chosen_by),
        preparation=_safe(settings.preparation),
        k=settings.k,
        groups=_groups(findings.data),
        notes="\n".join(f"<li>{_safe(note)}</li>" for note in notes),
        version=_safe(findings.version),
        summary=packed.summary,
        blocks=packed.blocks,
        library=library,
        application=application,
    )


def _advised(findings: Findings) -> str:
    """Return the advised model and its setting as a title."""
    label, advice = findings.advised.label, findings.advice
    if advice.keep:
        return f"keep {label}"
    return f"{label} ({setting(advice.settings)})" if advice.settings else label


def source(name: str) -> str:
    """Return a file of `sources` as text."""
    place = resources.files("equipoise.audit.report") / "sources" / name
    return place.read_text(encoding="utf-8").replace("\r\n", "\n")


@functools.cache
def modules() -> tuple[str, ...]:
    """Return the modules of the page, each after those that it imports."""
    imported: dict[str, list[str]] = {}
    names = ["main.js"]
    for name in names:  # grows by what is imported
        imported[name] = _IMPORT.findall(source(name))
        names += [other for other in imported[name] if other not in names]
    return tuple(graphlib.TopologicalSorter(imported).static_order())


@functools.cache
def script() -> str:
    """Return the modules as one script, without imports and exports: the page fetches nothing."""
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", source(name))) for name in modules())


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
    return zipped(plotly().encode("utf-8"), level=5)  # level 9: nearly twice as long, for 1 %


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


def _answer(found: Answer) -> str:
    """Return the three sentences under their questions; terms are explained on hover."""
    marked: set[str] = set()
    return "\n".join(
        f"    <div><dt>{question}</dt><dd>{_with_code(sentence, marked)}</dd></div>"
        for question, sentence in zip(QUESTIONS, found, strict=True)
    )


def _with_code(sentence: str, marked: set[str]) -> str:
    """Return a sentence with its terms explained and `commands` as code that can be copied."""
    parts = enumerate(sentence.split("`"))
    return "".join(
        f"<code>{_safe(part)}</code>" if at % 2 else mark_terms(_safe(part), marked)
        for at, part in parts
    )


def _explained(template: str) -> str:
    """Give every <dfn> of the page its meaning on hover."""
    return re.sub(r"<dfn>([^<]+)</dfn>", lambda found: mark_terms(found[1], set()), template)


def _groups(data: DataSummary) -> str:
    return "\n".join(
        f'<tr><th scope="row">{_safe(g.name)}</th><td>{g.n_items:,}</td><td>{g.share:.0%}</td></tr>'
        for g in data.groups
    )

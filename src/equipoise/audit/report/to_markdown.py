"""Findings as Markdown, for a terminal, a pull request or a wiki."""

from __future__ import annotations

from collections.abc import Iterable

from equipoise.audit.advice import check_command, command, python_call, rerank_command
from equipoise.audit.dossier.manifest import lines
from equipoise.audit.findings import QUESTIONS, Findings, UserView
from equipoise.audit.report.tables import tables
from equipoise.display import escape_markdown

_MOST_USERS, _MOST_LISTED = 3, 5


def to_markdown(findings: Findings) -> str:
    """Return the report as Markdown; equal findings give equal text."""
    sections = (
        _opening(findings),
        _advice(findings),
        *(table.markdown().rstrip() for table in tables(findings) if table.rows),
        _users(findings),
        _notes(findings),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def _opening(findings: Findings) -> str:
    parts = zip(QUESTIONS, findings.answer, strict=True)
    text = "\n".join(f"- **{question}** {escape_markdown(each)}" for question, each in parts)
    return f"# Audit of {escape_markdown(findings.data.source)}\n\n{text}"


def _advice(findings: Findings) -> str:
    advice = findings.advice
    calls = (
        ("python", python_call(advice)),
        ("sh", command(advice)),
        ("sh", rerank_command(findings)),
        ("sh", check_command(advice)),
    )
    blocks = [f"```{language}\n{call}\n```" for language, call in calls if call]
    offer = escape_markdown(str(findings.mitigation))
    return "\n\n".join(filter(None, ["## Advice", *blocks, offer]))


def _users(findings: Findings) -> str:
    views = "\n\n".join(_user(view, findings) for view in findings.users[:_MOST_USERS])
    return f"## Some users\n\n{views}" if views else ""


def _user(view: UserView, findings: Findings) -> str:
    def named(places: Iterable[int]) -> str:
        return ", ".join(escape_markdown(findings.items.names[j]) for j in places) or "–"

    lines = [f"**{escape_markdown(view.user)}** has {named(view.history[:_MOST_LISTED])}", ""]
    for key, recommended in view.recommended.items():
        shown = "; ".join(
            f"{named([one.item])} (because of {named(one.because)})"
            for one in recommended[:_MOST_LISTED]
        )
        lines.append(f"- {escape_markdown(findings.variant(key).label)}: {shown or '–'}")
    return "\n".join(lines)


def _notes(findings: Findings) -> str:
    settings = findings.settings
    not_stated = [
        f"Not stated: {each.name}, because {each.why_not}."
        for each in findings.evidence
        if not each.stated
    ]
    last = (
        f"Depth {settings.depth}; popularity groups by {settings.groups}; lists of {settings.k}; "
        f"seed {settings.seed}; equipoise {findings.version}."
    )
    notes = (*settings.notes, *not_stated, *lines(findings.manifest), last)
    listed = "\n".join(f"- {escape_markdown(note)}" for note in notes)
    return f"## How this was measured\n\n{listed}"

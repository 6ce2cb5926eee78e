"""Findings as Markdown, for a terminal, a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from equipoise.audit.advice import check_command, command, python_call, rerank_command
from equipoise.audit.dossier.manifest import lines
from equipoise.audit.findings import QUESTIONS, Entry, Findings, UserView, Variant
from equipoise.audit.formatting import (
    MEASURES,
    TERMS,
    between,
    geometry,
    half_error_cell,
    mean_cell,
    setting,
    symbol,
)
from equipoise.audit.group_section import GroupSection
from equipoise.audit.measure import LIST_METRICS
from equipoise.audit.verdict import answer
from equipoise.metrics import find_metric

# A number of one variant.
Cell = Callable[[Variant], str]

_MOST_OWNED, _MOST_CHANGED, _MOST_USERS, _MOST_LISTED = 20, 10, 3, 5

# The terms that the tables use, in addition to those of their titles.
_EXPLAINED = ("self-reconstruction", "specialization", "item error", "item AUC", "ARP", "APLT")


def to_markdown(findings: Findings) -> str:
    """Return the report as Markdown; equal findings give equal text."""
    sections = (
        _opening(findings),
        _verdict(findings),
        _data(findings),
        _contest(findings),
        _models(findings),
        _frontier(findings),
        *(_groups(section, findings) for section in findings.groups),
        _owners(findings),
        _changed(findings),
        _users(findings),
        _notes(findings),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def escaped(name: object) -> str:
    r"""Return a name from the data as one line of plain text, without Markdown.

    Examples
    --------
    >>> print(escaped("a|b\n<script>"))
    a\|b \<script\>
    """
    return re.sub(r"([\\`*_{}\[\]<>()#+!|~&-])", r"\\\1", _one_line(str(name)))


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"| --- |{' ---: |' * (len(head) - 1)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)


def _opening(findings: Findings) -> str:
    parts = zip(QUESTIONS, answer(findings), strict=True)
    text = "\n".join(f"- **{question}** {_safe(sentence)}" for question, sentence in parts)
    return f"# Audit of {escaped(findings.data.source)}\n\n{text}"


def _verdict(findings: Findings) -> str:
    advice = findings.verdict.advice
    sentences = "\n".join(f"- {_safe(sentence)}" for sentence in findings.verdict.sentences)
    calls = (
        ("python", python_call(advice)),
        ("sh", command(advice)),
        ("sh", rerank_command(findings)),
        ("sh", check_command(advice)),
    )
    offer = [f"**Re-ranking.** {_safe(str(findings.mitigation))}"] if findings.mitigation else []
    blocks = [f"```{language}\n{call}\n```" for language, call in calls if call]
    why = f"**Advice.** {_safe(advice.why)}"
    return "\n\n".join(["## Verdict", sentences, why, *blocks, *offer])


def _contest(findings: Findings) -> str:
    """Every model at its best, with its difference to the subject."""
    entries = [entry for entry in findings.contest if entry.test is not None]
    if len(entries) < 2:
        return ""
    k = findings.settings.k
    head = ["", "preparation", "settings", f"NDCG@{k}", "95 %", "difference", "95 %"]
    return f"## Each model at its best on validation\n\n{_table(head, map(_entry, entries))}"


def _entry(entry: Entry) -> list[str]:
    others = {
        k: v for k, v in entry.settings.items() if k not in ("value_transform", "user_scaling")
    }
    cells = [escaped(entry.title), entry.preparation or "–", setting(others) or "–"]
    for interval in (entry.test, entry.gain):
        form = "{:.3f}" if interval is entry.test else "{:+.3f}"
        cells += ["–", "–"] if interval is None else [form.format(interval.mean), between(interval)]
    return cells


def _safe(sentence: str) -> str:
    """Escape a sentence: labels of files are not trusted and may contain tags or links."""
    return re.sub(r"([\\`<>\[\]|])", r"\\\1", _one_line(sentence))


def _data(findings: Findings) -> str:
    data = findings.data
    rows = [[group.name, f"{group.n_items:,}", f"{group.share:.1%}"] for group in data.groups]
    return (
        f"## The data\n\n{data.n_users:,} users × {data.n_items:,} items, "
        f"{data.n_interactions:,} interactions (density {data.density:.3%}). Gini of the items' "
        f"popularity {data.gini:.3f}; the most popular tenth of the items has "
        f"{data.head_share:.1%} of the interactions.\n\n"
        + _table(["popularity", "items", "share of interactions"], rows)
    )


def _models(findings: Findings) -> str:
    """One column per model, one row per metric, each at its own size, with intervals."""
    settings, models = findings.settings, findings.compared
    groups = ["all", *(group.name for group in findings.data.groups)]
    metrics = (
        ("self-reconstruction", "self_reconstruction"),
        ("error", "item_error"),
        ("item AUC", "item_auc"),
        (f"item precision@{settings.k}", "item_precision"),
    )

    def row(title: str, cell: Cell) -> list[str]:
        return [title, *map(cell, models)]

    rows = [
        row(symbol(settings.size_parameter), lambda v: f"{v.size:,}" if v.has_components else "–"),
        row("specialization", lambda v: mean_cell(v, "specialization")),
        row("components owned by one item", lambda v: str(len(v.owned))),
        *(
            row(f"{n}, {g}", partial(mean_cell, metric=m, group=g))
            for n, m in metrics
            for g in groups
        ),
        *(row(f"components to half error, {g}", partial(half_error_cell, group=g)) for g in groups),
        *(row(title, partial(mean_cell, metric=m)) for m, title in geometry(models).items()),
        *(
            row(f"{find_metric(m).title}@{settings.k}", partial(mean_cell, metric=m))
            for m in LIST_METRICS
        ),
    ]
    table = _table(["", *(escaped(each.label) for each in models)], rows)
    empty = {each.no_accuracy for each in models if each.no_accuracy}
    remark = "".join(f"\n\nAccuracy is left empty where {_safe(reason)}." for reason in empty)
    glossary = " ".join(f"*{term}*: {TERMS[term]}" for term in _EXPLAINED)
    return f"## The models\n\n{table}{remark}\n\n{glossary}"


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _frontier(findings: Findings) -> str:
    models = [each for each in findings.variants if each.kind == "item-weighted"]
    if all(np.isnan(each.means["ndcg"]["all"]).all() for each in models):
        return ""
    weighting = findings.settings.weighting
    rows = [
        [setting({name: each.settings[name] for name in weighting})]
        + [_number(value) for value in each.means["ndcg"]["all"]]
        for each in models
    ]
    head = [f"NDCG@{findings.settings.k}", *(f"{size:,}" for size in models[0].sizes)]
    names = " and ".join(symbol(name) for name in reversed(list(findings.settings.audited)))
    title = f"{models[0].label}: NDCG on held-out items, by {names}"
    return f"## {title}\n\n{_table(head, rows)}"


def _groups(section: GroupSection, findings: Findings) -> str:
    """All measures of the first model, then one measure of every model."""
    if not section.measures:
        return ""
    first, main = findings.subject, section.main

    def cells(key: str, name: str, group: str) -> str:
        found = section.number(key, name, group)
        return "–" if found is None else f"{found.mean:.3f} ({between(found)})"

    titles = [MEASURES[name].title for name in section.measures]
    own = [
        [
            escaped(group.name) + ("" if group.reported else " (too few members)"),
            f"{group.size:,}",
            *(cells(first.key, name, group.name) for name in section.measures),
        ]
        for group in section.groups
    ]
    models = [variant for variant in findings.compared if variant.key in section.numbers]
    compared = [
        [escaped(group.name), *(cells(variant.key, main, group.name) for variant in models)]
        for group in section.groups
        if group.reported
    ]
    return (
        f"## Groups of {section.of}: {escaped(section.rule)}\n\n"
        f"{escaped(first.label)}, with 95 % intervals. {_safe(section.note)}\n\n"
        f"{_table(['group', section.of, *titles], own)}\n\n"
        f"{MEASURES[main].title.capitalize()} ({MEASURES[main].meaning}):\n\n"
        f"{_table(['group', *(escaped(each.label) for each in models)], compared)}"
        f"{_prices(section)}"
    )


def _prices(section: GroupSection) -> str:
    """What a floor for each group's retained share costs, up to the certified limit."""
    if not section.prices:
        return ""
    head = ["group", "share without a floor", "limit", "floor: objective that is left"]
    rows = [
        [
            escaped(price.group),
            f"{price.share:.3f}",
            f"{price.limit:.3f}",
            ", ".join(
                f"{floor:.3f}: {kept:.1%}"
                for floor, kept in zip(price.floors[1:], price.kept[1:], strict=True)
            ),
        ]
        for price in section.prices
    ]
    return (
        "\n\nThe price of a floor: Item-Weighted PCA with a minimum for the retained share of one "
        f"group. No projection of this rank exceeds the limit.\n\n{_table(head, rows)}"
    )


def _owners(findings: Findings) -> str:
    rows = [
        [
            escaped(variant.label),
            str(owned.component + 1),
            escaped(findings.items.names[owned.item]),
            f"{owned.weight:.0%}",
        ]
        for variant in findings.compared
        for owned in variant.owned[:_MOST_OWNED]
    ]
    if not rows:
        return ""
    head = ["model", "component", "item", "its share of the component"]
    return f"## Components owned by one item\n\n{_table(head, rows)}"


def _changed(findings: Findings) -> str:
    """Items whose self-reconstruction falls and rises most from the subject to the advised."""
    items, changes = findings.items, findings.changes()
    if findings.advised is findings.subject:
        return ""
    order = np.argsort(changes["self_reconstruction"], kind="stable")
    chosen = list(dict.fromkeys([*order[:_MOST_CHANGED], *order[::-1][:_MOST_CHANGED]]))
    rows = [
        [
            escaped(items.names[j]),
            f"{items.n_users[j]:,}",
            *(
                f"{change[j]:+.3f}" if np.isfinite(change[j]) else "–"
                for change in changes.values()
            ),
        ]
        for j in chosen
    ]
    head = ["item", "users", "self-reconstruction", "error", "item AUC"]
    labels = (escaped(each.label) for each in (findings.subject, findings.advised))
    title = f"## Items that change most from {' to '.join(labels)}"
    return f"{title}\n\n{_table(head, rows)}"


def _users(findings: Findings) -> str:
    views = "\n\n".join(_user(view, findings) for view in findings.users[:_MOST_USERS])
    return f"## Some users\n\n{views}" if views else ""


def _user(view: UserView, findings: Findings) -> str:
    def named(places: Iterable[int]) -> str:
        return ", ".join(escaped(findings.items.names[j]) for j in places) or "–"

    labels = {variant.key: escaped(variant.label) for variant in findings.variants}
    lines = [f"**{escaped(view.user)}** has {named(view.history[:_MOST_LISTED])}", ""]
    for key, recommended in view.recommended.items():
        shown = "; ".join(
            f"{named([one.item])} (because of {named(one.because)})"
            for one in recommended[:_MOST_LISTED]
        )
        lines.append(f"- {labels[key]}: {shown or '–'}")
    return "\n".join(lines)


def _notes(findings: Findings) -> str:
    settings = findings.settings
    not_stated = [
        f"Not stated: {each.name}, because {each.why_not}."
        for each in findings.evidence
        if not each.stated
    ]
    notes = "\n".join(
        f"- {_safe(note)}" for note in (*settings.notes, *not_stated, *lines(findings.manifest))
    )
    return (
        f"## How this was measured\n\n{notes}\n- Depth {settings.depth}; popularity groups by "
        f"{settings.groups}; lists of {settings.k}; seed {settings.seed}; equipoise "
        f"{findings.version}."
    )

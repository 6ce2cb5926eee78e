"""Findings as Markdown, for a terminal, a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from equipoise.audit.advice import command, python_call
from equipoise.audit.findings import Findings, UserView, Variant
from equipoise.audit.formatting import components, plain, setting, symbol
from equipoise.audit.measure import LIST_METRICS
from equipoise.metrics import find_metric

# A number of one variant at the position of its audited size.
Cell = Callable[[Variant, int], str]

_MOST_OWNED, _MOST_CHANGED, _MOST_USERS, _MOST_LISTED = 20, 10, 3, 5

GLOSSARY = (
    "Self-reconstruction: the share of an item's score that comes from the item itself; at 1, a "
    "component belongs to the item alone. Specialization: the mean of the largest tenth of these. "
    "Error: the share of an item's squared norm that is not reconstructed. Item AUC and precision: "
    "how well the *other* items predict the users of an item. Average popularity: mean number of "
    "users of the recommended items. Popular, medium, niche: groups of items by popularity."
)


def to_markdown(findings: Findings) -> str:
    """Return the report as Markdown; equal findings give equal text."""
    sections = (
        _opening(findings),
        _verdict(findings),
        _data(findings),
        _models(findings),
        _curves(findings),
        _frontier(findings),
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
    headlines = "\n".join(f"- **{h.number}** {h.meaning}" for h in findings.verdict.headlines)
    return f"# Audit of {escaped(findings.data.source)}\n\n{headlines}"


def _verdict(findings: Findings) -> str:
    advice = findings.verdict.advice
    sentences = "\n".join(f"- {_safe(sentence)}" for sentence in findings.verdict.sentences)
    return (
        f"## Verdict\n\n{sentences}\n\n"
        f"**Recommended: {setting(advice.settings)}.** {advice.why}\n\n"
        f"```python\n{python_call(advice)}\n```\n\n```sh\n{command(advice)}\n```"
    )


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
        f"{data.head_share:.1%} of the interactions (by the sum of their values).\n\n"
        + _table(["popularity", "items", "share of interactions"], rows)
    )


def _models(findings: Findings) -> str:
    """One column per model, one row per metric, at the audited setting."""
    settings, models = findings.settings, findings.compared
    groups = ["all", *(group.name for group in findings.data.groups)]
    metrics = (
        ("self-reconstruction", "self_reconstruction"),
        ("error", "item_error"),
        ("item AUC", "item_auc"),
        (f"item precision@{settings.k}", "item_precision"),
    )

    def row(title: str, cell: Cell) -> list[str]:
        return [title, *(cell(each, each.at(settings.size)) for each in models)]

    rows = [
        row(symbol(settings.size_parameter), lambda v, at: f"{v.sizes[at]:,}"),
        row("specialization", _mean("specialization", "all")),
        row("components owned by one item", lambda v, _: str(len(v.owned))),
        *(row(f"{name}, {group}", _mean(m, group)) for name, m in metrics for group in groups),
        *(row(f"components to half error, {group}", _to_half(group)) for group in groups),
        *(row(f"{find_metric(m).title}@{settings.k}", _mean(m, "all")) for m in LIST_METRICS),
    ]
    heading = f"## The models at {setting(settings.audited)}"
    table = _table(["", *(escaped(each.label) for each in models)], rows)
    return f"{heading}\n\n{table}\n\n{GLOSSARY}"


def _mean(metric: str, group: str) -> Cell:
    return lambda variant, at: _number(variant.means[metric][group][at])


def _to_half(group: str) -> Cell:
    def cell(variant: Variant, at: int) -> str:  # noqa: ARG001
        mean = variant.components_to_half[group]
        bound = "≥ " if variant.not_halved[group] else ""
        return "–" if np.isnan(mean) else f"{bound}{components(mean)}"

    return cell


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _curves(findings: Findings) -> str:
    """Both mechanisms at every size, under PCA and Item-Weighted PCA."""
    models = [findings.baseline, findings.weighted]
    columns = (
        ("error, niche", "item_error", "niche"),
        ("self-reconstruction, popular", "self_reconstruction", "popular"),
        ("item AUC, all", "item_auc", "all"),
    )
    name = symbol(findings.settings.size_parameter)
    head = [name, *(f"{title}, {v.label}" for title, _, _ in columns for v in models)]
    rows = [
        [
            f"{size:,}",
            *(_mean(metric, group)(v, at) for _, metric, group in columns for v in models),
        ]
        for at, size in enumerate(models[0].sizes)
    ]
    return f"## By {name}\n\n{_table(head, rows)}"


def _frontier(findings: Findings) -> str:
    models = [each for each in findings.variants if each.settings]
    if all(np.isnan(each.means["ndcg"]["all"]).all() for each in models):
        return ""
    rows = [
        [setting(each.settings), *(_number(value) for value in each.means["ndcg"]["all"])]
        for each in models
    ]
    head = [f"NDCG@{findings.settings.k}", *(f"{size:,}" for size in models[0].sizes)]
    names = " and ".join(symbol(name) for name in reversed(list(findings.settings.audited)))
    return f"## NDCG on held-out items, by {names}\n\n{_table(head, rows)}"


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
    """Items whose self-reconstruction falls and rises most from PCA to Item-Weighted PCA."""
    items, changes = findings.items, findings.changes()
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
    title = "## Items that change most from PCA to Item-Weighted PCA"
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
    notes = "\n".join(f"- {_safe(note)}" for note in settings.notes)
    name = symbol(settings.size_parameter).capitalize()
    return (
        f"## How this was measured\n\n{notes}\n- {name} {plain(settings.size)}: "
        f"{settings.size_chosen_by}; popularity groups by {settings.groups}; lists of "
        f"{settings.k}; seed {settings.seed}; equipoise {findings.version}."
    )

"""Findings as Markdown: the page's story for a terminal, a pull request or a wiki."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from equipoise.audit.findings import Findings, UserView, Variant
from equipoise.audit.measuring import position_of
from equipoise.audit.phrases import components
from equipoise.audit.record import change_of_items, compared_variants

# What a table shows of one model at the row of its audited rank.
Cell = Callable[[Variant, int], str]

_MOST_OWNED, _MOST_CHANGED, _MOST_USERS, _MOST_LISTED = 20, 10, 3, 5

GLOSSARY = (
    "Copied from itself: an item's entry on the diagonal of the projector; 1 is a component of "
    "its own. Specialization: the mean of the largest tenth of these entries. Error: the share of "
    "an item's squared norm that is not rebuilt. Item AUC and precision: how well the *other* "
    "items tell who touched an item. ARP: mean number of users of the recommended items. APLT: "
    "share of long-tail items in the lists. Popular, medium, niche: groups of items by popularity."
)


def to_markdown(findings: Findings) -> str:
    """Return the report as Markdown; equal findings give equal text."""
    sections = (
        _opening(findings),
        _verdict(findings),
        _data(findings),
        _at_the_rank(findings),
        _curves(findings),
        _frontier(findings),
        _owners(findings),
        _changed(findings),
        _users(findings),
        _notes(findings),
    )
    return "\n\n".join(section for section in sections if section) + "\n"


def escaped(name: object) -> str:
    r"""A name from the data as plain text: one line, nothing that Markdown would act on.

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
    headlines = "\n".join(f"- **{one.number}** {one.says}" for one in findings.verdict.headlines)
    return f"# Audit of {escaped(findings.portrait.source)}\n\n{headlines}"


def _verdict(findings: Findings) -> str:
    advice = findings.verdict.advice
    sentences = "\n".join(f"- {_safe(sentence)}" for sentence in findings.verdict.sentences)
    return (
        f"## Verdict\n\n{sentences}\n\n"
        f"**Use γ = {advice.gamma:g} and rank {advice.rank}.** {advice.why}\n\n"
        f"```python\n{advice.python}\n```\n\n```sh\n{advice.command}\n```"
    )


def _safe(sentence: str) -> str:
    """Labels of files in a sentence are not trusted: no tag, no link, no second line."""
    return re.sub(r"([\\`<>\[\]|])", r"\\\1", _one_line(sentence))


def _data(findings: Findings) -> str:
    p = findings.portrait
    rows = [[group.name, f"{group.n_items:,}", f"{group.mass:.1%}"] for group in p.groups]
    return (
        f"## The data\n\n{p.n_users:,} users × {p.n_items:,} items, {p.n_interactions:,} "
        f"interactions (density {p.density:.3%}). Gini of the items' popularity {p.gini:.3f}; the "
        f"most popular tenth of the items has {p.head_share:.1%} of the mass.\n\n"
        + _table(["popularity", "items", "share of the mass"], rows)
    )


def _at_the_rank(findings: Findings) -> str:
    """One column a model, one line a measure, at the audited rank and γ."""
    settings, models = findings.settings, compared_variants(findings)
    places = {v.key: position_of(settings.rank, v.ranks) for v in models}
    groups = ["all", *(group.name for group in findings.portrait.groups)]
    measures = (
        ("copied from itself", "diagonal"),
        ("error", "error"),
        ("item AUC", "auc"),
        (f"item precision@{settings.k}", "precision"),
    )

    def line(title: str, value: Cell) -> list[str]:
        return [title, *(value(v, places[v.key]) for v in models)]

    rows = [
        line("rank", lambda v, at: f"{v.ranks[at]:,}"),
        line("specialization", lambda v, at: _number(v.specialization[at])),
        line("components owned by one item", lambda v, _: str(len(v.owned))),
        *(line(f"{what}, {group}", _mean(of, group)) for what, of in measures for group in groups),
        *(line(f"error halved after, {group}", _halving(group)) for group in groups),
        *(line(_title(metric, settings.k), _accuracy(metric)) for metric in models[0].accuracy),
    ]
    heading = f"## The models at rank {settings.rank}, γ = {settings.gamma:g}"
    return f"{heading}\n\n{_table(['', *(escaped(v.label) for v in models)], rows)}\n\n{GLOSSARY}"


def _mean(measure: str, group: str) -> Cell:
    return lambda variant, at: _number(getattr(variant, measure)[group][at])


def _accuracy(metric: str) -> Cell:
    return lambda variant, at: _number(variant.accuracy[metric][at])


def _title(metric: str, k: int) -> str:
    names = {"ndcg": "NDCG", "mrr": "MRR", "arp": "ARP", "aplt": "APLT"}
    return f"{names.get(metric, metric.capitalize())}@{k}"


def _halving(group: str) -> Cell:
    def cell(variant: Variant, at: int) -> str:  # noqa: ARG001
        mean = variant.halving[group]
        bound = "≥ " if variant.not_halved.get(group) else ""
        return "–" if np.isnan(mean) else f"{bound}{components(mean)}"

    return cell


def _number(value: float) -> str:
    return "–" if np.isnan(value) else f"{value:.3f}"


def _curves(findings: Findings) -> str:
    """Both mechanisms by rank, under PCA and Item-Weighted PCA."""
    models = [v for v in compared_variants(findings) if v.kind in ("pca", "item-weighted")]
    head = [
        "rank",
        *(
            f"{what}, {v.label}"
            for what in ("error, niche", "copied, popular", "AUC, all")
            for v in models
        ),
    ]
    rows = [
        [
            f"{rank:,}",
            *(_number(v.error["niche"][at]) for v in models),
            *(_number(v.diagonal["popular"][at]) for v in models),
            *(_number(v.auc["all"][at]) for v in models),
        ]
        for at, rank in enumerate(models[0].ranks)
    ]
    return f"## By rank\n\n{_table(head, rows)}"


def _frontier(findings: Findings) -> str:
    models = [v for v in findings.variants if v.kind == "item-weighted"]
    if all(np.isnan(v.accuracy["ndcg"]).all() for v in models):
        return ""
    rows = [[f"γ = {v.gamma:g}", *(_number(value) for value in v.accuracy["ndcg"])] for v in models]
    head = [f"NDCG@{findings.settings.k}", *(f"{rank:,}" for rank in models[0].ranks)]
    return f"## The frontier over γ and rank, on held-out items\n\n{_table(head, rows)}"


def _owners(findings: Findings) -> str:
    items, rows = findings.items, []
    for variant in compared_variants(findings):
        rows += [
            [
                escaped(variant.label),
                str(owned.component + 1),
                escaped(items.names[owned.item]),
                f"{owned.weight:.0%}",
            ]
            for owned in variant.owned[:_MOST_OWNED]
        ]
    if not rows:
        return ""
    head = ["model", "component", "item", "its share of the component"]
    return f"## Components that one item has for itself\n\n{_table(head, rows)}"


def _changed(findings: Findings) -> str:
    """Items whose self-copying falls and rises most between PCA and Item-Weighted PCA."""
    items, changes = findings.items, change_of_items(findings)
    order = np.argsort(changes["diagonal"], kind="stable")
    chosen = list(dict.fromkeys([*order[:_MOST_CHANGED], *order[::-1][:_MOST_CHANGED]]))
    rows = [
        [
            escaped(items.names[j]),
            f"{items.n_users[j]:,}",
            *(f"{changes[m][j]:+.3f}" if np.isfinite(changes[m][j]) else "–" for m in changes),
        ]
        for j in chosen
    ]
    head = ["item", "users", "copied from itself", "error", "item AUC"]
    title = "## Items that change most from PCA to Item-Weighted PCA"
    return f"{title}\n\n{_table(head, rows)}"


def _users(findings: Findings) -> str:
    views = "\n\n".join(_user(view, findings) for view in findings.users[:_MOST_USERS])
    return f"## Some users\n\n{views}" if views else ""


def _user(view: UserView, findings: Findings) -> str:
    def named(places: Iterable[int]) -> str:
        return ", ".join(escaped(findings.items.names[j]) for j in places) or "–"

    labels = {variant.key: escaped(variant.label) for variant in findings.variants}
    lines = [f"**{escaped(view.user)}** has {named(view.history[:_MOST_LISTED])}"]
    for key, listed in view.recommended.items():
        shown = "; ".join(
            f"{named([one.item])} (because of {named(one.because)})"
            for one in listed[:_MOST_LISTED]
        )
        lines.append(f"- {labels[key]}: {shown or '–'}")
    return "\n".join([lines[0], "", *lines[1:]])


def _notes(findings: Findings) -> str:
    settings = findings.settings
    notes = "\n".join(f"- {_safe(note)}" for note in settings.notes)
    return (
        f"## How this was measured\n\n{notes}\n- Rank {settings.rank}: {settings.rank_chosen_by}; "
        f"popularity groups by {settings.groups}; lists of {settings.k}; seed {settings.seed}; "
        f"equipoise {findings.version}."
    )

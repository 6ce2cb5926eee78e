"""The tables of an audit: Markdown contains all of them, the terminal prints some."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from equipoise.audit.findings import Entry, Findings, Variant
from equipoise.audit.formatting import (
    MEASURES,
    TERMS,
    between,
    geometry,
    half_error_cell,
    interval_cell,
    mean_cell,
    setting,
    symbol,
)
from equipoise.audit.group_section import GroupSection
from equipoise.audit.measure import LIST_METRICS
from equipoise.display import Shown
from equipoise.metrics import find_metric
from equipoise.metrics.results import ALL

_MOST_OWNED, _MOST_CHANGED = 20, 10

# The terms that the tables use, in addition to those of their titles.
_EXPLAINED = ("self-reconstruction", "specialization", "item error", "item AUC", "ARP", "APLT")


def tables(found: Findings) -> Iterator[Shown]:
    """Yield all tables, without empty ones."""
    yield _data(found)
    yield contest(found)
    yield _models(found)
    yield _frontier(found)
    for section in found.groups:
        yield from _groups(section, found)
    yield _owners(found)
    yield _changed(found)


def numbers(
    found: Findings, variants: Sequence[Variant], title: str, *, brief: bool = False
) -> Shown:
    """Return one row per measure and one column per model at its own size, with intervals.

    `brief` leaves out all groups but the most popular and the most niche one, and most measures.
    """
    settings, k = found.settings, found.settings.k
    groups = [ALL, *(group.name for group in found.data.groups)]
    ends = [groups[1], groups[-1]]
    by_group = {
        "self_reconstruction": ("self-reconstruction", ends),
        "item_error": ("error", []),
        "item_auc": ("item AUC", ends[1:]),
        "item_precision": (f"item precision@{k}", []),
    }

    def counted(count: Callable[[Variant], int]) -> list[str]:
        return [f"{count(v):,}" if v.has_components else "–" for v in variants]

    def means(metric: str, group: str = ALL) -> list[str]:
        return [mean_cell(v, metric, group) for v in variants]

    rows = [
        (symbol(settings.size_parameter), counted(lambda v: v.size)),
        ("specialization (0: all shared)", means("specialization")),
        ("components owned by one item", counted(lambda v: len(v.owned))),
        *(
            (f"{name}, {group}", means(metric, group))
            for metric, (name, few) in by_group.items()
            for group in (few if brief else groups)
        ),
        *(
            (f"components to half error, {group}", [half_error_cell(v, group) for v in variants])
            for group in (ends if brief else groups)
        ),
        *((name, means(metric)) for metric, name in geometry(variants).items()),
        *(
            (f"{find_metric(metric).title}@{k}", means(metric))
            for metric in (("recall", "ndcg") if brief else LIST_METRICS)
        ),
        *(
            (label if group == ALL else f"{label}, {group}", means(metric, group))
            for metric, label in settings.metrics.items()
            for group in variants[0].means.get(metric, {ALL: ()})
        ),
    ]
    columns = ["", *(variant.label for variant in variants)]
    return Shown(title, columns, [(name, *cells) for name, cells in rows])


def main_measure(section: GroupSection, variants: Sequence[Variant]) -> Shown:
    """Return the main measure of every model, one row per group."""
    measure = MEASURES[section.main]
    return Shown(
        f"{measure.title} of {section.of} by {section.rule}, with 95 % intervals",
        ["", section.of, *(variant.label for variant in variants)],
        _by_group(section, [(variant.key, section.main) for variant in variants]),
        [f"{measure.title[:1].upper()}{measure.title[1:]}: {measure.meaning}"],
    )


def _by_group(
    section: GroupSection, numbers: Sequence[tuple[str, str]], small: str = ""
) -> list[tuple[str, ...]]:
    """Return one row per group with numbers of models and measures; `small` marks small groups."""
    return [
        (
            group.name if group.reported else f"{group.name}{small}",
            f"{group.size:,}",
            *(interval_cell(section.number(*number, group.name)) for number in numbers),
        )
        for group in section.groups
    ]


def _data(found: Findings) -> Shown:
    data = found.data
    return Shown(
        "The data",
        ["popularity", "items", "share of interactions"],
        [(group.name, f"{group.n_items:,}", f"{group.share:.1%}") for group in data.groups],
        [
            f"{data.size} (density {data.density:.3%}). Gini of the items' popularity "
            f"{data.gini:.3f}; the most popular tenth of the items has {data.head_share:.1%} of "
            "the interactions."
        ],
    )


def contest(found: Findings) -> Shown:
    """Return each model at its best; without rows if there is nothing to compare."""
    entries = [entry for entry in found.contest if entry.test is not None]
    columns = ["", "preparation", "settings", f"NDCG@{found.settings.k}", "95 %"]
    rows = [_entry(entry) for entry in entries] if len(entries) > 1 else []
    return Shown("Each model at its best on validation", [*columns, "difference", "95 %"], rows)


def _entry(entry: Entry) -> list[str]:
    prepared = ("value_transform", "user_scaling")
    others = {name: v for name, v in entry.settings.items() if name not in prepared}
    cells = [entry.title, entry.preparation or "–", setting(others) or "–"]
    for found, sign in ((entry.test, ""), (entry.gain, "+")):
        cells += ["–", "–"] if found is None else [f"{found.mean:{sign}.3f}", between(found)]
    return cells


def _models(found: Findings) -> Shown:
    empty = dict.fromkeys(each.no_accuracy for each in found.compared if each.no_accuracy)
    notes = [f"Accuracy is left empty where {reason}." for reason in empty]
    notes += [f"{term}: {TERMS[term]}" for term in _EXPLAINED]
    return numbers(found, found.compared, "The models")._replace(notes=notes)


def _frontier(found: Findings) -> Shown:
    models = [each for each in found.variants if each.kind == "item-weighted"]
    curves = [each.means["ndcg"][ALL] for each in models]
    rows = [
        (
            setting({name: each.settings[name] for name in found.settings.weighting}),
            *("–" if np.isnan(value) else f"{value:.3f}" for value in curve),
        )
        for each, curve in zip(models, curves, strict=True)
    ]
    names = " and ".join(symbol(name) for name in reversed(list(found.settings.audited)))
    return Shown(
        f"{models[0].label}: NDCG on held-out items, by {names}",
        [f"NDCG@{found.settings.k}", *(f"{size:,}" for size in models[0].sizes)],
        [] if np.isnan(curves).all() else rows,
    )


def _groups(section: GroupSection, found: Findings) -> Iterator[Shown]:
    """Yield all measures of the subject, the main measure of all models, the prices of floors."""
    if not section.measures:
        return
    subject = found.subject
    yield Shown(
        f"Groups of {section.of}: {section.rule}",
        ["group", section.of, *(MEASURES[name].title for name in section.measures)],
        _by_group(section, [(subject.key, m) for m in section.measures], " (too few members)"),
        [f"{subject.label}, with 95 % intervals. {section.note}"],
    )
    yield main_measure(section, [v for v in found.compared if v.key in section.numbers])
    yield _prices(section)


def _prices(section: GroupSection) -> Shown:
    rows = [
        (
            price.group,
            f"{price.share:.3f}",
            f"{price.limit:.3f}",
            ", ".join(
                f"{floor:.3f}: {kept:.1%}"
                for floor, kept in zip(price.floors[1:], price.kept[1:], strict=True)
            ),
        )
        for price in section.prices
    ]
    return Shown(
        "The price of a floor",
        ["group", "share without a floor", "limit", "floor: objective that is left"],
        rows,
        [
            "Item-Weighted PCA with a minimum for the retained share of one group. No projection "
            "of this rank exceeds the limit."
        ],
    )


def _owners(found: Findings) -> Shown:
    rows = [
        (variant.label, owned.component + 1, found.items.names[owned.item], f"{owned.weight:.0%}")
        for variant in found.compared
        for owned in variant.owned[:_MOST_OWNED]
    ]
    columns = ["model", "component", "item", "its share of the component"]
    return Shown("Components owned by one item", columns, rows)


def _changed(found: Findings) -> Shown:
    """Items whose self-reconstruction falls and rises most from the subject to the advised."""
    items, changes = found.items, found.changes()
    order = np.argsort(changes["self_reconstruction"], kind="stable")
    chosen = list(dict.fromkeys([*order[:_MOST_CHANGED], *order[::-1][:_MOST_CHANGED]]))
    rows = [
        (
            items.names[j],
            f"{items.n_users[j]:,}",
            *(f"{move[j]:+.3f}" if np.isfinite(move[j]) else "–" for move in changes.values()),
        )
        for j in chosen
    ]
    return Shown(
        f"Items that change most from {found.subject.label} to {found.advised.label}",
        ["item", "users", "self-reconstruction", "error", "item AUC"],
        [] if found.advised is found.subject else rows,
    )

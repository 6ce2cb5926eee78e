"""What an audit found, in the few lines that a terminal has room for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from equipoise.audit.findings import Findings, Variant


class Line(NamedTuple):
    """One measure: what it is, and the number of each model."""

    title: str
    values: tuple[str, ...]


def lines(found: Findings) -> list[Line]:
    """The numbers that matter, at the rank and γ asked for."""
    from equipoise.audit.measuring import position_of
    from equipoise.audit.phrases import components
    from equipoise.audit.record import compared_variants

    variants, k = compared_variants(found), found.settings.k
    place = {each.key: position_of(found.settings.rank, each.ranks) for each in variants}

    def line(title: str, form: str, number: Callable[[Variant, int], float]) -> Line:
        return Line(title, tuple(_shown(form, number(v, place[v.key])) for v in variants))

    def halving(group: str) -> Line:  # a mean over items of which some were never halved is a bound
        means = ((v.halving[group], "≥ " * bool(v.not_halved.get(group))) for v in variants)
        told = (f"{bound}{components(m)}" if math.isfinite(m) else "–" for m, bound in means)
        return Line(f"{group}: components for half", tuple(told))

    groups = [group.name for group in found.portrait.groups]
    first, last = groups[0], groups[-1]
    return [
        line("specialization (0: all shared)", "{:.3f}", lambda v, r: v.specialization[r]),
        line(f"{first}: copied from itself", "{:.3f}", lambda v, r: v.diagonal[first][r]),
        line(f"{last}: copied from itself", "{:.3f}", lambda v, r: v.diagonal[last][r]),
        halving(first),
        halving(last),
        line(f"{last}: AUC from other items", "{:.3f}", lambda v, r: v.auc[last][r]),
        line(f"Recall@{k}", "{:.3f}", lambda v, r: v.accuracy["recall"][r]),
        line(f"NDCG@{k}", "{:.3f}", lambda v, r: v.accuracy["ndcg"][r]),
        line("components owned by one item", "{:.0f}", lambda v, _: len(v.owned)),
    ]


def portrait(found: Findings) -> str:
    """What was audited, in one sentence."""
    data, settings = found.portrait, found.settings
    groups = ", ".join(f"{group.n_items:,} {group.name}" for group in data.groups)
    chosen = "" if settings.rank_chosen_by == "given" else f" ({settings.rank_chosen_by})"
    return (
        f"{data.n_users:,} users × {data.n_items:,} items, {data.n_interactions:,} interactions; "
        f"rank {settings.rank}{chosen}, γ = {settings.gamma:g}; "
        f"popularity groups by {settings.groups}: {groups}."
    )


def _shown(form: str, number: float) -> str:
    return form.format(number) if math.isfinite(number) else "–"

"""Findings as the data of the page: a small summary in JSON, and zipped blocks for the items."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.audit.findings import Findings, Floats, UserView, Variant
from equipoise.audit.report.encoding import Blocks, quantise

_NEVER, _UNKNOWN = 65535, 65534  # codes of "components to halve": infinite, not measured

# Where the curve of who takes the components is told: densest among the most popular items.
_CURVE = np.linspace(0.0, 1.0, 41) ** 2


class Fidelity(NamedTuple):
    """How finely the numbers of single items are kept.

    Attributes
    ----------
    levels : int
        Steps that errors and diagonals are rounded to.
    neighbours : int
        Neighbours of an item that are listed.
    every_gamma : bool
        Neighbours under each γ, or only under the γ that the report speaks of.
    letters : int
        Names and ids are cut after that many.
    """

    levels: int
    neighbours: int
    every_gamma: bool
    letters: int

    def in_words(self) -> str:
        """What a reader should know about it."""
        listed = "at every γ" if self.every_gamma else "at the audited γ only"
        return (
            f"To keep this file small, errors and diagonals of single items are rounded to "
            f"{self.levels:,} steps, an item's card lists up to {self.neighbours} neighbours, "
            f"{listed}, and names are cut after {self.letters} letters. Means and verdict are "
            "computed from the unrounded numbers."
        )


# Tried in turn until the page fits: 20,000 items under nine models take the third; the last two
# are for numbers that are pure noise and do not zip.
LADDER = (
    Fidelity(levels=10_000, neighbours=10, every_gamma=True, letters=2000),
    Fidelity(levels=250, neighbours=10, every_gamma=True, letters=400),
    Fidelity(levels=250, neighbours=6, every_gamma=False, letters=120),
    Fidelity(levels=100, neighbours=5, every_gamma=False, letters=80),
    Fidelity(levels=30, neighbours=2, every_gamma=False, letters=40),
)


class Payload(NamedTuple):
    """What the page's scripts read: `summary` is JSON, `blocks` base64 of gzip."""

    summary: str
    blocks: str
    fidelity: Fidelity


def payload(findings: Findings, most: int) -> Payload:
    """The finest payload of at most `most` characters; if none fits, the coarsest.

    Parameters
    ----------
    findings : Findings
        What to tell.
    most : int
        Characters that the page can spare.
    """
    packed = _packed(findings, LADDER[0])
    for fidelity in LADDER[1:]:
        if len(packed.summary) + len(packed.blocks) <= most:
            break
        packed = _packed(findings, fidelity)
    return packed


def _packed(findings: Findings, fidelity: Fidelity) -> Payload:
    blocks = Blocks()
    _add_items(blocks, findings, fidelity)
    variants = [
        _variant(blocks, str(place), variant, findings, fidelity)
        for place, variant in enumerate(findings.variants)
    ]
    summary = {
        "portrait": _portrait(findings),
        "settings": asdict(findings.settings),
        "advice": {"gamma": findings.verdict.advice.gamma, "rank": findings.verdict.advice.rank},
        "variants": variants,
        "users": [_user(user) for user in findings.users],
        "blocks": blocks.index,
    }
    return Payload(safe_json(summary), blocks.zipped(), fidelity)


def safe_json(value: Any) -> str:
    r"""JSON that can stand inside a script element: no `<`, no `>`, nothing beyond ASCII.

    Examples
    --------
    >>> print(safe_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(values: Iterable[float]) -> list[float | None]:
    """Floats with six digits, what is not finite as null.

    Examples
    --------
    >>> plain([0.12345678, float("nan")])
    [0.123457, None]
    """
    return [float(f"{v:.6g}") if math.isfinite(v) else None for v in map(float, values)]


def as_text(value: Any) -> str:
    """A name or id as the page says it; nothing for what is missing.

    Examples
    --------
    >>> as_text(None), as_text(float("nan")), as_text(12)
    ('', '', '12')
    """
    missing = value is None or (isinstance(value, float) and math.isnan(value))
    return "" if missing else str(value)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _portrait(findings: Findings) -> dict[str, Any]:
    told = asdict(findings.portrait)
    told["popularity_curve"] = [plain(point) for point in findings.portrait.popularity_curve]
    return told


def _add_items(blocks: Blocks, findings: Findings, fidelity: Fidelity) -> None:
    items = findings.items
    _add_popularity(blocks, items.popularity)
    blocks.add("users", items.n_users.astype(np.uint32))
    blocks.add("group", items.group.astype(np.uint8))
    blocks.add_json("ids", [_cut(as_text(i), fidelity.letters) for i in items.ids.tolist()])
    blocks.add_json("names", [_cut(as_text(n), fidelity.letters) for n in items.names.tolist()])


def _add_popularity(blocks: Blocks, popularity: Floats) -> None:
    """As float32, which shows all digits that the page does; as text where it would overflow."""
    limits, touched = np.finfo(np.float32), popularity[popularity > 0]
    if touched.size == 0 or limits.tiny < touched.min() <= touched.max() < limits.max:
        blocks.add("popularity", popularity.astype(np.float32))
    else:
        blocks.add_json("popularity", popularity.tolist())


def _variant(
    blocks: Blocks, place: str, variant: Variant, findings: Findings, fidelity: Fidelity
) -> dict[str, Any]:
    """Add the blocks of one model; return what the summary says of it."""
    by_item = {
        "diagonal": quantise(variant.diagonal_by_item, fidelity.levels, power=2),
        "error": quantise(variant.error_by_item, fidelity.levels),
        "auc": quantise(variant.auc_by_item[np.newaxis], min(fidelity.levels, 1000)),
    }
    for measure, quantised in by_item.items():
        blocks.add(f"{place}.{measure}", quantised.codes)
    blocks.add(f"{place}.halving", _halving_codes(variant.halving_by_item))
    neighbours = _neighbours(variant, findings, fidelity)
    blocks.add(f"{place}.neighbours", neighbours)
    means = ("diagonal", "error", "auc", "precision")
    return {
        "key": variant.key,
        "label": as_text(variant.label),
        "kind": variant.kind,
        "gamma": variant.gamma,
        "ranks": list(variant.ranks),
        "specialization": plain(variant.specialization),
        "means": {measure: _series(getattr(variant, measure)) for measure in means},
        "halving": dict(zip(variant.halving, plain(variant.halving.values()), strict=True)),
        "accuracy": _series(variant.accuracy),
        "owned": [[o.component, o.item, round(float(o.weight), 3)] for o in variant.owned],
        "scales": {measure: quantised[1:] for measure, quantised in by_item.items()},
        "neighbours": neighbours.shape[1],
        "shares": [_shares(findings, variant, at) for at in range(len(variant.ranks))],
    }


def _series(by_name: Mapping[str, Floats]) -> dict[str, list[float | None]]:
    return {name: plain(values) for name, values in by_name.items()}


def _halving_codes(halving: Floats) -> NDArray[np.uint16]:
    codes = np.clip(np.nan_to_num(halving, nan=0.0, posinf=0.0), 0, _UNKNOWN - 1)
    codes[np.isinf(halving)] = _NEVER
    codes[np.isnan(halving)] = _UNKNOWN
    return np.rint(codes).astype(np.uint16)


def _neighbours(variant: Variant, findings: Findings, fidelity: Fidelity) -> NDArray[Any]:
    """Those that are listed, in the smallest type that holds every position."""
    wanted = fidelity.every_gamma or variant.gamma in (None, findings.settings.gamma)
    listed = variant.neighbours[:, : fidelity.neighbours if wanted else 0]
    return listed.astype(np.int16 if len(findings.items.ids) <= 32_767 else np.int32)


def _shares(findings: Findings, variant: Variant, at: int) -> list[list[float | None]]:
    """Who takes the components: share of the items, most popular first, against share of the trace.

    The diagonal of a projector sums to its rank, so an item's entry is its part of the components.
    Where `Items` is a sample, only the ends of the popularity groups are told, which the means of
    the groups give exactly.
    """
    portrait, items = findings.portrait, findings.items
    if len(items.ids) == portrait.n_items:
        order = np.argsort(-items.popularity, kind="stable")
        held = np.cumsum(variant.diagonal_by_item[at][order])
        x = np.arange(len(held) + 1) / len(held)
        where, y = _CURVE, np.interp(_CURVE, x, np.concatenate([[0.0], held]))
    else:
        sizes = [group.n_items for group in portrait.groups]
        means = [variant.diagonal[group.name][at] for group in portrait.groups]
        where = np.concatenate([[0.0], np.cumsum(sizes) / sum(sizes)])
        y = np.concatenate([[0.0], np.cumsum(np.array(sizes) * np.array(means))])
    if not (math.isfinite(y[-1]) and y[-1] > 0):  # EASE has no diagonal to share out
        return []
    return [plain(point) for point in zip(where, y / y[-1], strict=True)]


def _user(user: UserView) -> dict[str, Any]:
    return {
        "user": as_text(user.user),
        "history": [int(i) for i in user.history],
        "heldOut": [int(i) for i in user.held_out],
        "recommended": {
            key: [[int(r.item), [int(b) for b in r.because]] for r in listed]
            for key, listed in user.recommended.items()
        },
    }

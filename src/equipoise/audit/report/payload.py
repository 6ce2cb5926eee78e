"""Findings as the data of the page: a small summary in JSON, and zipped blocks of the items."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from equipoise.audit.findings import Entry, Findings, Floats, Variant
from equipoise.audit.formatting import setting
from equipoise.audit.group_section import GroupSection
from equipoise.audit.report.encoding import Blocks, quantize
from equipoise.audit.report.to_json import as_json, model_facts

# Points of the curve of components by popularity: densest among the most popular items.
_CURVE = np.linspace(0.0, 1.0, 41) ** 2


class Fidelity(NamedTuple):
    """How precisely the numbers of single items are stored.

    Attributes
    ----------
    levels : int
        Steps that errors and self-reconstructions are rounded to.
    neighbors : int
        Neighbors of an item that are listed.
    letters : int
        Names and ids are cut after this many.
    """

    levels: int
    neighbors: int
    letters: int

    def description(self) -> str:
        """Return a note for the report."""
        return (
            "To keep this file small, errors and self-reconstructions of single items are rounded "
            f"to {self.levels:,} steps, an item's card lists up to {self.neighbors} neighbors, and "
            f"names are cut after {self.letters} letters. Means and answer are computed from the "
            "unrounded numbers."
        )


# Tried in turn until the page fits: 20,000 items under nine models need the third; the last two
# are for numbers that are noise and do not compress.
LADDER = (
    Fidelity(levels=10_000, neighbors=10, letters=2000),
    Fidelity(levels=250, neighbors=10, letters=400),
    Fidelity(levels=250, neighbors=6, letters=120),
    Fidelity(levels=100, neighbors=5, letters=80),
    Fidelity(levels=30, neighbors=2, letters=40),
)


class Payload(NamedTuple):
    """Input of the page's scripts: `summary` is JSON, `blocks` base64 of gzip."""

    summary: str
    blocks: str
    fidelity: Fidelity

    @property
    def size(self) -> int:
        """Number of characters."""
        return len(self.summary) + len(self.blocks)


def payload(findings: Findings, most: Callable[[], int]) -> Payload:
    """Return the finest payload of at most `most()` characters; if none fits, the coarsest.

    Parameters
    ----------
    findings : Findings
        The findings.
    most : callable
        Returns the number of characters. It is called when the finest payload is there: what
        decides it may be computed meanwhile.
    """
    packed = _packed(findings, LADDER[0])
    for fidelity in LADDER[1:]:
        if packed.size <= most():
            break
        packed = _packed(findings, fidelity)
    return packed


def _packed(findings: Findings, fidelity: Fidelity) -> Payload:
    blocks, settings = Blocks(), findings.settings
    _add_items(blocks, findings, fidelity)
    variants = [
        _variant(blocks, str(place), variant, findings, fidelity)
        for place, variant in enumerate(findings.variants)
    ]
    summary = {
        "data": findings.data,
        "settings": {
            **vars(settings),
            "size": settings.size,
            "exponent_parameter": next(iter(settings.weighting)),
        },
        "subject": findings.subject_key,
        "advised": findings.advised_key,
        "contest": [_entry(entry, findings) for entry in findings.contest],
        "variants": variants,
        "users": findings.users,
        "groups": [
            _group_section(blocks, str(place), section, findings)
            for place, section in enumerate(findings.groups)
        ],
        "blocks": blocks.index,
    }
    return Payload(safe_json(as_json(summary)), blocks.zipped(), fidelity)


def safe_json(value: Any) -> str:
    r"""Return JSON for a script element: no `<`, no `>`, only ASCII.

    Examples
    --------
    >>> print(safe_json({"name": "</script>"}))
    {"name":"\u003c/script\u003e"}
    """
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _cut(value: Any, most: int) -> str:
    text = str(value)
    return text if len(text) <= most else text[: most - 1] + "…"


def _add_items(blocks: Blocks, findings: Findings, fidelity: Fidelity) -> None:
    items = findings.items
    blocks.add("popularity", items.popularity.astype(np.float32))
    blocks.add("users", items.n_users.astype(np.uint32))
    blocks.add("group", items.group.astype(np.uint8))
    blocks.add_json("ids", [_cut(i, fidelity.letters) for i in items.ids.tolist()])
    blocks.add_json("names", [_cut(n, fidelity.letters) for n in items.names.tolist()])


def _variant(
    blocks: Blocks, place: str, variant: Variant, findings: Findings, fidelity: Fidelity
) -> dict[str, Any]:
    """Add the blocks of one variant; return its summary."""
    own, levels = variant.self_reconstruction_by_item, fidelity.levels
    by_item = {
        "self_reconstruction": quantize(own, levels, power=2),
        "item_error": quantize(variant.error_by_item, levels),
        "item_auc": quantize(variant.auc_by_item[np.newaxis], min(levels, 1000)),
    }
    for metric, quantized in by_item.items():
        blocks.add(f"{place}.{metric}", quantized.codes)
    blocks.add(f"{place}.to_half", variant.components_to_half_by_item.astype(np.float32))
    few = len(findings.items.ids) <= np.iinfo(np.int16).max
    neighbors = variant.neighbors[:, : fidelity.neighbors].astype(np.int16 if few else np.int32)
    blocks.add(f"{place}.neighbors", neighbors)
    return {
        **model_facts(variant),
        "owned": variant.owned,
        "scales": {metric: quantized[1:] for metric, quantized in by_item.items()},
        "neighbors": neighbors.shape[1],
        "shares": [_shares(findings, variant, at) for at in range(len(variant.sizes))],
    }


def _shares(findings: Findings, variant: Variant, at: int) -> Floats:
    """Return shares of the items, most popular first, with their shares of the components.

    The self-reconstructions of a projection add up to its rank: each is the item's part of the
    components. If `Items` is a sample, the curve has only the ends of the popularity groups, which
    the means of the groups give exactly.
    """
    data, items = findings.data, findings.items
    if len(items.ids) == data.n_items:
        order = np.argsort(-items.popularity, kind="stable")
        held = np.cumsum(variant.self_reconstruction_by_item[at][order])
        x = np.arange(len(held) + 1) / len(held)
        where, y = _CURVE, np.interp(_CURVE, x, np.concatenate([[0.0], held]))
    else:
        sizes = [group.n_items for group in data.groups]
        own = variant.means["self_reconstruction"]
        means = [own[group.name][at] for group in data.groups]
        where = np.concatenate([[0.0], np.cumsum(sizes) / sum(sizes)])
        y = np.concatenate([[0.0], np.cumsum(np.array(sizes) * np.array(means))])
    if not (math.isfinite(y[-1]) and y[-1] > 0):  # EASE has no self-reconstruction
        return np.zeros((0, 2))
    return np.column_stack([where, y / y[-1]])


def _entry(entry: Entry, findings: Findings) -> dict[str, Any]:
    """Return a model of the fair comparison; only what is known to be better is advised."""
    advice, subject = findings.advice, entry is findings.contest[0]
    best = not advice.keep and (entry.model, entry.settings) == (advice.model, advice.settings)
    advised = advice.keep if subject else best and advice.gain is not None
    if subject:
        given = findings.subject_key.startswith("given:")
        role, kept = ("yours", ", keep") if given else ("audited", ", advised")
        role += kept * advised
    else:
        role = "advised" if advised else "best on validation" * best
    own = {"setting": setting(entry.settings), "subject": subject, "advised": advised, "role": role}
    return vars(entry) | own


def _group_section(
    blocks: Blocks, place: str, section: GroupSection, findings: Findings
) -> dict[str, Any]:
    """Add the groups of the listed items, unless they are the popularity groups; summarize."""
    own = section.members is not None and section.is_own
    if section.members is not None and own:
        listed = section.members[findings.items.columns]
        blocks.add(f"groups.{place}.starts", listed.indptr.astype(np.uint32))
        blocks.add(f"groups.{place}.of", listed.indices.astype(np.uint16))
    return {**section.to_dict(), "members": own}

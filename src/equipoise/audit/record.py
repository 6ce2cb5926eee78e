"""Findings as JSON: what page and Markdown say, for machines; equal findings, equal text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from equipoise.audit.findings import Findings, Floats, Items, OwnedComponent, UserView, Variant
from equipoise.audit.measuring import position_of


def to_json(findings: Findings) -> str:
    """Return everything that was found; of single items, at the audited rank and γ.

    Numbers have six digits; null is what is not defined. An item's ``components_to_halve`` is
    null, and its ``halved`` false, where all the components looked at do not suffice.
    """
    compared, changes = compared_variants(findings), change_of_items(findings)
    head = {
        "equipoise": findings.version,
        "verdict": asdict(findings.verdict),
        "portrait": _portrait(findings),
        "settings": asdict(findings.settings),
        "models": [_model(variant, findings.items) for variant in findings.variants],
    }
    lists = {
        "items": [
            _item(place, findings, compared, changes) for place in range(len(findings.items.ids))
        ],
        "users": [_user(view, findings.items) for view in findings.users],
    }
    blocks = [f'"{name}": {_dumped(value)}' for name, value in head.items()]
    for name, entries in lists.items():
        lines = ",\n".join(_dumped(entry) for entry in entries)
        blocks.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def compared_variants(findings: Findings) -> list[Variant]:
    """All models, but of Item-Weighted PCA only the one at the audited γ."""
    gamma = findings.settings.gamma
    return [
        variant
        for variant in findings.variants
        if variant.kind != "item-weighted" or variant.gamma == gamma
    ]


def change_of_items(findings: Findings) -> dict[str, Floats]:
    """What changes for each item from PCA to Item-Weighted PCA at the audited rank and γ."""
    rank = findings.settings.rank
    before = next(v for v in findings.variants if v.kind == "pca")
    after = next(v for v in compared_variants(findings) if v.kind == "item-weighted")
    old, new = position_of(rank, before.ranks), position_of(rank, after.ranks)
    return {
        "diagonal": after.diagonal_by_item[new] - before.diagonal_by_item[old],
        "error": after.error_by_item[new] - before.error_by_item[old],
        "auc": after.auc_by_item - before.auc_by_item,
    }


def _dumped(value: Any) -> str:
    return json.dumps(_plain(value), allow_nan=False)


def _plain(value: Any) -> Any:
    """Numbers with six digits, NaN and infinity as null, arrays as lists, ids as they are."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return [_plain(entry) for entry in value]
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _portrait(findings: Findings) -> dict[str, Any]:
    told = asdict(findings.portrait)
    told["popularity_curve"] = findings.portrait.popularity_curve
    return told


def _model(variant: Variant, items: Items) -> dict[str, Any]:
    return {
        "key": variant.key,
        "label": variant.label,
        "kind": variant.kind,
        "gamma": variant.gamma,
        "ranks": variant.ranks,
        "specialization": variant.specialization,
        "diagonal": variant.diagonal,
        "error": variant.error,
        "item_auc": variant.auc,
        "item_precision": variant.precision,
        "components_looked_at": variant.depth,
        "components_to_halve": variant.halving,
        "items_not_halved": variant.not_halved,
        "accuracy": variant.accuracy,
        "owned_components": [_owned(owned, items) for owned in variant.owned],
    }


def _owned(owned: OwnedComponent, items: Items) -> dict[str, Any]:
    return {
        "component": owned.component,
        "item": items.ids[owned.item],
        "name": items.names[owned.item],
        "weight": owned.weight,
    }


def _item(
    place: int,
    findings: Findings,
    compared: Iterable[Variant],
    changes: Mapping[str, Floats],
) -> dict[str, Any]:
    items = findings.items
    group = findings.portrait.groups[int(items.group[place])].name
    models = {variant.key: _seen_by(variant, place, findings) for variant in compared}
    return {
        "id": items.ids[place],
        "name": items.names[place],
        "popularity": items.popularity[place],
        "users": items.n_users[place],
        "group": group,
        "models": models,
        "changed": {name: values[place] for name, values in changes.items()},
    }


def _seen_by(variant: Variant, place: int, findings: Findings) -> dict[str, Any]:
    at = position_of(findings.settings.rank, variant.ranks)
    halving = float(variant.halving_by_item[place])
    near = variant.neighbours[place]
    return {
        "diagonal": variant.diagonal_by_item[at, place],
        "error": variant.error_by_item[at, place],
        "item_auc": variant.auc_by_item[place],
        "components_to_halve": halving,
        "halved": None if math.isnan(halving) else math.isfinite(halving),
        "neighbours": findings.items.ids[near[near >= 0]],
    }


def _user(view: UserView, items: Items) -> dict[str, Any]:
    return {
        "user": view.user,
        "history": items.ids[list(view.history)],
        "held_out": items.ids[list(view.held_out)],
        "recommended": {
            key: [
                {
                    "item": items.ids[one.item],
                    "score": one.score,
                    "because": items.ids[list(one.because)],
                }
                for one in listed
            ]
            for key, listed in view.recommended.items()
        },
    }

"""Findings as JSON; equal findings give equal text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from equipoise.audit.advice import check_command, command, python_call
from equipoise.audit.findings import Findings, Floats, Items, OwnedComponent, Variant


def to_json(findings: Findings) -> str:
    """Return all findings; those of single items at the size of each model.

    Numbers have six digits; null means undefined. Intervals contain 95 %. An item's
    ``components_to_half`` is null, and its ``halved`` false, if all components do not suffice.
    """
    changes, advice = findings.changes(), findings.advice
    head = {
        "equipoise": findings.version,
        "answer": findings.answer._asdict(),
        "advice": {
            **vars(advice),
            "python": python_call(advice),
            "command": command(advice),
            "check": check_command(advice),
        },
        "subject": findings.subject_key,
        "advised": findings.advised_key,
        "mitigation": str(findings.mitigation),
        "contest": findings.contest,
        "evidence": findings.evidence,
        "data": findings.data,
        "settings": findings.settings,
        "groups": [section.to_dict() for section in findings.groups],
        "manifest": findings.manifest,
        "models": [
            model_facts(variant)
            | {"owned_components": [_owned(one, findings.items) for one in variant.owned]}
            for variant in findings.variants
        ],
    }
    lists: dict[str, list[Any]] = {
        "items": [_item(place, findings, changes) for place in range(len(findings.items.ids))],
        "users": [view.renamed(findings.items.ids.__getitem__) for view in findings.users],
    }
    blocks = [f'"{name}": {_dumped(value)}' for name, value in head.items()]
    for name, entries in lists.items():
        lines = ",\n".join(_dumped(entry) for entry in entries)
        blocks.append(f'"{name}": [\n{lines}\n]')
    return "{\n" + ",\n".join(blocks) + "\n}\n"


def _dumped(value: Any) -> str:
    return json.dumps(as_json(value), allow_nan=False)


def as_json(value: Any) -> Any:
    """Return numbers with six digits, nan and infinity as null, arrays and records as JSON."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): as_json(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray | list | tuple):
        return [as_json(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if is_dataclass(value):
        return {each.name: as_json(getattr(value, each.name)) for each in fields(value)}
    return str(value)


def model_facts(variant: Variant) -> dict[str, Any]:
    """Return what a model is and its means, for JSON and for the page."""
    return {
        "key": variant.key,
        "label": variant.label,
        "kind": variant.kind,
        "settings": variant.settings,
        "size": variant.size,
        "sizes": variant.sizes,
        "means": variant.means,
        "intervals": {
            metric: {group: [one.low, one.high] for group, one in by_group.items()}
            for metric, by_group in variant.intervals.items()
        },
        "no_accuracy": variant.no_accuracy,
        "components_to_half": variant.components_to_half,
        "items_not_halved": variant.not_halved,
        "components_computed": variant.depth,
    }


def _owned(owned: OwnedComponent, items: Items) -> dict[str, Any]:
    return {
        "component": owned.component,
        "item": items.ids[owned.item],
        "name": items.names[owned.item],
        "weight": owned.weight,
    }


def _item(place: int, findings: Findings, changes: Mapping[str, Floats]) -> dict[str, Any]:
    items = findings.items
    return {
        "id": items.ids[place],
        "name": items.names[place],
        "popularity": items.popularity[place],
        "users": items.n_users[place],
        "group": findings.data.groups[int(items.group[place])].name,
        "models": {each.key: _numbers(each, place, findings) for each in findings.compared},
        "changes": {metric: values[place] for metric, values in changes.items()},
    }


def _numbers(variant: Variant, place: int, findings: Findings) -> dict[str, Any]:
    at = variant.at
    needed = float(variant.components_to_half_by_item[place])
    near = variant.neighbors[place]
    return {
        "self_reconstruction": variant.self_reconstruction_by_item[at, place],
        "item_error": variant.error_by_item[at, place],
        "item_auc": variant.auc_by_item[place],
        "components_to_half": needed,
        "halved": None if math.isnan(needed) else math.isfinite(needed),
        "neighbors": findings.items.ids[near[near >= 0]],
    }

"""What is known of one model at one rank, as the runner passes it on and as the cache keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from equipoise.evaluation.cache import number_or_nan, number_or_none, packed, unpacked
from equipoise.evaluation.cost import Effort
from equipoise.evaluation.measures import Measure


class Reading(NamedTuple):
    """The numbers of one model at one rank, and what they took.

    Attributes
    ----------
    rank : int or None
        None for models without ranks.
    measures : list of Measure
        What was measured.
    effort : Effort or None
        Of the fit; None for lists that came from elsewhere.
    parameters_kept : int or None
        What the fitted model keeps.
    """

    rank: int | None
    measures: list[Measure]
    effort: Effort | None = None
    parameters_kept: int | None = None


def to_json(readings: Sequence[Reading], *, per_user: bool) -> list[dict[str, Any]]:
    """Readings for the cache, with the users' own values or without."""
    return [
        {
            "rank": one.rank,
            "measures": [_fields(measure, per_user) for measure in one.measures],
            "effort": None if one.effort is None else list(one.effort),
            "parameters_kept": one.parameters_kept,
        }
        for one in readings
    ]


def from_json(stored: Sequence[Mapping[str, Any]]) -> list[Reading]:
    """The way back."""
    return [
        Reading(
            one["rank"],
            [_measure(fields) for fields in one["measures"]],
            None if one["effort"] is None else Effort(*one["effort"]),
            one["parameters_kept"],
        )
        for one in stored
    ]


def _fields(one: Measure, per_user: bool) -> dict[str, Any]:
    return {
        **one._asdict(),
        "value": number_or_none(one.value),
        "per_user": packed(one.per_user) if per_user else None,
    }


def _measure(fields: Mapping[str, Any]) -> Measure:
    stored = dict(fields)
    stored["value"] = number_or_nan(stored["value"])
    stored["per_user"] = unpacked(stored["per_user"])
    return Measure(**stored)

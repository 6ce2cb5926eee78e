"""Curves of Figure 7 that take hours to measure: read from a file that comes with the package.

`lightgcn.json` holds what a training run of LightGCN on the paper's MovieLens matrix found::

    {
      "dataset": "movielens",
      "settings": {"layers": 3, "seed": 0, ...},
      "curves": {"recall@20": {"4": 0.25, "8": 0.31, ...}, "ndcg@20": {...}, ...}
    }

where the metrics are those of Figure 7 by their names in `USER_METRICS`, and the keys within are
ranks. Settings are free: whatever a reader needs to train it again.
"""

from __future__ import annotations

import json
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any, NamedTuple

from equipoise.exceptions import InvalidDataError
from equipoise.paper.protocol import DATASETS, USER_METRICS

LIGHTGCN = "LightGCN"


class Recorded(NamedTuple):
    """A run that was done before.

    Attributes
    ----------
    dataset : str
        A key of `DATASETS`.
    settings : dict
        How it was trained.
    curves : dict
        Metric -> rank -> value on the paper's hold-out, ranks rising.
    """

    dataset: str
    settings: dict[str, Any]
    curves: dict[str, dict[int, float]]


def recorded_lightgcn(source: Traversable | None = None) -> Recorded | None:
    """Return the recorded run of LightGCN, or None where there is none.

    Parameters
    ----------
    source : path, optional
        A file; by default the one that comes with the package.
    """
    place = resources.files("equipoise.paper") / "lightgcn.json" if source is None else source
    if not place.is_file():
        return None
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
        curves = {
            str(metric): {int(rank): float(curve[rank]) for rank in sorted(curve, key=int)}
            for metric, curve in found["curves"].items()
        }
        run = Recorded(found["dataset"], dict(found["settings"]), curves)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InvalidDataError(
            f"{place} is no recorded run ({type(error).__name__}: {error}). It must be JSON with "
            '"dataset", "settings" and "curves": {metric: {rank: value}}.'
        ) from error
    _check(run, place)
    return run


def _check(run: Recorded, place: Traversable) -> None:
    if run.dataset not in DATASETS:
        raise InvalidDataError(
            f"{place}: dataset must be one of {list(DATASETS)}, got {run.dataset!r}."
        )
    if set(run.curves) != set(USER_METRICS) or not all(run.curves.values()):
        raise InvalidDataError(
            f"{place}: curves must hold values for each of {list(USER_METRICS)}, "
            f"got {sorted(metric for metric, curve in run.curves.items() if curve)}."
        )

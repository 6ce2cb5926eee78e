"""Results on disk: one file per fit, named by a hash of everything that they depend on."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.evaluation.cost import Effort
from equipoise.files import write_whole
from equipoise.metrics.results import FloatArray, Result

# Raised when what is stored, or what it means, changes.
FORMAT = 4


class Cache:
    """A folder of small JSON files; a damaged file counts as missing.

    Parameters
    ----------
    folder : path
        Created when something is first stored.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     cache.store({"gamma": -1.0}, {"value": 0.5})
    ...     cache.load({"gamma": -1.0}), cache.load({"gamma": -2.0})
    ({'value': 0.5}, None)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, settings: Mapping[str, Any]) -> Path:
        """Return the file of these settings."""
        return self.folder / f"{_digest(_text(settings))[:32]}.json"

    def load(self, settings: Mapping[str, Any]) -> Any:
        """Return what was stored for exactly these settings, or None."""
        try:
            found = json.loads(self.path(settings).read_text(encoding="utf-8"))
            body = found["body"]
            if found["settings"] != json.loads(_text(settings)):
                return None
            return body if found["digest"] == _digest(_text(body)) else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def store(self, settings: Mapping[str, Any], body: Any) -> None:
        """Write the file completely or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        plain = json.loads(_text(body))
        text = json.dumps(
            {
                "settings": json.loads(_text(settings)),
                "digest": _digest(_text(plain)),
                "body": plain,
            },
            indent=1,
        )
        write_whole(self.path(settings), text.encode())


class Scored(NamedTuple):
    """The numbers of one model with one setting, and the cost of its fit.

    Attributes
    ----------
    rows : list of Result
        Without the name and the settings of the model.
    effort : Effort or None
        Of the fit; None for lists that were computed elsewhere.
    parameters_kept : int or None
        Size of the fitted model.
    """

    rows: list[Result]
    effort: Effort | None = None
    parameters_kept: int | None = None


def to_json(scored: Sequence[Scored]) -> list[Any]:
    """Return what the cache stores."""
    return [
        [[_row_to_json(row) for row in one.rows], one.effort, one.parameters_kept] for one in scored
    ]


def from_json(stored: Sequence[Any]) -> list[Scored]:
    """Return what `to_json` stored."""
    return [
        Scored([_row_from_json(row) for row in rows], effort and Effort(*effort), kept)
        for rows, effort, kept in stored
    ]


def _row_to_json(row: Result) -> dict[str, Any]:
    fields = {name: getattr(row, name) for name in ("metric", "convention", "k", "group", "n")}
    value = None if math.isnan(row.value) else row.value  # JSON has no nan
    return {**fields, "value": value, "per_user": pack(row.per_user)}


def _row_from_json(stored: Mapping[str, Any]) -> Result:
    value = math.nan if stored["value"] is None else stored["value"]
    return Result(**{**stored, "value": value, "per_user": unpack(stored["per_user"])})


def pack(values: FloatArray | None) -> str | None:
    """Return an array as text, for JSON."""
    if values is None:
        return None
    little = np.asarray(values, dtype="<f8").tobytes()
    return base64.b64encode(zlib.compress(little)).decode("ascii")


def unpack(text: str | None) -> FloatArray | None:
    """Return the array that `pack` turned into text."""
    if text is None:
        return None
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8").astype(np.float64)


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

"""Results on disk, one file for each fit, found again by a hash of everything they depend on."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import zlib
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from equipoise.files import write_whole
from equipoise.metrics.results import FloatArray

# Raised when what is stored, or what it means, changes.
FORMAT = 2


class Cache:
    """A folder of small JSON files; a file that is damaged counts as not there.

    Parameters
    ----------
    folder : path
        Made when something is stored first.

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
        """The file of these settings."""
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
        """Write the file whole or not at all."""
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


def packed(values: FloatArray | None) -> str | None:
    """An array as text, for JSON."""
    if values is None:
        return None
    little = np.asarray(values, dtype="<f8").tobytes()
    return base64.b64encode(zlib.compress(little)).decode("ascii")


def unpacked(text: str | None) -> FloatArray | None:
    """The array that `packed` made text of."""
    if text is None:
        return None
    return np.frombuffer(zlib.decompress(base64.b64decode(text)), dtype="<f8").astype(np.float64)


def number_or_none(value: float) -> float | None:
    """JSON has no nan."""
    return None if math.isnan(value) else value


def number_or_nan(value: float | None) -> float:
    """The way back."""
    return math.nan if value is None else value


def _text(content: Any) -> str:
    return json.dumps(content, sort_keys=True, allow_nan=False)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()

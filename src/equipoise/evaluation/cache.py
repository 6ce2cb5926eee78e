"""Results on disk: one file per fit, named by a hash of everything that they depend on."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from equipoise.evaluation.cost import Usage
from equipoise.files import write_whole
from equipoise.metrics.results import Result

# Raised when what is stored, or what it means, changes.
FORMAT = 5


class Scored(NamedTuple):
    """The numbers of one model with one setting, and the cost of its fit.

    Attributes
    ----------
    rows : list of Result
        Without the name and the settings of the model.
    usage : Usage or None
        Of the fit; None for lists that were computed elsewhere.
    parameters_kept : int or None
        Size of the fitted model.
    """

    rows: list[Result]
    usage: Usage | None = None
    parameters_kept: int | None = None


class Cache:
    """A folder of small compressed JSON files; a damaged file counts as missing.

    Parameters
    ----------
    folder : path
        Created when something is first stored.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     cache.store({"gamma": -1.0}, [Scored([Result("recall", 0.5, "standard")])])
    ...     cache.load({"gamma": -1.0})[0].rows[0].value, cache.load({"gamma": -2.0})
    (0.5, None)
    """

    def __init__(self, folder: str | PathLike[str]) -> None:
        self.folder = Path(folder)

    def path(self, key: Mapping[str, Any]) -> Path:
        """Return the file of everything that numbers depend on."""
        text = json.dumps(key, sort_keys=True, allow_nan=False)
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.json.zlib"

    def load(self, key: Mapping[str, Any]) -> list[Scored] | None:
        """Return what was stored for exactly this key, or None."""
        try:  # zlib checks its own sum
            stored = json.loads(zlib.decompress(self.path(key).read_bytes()))
        except (FileNotFoundError, ValueError, zlib.error):
            return None
        return [
            Scored([_row_from_json(**row) for row in rows], usage and Usage(*usage), kept)
            for rows, usage, kept in stored
        ]

    def store(self, key: Mapping[str, Any], scored: Sequence[Scored]) -> None:
        """Write the file completely or not at all."""
        body = [[[_row_to_json(row) for row in one.rows], *one[1:]] for one in scored]
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.path(key), zlib.compress(json.dumps(body).encode()))


def _row_to_json(row: Result) -> dict[str, Any]:
    fields = ("metric", "value", "convention", "k", "group", "n")
    per_user = None if row.per_user is None else row.per_user.tolist()
    return {name: getattr(row, name) for name in fields} | {"per_user": per_user}


def _row_from_json(*, per_user: list[float] | None, **fields: Any) -> Result:
    return Result(**fields, per_user=None if per_user is None else np.array(per_user, np.float64))

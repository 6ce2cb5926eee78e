"""Figures on disk: drawn once, and again only when the numbers behind them change."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from equipoise import __version__
from equipoise.files import write_whole
from equipoise.paper.drawing import STYLE, Figure, Format

_FORMATS: tuple[Format, ...] = ("svg", "png")


class Hung(NamedTuple):
    """A figure in its place.

    Attributes
    ----------
    figure : Figure
        What it shows.
    svg : bytes
        The picture; empty without matplotlib.
    drawn : bool
        False if it was there already.
    """

    figure: Figure
    svg: bytes
    drawn: bool


class Gallery:
    """A folder of figures, and a file that knows what each was drawn from.

    Parameters
    ----------
    folder : Path
        Gets ``fig2.svg``, ``fig2.png``, ``fig2.csv`` and so on.
    register : Path
        A JSON file; a damaged one counts as empty.
    pictures : bool
        Without matplotlib only the tables are written.
    """

    def __init__(self, folder: Path, register: Path, *, pictures: bool = True) -> None:
        self.folder = folder
        self.register = register
        self.pictures = pictures

    def hang(self, figure: Figure) -> Hung:
        """Write table and pictures, unless they are there from the same numbers."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / f"{figure.name}.csv", figure.table.csv().encode())
        if not self.pictures:
            return Hung(figure, b"", drawn=False)
        known, inputs = self._known(), _inputs(figure)
        if known.get(figure.name) == {"inputs": inputs, "files": self._digests(figure)}:
            return Hung(figure, self._path(figure, "svg").read_bytes(), drawn=False)
        for file_format in _FORMATS:
            write_whole(self._path(figure, file_format), figure.render(file_format))
        known[figure.name] = {"inputs": inputs, "files": self._digests(figure)}
        self.register.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.register, json.dumps(known, indent=1, sort_keys=True).encode())
        return Hung(figure, self._path(figure, "svg").read_bytes(), drawn=True)

    def _path(self, figure: Figure, file_format: Format) -> Path:
        return self.folder / f"{figure.name}.{file_format}"

    def _digests(self, figure: Figure) -> dict[str, str]:
        paths = [self._path(figure, file_format) for file_format in _FORMATS]
        return {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
            if path.is_file()
        }

    def _known(self) -> dict[str, Any]:
        try:
            found = json.loads(self.register.read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def _inputs(figure: Figure) -> str:
    """Hash of all that decides the bytes of a picture."""
    import matplotlib

    parts = [figure.table.digest(), figure.size, STYLE, __version__, matplotlib.__version__]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

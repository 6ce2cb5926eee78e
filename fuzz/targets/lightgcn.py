"""LightGCN text, `user item item …`: accepted input equals what `str.split` reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from equipoise.data import Interactions
from fuzz.target import Mismatch, Target
from fuzz.targets.text import compare

_FILES = (
    "0 1 2 3\n1 2\n2 0 4 5 6\n",
    "7\n8 1 1 2\n\n9 3 \n",
    "0\t5\t6\r\n1 007 18446744073709551616\r\n",
    "\ufeff3 4 5\n",
    "10 11 12",
)


def seeds() -> list[bytes]:
    """Small files, with what real ones have: users without items, spaces at ends of lines."""
    return [text.encode() for text in _FILES]


def call(content: bytes, folder: Path) -> None:
    """Read the file, and compare."""
    path = folder / "train.txt"
    path.write_bytes(content)
    compare(Interactions.read(path, format="lightgcn"), _pairs(content), "sum")


def _pairs(content: bytes) -> Iterator[tuple[str, str, float]]:
    for line in content.decode("utf-8-sig").split("\n"):
        user, *items = line.split() or [""]
        for item in items:
            if not (user.isdecimal() and item.isdecimal()):
                raise Mismatch(f"{line[:80]!r} was taken for whole numbers")
            yield user, item, 1.0


TARGET = Target("lightgcn", call, seeds, text=True)

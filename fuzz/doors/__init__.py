"""The doors: one module each."""

from __future__ import annotations

import importlib
from pathlib import Path

from fuzz.door import Door

NAMES = (
    "text", "lightgcn", "parquet", "containers", "interactions", "model", "factors",
    "commands",
)  # fmt: skip
CORPUS = Path(__file__).parents[1] / "corpus"


def door(name: str) -> Door:
    """Return a door by its name; only its module is imported."""
    found: Door = importlib.import_module(f"fuzz.doors.{name}").DOOR
    return found


def corpus(name: str) -> list[bytes]:
    """Return the kept inputs of a door, in the order of their names."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]

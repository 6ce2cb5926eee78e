"""The fuzz targets, one module each."""

from __future__ import annotations

import importlib
from pathlib import Path

from fuzz.target import Target

NAMES = (
    "text", "lightgcn", "parquet", "containers", "interactions", "model", "factors",
    "commands",
)  # fmt: skip
CORPUS = Path(__file__).parents[1] / "corpus"


def target(name: str) -> Target:
    """Return a target by its name; only its module is imported."""
    found: Target = importlib.import_module(f"fuzz.targets.{name}").TARGET
    return found


def corpus(name: str) -> list[bytes]:
    """Return the kept inputs of a target, in the order of their names."""
    return [path.read_bytes() for path in sorted((CORPUS / name).glob("*"))]

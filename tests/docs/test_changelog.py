"""The table of renamed names agrees with the code: old names are gone, new ones exist."""

from __future__ import annotations

import importlib
import re
from functools import reduce

from tests.docs.pages import ROOT

NAME = re.compile(r"`(equipoise(?:\.\w+)+)")


def _rows(title: str) -> list[list[str]]:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.split(f"\n### {title}\n")[1].split("\n### ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [line.strip("| ").split(" | ") for line in lines[2:]]


def _exists(path: str) -> bool:
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        try:
            reduce(getattr, parts[length:], module)
        except AttributeError:
            return False
        return True
    return False


ROWS = [*_rows("Renamed"), *_rows("Removed")]
OLD = sorted({name for old, _ in ROWS for name in NAME.findall(old)})
NEW = sorted({name for _, new in ROWS for name in NAME.findall(new)})


def test_the_tables_are_found():
    assert len(OLD) > 10
    assert len(NEW) > 10


def test_old_names_are_gone():
    assert [name for name in OLD if _exists(name)] == []


def test_new_names_exist():
    assert [name for name in NEW if not _exists(name)] == []

"""The pages of the documentation and the blocks of code in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"

#: every page except the changelog, which describes past versions
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]

_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """One fenced block: language, text, line, and whether it directly follows another block.

    A `text` block directly below code shows what that code prints.
    """

    language: str
    code: str
    line: int
    follows: bool
    before: str


def blocks(page: Path) -> list[Block]:
    """Return the fenced blocks of a page in reading order."""
    text = page.read_text(encoding="utf-8")
    found, end = [], 0
    for match in _FENCE.finditer(text):
        before = text[end : match.start()]
        line = text.count("\n", 0, match.start()) + 2
        follows = bool(found) and not before.strip()
        found.append(Block(match[1], match[2], line, follows, before))
        end = match.end()
    return found


def prose(page: Path) -> str:
    """Return a page without its blocks and spans of code."""
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    return re.sub(r"`[^`\n]+`", "", text)


def offending(found: Iterable[tuple[Path, list[str]]]) -> dict[str, list[str]]:
    """Return what is wrong in each file, by its path; files without fault are left out."""
    return {name(path): faults for path, faults in found if faults}


def name(page: Path) -> str:
    """Return a page's path, as a test is called by it."""
    return page.relative_to(ROOT).as_posix()

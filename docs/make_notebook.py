"""Write the tutorial as a notebook: ``python docs/make_notebook.py``.

The page is the one source. A test compares the notebook with it, and runs it where the data are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
PAGE, NOTEBOOK = DOCS / "tutorial.md", DOCS.parent / "examples" / "tutorial.ipynb"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```\n", re.M | re.S)


def cells() -> Iterator[tuple[str, str]]:
    """Yield kind and text of each cell: prose, Python, and commands of this Python."""
    text = PAGE.read_text(encoding="utf-8").replace(
        " The same as a\nnotebook: `examples/tutorial.ipynb`.", ""
    )
    end = 0
    for block in _BLOCK.finditer(text):
        yield "markdown", _prose(text[end : block.start()])
        language, code = block.groups()
        if language == "python":
            yield "code", code
        elif language == "console":
            commands = re.sub(r"^\$ equipoise", "!{sys.executable} -m equipoise", code, flags=re.M)
            yield "code", f"import sys\n\n{commands}"
        elif language == "sh":
            yield "markdown", block[0]
        end = block.end()
    yield "markdown", _prose(text[end:])


def _prose(text: str) -> str:
    """Return prose without comments, its links to pages as plain words."""
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.S)
    return re.sub(r"\[([^\]]+)\]\((?!https)[^)]+\)", r"\1", text)


def notebook() -> str:
    """Return the notebook as JSON."""
    found: list[dict[str, Any]] = []
    for kind, text in cells():
        if text.strip():
            cell: dict[str, Any] = {
                "cell_type": kind,
                "id": f"cell-{len(found)}",
                "metadata": {},
                "source": text.strip("\n").splitlines(keepends=True),
            }
            found.append(
                cell | ({"outputs": [], "execution_count": None} if kind == "code" else {})
            )
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    whole = {"cells": found, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(whole, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(notebook(), encoding="utf-8")

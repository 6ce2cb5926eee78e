"""Every letter of the mathematics has the name and the place in the code that its page names."""

from __future__ import annotations

import importlib
import re
from functools import reduce

import pytest

from tests.docs.pages import DOCS, ROOT

SOURCE = ROOT / "src" / "equipoise"
ROWS = [
    (cells[0].strip(), cells[2], cells[3])
    for line in (DOCS / "math" / "index.md").read_text(encoding="utf-8").splitlines()
    if len(cells := line.strip("|").split("|")) == 4 and ".py:" in cells[3]
]


def test_the_paper_s_letters_and_ours_are_there():
    assert len(ROWS) >= 30
    letters = " ".join(letter for letter, _, _ in ROWS)
    assert [letter for letter in "nmXrUPσpwγεyCDMλθRtμhfsρa" if letter not in letters] == []


@pytest.mark.parametrize(("letter", "names", "place"), ROWS, ids=[row[0] for row in ROWS])
def test_a_letter_is_in_the_file_its_page_names(letter, names, place):
    path, symbol = re.fullmatch(r"\s*`([\w/]+\.py):([\w.]+)`\s*", place).groups()
    file = SOURCE / path
    assert file.is_file(), f"{letter}: no file {path}"
    module = importlib.import_module("equipoise." + path.removesuffix(".py").replace("/", "."))
    reduce(getattr, symbol.split("."), module)
    text = file.read_text(encoding="utf-8")
    missing = [name for name in re.findall(r"`(\w+)`", names) if name not in text]
    assert missing == [], f"{letter}: {path} does not contain {missing}"

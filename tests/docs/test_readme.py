"""What the README says in numbers is what was measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import DOCS, ROOT

COLUMNS = ("MovieLens", "Last.fm, as published", "Last.fm, 0/1")


def _rows(text: str) -> list[list[str]]:
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def _numbers(cells: list[str]) -> list[float]:
    return [float(number) for cell in cells for number in re.findall(r"\.\d+", cell)]


def test_the_quality_in_the_readme_is_that_of_the_comparison():
    sections = re.split(r"^## ", (DOCS / "comparison.md").read_text(encoding="utf-8"), flags=re.M)
    measured = [
        {row[0]: [float(row[2].split()[0]), float(row[7])] for row in _rows(section)}
        for title in COLUMNS
        for section in sections
        if section.startswith(title)
    ]
    assert len(measured) == len(COLUMNS)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = _rows(readme.split("<!-- begin quality -->")[1].split("<!-- end quality -->")[0])
    assert len(shown) == 7
    for model, *cells in shown:
        expected = [number for table in measured for number in table[model]]
        # three digits of what the comparison has in four: a half may have been rounded either way
        assert _numbers(cells) == pytest.approx(expected, abs=5.001e-4), model


def test_the_speed_in_the_readme_is_that_of_the_benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import quote

    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.split(quote.BEGIN)[1].split(quote.END)[0] == quote.block()

"""Every measured number in the README and the docs is that of a result file."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import pytest

from tests.docs.pages import ROOT, name, offending, prose

sys.path.insert(0, str(ROOT / "benchmarks"))
import quote

PAGES = [page for page in quote.pages() if quote.MARKED.search(page.read_text(encoding="utf-8"))]


@pytest.fixture(autouse=True)
def _threads(monkeypatch):
    """Studies set the number of threads when they are imported."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(sys, "argv", ["quote.py", "--threads", "1"])


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_page_quotes_its_numbers_from_the_result_files(page):
    text = page.read_text(encoding="utf-8")
    assert quote.quoted(text) == text, "run: python benchmarks/quote.py"


def test_a_quote_within_a_paragraph_does_not_begin_a_line():
    """A line that begins with a comment ends the paragraph in Markdown."""
    mark = re.compile(r"^ *<!-- (?:begin|end) [^\n]*?-->[^\n]+", flags=re.M)
    assert offending((page, mark.findall(page.read_text(encoding="utf-8"))) for page in PAGES) == {}


def test_a_wrong_number_is_found():
    page = "<!-- begin fuzzed -->7,000<!-- end fuzzed -->"
    assert "7,000" not in quote.quoted(page)


# Decimal numbers and percentages. Dates, versions and levels are not measured.
NUMBER = re.compile(r"(?<![\w./=<>≤≥-])(?:\d*\.\d+|\d[\d,]* ?%)(?![\w.]*\d)")
NOT_MEASURED = {"95 %", "3.11", "3.14", "0.1", "1.0"}
#: pages whose numbers are measured: all must be quoted, except those of a page that are listed here
MEASURED: dict[str, set[str]] = {
    "README.md": set(),
    "docs/index.md": set(),
    "docs/problem.md": set(),
    "docs/fair.md": set(),
    "docs/limits.md": {".01"},  # advice
    "docs/faq.md": set(),
    "docs/tutorial.md": set(),
    "docs/auditors.md": set(),
    "docs/gallery.md": set(),
    "docs/comparison.md": {".002"},  # validation of LightGCN at another learning rate, not stored
    "docs/comparison-full.md": set(),
    "docs/coming-from/implicit.md": set(),
    "docs/coming-from/scikit-learn.md": set(),
}


@pytest.mark.parametrize("page", MEASURED)
def test_a_number_in_prose_is_quoted(page):
    text = quote.MARKED.sub("", prose(ROOT / page))
    assert {*NUMBER.findall(text)} - NOT_MEASURED - MEASURED[page] == set()


#: studies described in prose: numbers with three or more decimals are those of a result file
PUBLISHED = {".1518", ".1580", ".1597", ".1616", ".1830", ".1849", ".1920", ".1941"}
EARLIER_RUNS = {
    ".0019",
    ".1853",
    ".2773",
    ".3233",
    ".3325",
    ".3849",
    ".3850",
    ".4224",
}  # not stored
TOLD = {
    "docs/sparse.md": ("compare_models", PUBLISHED | EARLIER_RUNS),
    "docs/fair-items.md": ("fair_items", {".015", ".002"}),  # a row of the quoted table
    "docs/item-measures.md": ("item_measures", set()),
}


def _numbers(found: object) -> Iterator[float]:
    if isinstance(found, dict):
        found = list(found.values())
    if isinstance(found, list):
        for each in found:
            yield from _numbers(each)
    elif isinstance(found, float):
        yield found


@pytest.mark.parametrize("page", TOLD)
def test_a_study_in_prose_has_the_numbers_of_its_result_file(page):
    file, published = TOLD[page]
    known = [*_numbers(quote.results(file))]
    shown = {*re.findall(r"(?<![\w.])\d?\.\d{3,}\b", quote.MARKED.sub("", prose(ROOT / page)))}
    unknown = {
        number
        for number in shown - published
        if not any(f"{value:.{len(number.split('.')[1])}f}".endswith(number) for value in known)
    }
    assert unknown == set()

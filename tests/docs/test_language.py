"""Code and documentation avoid words that readers stumble over, and use US spelling."""

from __future__ import annotations

import re

import pytest

from tests.docs.pages import PAGES, ROOT

SOURCES = sorted(
    path
    for path in (ROOT / "src").rglob("*")
    if path.suffix in {".py", ".js", ".html"} and path.is_file()
)

WORDS = "whoever mend mends mended foretold thaw thawed pantry deaf door doors stranger strangers"
# comparisons ("is no larger than") are plain English
COMPARISONS = "longer|more|less|larger|smaller|higher|lower|better|worse"
PHRASES = (
    rf"(?<!there )(?:is|are) no (?!(?:{COMPARISONS})\b)[a-z]+",  # "is not a"
    r"one (?:row|line|file) an? [a-z]+",  # "one row per user"
    r"(?:was|were|be|is|are) (?:had|told)",
    r"(?<=, )so that(?! is)",
)
BRITISH = (
    r"(?:maxim|minim|normal|factor|orthogonal|special|memor|general|optim|summar|initial|serial"
    r"|regular|recogn|organ|random|parallel|character|penal)is(?:e|es|ed|er|ing|ations?)",
    r"[a-z]*(?:neighbour|artefact|catalogue|colour|licence|behaviour|favour)[a-z]*",
    r"programmes?|(?:un)?centred|centring|analysed?",
)
ADVISED_AGAINST = re.compile(
    rf"(?<![\w-])(?:{'|'.join((*WORDS.split(), *PHRASES, *BRITISH))})(?!\w)", re.IGNORECASE
)


def offenders(text: str) -> list[str]:
    """Find words and phrases, also across the lines of a comment, docstring or message."""
    joined = re.sub(r"\n[ \t]*(?:#|//|\*)?[ \t]*", " ", text)
    joined = re.sub(r'(?<= )" f?"', "", joined)
    return [joined[max(0, m.start() - 30) : m.end() + 30] for m in ADVISED_AGAINST.finditer(joined)]


@pytest.mark.parametrize(
    "text",
    [
        "A path that is no file.",
        "one row a user",
        "Sorted, so\n    # that equal",
        '"the file is " f"no model"',
        "the catalogue",
        "Maximises",
    ],
)
def test_the_search_finds_words_across_lines(text):
    assert offenders(text) != []


@pytest.mark.parametrize(
    "text", ["there is no file", "is no longer used", "one row per user", "door_count", "catalog"]
)
def test_the_search_leaves_plain_english(text):
    assert offenders(text) == []


@pytest.mark.parametrize("path", [*SOURCES, *PAGES], ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_uses_plain_words_and_us_spelling(path):
    assert offenders(path.read_text(encoding="utf-8")) == []

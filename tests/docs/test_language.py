"""Code and documentation avoid words that readers stumble over, and use US spelling.

A failing test lists every offender with the words around it and what to write instead.
"""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, offending, prose

SOURCES = sorted(
    path
    for path in (ROOT / "src").rglob("*")
    if path.suffix in {".py", ".js", ".html", ".toml"} and path.is_file()
)

TESTS_AND_TOOLS = [
    path
    for folder in ("tests", "benchmarks", "examples", "fuzz")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path.resolve() != Path(__file__).resolve()
]

#: word or phrase, as a pattern -> what to write instead
WORDS = {
    r"doors?": "entry point, input format",
    r"mend(?:s|ed)?": "fix, mitigate",
    r"strangers?": "untrusted file, other users",
    r"thaw(?:s|ed)?": "load, deserialize",
    r"foretold": "predicted",
    r"pantry": "fixtures",
    r"deaf": "does not respond",
    r"whoever": "anyone who",
    r"kin": "similar",
    r"newcomers?": "new users, new contributors",
    r"teasers?": "figure",
    r"laboratory": "experiment runner",
    r"halving": "components to half error",
    r"sweeps": "passes over the data",
    r"copied from itself": "self-reconstruction",
    r"what lets": "which allows",
    r"of (?:no )?matter": "important, does not change",
    r"to be had": "available",
    r"(?:was|were|be|is|are) (?:had|told)": "obtained, given",
    # comparisons ("is no larger than") are plain English
    r"(?<!there )(?:is|are) no (?!(?:longer|more|less|larger|smaller|higher|lower|better|worse)\b)"
    r"[a-z]+": "is not a",
    r"one (?:row|line|file|entry|number|value|list) an? [a-z]+": "one row per user",
    r"(?<=, )so that(?! is)": "so",
}
THINGS = (
    "file option table column header report page row command error message chart name value "
    "manifest certificate metric"
)
#: only in prose: code has names such as `room`
PROSE = {
    r"beside(?! :)": "next to, in addition to",
    r"rooms?": "space, memory, slack",
    rf"(?:{'|'.join(THINGS.split())})s? (?:tells?|says?|speaks?|knows?|wants?)": (
        "shows, lists, contains, detects, requires, states"
    ),
}
BRITISH = (
    r"(?:maxim|minim|normal|factor|orthogonal|special|memor|general|optim|summar|initial|serial"
    r"|regular|recogn|organ|random|parallel|character|penal)is(?:e|es|ed|er|ing|ations?)",
    r"[a-z]*(?:neighbour|artefact|catalogue|colour|licence|behaviour|favour)[a-z]*",
    r"programmes?|(?:un)?centred|centring|analysed?",
)
SPELLING = dict.fromkeys(BRITISH, "US spelling")


def offenders(text: str, words: dict[str, str] = WORDS | SPELLING) -> list[str]:
    """Find words and phrases, also across the lines of a comment, docstring or message."""
    joined = re.sub(r"\n[ \t]*(?:#|//|\*)?[ \t]*", " ", text)
    joined = re.sub(r'(?<= )" f?"', "", joined)
    return [
        f"…{joined[max(0, found.start() - 30) : found.end() + 30]}… -> {instead}"
        for word, instead in words.items()
        for found in re.finditer(rf"(?<![\w.-])(?:{word})(?![\w=])", joined, re.IGNORECASE)
    ]


def comments(path: Path) -> str:
    """Return the comments and docstrings of a module."""
    source = path.read_text(encoding="utf-8")
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    kept = [t.string for t in tokens if t.type == tokenize.COMMENT or t.string[:3] == '"""']
    return re.sub(r"``?[^`\n]+``?", "", "\n\n".join(kept))


def names_of_tests(path: Path) -> str:
    """Return the names of a module's tests as sentences."""
    names = re.findall(r"def test_(\w+)", path.read_text(encoding="utf-8"))
    return "\n\n".join(name.replace("_", " ") for name in names)


def own(page: Path) -> str:
    """Return the prose of a page without what is quoted from result files."""
    return re.sub(r"<!-- begin ([\w-]+)[^>]*-->.*?<!-- end \1 -->", "N", prose(page), flags=re.S)


# ----------------------------------------------------------------------------------- the search


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


def test_files_use_plain_words_and_us_spelling():
    assert offending((p, offenders(p.read_text(encoding="utf-8"))) for p in SOURCES + PAGES) == {}


def test_prose_does_not_personify_files():
    modules = [path for path in SOURCES if path.suffix == ".py"]
    assert offending((path, offenders(comments(path), PROSE)) for path in modules) == {}
    assert offending((page, offenders(own(page), PROSE)) for page in PAGES) == {}


def test_tests_and_tools_use_plain_words_and_us_spelling():
    every = WORDS | SPELLING | PROSE
    found = (
        (path, offenders(comments(path) + "\n\n" + names_of_tests(path), every))
        for path in TESTS_AND_TOOLS
    )
    assert offending(found) == {}


# -------------------------------------------------------------------------------------- sentences

LONGEST = 35  # words: the rule is about 25, and a list of names may need more


def sentences(page: Path) -> list[str]:
    """Return the sentences of a page's paragraphs; tables, formulas and lists of links left out."""
    text = re.sub(r"<!--.*?-->", " ", own(page), flags=re.S)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[-*>|#]|\d+\.) )", text)
    paragraphs = [part for part in parts if not re.match(r"\s*[|#!]|    ", part)]
    return [
        " ".join(sentence.split())
        for paragraph in paragraphs
        for sentence in re.split(r"(?<=[.!?:;])\s+|(?<=\]),", paragraph)
    ]


def too_long(page: Path) -> list[str]:
    return [s for s in sentences(page) if len(re.findall(r"\S*\w\S*", s)) > LONGEST]


def test_sentences_are_short():
    assert offending((page, too_long(page)) for page in PAGES) == {}

"""Every block of code in the documentation runs, in reading order, and prints what it shows.

A page is run from top to bottom in its own folder. ```python blocks share one namespace;
```console blocks go through the command line; a ```text block right below either shows output
and must be what was printed (… stands for anything). ```toml blocks must be valid. What cannot run
here (a cluster, a download) is ```py or ```sh, below a comment that gives the reason. A page with
the comment ``<!-- needs data: NAME -->`` runs where EQUIPOISE_DATA has that data set.
"""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from equipoise.cli import console
from equipoise.cli.app import run
from tests.docs.fixtures import write_fixtures
from tests.docs.pages import PAGES, ROOT, Block, blocks, name

RUN = ("python", "console")
NOT_RUN = ("py", "sh")
LANGUAGES = {*RUN, *NOT_RUN, "toml", "text", ""}
WITH_CODE = [page for page in PAGES if any(block.language in RUN for block in blocks(page))]
NEEDS_DATA = "<!-- needs data: "
REASON = re.compile(r"<!-- not run: \S[^\n]* -->\s*\Z")


@pytest.fixture(autouse=True)
def _clean_start(tmp_path, monkeypatch):
    """Each page begins in an empty folder, on a wide terminal, with nothing silenced."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    yield
    console.show_progress = True


def _marked(page: Path) -> ParameterSet:
    data = NEEDS_DATA in page.read_text(encoding="utf-8")
    return pytest.param(page, marks=[pytest.mark.data, pytest.mark.slow] if data else [])


@pytest.mark.parametrize("page", [*map(_marked, WITH_CODE)], ids=[*map(name, WITH_CODE)])
def test_the_code_of_a_page_runs_and_prints_what_the_page_shows(page, tmp_path, capsys, request):
    if NEEDS_DATA in page.read_text(encoding="utf-8"):
        request.getfixturevalue("data_dir")
    write_fixtures(tmp_path, page.read_text(encoding="utf-8"))
    namespace = {"__name__": "page"}
    printed = ""
    for block in blocks(page):
        if block.language == "python":
            _run_python(page, block, namespace)
        elif block.language == "console":
            _run_commands(page, block, capsys)
        elif block.language == "toml":
            tomllib.loads(block.code)
        elif block.follows and block.language == "text":
            where = f"{name(page)}:{block.line}"
            assert _shows(block.code, printed), f"{where}: what is printed is\n{printed}"
            continue
        captured = capsys.readouterr()
        printed = captured.out + captured.err


def _run_python(page: Path, block: Block, namespace: dict[str, object]) -> None:
    # blank lines in front give the block the line numbers that it has on its page
    source = "\n" * (block.line - 1) + block.code
    try:
        exec(compile(source, str(page), "exec"), namespace)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("equipoise"):
            raise
        pytest.skip(f"{missing.name} is missing: {name(page)} was NOT run from {block.line} on")


def _run_commands(page: Path, block: Block, capsys: pytest.CaptureFixture[str]) -> None:
    lines = block.code.replace("\\\n", " ").splitlines()
    assert all(line.startswith("$ ") for line in lines if line.strip()), (
        f"{name(page)}:{block.line}: a console block holds `$ command` lines; "
        "what they print goes into a text block below it"
    )
    for line in filter(str.strip, lines):
        program, *arguments = shlex.split(line[2:], comments=True)
        if program == "equipoise":
            assert run(arguments) == 0, f"{name(page)}: {line}\n{capsys.readouterr().err}"
        else:
            CHECKED_ONLY[program](arguments)


def _is_a_target(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in arguments:
        assert re.search(rf"^{re.escape(target)}:", makefile, re.M), f"no target {target}"


def _names_extras(arguments: list[str]) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    install, *packages = arguments
    assert install == "install", arguments
    for package in packages:
        ours = re.fullmatch(r"(?:equipoise|\.)(?:\[([\w,-]+)\])?", package)
        extras = set((ours[1] or "").split(",")) - {""} if ours else set()
        assert extras <= {*project["optional-dependencies"]}, package


def _is_a_script(arguments: list[str]) -> None:
    assert (ROOT / arguments[0]).is_file(), f"no script {arguments[0]}"


def _is_the_environment(arguments: list[str]) -> None:
    assert arguments == [".venv/bin/activate"], arguments


#: programs whose commands are not run: only their arguments are checked
CHECKED_ONLY = {
    "make": _is_a_target,
    "pip": _names_extras,
    "python": _is_a_script,
    "source": _is_the_environment,
}


def _shows(shown: str, printed: str) -> bool:
    """Return whether the lines shown were printed in this order, ignoring spaces."""
    pattern = r"\s+".join(
        ".*?".join(map(re.escape, word.split("…"))) if word != "…" else ".*?"
        for word in shown.split()
    )
    return re.search(pattern, printed, re.S) is not None


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_a_block_that_is_not_run_gives_a_reason(page):
    for block in blocks(page):
        where = f"{name(page)}:{block.line}"
        assert block.language in LANGUAGES, f"{where}: ```{block.language} is neither run nor text"
        if block.language in NOT_RUN:
            assert REASON.search(block.before), f"{where}: no <!-- not run: reason --> above it"


def test_what_is_shown_is_compared():
    assert _shows("a  b\n", "x a b y")
    assert _shows("gap …e-08", "relative gap 3.1e-08")
    assert _shows("first\n…\nlast", "first\nmiddle\nlast")
    assert not _shows("a b", "a c b")

"""The site is built without a warning, opens from disk, and fetches nothing."""

from __future__ import annotations

import logging
import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, ROOT, offending, prose


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, and what MkDocs complained about."""
    build = pytest.importorskip(
        "mkdocs.commands.build", reason="mkdocs is missing: the site was NOT built"
    )
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is missing: the site was NOT built")
    from mkdocs.config import load_config

    complaints = []
    watcher = logging.Handler(logging.WARNING)
    watcher.emit = lambda record: complaints.append(record.getMessage())
    log = logging.getLogger("mkdocs")
    log.addHandler(watcher)
    folder = tmp_path_factory.mktemp("site")
    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(folder), strict=False)
    try:
        build.build(config)
    finally:
        log.removeHandler(watcher)
    return folder, complaints


def test_links_anchors_and_the_reference_hold(site):
    assert site[1] == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    missing = [
        page
        for page in sorted((ROOT / "docs").rglob("*.md"))
        if f": {page.relative_to(ROOT / 'docs').as_posix()}\n" not in navigation + "\n"
        and page.parent.name != "decisions"  # for maintainers
    ]
    assert missing == []


def test_every_extra_is_on_the_page_on_installation():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    page = (ROOT / "docs" / "install.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.*?) \|", page, flags=re.M)
    listed = {extra for row in rows for extra in re.findall(r"`(\w+)`", row)}
    assert listed == {*project["optional-dependencies"]}


def test_no_page_fetches_anything_from_a_network(site):
    fetched = re.compile(
        r"<(?:script|img|link|iframe)\b[^>]*?(?:src|href)=\"(?:https?:)?//[^\"]*\""
    )
    pages = sorted(site[0].rglob("*.html"))
    assert len(pages) >= 25
    assert {
        page.name: found for page in pages if (found := fetched.findall(page.read_text()))
    } == {}


def test_no_formula_is_taken_for_emphasis(site):
    slanted = re.compile(r"<em>[^<]*[·ᵀΣ‖≤′][^<]*</em>")
    pages = sorted(site[0].rglob("*.html"))
    assert {
        page.name: found for page in pages if (found := slanted.findall(page.read_text()))
    } == {}


def test_scripts_and_sources_stay_out_of_the_site(site):
    assert list(site[0].rglob("*.py")) == []


def broken_links(page: Path) -> list[str]:
    targets = re.findall(r"\]\((?![a-z]+:|#)([^)#\s]+)", prose(page))
    return [target for target in targets if not (page.parent / target).exists()]


def test_links_to_files_lead_somewhere():
    assert offending((page, broken_links(page)) for page in PAGES) == {}


def missing_files(page: Path) -> list[str]:
    named = re.findall(
        r"`((?:tests|benchmarks|examples|fuzz|docs|src)/[\w./-]+)`", page.read_text("utf-8")
    )
    return [path for path in named if not (ROOT / path).exists()]


def test_files_of_the_repository_that_a_page_names_exist():
    assert offending((page, missing_files(page)) for page in PAGES) == {}

"""The pages on the command line know every command, option and exit code."""

from __future__ import annotations

import importlib.util
import re

import pytest

from equipoise.cli.app import run
from tests.docs.pages import DOCS


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _commands(capsys) -> list[str]:
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out.partition("\nAudit:\n")[2]
    commands = re.findall(r"^  ([a-z]+) {2,}", shown, flags=re.M)
    assert len(commands) >= 11
    return commands


def test_every_command_and_exit_code_is_on_the_page(capsys):
    text = (DOCS / "guide" / "command-line.md").read_text(encoding="utf-8")
    missing = [
        command
        for command in _commands(capsys)
        if f"`equipoise {command}" not in text and f"`{command} DATA`" not in text
    ]
    assert missing == []
    for code in (0, 1, 2, 130):
        assert f"| {code} | " in text


def test_the_generated_reference_holds_every_command_and_every_option(capsys, hooks):
    text = hooks.commands_page()
    for command in _commands(capsys):
        assert f"## equipoise {command}\n" in text
        assert run([command, "--help"]) == 0
        options = set(re.findall(r"(?<![\w-])--[a-z][\w-]+", capsys.readouterr().out)) - {"--help"}
        section = text.split(f"## equipoise {command}\n")[1].split("\n## ")[0]
        assert [option for option in sorted(options) if option not in section] == []
    assert "### equipoise datasets get\n" in text


@pytest.mark.parametrize(
    ("link", "fine"),
    [
        ("https://arxiv.org/abs/2310.09687", True),
        ("http://example.org", False),
        ("https://localhost/x", False),
        ("https:///nowhere", False),
        ("ftp://example.org/file", False),
    ],
)
def test_outgoing_links_are_https_to_a_host(hooks, link, fine):
    assert hooks.is_well_formed(link) is fine
    assert hooks.outgoing_links(f"see [this]({link}) and `[that](http://code)`") == [link]

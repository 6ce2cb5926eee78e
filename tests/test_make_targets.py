"""CI and the pages call make targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CALLERS = [".ci/run", ".github/workflows/ci.yml", "CONTRIBUTING.md", "README.md"]


def targets() -> set[str]:
    text = (ROOT / "Makefile").read_text("utf-8")
    return set(re.findall(r"^([a-z.][\w./-]*):", text, flags=re.MULTILINE))


@pytest.mark.parametrize("caller", CALLERS)
def test_every_target_that_is_called_exists(caller):
    text = (ROOT / caller).read_text("utf-8")
    # a command: at the start of a line, after a prompt, in backticks, or as a step of a workflow
    calls = re.findall(
        r"(?:^|\$ |`|run: )make ((?:[a-z.][\w./-]*(?: |$|(?=`)))+)", text, re.MULTILINE
    )
    called = {target for call in calls for target in call.split()}
    assert called
    assert called <= targets()


def test_the_workflow_and_ci_run_the_tests():
    assert "test-all" in (ROOT / ".ci/run").read_text("utf-8")
    assert "make test " in (ROOT / ".github/workflows/ci.yml").read_text("utf-8")

"""Every `$ equipoise …` line of the guide's pages on the command line runs as it stands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from tests.cli.conftest import write_table

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize("page", ["command-line.md", "audit.md"])
def test_the_commands_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    plays = listening(n_users=90, n_items=60)
    entries = plays.matrix.tocoo()
    pl.DataFrame(
        {
            "user": plays.user_ids[entries.row].astype(str),
            "item": plays.item_ids[entries.col].astype(str),
            "plays": entries.data,
        }
    ).write_parquet(tmp_path / "plays.parquet")
    named = zip(plays.item_ids, plays.item_names, strict=True)
    write_table(tmp_path / "names.csv", ["id", "name"], named)
    (tmp_path / "users.txt").write_text("listener-0003\nlistener-0001\n")
    drawn = np.random.default_rng(0)
    np.savez(
        tmp_path / "als.npz", item_factors=drawn.random((60, 4)), user_factors=np.ones((90, 4))
    )
    np.save(tmp_path / "ease.npy", drawn.random((60, 60)))
    monkeypatch.chdir(tmp_path)
    commands = re.findall(r"^\$ equipoise (.+)$", (GUIDE / page).read_text(), flags=re.MULTILINE)
    assert len(commands) >= 4
    for command in commands:
        assert run(shlex.split(command)) == 0, f"{command}\n{capsys.readouterr().err}"


def test_every_command_and_exit_code_is_on_the_page(capsys):
    text = (GUIDE / "command-line.md").read_text()
    assert run(["--help"]) == 0
    commands = re.findall(r"^│ ([a-z]+) {2,}", capsys.readouterr().out, flags=re.MULTILINE)
    assert len(commands) >= 11
    assert [
        command
        for command in commands
        if f"`equipoise {command}" not in text and f"`{command} DATA`" not in text
    ] == []
    for code in (0, 1, 2, 130):
        assert f"| {code} | " in text

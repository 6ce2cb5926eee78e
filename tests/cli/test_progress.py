"""Every command that can work for long reports it where stderr is not a terminal."""

from __future__ import annotations

import pytest

from equipoise.cli.app import run
from equipoise.data.synthetic import listening


@pytest.fixture
def plays(tmp_path):
    data = listening(n_users=150, n_items=60, seed=1)
    matrix = data.matrix.tocoo()
    rows = zip(matrix.row.tolist(), matrix.col.tolist(), matrix.data.tolist(), strict=True)
    path = tmp_path / "plays.csv"
    path.write_text("user,item,value\n" + "".join(f"{u},{i},{v}\n" for u, i, v in rows))
    return str(path)


def commands(plays, folder):
    model = str(folder / "model.eqp")
    return {
        "fit": ["fit", plays, "--rank", "4", "--out", model],
        "recommend": ["recommend", model, plays, "--out", str(folder / "lists.csv")],
        "evaluate": ["evaluate", plays, "--ranks", "4", "--metrics", "recall"],
        "tune": ["tune", plays, "--model", "pca", "--ranks", "2,4"],
        "audit": ["audit", plays, "--budget", "0", "--out", str(folder / "report.html")],
    }


WORDS = {
    "fit": "Fitting ItemWeightedPCA …",
    "recommend": "Recommending …",
    "evaluate": "Evaluating …",
    "tune": "Tuning …",
    "audit": "Auditing …",
}


@pytest.mark.medium
@pytest.mark.parametrize("command", WORDS)
def test_a_command_logs_its_tasks_unless_quiet(command, plays, tmp_path, capsys):
    given = commands(plays, tmp_path)
    if command == "recommend":
        assert run(given["fit"]) == 0
    capsys.readouterr()
    assert run(given[command]) == 0
    said = capsys.readouterr().err.splitlines()
    assert f"Reading {plays} …" in said
    assert WORDS[command] in said
    assert run([*given[command], "--quiet"]) == 0
    assert capsys.readouterr().err == ""

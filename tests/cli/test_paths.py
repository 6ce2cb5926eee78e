"""No command writes over what it reads, whatever the file is called."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from equipoise.cli.app import run
from tests.cli.conftest import snapshot
from tests.cli.test_bad_input import check_refusal


@pytest.fixture
def folder(world, tmp_path, monkeypatch):
    """Own copies of the files, under several names, in the working directory."""
    for name in ("plays.csv", "names.csv", "model.eqp"):
        shutil.copy(world / name, tmp_path / name)
    shutil.copy(tmp_path / "model.eqp", tmp_path / "model.csv")
    (tmp_path / "users.csv").write_text("listener-0001\n")
    (tmp_path / "link.csv").symlink_to("plays.csv")
    os.link(tmp_path / "plays.csv", tmp_path / "hard.csv")
    (tmp_path / "all").mkdir()
    shutil.copy(world / "plays.csv", tmp_path / "all" / "plays.csv")
    monkeypatch.chdir(tmp_path)
    return tmp_path


LISTS = "recommend model.eqp plays.csv --out"
REFUSED = [
    "fit plays.csv --out plays.csv",
    "fit plays.csv --out ./all/../plays.csv",
    "fit plays.csv --out link.csv",
    "fit link.csv --out plays.csv",
    "fit plays.csv --out hard.csv",
    "fit all --out all/plays.csv",
    "fit all/*.csv --out all/plays.csv",
    "fit plays.csv --memory 1GB --out plays.csv",
    "fit sqlite:///plays.csv --query x --out plays.csv",
    "audit plays.csv --out plays.csv",
    "audit plays.csv --names names.csv --out names.csv",
    "audit plays.csv --model model.eqp --out model.eqp",
    f"{LISTS} plays.csv",
    f"{LISTS} names.csv --names names.csv",
    f"{LISTS} users.csv --users-file users.csv",
    "recommend model.csv plays.csv --out model.csv",
    "evaluate plays.csv --csv plays.csv",
    "evaluate plays.csv --plot plays.csv",
    "evaluate plays.csv --csv new.png --plot ./new.png",
    "tune plays.csv --csv plays.csv",
    "tune plays.csv --csv new.svg --plot new.svg",
]


@pytest.mark.parametrize("line", REFUSED)
def test_an_output_that_is_an_input_or_another_output_is_refused(line, folder, capsys):
    before = snapshot(folder)
    code = run(line.split())
    said = capsys.readouterr()
    check_refusal(code, said.err, "--(out|csv|plot) .*the same file")
    assert said.out == ""
    assert said.err.count("\n") == 1  # before any work: not even the reading began
    assert snapshot(folder) == before


ALLOWED = [
    "fit plays.csv --rank 2 --out model.eqp",
    "fit all --rank 2 --out all/model.eqp",
    "fit plays.csv --rank 2 --out /dev/null",
    "recommend model.eqp plays.csv --out lists.csv --names names.csv",
    "evaluate plays.csv --models pca --ranks 2 --csv /dev/null --plot new.svg",
]


@pytest.mark.medium
@pytest.mark.parametrize("line", ALLOWED)
def test_files_that_are_not_an_input_may_be_written_over(line, folder):
    inputs = {name: (folder / name).read_bytes() for name in ("plays.csv", "names.csv")}
    (folder / "lists.csv").write_text("the old lists")
    assert run([*line.split(), "--quiet"]) == 0
    assert {name: (folder / name).read_bytes() for name in inputs} == inputs
    assert (folder / "lists.csv").read_text() != "the old lists" or "lists.csv" not in line


def test_a_private_model_stays_private(folder):
    (folder / "model.eqp").chmod(0o600)
    before = (folder / "model.eqp").read_bytes()
    assert run(["fit", "plays.csv", "--rank", "2", "--out", "model.eqp", "-q"]) == 0
    assert (folder / "model.eqp").read_bytes() != before
    assert (folder / "model.eqp").stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("folder")
def test_users_may_come_through_a_pipe(capsys):
    reader, writer = os.pipe()
    os.write(writer, b"listener-0001\n")
    os.close(writer)
    line = f"recommend model.eqp plays.csv --users-file /dev/fd/{reader} -N 2 --json -q"
    try:
        assert run(line.split()) == 0
    finally:
        os.close(reader)
    assert capsys.readouterr().out.count('"listener-0001"') == 2


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "line", ["recommend model.eqp plays.csv", "similar model.eqp artist-0001", "audit plays.csv"]
)
def test_names_from_a_named_pipe_are_refused(line, capsys):
    os.mkfifo("waiting")
    code = run([*line.split(), "--names", "waiting"])
    check_refusal(code, capsys.readouterr().err, "waiting is a pipe")


@pytest.mark.usefixtures("folder")
@pytest.mark.medium
@pytest.mark.parametrize("users", ["<(echo listener-0001)", "/dev/stdin < users.csv"])
def test_users_may_come_from_a_command_or_from_standard_input(users):
    command = f"{sys.executable} -m equipoise recommend model.eqp plays.csv -N 2 -q --users-file"
    done = subprocess.run(
        ["bash", "-c", f"{command} {users}"], capture_output=True, text=True, check=True
    )
    assert done.stdout.count('"listener-0001"') == 2

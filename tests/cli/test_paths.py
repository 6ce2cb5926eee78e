"""No command writes over what it reads, whatever the file is called."""

from __future__ import annotations

import os
import shutil

import pytest

from equipoise.cli import paths
from equipoise.cli.app import run
from equipoise.exceptions import InvalidDataError
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
REFUSED = {
    "fit plays.csv --out plays.csv": "--out plays.csv is the same file as DATA plays.csv",
    "fit plays.csv --out ./all/../plays.csv": "--out all/../plays.csv is the same file as DATA",
    "fit plays.csv --out link.csv": "--out link.csv is the same file as DATA plays.csv",
    "fit link.csv --out plays.csv": "--out plays.csv is the same file as DATA link.csv",
    "fit plays.csv --out hard.csv": "--out hard.csv is the same file as DATA plays.csv",
    "fit all --out all/plays.csv": "--out all/plays.csv is the same file as DATA all/plays.csv",
    "fit all/*.csv --out all/plays.csv": "--out all/plays.csv is the same file as DATA",
    "fit plays.csv --memory 1GB --out plays.csv": "--out plays.csv is the same file as DATA",
    "fit sqlite:///plays.csv --query x --out plays.csv": "--out plays.csv is the same file as DATA",
    "audit plays.csv --out plays.csv": "--out plays.csv is the same file as DATA plays.csv",
    "audit plays.csv --names names.csv --out names.csv": "is the same file as --names names.csv",
    "audit plays.csv --factors model.eqp --out model.eqp": "same file as --factors model.eqp",
    f"{LISTS} plays.csv": "--out plays.csv is the same file as DATA plays.csv",
    f"{LISTS} names.csv --names names.csv": "--out names.csv is the same file as --names names.csv",
    f"{LISTS} users.csv --users-file users.csv": "is the same file as --users-file users.csv",
    "recommend model.csv plays.csv --out model.csv": "is the same file as MODEL model.csv",
    "evaluate plays.csv --csv plays.csv": "--csv plays.csv is the same file as DATA plays.csv",
    "evaluate plays.csv --plot plays.csv": "--plot plays.csv is the same file as DATA plays.csv",
    "evaluate plays.csv --csv new.png --plot ./new.png": "--csv new.png is .* as --plot new.png",
    "tune plays.csv --csv plays.csv": "--csv plays.csv is the same file as DATA plays.csv",
    "tune plays.csv --csv new.svg --plot new.svg": "--csv new.svg is .* as --plot new.svg",
}


@pytest.mark.parametrize("line", REFUSED)
def test_an_output_that_is_an_input_or_another_output_is_refused(line, folder, capsys):
    before = snapshot(folder)
    code = run(line.split())
    said = capsys.readouterr()
    check_refusal(code, said.err, REFUSED[line])
    assert "would be lost. Write to another file." in said.err
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


@pytest.mark.parametrize("line", ALLOWED)
def test_files_that_are_no_input_may_be_written_over(line, folder):
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


def test_a_named_pipe_of_users_is_refused_before_it_is_opened(tmp_path):
    os.mkfifo(tmp_path / "users")  # without a writer, opening it never returns
    with pytest.raises(InvalidDataError, match=r"--users-file .* is not a regular file"):
        paths.check(inputs={"--users-file": tmp_path / "users"})

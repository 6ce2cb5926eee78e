"""The command line as a user types it: real processes, real pipes."""

from __future__ import annotations

from pathlib import Path

import pytest

from equipoise import __version__
from equipoise.cli.app import run
from tests.cli.conftest import call

pytestmark = pytest.mark.medium


@pytest.mark.slow
def test_demo_ends_with_a_table_words_and_the_path_of_a_report(tmp_path):
    done = call("demo", cwd=tmp_path)
    assert done.returncode == 0
    assert "specialization" in done.stdout
    assert "Item-Weighted PCA" in done.stdout
    assert "How to apply the advice" in done.stdout
    report = Path(done.stdout.strip().splitlines()[-1].removeprefix("Report: "))
    assert report == tmp_path / "report" / "demo.html"
    assert report.read_text().lower().startswith("<!doctype html>")


def test_quiet_prints_nothing_on_stderr(tmp_path):
    (tmp_path / "plays.csv").write_text("user,item\nann,x\nann,y\nbob,y\n")
    done = call(
        "--quiet", "fit", str(tmp_path / "plays.csv"), "--rank", "1", "--out", "m.eqp", cwd=tmp_path
    )
    assert done.returncode == 0
    assert done.stderr == ""


def test_version_and_help():
    assert call("--version").stdout.strip() == f"equipoise {__version__}"
    done = call("--help")
    assert done.returncode == 0
    assert "demo" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["demo", "--rank", "0"], "--rank"),
        (["demo", "--rank", "many"], "--rank"),
        (["demo", "--seed", "-1"], "--seed"),
        (["demo", "--colour"], "colour"),
        (["dance"], "dance"),
        (["auditt"], "See equipoise --help."),
        (["fit"], "Missing argument 'DATA'. See equipoise fit --help."),
    ],
)
def test_bad_arguments_are_refused_without_a_traceback(arguments, message, capsys):
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert message in said
    assert "Traceback" not in said


def test_unwritable_report_is_one_line_and_exit_code_2(tmp_path, capsys):
    (tmp_path / "taken").write_text("a file, not a folder")
    words = ["demo", "--out", str(tmp_path / "taken" / "r.html")]
    assert run(["--quiet", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error:")
    assert "taken" in line
    assert run(["--debug", *words]) == 2
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("error:")


def test_too_little_memory_is_reported_with_what_to_do(monkeypatch, capsys):
    def no_memory(**_):
        raise MemoryError

    monkeypatch.setattr("equipoise.data.synthetic.listening", no_memory)
    assert run(["demo", "--out", "/dev/null"]) == 2
    assert "not enough memory" in capsys.readouterr().err


def test_run_returns_the_exit_code():
    assert run(["--version"]) == 0
    assert run(["demo", "--rank", "0"]) == 2

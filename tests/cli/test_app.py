"""The command line as a user types it: real processes, real pipes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from equipoise import __version__
from equipoise.cli.app import run

COMMAND = [sys.executable, "-m", "equipoise"]


def call(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=cwd, timeout=120, check=False
    )


def test_demo_ends_with_a_table_words_and_the_path_of_a_report(tmp_path):
    done = call("demo", cwd=tmp_path)
    assert done.returncode == 0
    assert "specialization" in done.stdout
    assert "Item-Weighted PCA" in done.stdout
    report = Path(done.stdout.strip().splitlines()[-1].removeprefix("Report: "))
    assert report == tmp_path / "report" / "demo.html"
    assert report.read_text().startswith("<!doctype html>")


def test_demo_as_json_is_json_alone_on_stdout(tmp_path):
    done = call("demo", "--json", "--out", str(tmp_path / "r.html"))
    numbers = json.loads(done.stdout)
    assert numbers["models"][0]["model"] == "PCA"
    assert numbers["report"] == str(tmp_path / "r.html")


def test_quiet_says_nothing_on_stderr(tmp_path):
    done = call("--quiet", "demo", "--out", str(tmp_path / "r.html"))
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
    ],
)
def test_bad_arguments_are_refused_without_a_traceback(arguments, message):
    done = call(*arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_unwritable_report_is_one_line_and_exit_code_2(tmp_path):
    (tmp_path / "taken").write_text("a file, not a folder")
    quiet = call("--quiet", "demo", "--out", str(tmp_path / "taken" / "r.html"))
    assert quiet.returncode == 2
    assert quiet.stderr.startswith("error:")
    assert len(quiet.stderr.splitlines()) == 1
    done = call("demo", "--out", str(tmp_path / "taken" / "r.html"))
    assert done.returncode == 2
    errors = [line for line in done.stderr.splitlines() if line.startswith("error:")]
    assert len(errors) == 1
    assert "taken" in errors[0]
    assert "Traceback" not in done.stderr


def test_debug_shows_the_traceback(tmp_path):
    (tmp_path / "taken").write_text("")
    done = call("--debug", "demo", "--out", str(tmp_path / "taken" / "r.html"))
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_closed_pipe_is_not_an_error(tmp_path):
    line = f"{sys.executable} -m equipoise demo --out {tmp_path / 'r.html'} | true"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_ctrl_c_leaves_nothing_half_written_and_exits_130(tmp_path):
    process = subprocess.Popen(
        [*COMMAND, "demo", "--out", str(tmp_path / "r.html")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    process.stderr.readline()  # it has begun
    time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode in (130, -signal.SIGINT)
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_run_returns_the_exit_code():
    assert run(["--version"]) == 0
    assert run(["demo", "--rank", "0"]) == 2

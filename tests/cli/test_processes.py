"""Real processes: signals, pipes, full disks, completion; and bad input once more."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise

import pytest

from equipoise.cli.app import run
from tests.cli import test_bad_input as bad
from tests.cli.conftest import COMMAND, call, snapshot
from tests.cli.test_bad_input import broken  # noqa: F401 (a fixture)

pytestmark = pytest.mark.slow

# One case per place that refuses: reading, writing, files of others, and the arguments themselves
AGAIN = ["a value is NaN", "the disk is full", "the factors are pickled", "the command is unknown"]


@pytest.mark.parametrize("case", AGAIN)
def test_a_process_is_refused_like_a_call(case, broken, tmp_path):  # noqa: F811
    arguments, message = bad.CASES[case]
    before = snapshot(broken)
    done = call(*bad.with_folder(arguments, broken), cwd=tmp_path)
    bad.check_refusal(done.returncode, done.stderr, message)
    assert done.stdout == ""
    assert snapshot(broken) == before
    assert list(tmp_path.iterdir()) == []


# Each command, and what to replace by a long sleep so that Ctrl-C comes in the middle of it.
SLEEPERS = {
    "fit": (
        "from equipoise import ItemWeightedPCA as owner; name = '_solve'",
        ["fit", "{w}/plays.csv", "--rank", "2", "--out", "new.eqp"],
    ),
    "recommend to a table": (
        "import shutil as owner; name = 'copyfileobj'",
        ["recommend", "{w}/model.eqp", "{w}/plays.csv", "--out", "new.parquet"],
    ),
    "recommend to text": (
        "import equipoise.serving.lists as owner; name = 'write_parts'",
        ["recommend", "{w}/model.eqp", "{w}/plays.csv", "--out", "new.csv"],
    ),
    "audit": (
        "import equipoise.audit.engine as owner; name = 'measure'",
        ["audit", "{w}/plays.csv", "--budget", "0", "--out", "new.html"],
    ),
}
PROGRAM = """
import os, sys, time
{patch}
def sleep(*_, **__):
    os.write(2, b"ASLEEP\\n")  # in one piece: two threads may write
    time.sleep(3600)
setattr(owner, name, sleep)
from equipoise.cli import main
sys.argv = ["equipoise", *{arguments!r}]
main()
"""


TUNE_UNTIL_ASLEEP = """
import sys, time
from equipoise.evaluation import runner
scored = []
score = runner.Run._score
def sleep_at_second(*arguments):
    if scored:
        print("ASLEEP", file=sys.stderr, flush=True)
        time.sleep(600)
    scored.append(1)
    return score(*arguments)
runner.Run._score = sleep_at_second
from equipoise.cli import main
sys.argv = ["equipoise", "tune", {data!r}, "--ranks", "2,4", "--gammas", "0,-1",
            "--grid", "spectral_filter=hard", "--out", "best.eqp"]
main()
"""


def interrupted(program, folder):
    """Run a program, press Ctrl-C when it sleeps, and return what it printed."""
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    assert any("ASLEEP" in line for line in process.stderr)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=600)
    assert process.returncode == 130
    return printed


def test_ctrl_c_while_tuning_shows_the_best_so_far(tmp_path):
    data = tmp_path / "plays.csv"
    pairs = [f"{user},{item}" for user in range(40) for item in range(30) if (user + item) % 5 < 3]
    data.write_text("\n".join(["user,item", *pairs]))
    shown, errors = interrupted(TUNE_UNTIL_ASLEEP.format(data=str(data)), tmp_path)
    assert "Best of 2 settings" in shown
    assert "equipoise fit" in shown
    assert "best.eqp is not written" in errors
    assert not (tmp_path / "best.eqp").exists()


@pytest.mark.parametrize("case", SLEEPERS)
def test_ctrl_c_leaves_nothing_behind_and_exits_130(case, world, tmp_path):
    patch, arguments = SLEEPERS[case]
    arguments = [word.replace("{w}", str(world)) for word in arguments]
    program = PROGRAM.format(patch=patch, arguments=arguments)
    shown, errors = interrupted(program, tmp_path)
    # two models may sleep at the same time, and a task that took some seconds ends with a line
    lines = [line for line in errors.splitlines() if line != "ASLEEP" and "ended after" not in line]
    assert lines == ["interrupted"]
    assert shown == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    [
        "recommend {w}/model.eqp {w}/plays.csv -N 60 --include-seen",
        "similar {w}/model.eqp artist-0001 -N 50",
        "datasets",
        "--help",
    ],
)
@pytest.mark.parametrize("reader", ["head -n 1", "true"])
def test_a_closed_pipe_is_not_an_error(command, reader, world, tmp_path):
    program = f"{sys.executable} -m equipoise {command.replace('{w}', str(world))}"
    line = f"set -o pipefail; ({program}; echo $? > code) | {reader}"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, check=False, cwd=tmp_path, timeout=600
    )
    assert (tmp_path / "code").read_text() == "0\n"
    assert "Traceback" not in done.stderr
    assert "BrokenPipe" not in done.stderr
    assert "error" not in done.stderr


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_a_disk_that_fills_up_keeps_the_old_file(ending, world, tmp_path):
    out = tmp_path / f"lists{ending}"
    out.write_text("the old lists")
    command = f"ulimit -f 4; exec {sys.executable} -B -m equipoise recommend"
    line = f"{command} {world / 'model.eqp'} {world / 'plays.csv'} -N 60 --include-seen --out {out}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    bad.check_refusal(done.returncode, done.stderr, f"lists{ending} was not written.*too large")
    assert out.read_text() == "the old lists"
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_quiet_and_debug_may_stand_behind_the_command(world, tmp_path):
    command = ["fit", world / "plays.csv", "--rank", "2", "--out", tmp_path / "m.eqp"]
    for flag in ("--quiet", "-q"):
        done = call(*command, flag)
        assert (done.returncode, done.stderr) == (0, "")
        assert "objective" in done.stdout
    failed = call("fit", tmp_path / "gone.csv", "--out", tmp_path / "m.eqp", "--debug")
    assert failed.returncode == 2
    assert "Traceback" in failed.stderr


def test_warnings_are_one_line_on_stderr(tmp_path):
    (tmp_path / "one.csv").write_text("user,item\nann,x\nann,y\n")
    command = ["fit", tmp_path / "one.csv", "--rank", "2", "--out", tmp_path / "m.eqp"]
    done = call(*command)
    assert done.returncode == 0
    assert "Warning" not in done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if line.startswith("warning: ")]
    assert "1 of the 2" in warning
    assert call(*command, "--quiet").stderr == ""


def test_results_through_a_device_arrive(world):
    out = "/dev/stdout"
    done = call("fit", world / "plays.csv", "--rank", "2", "--out", out, "--json", "-q", text=False)
    assert done.returncode == 0
    assert done.stdout.startswith(b"PK")
    command = ["recommend", world / "model.eqp", world / "plays.csv", "-N", "2", "-q"]
    through_device = call(*command, "--out", out)
    assert through_device.returncode == 0
    assert through_device.stdout == call(*command, "--json").stdout != ""


COMMANDS = ["audit", "demo", "fit", "recommend", "similar", "explain", "evaluate", "tune"]
COMMANDS += ["models", "metrics", "reproduce", "datasets"]


def complete(words: str) -> list[str]:
    environment = {
        **os.environ,
        "_EQUIPOISE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(COMMAND, capture_output=True, text=True, env=environment, check=False)
    assert done.stderr == ""
    return [line.removeprefix("plain,") for line in done.stdout.split()]


def test_the_shell_completes_commands_and_options():
    assert complete("equipoise au") == ["audit"]
    commands = {"recommend", "reproduce", "rerank", "rerankers"}
    assert set(complete("equipoise re")) == commands
    options = {"--user", "--users", "--users-file"}
    assert set(complete("equipoise recommend --us")) == options


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "pwsh"])
def test_completion_can_be_shown(shell):
    done = call("--show-completion", env={"SHELL": f"/usr/bin/{shell}"})
    assert done.returncode == 0
    assert "_EQUIPOISE_COMPLETE" in done.stdout


def test_completion_is_installed_once_for_the_shell_of_the_user(tmp_path):
    started = tmp_path / ".bashrc"
    started.write_text("alias ll='ls -l'\n")
    for _ in range(2):
        done = call("--install-completion", env={"SHELL": "/bin/bash", "HOME": str(tmp_path)})
        assert str(started) in done.stdout
    text = started.read_text()
    assert text.startswith("alias ll")
    assert text.count("_equipoise_completion_setup()") == 1


def test_completion_of_an_unknown_shell_is_refused():
    done = call("--install-completion", env={"SHELL": "/bin/csh"})
    assert done.returncode == 2
    assert "csh" in done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_help_describes_every_command_and_option(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert run([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: equipoise {command}" in shown
    lines = [line.strip() for line in shown.splitlines()]
    options = [line for line in lines if line.startswith("-")]
    assert options
    assert [line for line in options if len(re.split(r"\s{2,}", line)) < 2] == []


def test_help_fills_the_lines_of_a_paragraph(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["update", "--help"]) == 0
    _, summary, details, *_ = capsys.readouterr().out.split("\n\n")
    assert summary.startswith("  Add DATA")
    lines = details.splitlines()
    assert all(len(f"{line} {below.split()[0]}") > 78 for line, below in pairwise(lines))


def test_help_groups_the_commands_and_lists_the_exit_codes(capsys):
    assert run(["--help"]) == 0
    shown = capsys.readouterr().out
    places = [shown.index(f"\n{panel}:\n") for panel in ("Audit", "Train and serve", "Evaluate")]
    assert places == sorted(places)
    assert "Data and paper" in shown
    told = " ".join(shown.split())
    for code in ("0 done", "1 done, and", "2 refused or failed", "130 interrupted"):
        assert code in told


def test_json_is_alone_on_stdout(world, tmp_path):
    done = call(
        "audit", world / "plays.csv", "--budget", "0", "--json", "--out", tmp_path / "r.html"
    )
    assert done.returncode == 0
    assert isinstance(json.loads(done.stdout), dict)
    assert f"Report: {tmp_path / 'r.html'}" in done.stderr

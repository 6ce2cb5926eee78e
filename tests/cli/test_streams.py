"""Standard streams that are closed, full or of a poor alphabet, and data that would steer them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

from equipoise.cli.app import run
from tests.cli.conftest import call, write_table

IDS = ["é", "日本", "日木", "😀", 'q"\\']


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Plays of items with names in many alphabets, and a model of them."""
    place = tmp_path_factory.mktemp("streams")
    rows = [(f"u{u}", item, 1 + u) for u in range(9) for i, item in enumerate(IDS) if (u + i) % 3]
    write_table(place / "p.csv", ["user", "item", "plays"], rows)
    fit = ["fit", str(place / "p.csv"), "--rank", "2", "--out", str(place / "m.eqp")]
    assert run([*fit, "--quiet"]) == 0
    return place


def shell(line: str, folder) -> subprocess.CompletedProcess:
    """Run a line in which `eq` stands for the command."""
    function = f'eq() {{ "{sys.executable}" -m equipoise "$@"; }}; {line}'
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run(
        ["bash", "-c", function],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        timeout=600,
        env=environment,
    )


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_results_are_utf_8_in_every_locale(encoding, folder):
    environment = {"PYTHONIOENCODING": encoding}
    done = call("similar", folder / "m.eqp", "😀", "--json", "-k", "9", text=False, env=environment)
    assert done.returncode == 0
    found = {row["item"] for row in json.loads(done.stdout.decode())}
    assert found == set(IDS) - {"😀"}
    command = ["recommend", folder / "m.eqp", folder / "p.csv", "--include-seen", "--json", "-q"]
    lines = call(*command, text=False, env=environment).stdout.decode().splitlines()
    assert {json.loads(line)["item"] for line in lines} == set(IDS)


PRINTED = ["-q similar m.eqp é", "-q models", "--help", "-q fit p.csv --rank 2 -o n.eqp --json"]


@pytest.mark.slow
@pytest.mark.parametrize("line", PRINTED)
def test_results_that_cannot_be_written_are_an_error(line, folder):
    done = shell(f"eq {line} >/dev/full", folder)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.slow
def test_files_are_written_without_a_standard_output(folder):
    done = shell("eq fit p.csv --rank 2 --out new.eqp --quiet >&- <&-", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert shell("eq similar new.eqp é --json", folder).returncode == 0
    done = shell("eq recommend m.eqp p.csv --out lists.csv --quiet >&-", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert (folder / "lists.csv").read_text(encoding="utf-8").startswith("user,rank,item,score\n")


@pytest.mark.slow
@pytest.mark.parametrize("target", ["2>&-", "2>&- >&- <&-"])
def test_the_exit_code_is_right_where_nobody_hears_the_error(target, folder):
    done = shell(f"eq fit nosuch.csv --out x.eqp {target}", folder)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "")


@pytest.mark.slow
def test_work_goes_on_where_nobody_hears_of_it(folder):
    done = shell("eq fit p.csv --rank 2 --json --out heard.eqp 2>&-", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["rank"] == 2


EVIL = "a\033[31mEVIL\033]0;pwn\007\x9b31m"
_STEERING = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")


def test_data_do_not_steer_the_terminal(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{EVIL}.csv").write_text(f"{EVIL},b\nc,d\ne,b\nf,d\nc,b\n", encoding="utf-8")
    fit = ["fit", f"{EVIL}.csv", "--rank", "1", "--out"]
    assert run([*fit, "m.eqp", "--json"]) == 0
    assert run([*fit, f"no/{EVIL}"]) == 2
    assert run(["similar", "m.eqp", EVIL]) == 2
    said = capsys.readouterr()
    assert said.err.count("EVIL") >= 5  # two lines of reading, a note, two errors; more if slow
    assert "first line, a\ufffd[31mEVIL\ufffd]0;pwn\ufffd\ufffd31m, b, is read" in said.err
    assert _STEERING.findall(said.out + said.err) == []


@pytest.mark.slow
def test_data_do_not_steer_the_terminal_in_a_traceback(tmp_path):
    done = call("fit", tmp_path / f"{EVIL}\n.csv", "--out", tmp_path / "m.eqp", "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "EVIL" in done.stderr
    assert _STEERING.findall(done.stderr) == []

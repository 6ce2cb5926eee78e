"""A password in a database URL: shown nowhere, whatever fails and whatever succeeds."""

from __future__ import annotations

import logging

import pytest

from equipoise.cli import console
from equipoise.cli.app import run
from equipoise.cli.console import without_passwords
from equipoise.data import Interactions
from equipoise.data.readers.sql import without_credentials
from equipoise.exceptions import EquipoiseError
from tests.cli.conftest import call
from tests.recorded_progress import Recorded

pytestmark = pytest.mark.medium

USER, PASSWORD = "alice", "hunter2"
FAILING = {
    "nobody answers": "postgresql+psycopg://alice:hunter2@127.0.0.1:1/shop",
    "short name": "postgresql://alice:hunter2@127.0.0.1:1/shop",
    "host unknown": "postgresql+psycopg://alice:hunter2@no.such.host.invalid/shop",
    "in the options": "postgresql+psycopg://127.0.0.1:1/shop?user=alice&password=hunter2",
    "unknown option": "postgresql+psycopg://alice:hunter2@127.0.0.1:1/shop?colour=hunter2",
    "database unknown": "nosuchdb://alice:hunter2@host/shop",
    "driver unknown": "postgresql+nosuch://alice:hunter2@host/shop",
    "driver not installed": "mysql+oursql_missing://alice:hunter2@host/shop",
    "port is no number": "postgresql+psycopg://alice:hunter2@host:port/shop",
    "a slash too few": "postgresql:/alice:hunter2@host/shop",
    "no colon": "postgresql//alice:hunter2@host/shop",
    "a web address": "https://alice:hunter2@host/plays.csv",
    "an at in the password": "postgresql://alice:p@hunter2@127.0.0.1:1/shop",
    "a question mark in the password": "postgresql://alice:p?hunter2@127.0.0.1:1/shop",
    "both in the password": "postgresql://alice:p@q?hunter2@127.0.0.1:1/shop",
    "an at in an option": "postgresql+psycopg://127.0.0.1:1/shop?user=al&password=x@hunter2",
    "an at and a slash in the password": "postgresql+psycopg://al:p@hunter2/s@127.0.0.1:1/shop",
    "a slash too few, a star": "postgresql:/alice:hunter2*@host/shop",
    "a slash too few, options": "postgresql:/host/shop?user=alice&password=hunter2",
    "a line break": "postgresql://alice:hunter2@127.0.0.1:1/shop\nx",
}
COMMANDS = {
    "fit": ["fit", "{url}", "--query", "SELECT 1", "--out", "m.eqp"],
    "fit without a query": ["fit", "{url}", "--out", "m.eqp"],
    "fit as JSON": ["fit", "{url}", "--query", "SELECT 1", "--out", "m.eqp", "--json"],
    "fit in blocks": ["fit", "{url}", "--out", "m.eqp", "--memory", "1GB"],
    "audit": ["audit", "{url}", "--query", "SELECT 1", "--out", "r.html", "--json"],
    "evaluate": ["evaluate", "{url}", "--query", "SELECT 1", "--json"],
}


def assert_secret(*texts):
    for text in texts:
        assert PASSWORD not in text
        assert USER not in text


# Each URL with one command, and each command with URLs that fail at different steps
CASES = [(url, "fit") for url in FAILING] + [
    (url, command)
    for url in ("nobody answers", "database unknown", "a slash too few, options")
    for command in COMMANDS
    if command != "fit"
]


@pytest.mark.parametrize(("url", "command"), CASES)
def test_no_failure_shows_it(url, command, tmp_path, monkeypatch, capsys, caplog):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    words = [word.format(url=FAILING[url]) for word in COMMANDS[command]]
    assert run(words) == 2
    said = capsys.readouterr()
    assert "error:" in said.err
    assert_secret(said.out, said.err, caplog.text)
    # not even in the exception itself, before stderr masks what looks like a password
    monkeypatch.setattr(console, "without_passwords", str)
    assert run([*words, "--debug"]) == 2
    said = capsys.readouterr()
    assert "Traceback" in said.err
    assert_secret(said.out, said.err)


URL = "postgresql://alice:hunter2@host/shop"
# Where no URL belongs, and spellings that are none: found out by nothing but their shape
MISPLACED = {
    "as a model": ["recommend", URL, "p.csv"],
    "as a model to look into": ["similar", URL, "x"],
    "as a file to write": ["fit", "p.csv", "--out", URL],
    "as a table to write": ["evaluate", "p.csv", "--csv", URL],
    "as a cache": ["tune", "p.csv", "--cache", f"p.csv/{URL}"],
    "as names": ["audit", "p.csv", "--names", URL, "--budget", "0", "--out", "r.html"],
    "as factors": ["audit", "p.csv", "--model", URL, "--budget", "0", "--out", "r.html"],
    "as a list of users": ["recommend", "m.eqp", "p.csv", "--users-file", URL],
    "as a format": ["fit", "p.csv", "--out", "m.eqp", "--format", URL],
    "as a rank": ["fit", "p.csv", "--out", "m.eqp", "--rank", URL],
    "as a command": [URL],
    "at the end of a long id": ["similar", "m.eqp", "x" * 1100 + URL],
}
MISSPELLED = [
    " postgresql://alice:hunter2@host/shop",
    "'postgresql://alice:hunter2@host/shop'",
    "jdbc:postgresql://alice:hunter2@host/shop",
    "DATABASE_URL=postgresql://alice:hunter2@host/shop",
    "postgres:alice:hunter2@host/shop",
    "postgresql;//alice:hunter2@host/shop",
    "//alice:hunter2@host/shop",
    "postgresql:\\\\alice:hunter2@host/shop",
    "host=h password=hunter2 user=al",
    "host=h PWD='hunter2 and more' user=al",
]
MISPLACED |= {f"spelled {text}": ["fit", text, "--out", "m.eqp"] for text in MISSPELLED}


@pytest.fixture(scope="module")
def few_plays_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("few")
    rows = [f"u{u},i{i},1" for u in range(9) for i in range(6) if (u + i) % 3]
    (folder / "p.csv").write_text("\n".join(["user,item,value", *rows]))
    words = ["fit", str(folder / "p.csv"), "--rank", "2", "--out", str(folder / "m.eqp"), "-q"]
    assert run(words) == 0
    return folder


@pytest.fixture
def few_plays(few_plays_folder, monkeypatch):
    monkeypatch.chdir(few_plays_folder)


@pytest.mark.usefixtures("few_plays")
@pytest.mark.parametrize("words", MISPLACED.values(), ids=MISPLACED)
def test_no_place_and_no_spelling_shows_it(words, capsys):
    capsys.readouterr()
    assert run(words) == 2
    said = capsys.readouterr()
    assert "error:" in said.err
    assert_secret(said.out, said.err)


@pytest.mark.slow
@pytest.mark.usefixtures("few_plays")
def test_no_scheduler_that_does_not_answer_shows_it():
    pytest.importorskip("distributed")
    scheduler = "tcp://alice:hunter2@127.0.0.1:1"
    done = call("fit", "p.csv", "--out", "new.eqp", "--scheduler", scheduler)
    assert done.returncode == 2
    assert "error:" in done.stderr
    assert_secret(done.stdout, done.stderr)


@pytest.mark.slow
@pytest.mark.usefixtures("few_plays")
@pytest.mark.parametrize("case", ["as a model", "as a file to write", f"spelled {MISSPELLED[4]}"])
def test_no_traceback_shows_it(case):
    done = call(*MISPLACED[case], "--debug")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "***@host/shop" in done.stderr
    assert_secret(done.stdout, done.stderr)


@pytest.mark.parametrize(
    "text",
    [
        r"there is no file C:\a@b.csv. Check the path.",
        "no file matches C:/a@b?.csv.",
        "unknown user 'ann@example.org'. Near by: 'anna@example.org'.",
        "error: a@b.csv, line 5: 'x' is no number: see --value",
        "postgresql://***@host/shop at 10:30",
        "the password is not shown",
    ],
)
def test_ordinary_messages_are_shown_as_they_are(text):
    assert without_passwords(text) == text


@pytest.mark.parametrize("how", ["table", "--json", "--md"])
def test_no_result_shows_it(plays, tmp_path, monkeypatch, capsys, how):
    monkeypatch.setattr(Interactions, "read", lambda *_, **__: plays)
    url = FAILING["in the options"].replace("127", "alice:hunter2@127")
    out = tmp_path / "report.html"
    words = ["audit", url, "--budget", "0", "--query", "SELECT 1", "--out", str(out)]
    assert run(words if how == "table" else [*words, how]) == 0
    said = capsys.readouterr()
    assert_secret(said.out, said.err, out.read_text(encoding="utf-8"))
    assert "postgresql+psycopg://***@127.0.0.1:1/shop" in said.out


def test_no_fitted_model_shows_it(plays, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Interactions, "read", lambda *_, **__: plays)
    model = tmp_path / "m.eqp"
    words = ["fit", FAILING["nobody answers"], "--query", "SELECT 1", "--rank", "2"]
    assert run([*words, "--out", str(model)]) == 0
    said = capsys.readouterr()
    assert_secret(said.out, said.err, model.read_bytes().decode("latin1"))
    assert "postgresql+psycopg://***@127.0.0.1:1/shop" in said.out


def test_progress_names_a_database_without_its_password():
    seen = Recorded()
    with pytest.raises(EquipoiseError):
        Interactions.read(FAILING["nobody answers"], query="SELECT 1", progress=seen)
    assert seen.first["name"] == "Reading postgresql+psycopg://***@127.0.0.1:1/shop"
    assert seen.is_over


def test_where_a_password_may_begin_and_end_in_two_ways_only_the_scheme_is_shown():
    assert without_credentials("mysql://host/shop?password=p@hunter2") == "mysql://***"


@pytest.mark.parametrize(
    "path", ["data/plays.csv", "C:\\plays.csv", "C:/a@b?.csv", "a@b.csv", "*.parquet"]
)
def test_paths_are_shown_as_they_are(path):
    assert without_credentials(path) == path

"""A password in a database URL: shown nowhere, whatever fails and whatever succeeds."""

from __future__ import annotations

import logging
import traceback

import pytest

from equipoise.cli.app import run
from equipoise.data import Interactions
from equipoise.data.readers.databases import without_credentials
from equipoise.exceptions import EquipoiseError

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


@pytest.mark.parametrize("url", FAILING.values(), ids=FAILING)
@pytest.mark.parametrize("command", COMMANDS)
def test_no_failure_shows_it(url, command, tmp_path, monkeypatch, capsys, caplog):
    pytest.importorskip("sqlalchemy")
    pytest.importorskip("psycopg")
    monkeypatch.chdir(tmp_path)
    caplog.set_level(logging.INFO)
    words = [word.format(url=url) for word in COMMANDS[command]]
    assert run(words) == 2
    said = capsys.readouterr()
    assert "error:" in said.err
    assert_secret(said.out, said.err, caplog.text)
    with pytest.raises((EquipoiseError, OSError)) as caught:
        run([*words, "--debug"])
    said = capsys.readouterr()
    assert_secret(said.out, said.err, "".join(traceback.format_exception(caught.value)))


@pytest.mark.parametrize("how", ["table", "--json", "--md"])
def test_no_result_shows_it(plays, tmp_path, monkeypatch, capsys, how):
    monkeypatch.setattr(Interactions, "read", lambda *_, **__: plays)
    url = FAILING["in the options"].replace("127", "alice:hunter2@127")
    out = tmp_path / "report.html"
    words = ["audit", url, "--rank", "3", "--query", "SELECT 1", "--out", str(out)]
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
    assert "Reading postgresql+psycopg://***@127.0.0.1:1/shop" in said.err


def test_where_a_password_may_begin_and_end_in_two_ways_only_the_scheme_is_shown():
    assert without_credentials("mysql://host/shop?password=p@hunter2") == "mysql://***"


@pytest.mark.parametrize(
    "path", ["data/plays.csv", "C:\\plays.csv", "C:/a@b?.csv", "a@b.csv", "*.parquet"]
)
def test_paths_are_shown_as_they_are(path):
    assert without_credentials(path) == path

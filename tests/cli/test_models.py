"""`equipoise models` as a user types it."""

from __future__ import annotations

import json

import pytest

from equipoise.cli.app import run
from equipoise.metrics import available
from equipoise.models.registry import MODELS, ModelEntry


@pytest.fixture
def wide(monkeypatch):
    """A terminal wide enough for every column."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("wide")
def test_the_table_names_every_model_with_its_paper_and_kind(capsys):
    assert run(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for entry in MODELS.values():
        (line,) = [line for line in lines if line.split()[:1] == [entry.key]]
        assert entry.paper in line
        assert entry.computation in line
        assert (entry.extra or "–") in line


@pytest.mark.parametrize("command", ["models", "metrics", "rerankers"])
def test_names_are_in_one_piece_on_a_narrow_terminal(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert run([command, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert run([command]) == 0
    words = capsys.readouterr().out.split()
    assert {one.get("key", one.get("name")) for one in listed} <= set(words)


def test_json_contains_everything(capsys):
    assert run(["models", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [each["key"] for each in listed] == list(MODELS)
    assert listed == [entry.facts() for entry in MODELS.values()]


@pytest.mark.usefixtures("wide")
def test_what_is_missing_is_named_with_the_command_that_installs_it(capsys, monkeypatch):
    missing = property(lambda entry: entry.extra != "als")
    monkeypatch.setattr(ModelEntry, "installed", missing)
    assert run(["models"]) == 0
    said = capsys.readouterr()
    assert "als (missing)" in said.out
    assert 'pip install "equipoise[als]"' in said.err
    assert "LightGCN" not in said.err


def test_every_metric_is_listed_with_its_formula(capsys):
    assert run(["metrics", "--json"]) == 0
    listed = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert list(listed) == list(available())
    assert listed["ndcg"]["direction"] == "higher"
    assert "rectools" in listed["ndcg"]["conventions"]
    assert run(["metrics"]) == 0
    assert "hits / |R|" in capsys.readouterr().out

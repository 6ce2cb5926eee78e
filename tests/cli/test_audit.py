"""`equipoise audit` and `equipoise demo`: findings as a table, JSON, Markdown and a page."""

from __future__ import annotations

import json
import shlex
import webbrowser
from dataclasses import replace

import numpy as np
import pytest

from equipoise import Interactions, ItemWeightedPCA, load
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.advice import command as command_of
from equipoise.audit.formatting import components
from equipoise.audit.report import render
from equipoise.cli import console
from equipoise.cli.app import run
from equipoise.cli.audit import lines

pytestmark = pytest.mark.medium


@pytest.fixture(scope="module")
def factors(tmp_path_factory):
    path = tmp_path_factory.mktemp("factors") / "als.npy"
    np.save(path, np.random.default_rng(0).random((60, 4)))
    return path


@pytest.fixture(scope="module")
def found(world, factors):
    """The audit by the Python API."""
    data = Interactions.read(str(world / "plays.csv"))
    return audit(
        data,
        names=world / "names.csv",
        rank=4,
        groups="items",
        factors=[factors],
        k=5,
        source=str(world / "plays.csv"),
    )


@pytest.fixture
def command(world, factors, tmp_path):
    options = ["--names", world / "names.csv", "--factors", factors, "--out", tmp_path / "r.html"]
    settings = ["--rank", "4", "--groups", "items", "-k", "5"]
    return list(map(str, ["audit", world / "plays.csv", *settings, *options]))


def test_the_page_and_the_table_say_what_was_found(command, found, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(console.out, "_width", 200)  # COLUMNS counts at import alone
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert (tmp_path / "r.html").read_text() == render(found)
    said = " ".join(shown.split())
    for line in lines(found):
        assert f"{line.title} {' '.join(line.values)}" in said
    for sentence in found.verdict.sentences:
        assert sentence in said
    assert command_of(found.verdict.advice) in said
    assert "als.npy" in said
    assert shown.splitlines()[-1] == f"Report: {tmp_path / 'r.html'}"


@pytest.mark.parametrize(("flag", "text"), [("--json", to_json), ("--md", to_markdown)])
def test_json_and_markdown_are_alone_on_stdout(flag, text, command, found, capsys):
    assert run([*command, flag]) == 0
    said = capsys.readouterr()
    assert said.out == text(found)
    assert "Report: " in said.err


@pytest.mark.parametrize("there_is_one", [True, False])
def test_the_page_is_opened_where_there_is_a_browser(
    there_is_one, command, tmp_path, monkeypatch, capsys
):
    opened = []
    monkeypatch.setattr(webbrowser, "open", lambda url: opened.append(url) or there_is_one)
    assert run([*command, "--open"]) == 0
    assert opened == [(tmp_path / "r.html").as_uri()]
    assert ("no browser found" in capsys.readouterr().err) is not there_is_one


def test_the_advised_calls_read_and_prepare_the_data_as_the_audit_did(
    world, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    _, *rows = (world / "plays.csv").read_text().splitlines()
    lines = ["who;what;times;time", *(f"{row.replace(',', ';')};soon" for row in rows)]
    (tmp_path / "my plays.csv").write_text("\n".join(lines))  # unreadable without the options
    reading = ["--user", "who", "--item", "what", "--value", "times", "--timestamp", ""]
    reading += ["--delimiter", ";", "--format", "csv", "--memory", "1GB"]
    reading += ["--min-items-per-user", "1", "--min-users-per-item", "2", "--binarize"]
    assert run(["audit", "my plays.csv", "--rank", "4", *reading, "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)["verdict"]["advice"]
    words = shlex.split(advice["command"])
    assert words[3 : 3 + len(reading)] == reading
    assert words[:3] == ["equipoise", "fit", "my plays.csv"]
    assert run(words[1:]) == 0
    names = {"user": "who", "item": "what", "value": "times", "timestamp": ""}
    data = Interactions.read("my plays.csv", **names, delimiter=";")
    calls = {"ItemWeightedPCA": ItemWeightedPCA, "interactions": data}
    by_python = eval(advice["python"], calls)
    by_command = load("model.eqp")
    assert by_python.item_ids_.tolist() == by_command.item_ids_.tolist()
    np.testing.assert_allclose(abs(by_python.components_), abs(by_command.components_), atol=1e-8)


def test_many_models_in_a_narrow_terminal_keep_their_names(world, factors, tmp_path, capsys):
    options = ["--rank", "2", "-q", "--out", str(tmp_path / "r.html")]
    many = [word for _ in range(4) for word in ("--factors", str(factors))]
    assert run(["audit", str(world / "plays.csv"), *options, *many]) == 0
    assert "…" not in capsys.readouterr().out.partition("•")[0]


def test_a_bound_is_marked_as_one_in_the_table(found):
    group = found.data.groups[-1].name
    pca = found.variants[0]
    first = replace(pca, not_halved={**pca.not_halved, group: 1})
    bounded = replace(found, variants=(first, *found.variants[1:]))
    shown = {line.title: line.values for line in lines(bounded)}["niche: components to half error"]
    assert shown[0] == f"≥ {components(first.components_to_half[group])}"


def test_an_item_with_a_blank_name_is_called_by_its_id(plays):
    names = dict.fromkeys(plays.item_ids.tolist(), "Someone") | {plays.item_ids[0]: " "}
    found = audit(plays.with_names(names), rank=2)
    called = dict(zip(found.items.ids.tolist(), found.items.names.tolist(), strict=True))
    assert called[plays.item_ids[0]] == plays.item_ids[0]
    assert called[plays.item_ids[1]] == "Someone"


def test_without_data_the_built_in_ones_are_audited(tmp_path, monkeypatch, capsys):
    from equipoise.data import synthetic

    small = synthetic.listening(n_users=80, n_items=60)
    monkeypatch.setattr(synthetic, "listening", lambda **_: small)
    options = ["--rank", "auto", "--gamma", "-0.5", "--json", "--out", str(tmp_path / "r.html")]
    assert run(["audit", *options]) == 0
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert told["data"]["source"] == "built-in example data"
    assert told["settings"]["size_chosen_by"] != "given"
    assert told["settings"]["audited"]["gamma"] == -0.5
    assert "80 invented listeners" in said.err


def test_the_demo_is_the_audit_of_the_built_in_data(tmp_path, monkeypatch, capsys):
    from equipoise.data import synthetic

    small = synthetic.listening(n_users=80, n_items=60, seed=2)
    monkeypatch.setattr(synthetic, "listening", lambda **_: small)
    page = tmp_path / "new" / "r.html"
    assert run(["demo", "--rank", "4", "--seed", "2", "--out", str(page), "--json"]) == 0
    assert capsys.readouterr().out == to_json(
        audit(small, rank=4, seed=2, source="built-in example data")
    )
    assert page.read_text().lower().startswith("<!doctype html>")

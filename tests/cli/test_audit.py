"""`equipoise audit` and `equipoise demo`: findings as a table, JSON, Markdown and a page."""

from __future__ import annotations

import itertools
import json
import shlex
import webbrowser
from dataclasses import replace

import numpy as np
import pytest

import equipoise
from equipoise import Interactions, load
from equipoise.audit import audit, to_json, to_markdown
from equipoise.audit.advice import command as command_of
from equipoise.audit.dossier.manifest import hashes
from equipoise.audit.formatting import components
from equipoise.audit.report import render
from equipoise.cli.app import run
from equipoise.cli.audit import main_numbers, print_findings
from equipoise.cli.review import recorded_command
from tests.cli.conftest import write_table

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
        models=[factors],
        k=5,
        budget=0,
        source=str(world / "plays.csv"),
    )


@pytest.fixture
def command(world, factors, tmp_path):
    options = ["--names", world / "names.csv", "--model", factors, "--out", tmp_path / "r.html"]
    settings = ["--rank", "4", "--groups", "items", "-k", "5", "--budget", "0"]
    return list(map(str, ["audit", world / "plays.csv", *settings, *options]))


@pytest.fixture
def of_command(found, world, factors):
    """The findings with the manifest of the command that ran last."""

    def with_manifest():
        files = hashes([factors, world / "names.csv"])
        own = {"command": recorded_command(str(world / "plays.csv")), "files": files}
        return replace(found, manifest={**found.manifest, **own})

    return with_manifest


def test_the_page_and_the_table_show_what_was_found(
    command, found, of_command, tmp_path, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "200")
    assert run(command) == 0
    shown = capsys.readouterr().out
    assert (tmp_path / "r.html").read_text() == render(of_command())
    said = " ".join(shown.split())
    for row in main_numbers(found).rows:
        assert " ".join(row) in said
    for sentence in found.answer:
        assert " ".join(sentence.split()) in said
    assert command_of(found.advice) in said
    assert "als.npy" in said
    assert shown.splitlines()[-1] == f"Report: {tmp_path / 'r.html'}"


@pytest.mark.parametrize(("flag", "text"), [("--json", to_json), ("--md", to_markdown)])
def test_json_and_markdown_are_alone_on_stdout(flag, text, command, of_command, capsys):
    assert run([*command, flag]) == 0
    said = capsys.readouterr()
    assert said.out == text(of_command())
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
    assert run(["audit", "my plays.csv", "--budget", "0", *reading, "--json"]) == 0
    advice = json.loads(capsys.readouterr().out)["advice"]
    words = shlex.split(advice["command"])
    assert words[3 : 3 + len(reading)] == reading
    assert words[:3] == ["equipoise", "fit", "my plays.csv"]
    assert run(words[1:]) == 0
    names = {"user": "who", "item": "what", "value": "times", "timestamp": ""}
    data = Interactions.read("my plays.csv", **names, delimiter=";")
    calls = {name: getattr(equipoise, name) for name in equipoise.__all__}
    by_python = eval(advice["python"], {**calls, "interactions": data})
    by_command = load("model.eqp")
    assert by_python.item_ids_.tolist() == by_command.item_ids_.tolist()
    rows = data.binarize()
    np.testing.assert_array_equal(by_python.recommend(rows).ids, by_command.recommend(rows).ids)


def test_a_call_of_several_lines_is_printed_as_it_is(found, capsys):
    advice = replace(
        found.advice,
        model="item-weighted",
        settings={"value_transform": "binary", "n_components": 32, "gamma": -1.0},
        keep=False,
    )
    print_findings(replace(found, advice=advice))
    printed = capsys.readouterr().out
    call = "ItemWeightedPCA(value_transform='binary', n_components=32, gamma=-1.0).fit("
    assert f"  {call}\n      interactions\n  )\n" in printed
    assert "\ufffd" not in printed


@pytest.mark.parametrize(("model", "has_calls"), [("pca", True), ("", False)])
def test_calls_have_a_heading_only_if_there_are_any(found, model, has_calls, capsys):
    advice = replace(found.advice, model=model, settings={}, keep=True)
    print_findings(replace(found, advice=advice, mitigation="None is offered."))
    assert ("How to apply the advice" in capsys.readouterr().out) == has_calls


def test_many_models_in_a_narrow_terminal_keep_their_names(world, factors, tmp_path, capsys):
    options = ["--budget", "0", "-q", "--out", str(tmp_path / "r.html")]
    many = [word for i in range(4) for word in ("--model", f"als {i}={factors}")]
    assert run(["audit", str(world / "plays.csv"), *options, *many]) == 0
    assert "…" not in capsys.readouterr().out.partition("•")[0]


def test_models_are_named_and_their_files_described(world, plays, tmp_path, capsys):
    rng = np.random.default_rng(0)
    items, users = rng.normal(size=(61, 4)), rng.normal(size=(80, 4))
    items[0] = 0  # padding
    np.savez(tmp_path / "towers.npz", item=items, user=users, other=items)
    (tmp_path / "items.txt").write_text("\n".join(plays.item_ids))
    (tmp_path / "users.txt").write_text("\n".join(plays.user_ids))
    lists = plays.item_ids[rng.permuted(np.tile(np.arange(60), (80, 1)), axis=1)[:, :5]]
    rows = [
        (u, i, r) for u, own in zip(plays.user_ids, lists, strict=True) for r, i in enumerate(own)
    ]
    write_table(tmp_path / "lists.csv", ["user", "item", "rank"], rows)
    given = {
        "--model": [f"towers={tmp_path / 'towers.npz'}", f"theirs={tmp_path / 'lists.csv'}"],
        "--tensor": ["towers=item"],
        "--user-tensor": ["towers=user"],
        "--item-ids": [f"towers={tmp_path / 'items.txt'}"],
        "--user-ids": [f"towers={tmp_path / 'users.txt'}"],
    }
    words = [word for name, values in given.items() for value in values for word in (name, value)]
    options = ["--budget", "0", "--json", "--out", str(tmp_path / "r.html")]
    assert run(["audit", str(world / "plays.csv"), *options, *words]) == 0
    found = {each["label"]: each for each in json.loads(capsys.readouterr().out)["models"]}
    assert (found["towers"]["kind"], found["theirs"]["kind"]) == ("embeddings", "lists")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--tensor", "x"], "--model, which is missing"),
        (["--model", "a=x.npy", "--model", "a=y.npy"], "given twice"),
        (["--model", "a=gone.pt", "--item-ids", "gone.txt"], "gone"),
    ],
)
def test_options_of_models_are_checked(world, tmp_path, capsys, words, message):
    assert run(["audit", str(world / "plays.csv"), "--out", str(tmp_path / "r.html"), *words]) == 2
    assert message in capsys.readouterr().err


def test_a_bound_is_marked_as_one_in_the_table(found):
    group = found.data.groups[-1].name
    subject = found.subject
    first = replace(subject, not_halved={**subject.not_halved, group: 1})
    variants = tuple(first if each is subject else each for each in found.variants)
    bounded = replace(found, variants=variants)
    shown = {title: cells for title, *cells in main_numbers(bounded).rows}
    shown = shown["components to half error, niche"]
    assert shown[0] == f"≥ {components(first.components_to_half[group])}"


def test_an_item_with_a_blank_name_is_called_by_its_id(plays):
    names = dict.fromkeys(plays.item_ids.tolist(), "Someone") | {plays.item_ids[0]: " "}
    found = audit(plays.with_names(names), rank=2, budget=0)
    called = dict(zip(found.items.ids.tolist(), found.items.names.tolist(), strict=True))
    assert called[plays.item_ids[0]] == plays.item_ids[0]
    assert called[plays.item_ids[1]] == "Someone"


def test_without_data_nothing_is_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(["audit"]) == 2
    assert "DATA" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_advised_command_repeats_every_reading_option(tmp_path, capsys):
    from equipoise.data import synthetic

    plays = synthetic.listening(n_users=80, n_items=60).matrix.tocoo()
    lines = [f"{row};{column};1,5;01.02.2020" for row, column in zip(*plays.coords, strict=True)]
    table = tmp_path / "plays.csv"
    table.write_text("\n".join(["who;what;hours;day", *lines]) + "\n")
    reading = ["--user", "who", "--item", "what", "--value", "hours", "--timestamp", "day"]
    reading += ["--decimal", ",", "--date-format", "%d.%m.%Y", "--min-items-per-user", "2"]
    options = ["--budget", "0", "--json", "--out", str(tmp_path / "r.html")]
    assert run(["audit", str(table), *reading, *options]) == 0
    advised = shlex.split(json.loads(capsys.readouterr().out)["advice"]["command"])
    assert {" ".join(pair) for pair in zip(reading[::2], reading[1::2], strict=True)} <= {
        " ".join(pair) for pair in itertools.pairwise(advised)
    }
    assert run([*advised[1:-1], str(tmp_path / "m.eqp")]) == 0


def test_the_demo_is_the_audit_of_the_built_in_data(tmp_path, monkeypatch, capsys):
    from equipoise.data import synthetic

    small = synthetic.listening(n_users=80, n_items=60, seed=2)
    monkeypatch.setattr(synthetic, "listening", lambda **_: small)
    page = tmp_path / "new" / "r.html"
    assert run(["demo", "--seed", "2", "--out", str(page), "--json"]) == 0
    assert capsys.readouterr().out == to_json(audit(small, seed=2, source="built-in example data"))
    assert page.read_text().lower().startswith("<!doctype html>")


def test_parts_of_a_split_are_audited_with_a_model_of_the_training_part(plays, tmp_path, capsys):
    split = plays.holdout(seed=0)
    folder = tmp_path / "parts"
    split.write(folder)
    model = equipoise.VanillaPCA(4).fit(split.train)
    model.save(tmp_path / "mine.eqp")
    parts = [f"--{name}={folder / name}.parquet" for name in ("train", "validation", "test")]
    options = ["--model", f"mine={tmp_path / 'mine.eqp'}", "--budget", "0", "--json"]
    assert run(["audit", *parts, *options, "--out", str(tmp_path / "r.html")]) == 0
    record = json.loads(capsys.readouterr().out)
    found = {each["label"]: each for each in record["models"]}
    assert record["subject"] == "given:0"
    assert found["mine"]["no_accuracy"] == ""
    at = found["PCA"]["sizes"].index(4)
    assert found["mine"]["means"]["ndcg"]["all"][-1] == found["PCA"]["means"]["ndcg"]["all"][at]

"""`equipoise tune` as a user types it."""

from __future__ import annotations

import json
import re
import shlex

import pytest

from equipoise.cli.app import run

GRID = ("--ranks", "2,4", "--gammas", "-1,0", "--grid", "spectral_filter=hard,power")


def call(*arguments):
    """Run the command and return its exit code."""
    return run(["tune", *map(str, arguments)])


def test_choice_frontier_test_score_and_constructor_are_shown(table, capsys):
    options = ("--grid", "value_transform=none,binary", "--subject-to", "aplt>=0.01")
    assert call(table, *GRID, *options, "--maximize", "recall@5") == 0
    shown = capsys.readouterr().out
    assert "Best of 16 settings on validation" in shown
    for word in ("choice", "recall@5", "aplt@20", "test recall@5", "ItemWeightedPCA("):
        assert word in shown


@pytest.mark.medium
def test_json_csv_and_picture(table, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    files = ("--csv", tmp_path / "trials.csv", "--plot", tmp_path / "search.svg")
    assert call(table, *GRID, "--grid", "value_transform=binary", "--json", *files) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["complete"]
    assert told["choice"]["value_transform"] == "binary"
    assert len((tmp_path / "trials.csv").read_text().splitlines()) == told["n_trials"] + 1
    assert (tmp_path / "search.svg").stat().st_size > 1000


def test_any_model_can_be_tuned_over_a_grid(table, capsys):
    options = ("--model", "item-knn", "--grid", "n_neighbors=5,10", "--grid", "shrinkage=0,0.5")
    assert call(table, *options, "--maximize", "recall@5") == 0
    shown = capsys.readouterr().out
    assert "Best of 4 settings on validation" in shown
    for word in ("choice", "n_neighbors", "shrinkage", "test recall@5", "ItemKNN("):
        assert word in shown
    assert call(table, *options, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["model"] == "ItemKNN"
    assert told["choice"]["n_neighbors"] in (5, 10)


def test_words_of_a_grid_become_what_they_look_like(table, capsys):
    grid = ("--grid", "value_transform=none,binary", "--grid", "iterations=2")
    options = ("--model", "ips-mf", "--ranks", "2", *grid, "--json")
    assert call(table, *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["n_trials"] == 2
    assert told["choice"]["value_transform"] in (None, "binary")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--subject-to", "aplt=0.2"), r"METRIC\[/GROUP\] >= NUMBER .* got 'aplt=0.2'"),
        (("--subject-to", "aplt>=much"), "a condition is METRIC"),
        (("--ranks", "1.5"), "--ranks takes whole numbers"),
        (("--grid", "shrinkage"), "--grid takes NAME=VALUE.*'shrinkage'"),
        (("--grid", "gamma="), "--grid takes NAME=VALUE"),
        (("--model", "ease", "--gammas", "-1"), "gamma"),
        (("--model", "svd"), "unknown model 'svd'"),
    ],
)
def test_what_cannot_be_understood_is_refused(table, options, message, capsys):
    assert call(table, *options) == 2
    assert re.search(message, capsys.readouterr().err)


def test_the_printed_command_fits_the_model_that_out_saves(table, capsys, tmp_path):
    chosen, again = tmp_path / "chosen.eqp", tmp_path / "again.eqp"
    reading = ("--value", "plays", "--min-users-per-item", "2")
    assert call(table, *GRID, *reading, "--out", chosen) == 0
    command = shlex.split(capsys.readouterr().out.strip().splitlines()[-1])
    assert command[:3] == ["equipoise", "fit", str(table)]
    assert run([*command[1:-1], str(again)]) == 0
    assert again.read_bytes() == chosen.read_bytes()


@pytest.mark.medium
def test_goals_and_floors_for_own_groups_are_compared_in_one_table(table, capsys, tmp_path):
    labels = tmp_path / "labels.csv"
    rows = [f"{item},{'indie' if item % 3 else 'major'}" for item in range(40)]
    labels.write_text("\n".join(["item,label", *rows]))
    own = ("--model", "max-min", "--ranks", "4", "--item-groups", f"{labels}:label")
    assert call(table, *own) == 0
    shown = capsys.readouterr().out
    settings = next(line for line in shown.splitlines() if "n_components" in line).split()
    assert {"welfare", "ndcg@20"} <= set(settings)
    assert "groups" not in settings  # the own groups are kept, not searched
    # every row of the table has a cell for every column
    lines = shown[shown.index("choice") :].split("test ")[0].splitlines()
    frontier = [line.split() for line in lines if line.strip()]
    assert {len(row) for row in frontier} <= {len(settings), len(settings) + 1}
    command = shlex.split(next(line for line in shown.splitlines() if "equipoise fit" in line))
    assert f"{labels}:label" in command
    assert run([*command[1:-1], str(tmp_path / "model.eqp")]) == 0


def test_a_choice_at_the_edge_of_the_grid_is_reported(table, capsys):
    assert call(table, "--model", "pca", "--grid", "n_components=2,3") == 0
    assert re.search(r"edge.*n_components = [23]", capsys.readouterr().err)
    assert call(table, "--model", "pca", "--grid", "n_components=2", "--json") == 0
    said = capsys.readouterr()
    assert "edge" not in said.err
    assert json.loads(said.out)["edges"] == {}


def test_test_items_far_from_the_training_items_are_reported(tmp_path, capsys):
    """Users have a taste of their own; test items are of the other taste."""
    pairs = {"train": [], "validation": [], "test": []}
    for user in range(120):
        own = [item for item in range(2, 40) if item % 2 == user % 2]
        other = [item for item in range(2, 40) if item % 2 != user % 2]
        cut = user % 9
        pairs["train"] += [(user, item) for item in (0, 1, *own[:cut], *own[cut + 3 :])]
        pairs["validation"] += [(user, item) for item in own[cut : cut + 3]]
        pairs["test"] += [(user, other[user % 19])]
    options = []
    for name, rows in pairs.items():
        path = tmp_path / f"{name}.csv"
        path.write_text("user,item\n" + "".join(f"u{u},i{i}\n" for u, i in rows))
        options += [f"--{name}", path]
    assert call(*options, "--model", "pca", "--grid", "n_components=2") == 0
    assert "parts differ" in capsys.readouterr().err

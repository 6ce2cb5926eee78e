"""`equipoise tune` as a user types it."""

from __future__ import annotations

import csv
import json

import pytest
import typer

from equipoise.cli.tune import tune
from equipoise.data.synthetic import scale
from equipoise.exceptions import InvalidParameterError

GRID = ("--ranks", "2,4", "--gammas", "-1,0", "--filters", "hard,power:0.5", "--user-scalings", "0")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A CSV file of who played what."""
    plays = scale(120, 40, 1100, seed=2).matrix.tocoo()
    path = tmp_path_factory.mktemp("data") / "plays.csv"
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "item", "plays"])
        writer.writerows(zip(plays.row, plays.col, plays.data, strict=True))
    return path


def call(*arguments):
    """Run the command and return its exit code."""
    app = typer.Typer()
    app.command()(tune)
    return app([str(a) for a in arguments], standalone_mode=False)


def test_choice_frontier_test_score_and_constructor_are_shown(table, capsys):
    options = ("--value-transforms", "none,binary", "--subject-to", "aplt>=0.01")
    assert call(table, *GRID, *options, "--maximize", "recall@5") == 0
    shown = capsys.readouterr().out
    assert "Best of 16 settings on validation" in shown
    for word in ("choice", "recall@5", "aplt@20", "test recall@5", "ItemWeightedPCA(n_components="):
        assert word in shown


def test_json_csv_and_picture(table, capsys, tmp_path):
    pytest.importorskip("matplotlib")
    files = ("--csv", tmp_path / "trials.csv", "--plot", tmp_path / "search.svg")
    assert call(table, *GRID, "--value-transforms", "binary", "--json", *files) == 0
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
        (("--subject-to", "aplt=0.2"), r"--subject-to takes METRIC>=NUMBER .* got 'aplt=0.2'"),
        (("--subject-to", "aplt>=much"), "--subject-to takes METRIC>=NUMBER"),
        (("--filters", "power:strong"), "--filters takes hard, power:S or ridge:RHO"),
        (("--filters", "soft"), "a filter is a pair of one of"),
        (("--value-transforms", "sqrt"), "value transforms are None and"),
        (("--ranks", "1.5"), "--ranks takes whole numbers"),
        (("--user-scalings", "half"), "--user-scalings takes numbers"),
        (("--grid", "shrinkage"), r"--grid takes PARAMETER=VALUE,VALUE.* got 'shrinkage'"),
        (("--grid", "gamma="), "--grid takes PARAMETER=VALUE"),
        (("--model", "ease", "--gammas", "-1"), "are the grid of 'item-weighted'"),
        (("--model", "svd"), "unknown model 'svd'"),
    ],
)
def test_what_cannot_be_understood_is_refused(table, options, message):
    with pytest.raises(InvalidParameterError, match=message):
        call(table, *options)

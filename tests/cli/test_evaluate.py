"""`equipoise evaluate` as a user types it."""

from __future__ import annotations

import csv
import json

import pytest

from equipoise.cli.app import run


def call(*arguments):
    """Run the command and return its exit code."""
    return run(["evaluate", *map(str, arguments)])


def test_the_table_shows_models_metrics_and_ranks(table, capsys):
    assert (
        call(table, "--ranks", "2,4", "--metrics", "recall,mrr:lightgcn,item_auc", "-k", "5") == 0
    )
    shown = capsys.readouterr().out
    for word in ("PCA", "Normalized PCA", "Item-Weighted PCA", "recall@5", "item_auc"):
        assert word in shown
    assert "mrr@5 (lightgcn)" in shown


def test_json_is_alone_on_stdout_and_csv_holds_every_group(table, capsys, tmp_path):
    path = tmp_path / "out.csv"
    options = ("--json", "--ranks", "2", "--metrics", "item_auc", "--csv", path, "--models", "pca")
    assert call(table, *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["complete"]
    with open(path, newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["group"] for row in rows] == ["all", "popular", "medium", "niche"]
    assert [float(row["value"]) for row in rows] == [row["value"] for row in told["rows"]]


def test_gammas_and_the_preparation_of_the_data_are_options(table, capsys):
    options = (
        "--gammas",
        "-1,-0.5",
        "--models",
        "item-weighted",
        "--metrics",
        "recall",
        "-k",
        "5,10",
    )
    prepared = ("--binarize", "--min-items-per-user", "3", "--min-users-per-item", "3")
    assert (
        call(
            table,
            "--json",
            "--ranks",
            "2",
            *options,
            *prepared,
            "-k",
            "5,10",
            "--zero-division",
            "0",
        )
        == 0
    )
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert [(row["gamma"], row["k"]) for row in rows] == [(-1, 5), (-1, 10), (-0.5, 5), (-0.5, 10)]
    assert "count 0" in rows[0]["convention"]


def test_any_model_of_the_registry_can_be_named(table, capsys):
    options = ("--models", "ease,gfcf,popularity", "--ranks", "2,4", "--metrics", "recall")
    assert call(table, "--json", *options) == 0
    told = json.loads(capsys.readouterr().out)
    assert [(row["model"], row["n_components"]) for row in told["rows"]] == [
        ("EASE", None),
        ("GF-CF", 2),
        ("GF-CF", 4),
        ("Popularity", None),
    ]
    assert "costs" not in told


def test_a_model_whose_extra_is_missing_is_left_out_with_a_note(table, capsys, monkeypatch):
    missing = property(lambda entry: entry.extra is None)
    monkeypatch.setattr("equipoise.models.registry.ModelEntry.installed", missing)
    options = ("--ranks", "2", "--metrics", "recall", "--json")
    assert call(table, "--models", "weighted-mf,pca", *options) == 0
    said = capsys.readouterr()
    assert {row["model"] for row in json.loads(said.out)["rows"]} == {"PCA"}
    assert 'pip install "equipoise[als]"' in said.err
    assert call(table, "--models", "weighted-mf,lightgcn", *options) == 2
    assert 'pip install "equipoise[lightgcn]"' in capsys.readouterr().err


@pytest.mark.medium
def test_a_picture_is_drawn(table, tmp_path):
    pytest.importorskip("matplotlib")
    options = ("--ranks", "2,4", "--metrics", "recall", "--plot", tmp_path / "out.png")
    assert call(table, *options) == 0
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")


def test_an_interrupted_run_prints_what_it_has_and_says_how_to_go_on(
    table, capsys, monkeypatch, tmp_path
):
    from equipoise.evaluation import runner

    def interrupt(*_args, **_kwargs):
        raise KeyboardInterrupt

    done = []
    original = runner.measure_items
    monkeypatch.setattr(
        runner,
        "measure_items",
        lambda *a, **k: interrupt() if done else (done.append(1), original(*a, **k))[1],
    )
    options = ("--ranks", "2", "--metrics", "recall", "--cache", tmp_path, "--json")
    assert call(table, *options) == 130
    said = capsys.readouterr()
    told = json.loads(said.out)
    assert not told["complete"]
    assert {row["model"] for row in told["rows"]} == {"PCA"}
    assert "interrupted: 1 rows" in said.err
    assert "same --cache" in said.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--models", "svd"),
            "--models: unknown model 'svd'",
        ),
        (("--ranks", "two"), "--ranks takes whole numbers"),
        (("--gammas", "low"), "--gammas takes numbers"),
        (("--metrics", "beauty"), "unknown metric 'beauty'"),
    ],
)
def test_what_cannot_be_understood_is_refused(table, options, message, capsys):
    assert call(table, *options) == 2
    assert message in capsys.readouterr().err


def test_groups_of_items_and_users_come_from_files(table, capsys, tmp_path):
    artists, users = tmp_path / "artists.csv", tmp_path / "users.csv"
    artists.write_text("id,label\n" + "".join(f"{j},{'ab'[j % 2]}|c\n" for j in range(30)))
    users.write_text(
        "user,age\n" + "".join(f"{u},{'old' if u % 3 else 'young'}\n" for u in range(130))
    )
    options = ("--item-groups", f"{artists}:label", "--group-separator", "|")
    options += ("--user-groups", f"{users}:age", "--ranks", "2", "--models", "pca", "-k", "5")
    assert call(table, *options, "--metrics", "group_recall,ndcg", "--json") == 0
    shown = capsys.readouterr()
    groups = [row["group"] for row in json.loads(shown.out)["rows"]]
    assert groups == ["all", "a", "c", "b", "all", "users: young", "users: old"]
    assert "10 of 40 items are in no group" in shown.err
    assert "10 ids of the groups are not" in shown.err
    assert call(table, *options, "--metrics", "group_recall,ndcg") == 0
    assert "users: young" in capsys.readouterr().out


def test_users_are_grouped_by_activity_without_a_file(table, capsys):
    options = ("--user-groups", "activity", "--ranks", "2", "--models", "pca", "--metrics", "ndcg")
    assert call(table, *options, "--json") == 0
    groups = [row["group"] for row in json.loads(capsys.readouterr().out)["rows"]]
    assert groups == ["all", *(f"users: activity {n}/5" for n in range(1, 6))]


def test_groups_without_a_column_are_refused(table, capsys):
    assert call(table, "--item-groups", "artists.csv") == 2
    assert "FILE:COLUMN" in capsys.readouterr().err

"""A model, a metric and a re-ranker of another package, installed by pip, work by name."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.data.synthetic import listening
from equipoise.exceptions import ArtifactError, InvalidParameterError
from equipoise.models import load
from equipoise.models.registry import available, find_model


@pytest.fixture(scope="session")
def plays(tmp_path_factory) -> Path:
    data = listening(n_users=80, n_items=60, seed=3)
    entries = data.matrix.tocoo()
    path = tmp_path_factory.mktemp("plays") / "plays.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["user", "item", "plays"])
        for row, column, value in zip(entries.row, entries.col, entries.data, strict=True):
            writer.writerow([data.user_ids[row], data.item_ids[column], value])
    return path


def test_models_lists_it_with_its_facts(python):
    listed = json.loads(python("-m", "equipoise", "models", "--json").stdout)
    (facts,) = [one for one in listed if one["key"] == "plain-neighbors"]
    assert facts["package"] == "plain-neighbors"
    assert facts["class"] == "PlainNeighbors"
    assert facts["paper"] == "Nobody 2026"
    assert facts["search"] == {"power": [0.0, 0.5, 1.0]}
    assert "plain-neighbors" in python("-m", "equipoise", "models").stdout


def test_it_passes_the_contract(python):
    python(
        "-c",
        "from plain_neighbors import PlainNeighbors\n"
        "from equipoise.testing import check_recommender\n"
        "check_recommender(PlainNeighbors())",
    )


def test_fit_saves_it_and_recommend_loads_it(python, plays, tmp_path):
    model = tmp_path / "model.eqp"
    fit = ("fit", str(plays), "--model", "plain-neighbors", "--out", str(model))
    python("-m", "equipoise", *fit)
    out = tmp_path / "lists.csv"
    python("-m", "equipoise", "recommend", str(model), str(plays), "-N", "3", "--out", str(out))
    with out.open(encoding="utf-8") as file:
        lists = list(csv.DictReader(file))
    assert {one["rank"] for one in lists} == {"1", "2", "3"}


def test_metrics_lists_its_metric(python):
    listed = json.loads(python("-m", "equipoise", "metrics", "--json").stdout)
    (facts,) = [one for one in listed if one["name"] == "first_hit"]
    assert facts["title"] == "First hit"


def test_its_re_ranker_works_by_name(python, plays, tmp_path):
    listed = json.loads(python("-m", "equipoise", "rerankers", "--json").stdout)
    assert [one["paper"] for one in listed if one["name"] == "later"] == ["Nobody 2026"]
    model, saved = tmp_path / "model.eqp", tmp_path / "later.eqp"
    python("-m", "equipoise", "fit", str(plays), "--rank", "4", "--out", str(model))
    fit = ("fit", str(plays), "--rank", "4", "--rerank", "later:2", "--out", str(saved))
    python("-m", "equipoise", *fit)

    def lists(*arguments: str) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for line in python(
            "-m", "equipoise", "recommend", *arguments, "--json"
        ).stdout.splitlines():
            row = json.loads(line)
            found.setdefault(row["user"], []).append(row["item"])
        return found

    plain = lists(str(model), str(plays), "-N", "5")
    later = lists(str(model), str(plays), "-N", "3", "--rerank", "later:2")
    assert later == {user: items[2:] for user, items in plain.items()}
    assert lists(str(saved), str(plays), "-N", "3") == later
    options = ("--models", "pca", "--ranks", "4", "--metrics", "first_hit", "--rerank", "later")
    assert "PCA + later" in python("-m", "equipoise", "evaluate", str(plays), *options).stdout


def test_evaluate_measures_its_model_with_its_metric(python, plays):
    options = (
        "--models",
        "pca,plain-neighbors",
        "--ranks",
        "4",
        "--metrics",
        "first_hit,hit_rate@1",
    )
    table = python("-m", "equipoise", "evaluate", str(plays), *options).stdout
    assert "Plain neighbors" in table
    rows = json.loads(python("-m", "equipoise", "evaluate", str(plays), *options, "--json").stdout)
    values = {
        (row["model"], row["metric"]): row["value"] for row in rows["rows"] if row["group"] == "all"
    }
    for model in ("PCA", "Plain neighbors"):  # the first item is a hit if the list of one has a hit
        assert values[model, "first_hit"] == values[model, "hit_rate"] > 0


def test_tune_searches_its_own_grid_for_its_own_metric(python, plays):
    code = (
        "import sys, equipoise as eq\n"
        "split = eq.holdout(eq.Interactions.read(sys.argv[1]), validation=0.2)\n"
        "found = eq.tune(split, 'plain-neighbors', maximize='first_hit')\n"
        "scores = {trial.settings['power']: trial.scores['first_hit'] for trial in found.trials}\n"
        "assert found.choice.scores['first_hit'] == max(scores.values())\n"
        "print(sorted(scores))"
    )
    assert python("-c", code, str(plays)).stdout.strip() == "[0.0, 0.5, 1.0]"


def test_the_report_of_an_audit_contains_it(python, plays, tmp_path):
    model, report = tmp_path / "neighbors.eqp", tmp_path / "report.html"
    python("-m", "equipoise", "fit", str(plays), "--model", "plain-neighbors", "--out", str(model))
    options = ("--model", str(model), "--out", str(report), "--rank", "8")
    options += ("--more-metrics", "first_hit")
    done = python("-m", "equipoise", "audit", str(plays), *options)
    assert "first_hit" in done.stdout
    page = report.read_text(encoding="utf-8")
    assert "neighbors.eqp" in page
    assert "first_hit" in page


def test_where_it_is_not_installed_it_is_unknown_and_its_file_names_it(python, plays, tmp_path):
    model = tmp_path / "model.eqp"
    python("-m", "equipoise", "fit", str(plays), "--model", "plain-neighbors", "--out", str(model))
    assert "plain-neighbors" not in available()
    with pytest.raises(InvalidParameterError, match="unknown model"):
        find_model("plain-neighbors")
    with pytest.raises(ArtifactError, match="plain_neighbors"):
        load(model)


def test_a_package_that_cannot_be_imported_is_named(tmp_path):
    (tmp_path / "torn.py").write_text("import gone_for_good\n")
    info = tmp_path / "torn-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torn\nVersion: 1.0\n")
    groups = ("models", "metrics", "rerankers")
    points = (f"[equipoise.{group}]\ntorn-{group} = torn:Torn\n" for group in groups)
    (info / "entry_points.txt").write_text("".join(points))
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    for command in ("models", "metrics", "rerankers"):
        done = subprocess.run(
            [sys.executable, "-m", "equipoise", command],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUTF8": "1"},
            check=False,
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"'torn-{command}' (torn:Torn) cannot be imported: ModuleNotFoundError" in line
        assert "Correct or uninstall" in line

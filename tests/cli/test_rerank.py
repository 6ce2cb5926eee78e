"""Re-ranking on the command line: recommend, fit, evaluate, tune, and lists of another system."""

from __future__ import annotations

import json

import polars as pl
import pytest

import equipoise
from equipoise.cli.app import run
from equipoise.metrics import popularity_groups
from equipoise.reranking import Reranked, available, rerank_lists


def lists(capsys) -> pl.DataFrame:
    lines = capsys.readouterr().out.splitlines()
    return pl.DataFrame([json.loads(line) for line in lines])


def test_recommend_re_ranks_the_lists_of_a_saved_model(world, plays, capsys):
    command = [
        "--quiet",
        "recommend",
        str(world / "model.eqp"),
        str(world / "plays.csv"),
        "-k",
        "10",
    ]
    assert run(command) == 0
    plain = lists(capsys)
    assert run([*command, "--rerank", "fair:0.8,length=10"]) == 0
    found = lists(capsys)
    tail = set(plays.item_ids[popularity_groups(plays.matrix, "head80").items("tail")].tolist())
    share = [table["item"].is_in(list(tail)).mean() for table in (plain, found)]
    assert share[1] > share[0]
    assert found.group_by("user").len()["len"].max() == 10


def test_a_model_is_fitted_with_its_re_ranker(world, tmp_path):
    out = tmp_path / "fair.eqp"
    command = ["--quiet", "fit", str(world / "plays.csv"), "--rank", "4", "--out", str(out)]
    assert run([*command, "--rerank", "xquad:0.4"]) == 0
    model = equipoise.load(out)
    assert isinstance(model, Reranked)
    assert model.reranker == "xquad:0.4"
    assert model.model.n_components == 4


def test_evaluate_adds_every_model_with_every_re_ranker(world, capsys):
    command = ["--quiet", "evaluate", str(world / "plays.csv"), "--models", "pca,popularity"]
    more = ["--ranks", "2,4", "--metrics", "aplt", "-k", "5", "--json"]
    assert run([*command, *more, "--rerank", "xquad:0.3", "--rerank", "fair:0.5"]) == 0
    rows = json.loads(capsys.readouterr().out)
    rows = rows["rows"] if isinstance(rows, dict) else rows
    names = {row["model"] for row in rows}
    assert {"PCA", "PCA + xquad:0.3", "Popularity + fair:0.5"} <= names
    assert len([row for row in rows if row["model"] == "PCA + fair:0.5"]) == 2


@pytest.mark.medium
def test_tune_prints_the_command_with_the_chosen_strength(world, capsys):
    command = ["--quiet", "tune", str(world / "plays.csv"), "--model", "pca", "--ranks", "2,4"]
    assert run([*command, "--rerank", "xquad", "-k", "5", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "--rerank xquad:" in found["command"]
    assert "--rank" in found["command"]
    assert run([*command, "--rerank", "xquad", "-k", "5"]) == 0
    (shown,) = [line for line in capsys.readouterr().out.splitlines() if line[:9] == "Reranked("]
    made = eval(shown, {"Reranked": Reranked, "VanillaPCA": equipoise.VanillaPCA})
    assert made.reranker in found["command"]


def test_re_rankers_are_listed(capsys):
    assert run(["rerankers", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == list(available())
    assert run(["rerankers"]) == 0
    assert "Zehlike et al. 2017" in capsys.readouterr().out


@pytest.mark.medium
def test_lists_of_another_system_are_re_ranked(world, plays, tmp_path, capsys):
    model = equipoise.load(world / "model.eqp")
    ids, scores = model.recommend(plays, 30)
    table = pl.DataFrame(
        {
            "user": [user for user in plays.user_ids for _ in range(30)],
            "item": ids.ravel().tolist(),
            "score": scores.ravel(),
        }
    )
    path, out = tmp_path / "lists.csv", tmp_path / "new.parquet"
    table.write_csv(path)
    command = ["rerank", str(path), str(world / "plays.csv"), "-k", "10", "--out", str(out)]
    assert run([*command, "--rerank", "exposure:0.9,target=items"]) == 0
    shown = capsys.readouterr().err.splitlines()
    assert any(line.startswith("relative gap") for line in shown)
    found = pl.read_parquet(out)
    assert found.columns == ["user", "rank", "item", "score"]
    assert len(found) == 10 * plays.n_users
    joined = found.join(table, on=["user", "item"], how="left")
    assert joined["score"].to_list() == pytest.approx(joined["score_right"].to_list())


def test_ranks_are_enough_to_re_rank(plays):
    ids = equipoise.VanillaPCA(8).fit(plays).recommend(plays, 30).ids
    users = [user for user in plays.user_ids for _ in range(30)]
    ranked = pl.DataFrame(
        {"user": users, "item": ids.ravel().tolist(), "rank": [*range(1, 31)] * plays.n_users}
    )
    scored = ranked.drop("rank").with_columns(score=31.0 - ranked["rank"])
    for spec in ("xquad:0.4", "fair:0.6", "exposure:0.9,target=items"):
        found, same = (rerank_lists(table, plays, spec, k=10).table for table in (ranked, scored))
        assert found["item"].to_list() == same["item"].to_list()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("user,item\na,b\n", "rank or score"),
        ("user,item,score\na,no such,1\n", "not an item of the data"),
        ("user,item,score\na,b,nan\n", "must contain numbers"),
        ("user,item,score\na,b,1\na,b,2\n", "more than once"),
        ("user,item,score\n", "must contain numbers"),
    ],
)
def test_a_wrong_table_of_lists_is_refused(world, tmp_path, capsys, content, message):
    path = tmp_path / "lists.csv"
    path.write_text(content)
    assert run(["rerank", str(path), str(world / "plays.csv")]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_wrong_spec_is_refused_before_the_fit(world, capsys):
    command = ["evaluate", str(world / "plays.csv"), "--models", "pca", "--rerank", "best:1"]
    assert run(command) == 2
    assert "unknown re-ranker 'best'" in capsys.readouterr().err

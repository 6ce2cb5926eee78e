"""`equipoise split`, and commands on the files of a split."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest

from equipoise import EASE, Interactions, evaluate
from equipoise.cli.app import run
from equipoise.data import Split
from equipoise.data.synthetic import scale


@pytest.fixture(scope="module")
def plays():
    """Values, times, and ids that are not positions."""
    found = scale(150, 60, 2200, seed=2).matrix.tocoo()
    rng = np.random.default_rng(0)
    users, items = rng.permutation(1000)[:150], np.array([f"i{j}" for j in rng.permutation(60)])
    times = rng.permutation(found.nnz)
    return Interactions.from_pairs(users[found.row], items[found.col], found.data, times)


@pytest.fixture(scope="module")
def table(plays, tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "plays.parquet"
    X = plays.matrix.tocoo()
    columns = {"user": plays.user_ids[X.row], "item": plays.item_ids[X.col], "value": X.data}
    pl.DataFrame({**columns, "timestamp": plays.timestamps}).write_parquet(path)
    return path


def options(parts, names=("train", "validation", "test")):
    return [word for name in names for word in (f"--{name}", str(parts / f"{name}.parquet"))]


def triples(part):
    """Everything about each interaction, without the order of rows and columns."""
    X, times = part.matrix.tocoo(), part.timestamps
    return {
        (user, item): (value, time)
        for user, item, value, time in zip(
            part.user_ids[X.row], part.item_ids[X.col], X.data, times, strict=True
        )
    }


@pytest.mark.parametrize("method", ["per_user_random", "leave_last_n", "temporal", "by_user"])
def test_the_files_are_the_split_with_ids_values_and_times(plays, table, tmp_path, method):
    arguments = ["split", str(table), "--out", str(tmp_path / "parts"), "--method", method]
    assert run([*arguments, "--last", "2", "--test", "0.3", "--seed", "5"]) == 0
    expected = plays.holdout(method=method, n=2, test=0.3, seed=5)
    files = {path.stem: path for path in (tmp_path / "parts").iterdir()}
    assert set(files) - {"history"} == {"train", "validation", "test"}
    assert ("history" in files) == (method == "by_user")
    read = Split.read(**files)
    for name in files:
        assert triples(getattr(read, name)) == triples(getattr(expected, name)), name


@pytest.mark.parametrize("method", ["per_user_random", "temporal", "by_user"])
def test_evaluate_on_the_files_equals_evaluate_on_the_data(table, tmp_path, capsys, method):
    scoring = ["--models", "ease", "--metrics", "recall,ndcg,aplt", "-k", "5", "--json"]
    assert run(["evaluate", str(table), "--method", method, *scoring]) == 0
    expected = json.loads(capsys.readouterr().out)["rows"]
    assert run(["split", str(table), "--method", method, "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    names = [path.stem for path in tmp_path.iterdir()]
    assert run(["evaluate", *options(tmp_path, names), *scoring]) == 0
    found = json.loads(capsys.readouterr().out)["rows"]
    assert [row["value"] for row in found] == pytest.approx([row["value"] for row in expected])


def test_blocks_on_disk_are_written_like_data_in_memory(table, tmp_path):
    for folder, more in (("memory", []), ("disk", ["--memory", "200MB"])):
        assert run(["split", str(table), *more, "--out", str(tmp_path / folder)]) == 0
    for name in ("train", "validation", "test"):
        whole, blocks = (
            pl.read_parquet(tmp_path / folder / f"{name}.parquet").sort("user", "item")
            for folder in ("memory", "disk")
        )
        assert whole.equals(blocks), name


@pytest.mark.slow
def test_evaluate_on_files_with_shuffled_ids_equals_ranx(plays, tmp_path, capsys):
    ranx = pytest.importorskip("ranx")
    split = plays.binarize().holdout(test=0.3)
    rng = np.random.default_rng(1)
    for name in ("train", "validation", "test"):
        part = getattr(split, name)
        X = part.matrix.tocoo()
        columns = {"item": part.item_ids[X.col], "user": part.user_ids[X.row]}
        rows = pl.DataFrame(columns)[rng.permutation(X.nnz)]  # other first appearances
        rows.write_csv(tmp_path / f"{name}.csv")
    files = [w for n in ("train", "validation", "test") for w in (f"--{n}", tmp_path / f"{n}.csv")]
    chosen = ["--models", "ease", "--metrics", "ndcg@5,recall@5,precision@5,mrr@5", "--json"]
    assert run(["evaluate", *map(str, files), *chosen]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    found = {row["metric"]: row["value"] for row in rows}

    model = EASE().fit(split.train_validation)
    ranking = model.recommend(split.train_validation, k=5)
    qrels, lists = {}, {}
    for user, ids, scores in zip(plays.user_ids, ranking.ids, ranking.scores, strict=True):
        wanted = split.test.item_ids[split.test.row(user).indices]
        if len(wanted):
            qrels[str(user)] = dict.fromkeys(wanted, 1)
            lists[str(user)] = dict(zip(ids, scores, strict=True))
    measures = {"ndcg": "ndcg@5", "recall": "recall@5", "precision": "precision@5", "mrr": "mrr@5"}
    expected = ranx.evaluate(ranx.Qrels(qrels), ranx.Run(lists), list(measures.values()))
    for ours, theirs in measures.items():
        assert found[ours] == pytest.approx(expected[theirs], abs=1e-9), ours


@pytest.mark.medium
def test_tune_takes_the_files_and_needs_a_validation_part(table, tmp_path, capsys):
    tuning = ["--ranks", "2,4", "--gammas", "-1", "--json"]
    assert run(["tune", str(table), *tuning]) == 0
    expected = json.loads(capsys.readouterr().out)
    assert run(["split", str(table), "--out", str(tmp_path)]) == 0
    capsys.readouterr()
    assert run(["tune", *options(tmp_path), *tuning]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["choice"] == pytest.approx(expected["choice"])
    assert run(["tune", *options(tmp_path, ["train", "test"])]) == 2
    assert "--validation" in capsys.readouterr().err


def test_parts_without_common_ids_are_refused(plays, tmp_path, capsys):
    split = plays.holdout()
    split.write(tmp_path)
    numbers = pl.read_parquet(tmp_path / "test.parquet")
    numbers.with_columns(pl.col("user").cast(pl.String)).write_parquet(tmp_path / "test.parquet")
    assert run(["evaluate", *options(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert "no user id of test" in error
    assert "type and spelling" in error


def test_a_pair_in_two_parts_is_refused(plays, tmp_path, capsys):
    plays.holdout().write(tmp_path)
    (tmp_path / "test.parquet").write_bytes((tmp_path / "train.parquet").read_bytes())
    assert run(["evaluate", *options(tmp_path)]) == 2
    assert "in an earlier part" in capsys.readouterr().err


def test_items_of_the_test_part_alone_are_kept_and_counted(capsys, tmp_path):
    parts = {
        "train": (["a", "a", "b", "c"], ["x", "y", "y", "x"]),
        "test": (["b", "c"], ["x", "new"]),
    }
    for name, (users, items) in parts.items():
        pl.DataFrame({"user": users, "item": items}).write_csv(tmp_path / f"{name}.csv")
    files = [word for name in parts for word in (f"--{name}", str(tmp_path / f"{name}.csv"))]
    assert run(["evaluate", *files, "--models", "popularity", "--metrics", "recall@1"]) == 0
    assert "1 items of --test" in capsys.readouterr().err
    read = Split.read(tmp_path / "train.csv", None, tmp_path / "test.csv")
    assert read.train.item_ids.tolist() == ["x", "y", "new"]
    assert evaluate(read, ["popularity"], metrics=["recall@1"]).value("recall@1") == 0.5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give DATA"),
        (["DATA", "--train", "DATA", "--test", "DATA"], "no DATA"),
        (["--train", "DATA"], "--test"),
        (["DATA", "--history", "DATA"], "--train"),
        (["DATA", "--test", "DATA"], "share"),
        (["--train", "DATA", "--test", "DATA", "--min-items-per-user", "3"], "equipoise split"),
        (["--train", "DATA", "--test", "DATA", "--memory", "1GB"], "equipoise split"),
    ],
)
def test_a_mixture_of_data_and_parts_is_refused(table, capsys, arguments, words):
    given = [str(table) if word == "DATA" else word for word in arguments]
    assert run(["evaluate", *given]) == 2
    assert words in capsys.readouterr().err

"""`fit`, `recommend`, `similar` and `explain` say what the Python API says."""

from __future__ import annotations

import json

import numpy as np
import polars as pl
import pytest
from rich.console import Console

import equipoise
from equipoise import Interactions, ItemWeightedPCA
from equipoise.cli import console, recommend
from equipoise.cli.app import run
from equipoise.progress import NoProgress, task
from equipoise.serving.lists import Wanted, tables
from tests.cli.conftest import write_table
from tests.recorded_progress import Recorded


@pytest.fixture(scope="module")
def data(world):
    return Interactions.read(str(world / "plays.csv"))


@pytest.fixture(scope="module")
def model(world):
    return equipoise.load(world / "model.eqp")


@pytest.fixture(scope="module")
def expected(model, data):
    """The lists by the Python API, as rows."""
    found = model.recommend(data, k=5)
    return [
        (user, rank + 1, item, score)
        for user, items, scores in zip(data.user_ids, found.ids, found.scores, strict=True)
        for rank, (item, score) in enumerate(zip(items, scores, strict=True))
    ]


def rows_of(table: pl.DataFrame):
    return list(table.select("user", "rank", "item", "score").iter_rows())


def same(rows, expected):
    assert [row[:3] for row in rows] == [row[:3] for row in expected]
    np.testing.assert_allclose([r[3] for r in rows], [r[3] for r in expected], rtol=1e-9)


READERS = {".parquet": pl.read_parquet, ".csv": pl.read_csv, ".jsonl": pl.read_ndjson}


@pytest.mark.parametrize("ending", READERS)
def test_lists_in_a_file_are_those_of_the_python_api(ending, world, tmp_path, expected, capsys):
    out = tmp_path / f"lists{ending}"
    arguments = ["recommend", world / "model.eqp", world / "plays.csv", "-N", "5", "--out", out]
    assert run(list(map(str, arguments))) == 0
    same(rows_of(READERS[ending](out)), expected)
    assert capsys.readouterr().out == ""
    assert [path.name for path in tmp_path.iterdir()] == [out.name]


def test_lists_into_a_pipe_are_json_lines(world, expected, capsys):
    assert run(["recommend", str(world / "model.eqp"), str(world / "plays.csv"), "-N", "5"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    same([(row["user"], row["rank"], row["item"], row["score"]) for row in rows], expected)


def test_lists_on_a_terminal_are_a_table(world, expected, monkeypatch, capsys):
    terminal = Console(force_terminal=True, width=100, color_system=None)
    monkeypatch.setattr(console, "out", lambda **_: terminal)
    options = ["-N", "2", "--users", "listener-0002", "--explain", "--top", "1"]
    assert run(["recommend", str(world / "model.eqp"), str(world / "plays.csv"), *options]) == 0
    shown = capsys.readouterr().out
    assert "because" in shown
    second = [row for row in expected if row[0] == "listener-0002"][:2]
    assert all(item in shown for _, _, item, _ in second)
    assert "listener-0001" not in shown


@pytest.fixture(scope="module")
def aligned(data, model):
    """The data with the columns of the model."""
    return data.align_items(model.item_ids_)


@pytest.mark.medium
@pytest.mark.parametrize("rows_at_a_time", [1, 7, 35, 10_000])
@pytest.mark.parametrize("ending", READERS)
def test_tables_of_any_size_give_the_same_file(
    ending, rows_at_a_time, model, aligned, tmp_path, expected
):
    path = tmp_path / f"lists{ending}"
    request = Wanted(model, 5, {}, rows_at_a_time=rows_at_a_time)
    recommend.write_file(path, recommend.SINKS[ending], aligned, request, NoProgress())
    same(rows_of(READERS[ending](path)), expected)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_tables_are_bounded_in_rows_and_reported_by_users(model, aligned):
    seen = Recorded()
    request = Wanted(model, 5, {}, rows_at_a_time=50)
    with task(seen, "Recommending", aligned.n_users):
        found = tables(aligned.rows.whole(), request, seen)
        assert max(len(table) for table in found) == 50
    assert seen.calls[1:-1] == [("advance", 10)] * 8


def test_explained_lists_hold_the_contributions(world, model, data, tmp_path):
    out = tmp_path / "lists.parquet"
    options = ["-N", "2", "--explain", "--top", "3", "--users", "listener-0007"]
    arguments = ["recommend", world / "model.eqp", world / "plays.csv", *options, "--out", out]
    assert run(list(map(str, arguments))) == 0
    for row in pl.read_parquet(out).iter_rows(named=True):
        why = model.explain(data.select_users(["listener-0007"]), row["item"], k=3)
        assert [each["item"] for each in row["because"]] == why.ids.tolist()
        parts = [each["contribution"] for each in row["because"]]
        np.testing.assert_allclose(parts, why.contributions)
        np.testing.assert_allclose(
            [e["share"] for e in row["because"]], why.contributions / why.score
        )
        assert row["score"] == pytest.approx(why.score)


def test_reasons_in_a_cell_of_csv_are_json(world, tmp_path):
    out = tmp_path / "lists.csv"
    options = ["-N", "1", "--explain", "--users", "listener-0007", "--out", str(out)]
    assert run(["recommend", str(world / "model.eqp"), str(world / "plays.csv"), *options]) == 0
    (cell,) = pl.read_csv(out)["because"].to_list()
    assert [set(each) for each in json.loads(cell)] == [{"item", "contribution", "share"}] * 3


def test_users_candidates_and_exclusions_are_options(world, model, data, tmp_path, capsys):
    (tmp_path / "users.txt").write_text("\ufefflistener-0009\n\nlistener-0003\n")
    few = ["artist-0001", "artist-0002", "artist-0003"]
    options = ["--users-file", str(tmp_path / "users.txt"), "-N", "9", "--include-seen"]
    options += ["--only-items", ", ".join(few), "--exclude-items", few[1]]
    assert run(["recommend", str(world / "model.eqp"), str(world / "plays.csv"), *options]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["user"] for row in rows] == ["listener-0009"] * 2 + ["listener-0003"] * 2
    best = model.recommend(
        data.select_users(["listener-0009"]),
        k=2,
        items=[few[0], few[2]],
        filter_already_liked_items=False,
    )
    assert [row["item"] for row in rows[:2]] == best.ids[0].tolist()


def test_names_are_printed_next_to_ids(world, plays, capsys):
    options = ["--names", str(world / "names.csv"), "--users", "listener-0001", "-N", "3"]
    options += ["--explain"]
    assert run(["recommend", str(world / "model.eqp"), str(world / "plays.csv"), *options]) == 0
    called = dict(zip(plays.item_ids, plays.item_names, strict=True))
    for line in capsys.readouterr().out.splitlines():
        row = json.loads(line)
        assert row["name"] == called[row["item"]]
        assert [why["name"] for why in row["because"]] == [
            called[w["item"]] for w in row["because"]
        ]


def test_new_items_are_left_out_on_demand(world, tmp_path, capsys, model):
    table = write_table(
        tmp_path / "new.csv", ["user", "item"], [("ann", "artist-0001"), ("ann", "unheard of")]
    )
    options = ["--drop-unknown-items", "-N", "2"]
    assert run(["recommend", str(world / "model.eqp"), str(table), *options]) == 0
    found = [json.loads(line)["item"] for line in capsys.readouterr().out.splitlines()]
    alone = Interactions.from_pairs(["ann"], ["artist-0001"])
    assert found == model.recommend(alone, k=2).ids[0].tolist()


def test_a_model_of_a_matrix_takes_ids_for_its_column_numbers(tmp_path, capsys):
    X = np.array([[5.0, 4, 0, 0], [4, 5, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]])
    path = ItemWeightedPCA(2).fit(X).save(tmp_path / "matrix.eqp")
    # not in the order of the columns
    table = write_table(tmp_path / "t.csv", ["user", "item"], [("ann", 3), ("bob", 1)])
    assert run(["recommend", str(path), str(table), "-N", "1"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(row["user"], row["item"]) for row in rows] == [("ann", 2), ("bob", 0)]
    strange = write_table(tmp_path / "s.csv", ["user", "item"], [("ann", 3), ("bob", 4)])
    assert run(["recommend", str(path), str(strange)]) == 2
    assert "1 item id(s) are not in the vocabulary of 4" in capsys.readouterr().err


def test_a_model_without_similar_items_says_so(world, tmp_path, capsys):
    out = str(tmp_path / "floor.eqp")
    fit = ["--quiet", "fit", str(world / "plays.csv"), "--model", "popularity", "--out", out]
    assert run(fit) == 0
    capsys.readouterr()
    assert run(["similar", out, "artist-0004"]) == 0
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "no item similar to artist-0004" in shown.err
    assert run(["similar", out, "artist-0004", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_an_id_behind_two_dashes_is_not_an_option(world, capsys):
    assert run(["similar", str(world / "model.eqp"), "--", "-q"]) == 2
    assert "unknown item '-q'" in capsys.readouterr().err


@pytest.mark.parametrize("n", [2**31, 2**64])
def test_lists_are_as_long_as_the_catalog_at_most(world, model, capsys, n):
    assert run(["similar", str(world / "model.eqp"), "artist-0004", "-N", str(n), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == model.n_features_in_ - 1


def test_similar_items_are_those_of_the_model(world, model, capsys):
    options = ["artist-0004", "-N", "3", "--names", str(world / "names.csv")]
    assert run(["similar", str(world / "model.eqp"), *options, "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    found = model.similar_items("artist-0004", k=3)
    assert [row["item"] for row in rows] == found.ids.tolist()
    assert [row["similarity"] for row in rows] == found.scores.tolist()
    assert run(["similar", str(world / "model.eqp"), *options]) == 0
    shown = capsys.readouterr().out
    assert "Most similar to artist-0004" in shown
    assert all(row["name"] in shown for row in rows)


def test_an_explanation_sums_to_the_score(world, model, data, capsys):
    options = ["listener-0005", "artist-0006", "--top", "4"]
    arguments = ["explain", str(world / "model.eqp"), str(world / "plays.csv"), *options]
    assert run([*arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    why = model.explain(data.select_users(["listener-0005"]), "artist-0006", k=4)
    assert [each["item"] for each in told["because"]] == why.ids.tolist()
    total = sum(each["contribution"] for each in told["because"]) + told["rest"]
    assert total == pytest.approx(told["score"])
    assert run(arguments) == 0
    assert "Why artist-0006 scores" in capsys.readouterr().out


def test_a_fitted_file_is_the_model_that_python_fits(world, data, tmp_path, capsys):
    out = tmp_path / "weighted.eqp"
    options = ["--gamma", "-0.5", "--filter", "ridge:0.1", "--set", "user_scaling=0.25"]
    command = ["fit", str(world / "plays.csv"), "--rank", "3", "--out", str(out), *options]
    assert run([*command, "--normalize-rows", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ours = ItemWeightedPCA(
        3, gamma=-0.5, spectral_filter="ridge", filter_strength=0.1, user_scaling=0.25
    ).fit(data.normalize_rows())
    loaded = equipoise.load(out)
    assert loaded.get_params() == ours.get_params()
    np.testing.assert_array_equal(loaded.components_, ours.components_)
    assert told["objective"] == ours.certificate_.objective
    assert told["saved"] == str(out)


@pytest.mark.parametrize("key", ["pca", "normalized", "ease", "popularity"])
def test_other_models_are_fitted_and_serve_too(key, world, tmp_path, capsys):
    out = str(tmp_path / "other.eqp")
    assert run(["fit", str(world / "plays.csv"), "--model", key, "--out", out]) == 0
    assert f"Model: {out}" in capsys.readouterr().out
    options = ["--users", "listener-0001", "-N", "4"]
    assert run(["recommend", out, str(world / "plays.csv"), *options]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 4


def test_the_solver_reports_while_it_works(data):
    seen = Recorded()
    ItemWeightedPCA(3, solver="gram").fit(data, progress=seen)
    passes = [int(note.split()[0]) for note in seen.notes()]
    assert passes
    assert passes == sorted(passes)
    assert seen.first["name"] == "Fitting ItemWeightedPCA"
    assert seen.is_over


def test_ids_of_other_types_come_back_in_their_type(tmp_path):
    table = pl.DataFrame(
        {
            "user": pl.Series(["2020-01-01", "2020-01-02", "2020-01-02"]).str.to_date(),
            "item": [10, 10, 20],
        }
    )
    table.write_parquet(tmp_path / "d.parquet")
    files = str(tmp_path / "d.parquet"), str(tmp_path / "m.eqp"), str(tmp_path / "l.parquet")
    assert run(["fit", files[0], "--rank", "1", "--out", files[1]]) == 0
    options = ["--users", "2020-01-01", "--include-seen", "-N", "2", "--out", files[2]]
    assert run(["recommend", files[1], files[0], *options]) == 0
    found = pl.read_parquet(files[2])
    assert found.schema["user"] == pl.Date
    assert found["item"].sort().to_list() == [10, 20]


@pytest.mark.parametrize("ids_", [[2**70, 2**70 + 1], ["x" * 10_000, "y" * 10_000]])
def test_huge_ids_are_ids_like_any_other(ids_, tmp_path, capsys):
    table = write_table(
        tmp_path / "t.csv", ["user", "item"], [("ann", ids_[0]), ("bob", ids_[1]), ("bob", ids_[0])]
    )
    out = str(tmp_path / "m.eqp")
    assert run(["fit", str(table), "--rank", "2", "--out", out]) == 0
    capsys.readouterr()
    assert run(["recommend", out, str(table), "--users", "ann", "-N", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["item"] == str(ids_[1])


def test_a_byte_order_mark_is_not_part_of_the_first_column(world, tmp_path):
    marked = tmp_path / "marked.csv"
    marked.write_bytes(b"\xef\xbb\xbf" + (world / "plays.csv").read_bytes())
    assert run(["fit", str(marked), "--rank", "2", "--out", str(tmp_path / "m.eqp")]) == 0


def test_a_file_that_vanishes_while_it_is_read_is_named(world, tmp_path, monkeypatch, capsys):
    from equipoise.data.readers import files

    table = tmp_path / "plays.csv"
    table.write_bytes((world / "plays.csv").read_bytes())
    guess = files.guess_format

    def guess_and_lose(path, *more):
        found = guess(path, *more)
        path.unlink()
        return found

    monkeypatch.setattr(files, "guess_format", guess_and_lose)
    assert run(["fit", str(table), "--out", str(tmp_path / "m.eqp")]) == 2
    assert "plays.csv cannot be read" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_hostile_names_neither_style_nor_steer_the_terminal(tmp_path, capsys):
    evil = "[red]:dog:\x1b[2J[/red]"
    rows = [("ann", "a"), ("ann", "b"), ("bob", "b"), ("bob", evil), ("ann", evil)]
    table = write_table(tmp_path / "t.csv", ["user", "item"], rows)
    out = str(tmp_path / "m.eqp")
    assert run(["fit", str(table), "--rank", "2", "--out", out]) == 0
    capsys.readouterr()
    assert run(["similar", out, "b"]) == 0
    shown = capsys.readouterr().out
    assert "[red]:dog:\ufffd[2J[/red]" in shown
    assert "\x1b" not in shown


def test_a_column_that_holds_no_times_can_be_left_out(tmp_path, capsys):
    table = tmp_path / "plays.csv"
    table.write_text("user,item,plays,time\na,x,1,soon\nb,y,2,late\nc,x,3,never\n")
    fit = ["fit", str(table), "--rank", "1", "--out", str(tmp_path / "plays.eqp")]
    assert run(fit) == 2
    assert "--timestamp" in capsys.readouterr().err
    assert run([*fit, "--timestamp", ""]) == 0
    assert equipoise.load(tmp_path / "plays.eqp").n_features_in_ == 2


def test_a_model_prepares_raw_data_as_for_the_fit(data, world, tmp_path, capsys):
    out, table = tmp_path / "shares.eqp", tmp_path / "renamed.csv"
    renamed = pl.read_csv(world / "plays.csv").rename({"user": "who", "item": "what", "plays": "n"})
    renamed.write_csv(table)
    columns = ["--user", "who", "--item", "what", "--value", "n"]
    steps = ["--min-users-per-item", "15", "--normalize-rows"]
    assert run(["fit", str(table), "--rank", "3", "--out", str(out), *columns, *steps]) == 0
    prepared = data.filter(min_users_per_item=15).normalize_rows()
    ours = ItemWeightedPCA(3).fit(prepared)
    capsys.readouterr()
    assert run(["recommend", str(out), str(table), "-k", "2", "--users", "listener-0005"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = ours.recommend(prepared.select_users(["listener-0005"]), k=2)
    assert [line["item"] for line in lines] == found.ids[0].tolist()
    np.testing.assert_allclose([line["score"] for line in lines], found.scores[0], rtol=1e-9)


def test_inspect_shows_the_preparation_and_the_certificate(world, tmp_path, capsys):
    out = tmp_path / "shares.eqp"
    command = ["fit", str(world / "plays.csv"), "--rank", "3", "--out", str(out)]
    assert run([*command, "--value", "plays", "--binarize", "--normalize-rows"]) == 0
    capsys.readouterr()
    assert run(["inspect", str(out), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["preparation"] == [
        {
            "step": "read",
            "value": "plays",
            "detected_user": "user",
            "detected_item": "item",
            "duplicates": "sum",
        },
        {"step": "binarize"},
        {"step": "normalize_rows"},
    ]
    assert facts["certificate: gap"] < 1e-3
    assert run(["inspect", str(out)]) == 0
    assert "normalize_rows()" in capsys.readouterr().out


class TestGroups:
    @pytest.fixture
    def labels(self, data, tmp_path):
        rows = [
            (item, "major" if place < 15 else "indie") for place, item in enumerate(data.item_ids)
        ]
        return f"{write_table(tmp_path / 'labels.csv', ['item', 'label'], rows)}:label"

    def fit(self, world, tmp_path, *options):
        arguments = [
            "fit",
            world / "plays.csv",
            "--rank",
            "4",
            "--out",
            tmp_path / "m.eqp",
            *options,
        ]
        return run([str(argument) for argument in arguments])

    def test_a_floor_for_a_group_from_a_file_holds(self, world, data, labels, tmp_path, capsys):
        options = ["--model", "max-min", "--item-groups", labels, "--floor", "indie=0.1", "--json"]
        assert self.fit(world, tmp_path, *options) == 0
        facts = json.loads(capsys.readouterr().out)
        groups = equipoise.Groups.read(labels)
        model = equipoise.MaxMinItemWeightedPCA(4, groups=groups, floors={"indie": 0.1}).fit(data)
        assert facts["objective"] == pytest.approx(model.certificate_.objective)
        slack = dict(zip(facts["names"], facts["values"], strict=True))["indie"]
        assert slack == pytest.approx(model.certificate_.values[1], abs=1e-12)

    @pytest.mark.parametrize(
        ("options", "words"),
        [
            (["--model", "pca", "--floor", "0.1"], "drop --floor"),
            (["--model", "max-min", "--floor", "much"], "takes a share"),
            (["--model", "max-min", "--floor", "0.1", "--floor", "indie=0.2"], "one share for all"),
            (["--model", "max-min", "--floor", "0.999"], "out of reach"),
            (
                ["--model", "fair-pca", "--user-groups", "activity", "--item-groups", "LABELS"],
                "one kind",
            ),
        ],
    )
    def test_what_a_model_cannot_take_is_refused(
        self, options, words, world, labels, tmp_path, capsys
    ):
        options = [labels if option == "LABELS" else option for option in options]
        assert self.fit(world, tmp_path, *options) == 2
        assert words in capsys.readouterr().err
        assert not (tmp_path / "m.eqp").exists()

    def test_users_and_items_together(self, world, labels, tmp_path, capsys):
        options = ["--model", "max-min", "--item-groups", labels, "--user-groups", "activity"]
        assert self.fit(world, tmp_path, *options) == 0
        assert "indie" in capsys.readouterr().out


def test_update_replaces_the_model_and_reports_the_certified_loss(world, data, tmp_path, capsys):
    out, table = tmp_path / "model.eqp", tmp_path / "first.csv"
    pl.read_csv(world / "plays.csv").head(400).write_csv(table)
    assert run(["fit", str(table), "--rank", "3", "--binarize", "--out", str(out)]) == 0
    first = equipoise.load(out)
    capsys.readouterr()
    command = ["update", str(out), str(world / "plays.csv"), "--all", "--json"]
    assert run(command) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = first.update(Interactions.read(str(world / "plays.csv")), all_data=True)
    assert facts["certified loss"] == pytest.approx(expected.loss)
    assert facts["passes over the data"] == 2
    updated = equipoise.load(out)
    assert updated.n_features_in_ == data.n_items == first.n_features_in_ + facts["new items"]
    assert run([*command, "--refit-above", "1e-12", "--passes", "1"]) == 0
    strict = json.loads(capsys.readouterr().out)
    assert strict["passes over the data"] > 1
    assert strict["certified loss"] <= 1e-12
    assert run(["fit", str(table), "--model", "ease", "--out", str(out)]) == 0
    assert run(command) == 2


def test_sums_that_the_fit_keeps_let_new_rows_be_added_alone(world, data, tmp_path, capsys):
    table, out = pl.read_csv(world / "plays.csv"), tmp_path / "model.eqp"
    early = pl.col("user").is_in(data.user_ids[:40].tolist())
    table.filter(early).write_csv(tmp_path / "old.csv")
    table.filter(~early).write_csv(tmp_path / "new.csv")
    command = ["fit", str(tmp_path / "old.csv"), "--rank", "3", "--out", str(out)]
    assert run([*command, "--keep-sums"]) == 0
    update = ["update", str(out), str(tmp_path / "new.csv")]
    assert run(["inspect", str(out)]) == 0
    assert "sums for update" in capsys.readouterr().out
    assert run(update) == 0
    assert "refitted" in capsys.readouterr().out
    fitted = ItemWeightedPCA(3).fit(data)
    updated = equipoise.load(out)
    assert updated.certificate_.objective == pytest.approx(fitted.certificate_.objective)
    lists = [each.recommend(data, k=3, unknown="drop").ids.tolist() for each in (updated, fitted)]
    assert lists[0] == lists[1]
    assert run([*update, "--refit-above", "0.001"]) == 2
    assert run([*update, "--passes", "3"]) == 2
    assert "--all" in capsys.readouterr().err
    assert run(command) == 0  # without sums
    assert run(update) == 2
    assert "--keep-sums" in capsys.readouterr().err
    ease = ["fit", str(tmp_path / "old.csv"), "--model", "ease", "--out", str(out)]
    assert run([*ease, "--keep-sums"]) == 2
    assert "--keep-sums" in capsys.readouterr().err


def test_rows_that_changed_replace_the_former_ones(world, data, tmp_path):
    table, out = pl.read_csv(world / "plays.csv"), tmp_path / "model.eqp"
    changed = pl.col("user").is_in(data.user_ids[30:].tolist())
    later = pl.int_range(pl.len()) % 3 == 0  # interactions that were not there at the fit
    table.filter(~(changed & later)).write_csv(tmp_path / "old.csv")
    table.filter(changed).write_csv(tmp_path / "new.csv")
    table.filter(changed & ~later).write_csv(tmp_path / "former.csv")
    fit = ["fit", str(tmp_path / "old.csv"), "--rank", "3", "--keep-sums", "--out", str(out)]
    assert run(fit) == 0
    update = ["update", str(out), str(tmp_path / "new.csv")]
    assert run([*update, "--replaced", str(tmp_path / "former.csv")]) == 0
    expected = ItemWeightedPCA(3).fit(data).certificate_.objective
    assert equipoise.load(out).certificate_.objective == pytest.approx(expected)


def test_new_items_get_vectors_without_a_fit(world, data, tmp_path, capsys):
    table, out = pl.read_csv(world / "plays.csv"), tmp_path / "model.eqp"
    new = data.item_ids[-2:].tolist()
    table.filter(~pl.col("item").is_in(new)).write_csv(tmp_path / "old.csv")
    fit = ["fit", str(tmp_path / "old.csv"), "--rank", "3", "--keep-sums", "--out", str(out)]
    assert run(fit) == 0
    first = equipoise.load(out)
    capsys.readouterr()
    update = ["update", str(out), str(world / "plays.csv"), "--items-only", "--json"]
    assert run([*update, "--all"]) == 2
    assert run(update) == 0
    facts = json.loads(capsys.readouterr().out)
    expected = first.add_items(Interactions.read(str(world / "plays.csv")))
    assert facts["new items"] == 2
    assert facts["largest error"] == pytest.approx(expected.projection_errors_.max())
    served = equipoise.load(out)
    np.testing.assert_allclose(served.components_, expected.components_)
    assert (
        served.recommend([new[0]], k=2).ids.tolist() == expected.recommend([new[0]], 2).ids.tolist()
    )
    # the sums are those of the fit: the rows of a new user can still be added
    table.with_columns(user=pl.lit("you")).unique("item").write_csv(tmp_path / "you.csv")
    assert run(["update", str(out), str(tmp_path / "you.csv")]) == 0
    rows = pl.concat(
        [pl.read_csv(tmp_path / f"{name}.csv", infer_schema=False) for name in ("old", "you")]
    )
    rows.write_csv(tmp_path / "both.csv")
    both = Interactions.read(str(tmp_path / "both.csv"))
    best = ItemWeightedPCA(3).fit(both).certificate_.objective
    assert equipoise.load(out).certificate_.objective == pytest.approx(best)


def test_update_does_not_overwrite_its_data(world, tmp_path, capsys):
    rows = tmp_path / "new.csv"
    rows.write_bytes((world / "plays.csv").read_bytes())
    command = ["update", str(world / "model.eqp"), str(rows), "--all", "--out", str(rows)]
    assert run(command) == 2
    assert "same file as an input" in capsys.readouterr().err
    assert rows.read_bytes() == (world / "plays.csv").read_bytes()


def test_items_only_without_new_items_succeeds(world, tmp_path, capsys):
    out = str(tmp_path / "same.eqp")
    command = ["update", str(world / "model.eqp"), str(world / "plays.csv"), "--items-only"]
    assert run([*command, "--out", out, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["new items"] == 0

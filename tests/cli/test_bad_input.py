"""Whatever is wrong: one clear line on stderr, exit code 2, no traceback, nothing half written."""

from __future__ import annotations

import gzip
import re
import shutil
import zipfile

import numpy as np
import polars as pl
import pytest

from equipoise.cli.app import run
from tests.cli.conftest import snapshot, write_table

LONG = "x" * 10_000


def test_words_that_are_read_as_ids_are_noted(tmp_path, capsys):
    table = write_table(tmp_path / "two.csv", ["who", "what"], [("ann", "x"), ("bob", "y")])
    fit_it = ["fit", str(table), "--rank", "1", "--out", str(tmp_path / "m.eqp")]
    assert run(fit_it) == 0
    assert "first line, who, what" in capsys.readouterr().err
    assert run([*fit_it, "--user", "who", "--item", "what"]) == 0
    assert "note:" not in capsys.readouterr().err


@pytest.fixture(scope="module")
def broken(world, tmp_path_factory):
    """A folder of files that are wrong in as many ways."""
    folder = tmp_path_factory.mktemp("broken")
    for name in ("plays.csv", "names.csv", "model.eqp"):
        shutil.copy(world / name, folder / name)
    _write_tables(folder)
    _write_bytes(folder, (world / "plays.csv").read_bytes())
    _write_models(folder, (world / "model.eqp").read_bytes())
    _write_factors(folder)
    return folder


def _write_tables(folder):
    rows = [("ann", "x", 1), ("bob", "y", 2), ("bob", "x", 1)]
    tables = {
        "header-only": (["user", "item", "plays"], []),
        "no-user": (["who", "item", "plays"], rows),
        "no-item": (["user", "colour"], [r[:2] for r in rows]),
        "idle-numbers": (["user", "item", "temperature"], rows),
        "two-items": (["user", "artist_id", "track_id"], rows),
        "twins": (["user", "user", "item"], [("ann", "ann", "x")]),
        "text-value": (["user", "item", "plays"], [*rows, ("cat", "x", "many")]),
        "nan": (["user", "item", "plays"], [*rows, ("cat", "x", "nan")]),
        "infinite": (["user", "item", "plays"], [*rows, ("cat", "x", "inf")]),
        "negative": (["user", "item", "plays"], [*rows, ("cat", "x", -3)]),
        "missing-id": (["user", "item", "plays"], [*rows, ("", "x", 1)]),
        "missing-value": (["user", "item", "plays"], [*rows, ("cat", "x", "")]),
        "all-zero": (["user", "item", "plays"], [(*r[:2], 0) for r in rows]),
        "beyond": (["user", "item", "plays"], [(*r[:2], "1e300") for r in rows]),
        "unknown": (["user", "item", "plays"], [("ann", "nobody", 1)]),
        "few-unknown": (
            ["user", "item", "plays"],
            [("ann", "artist-0001", 1), ("ann", "new", 1)],
        ),
        "nameless": (["colour", "weight"], [("red", 3)]),
        "others-names": (["id", "name"], [("q-1", "Nobody"), ("q-2", "No one")]),
    }
    for name, (header, lines) in tables.items():
        write_table(folder / f"{name}.csv", header, lines)


def _write_bytes(folder, text):
    (folder / "empty.csv").write_bytes(b"")
    (folder / "ragged.csv").write_bytes(b"user,item,plays\nann,x,1\nbob,y,2,3,4\n")
    (folder / "latin-1.csv").write_bytes("user,item,plays\nann,Björk,1\n".encode("latin-1"))
    (folder / "utf-16.csv").write_bytes(text.decode().encode("utf-16"))
    (folder / "nul.dat").write_bytes(b"\x00\x01\x02" * 100)
    (folder / "torn.csv.gz").write_bytes(gzip.compress(text)[:-40])
    (folder / "disguised.csv").write_bytes(gzip.compress(text))
    (folder / "broken.parquet").write_bytes(b"PAR1" + b"\x00" * 50)
    with zipfile.ZipFile(folder / "packed.zip", "w") as archive:
        archive.writestr("plays.csv", text)
    (folder / "nothing here").mkdir()
    (folder / "dangling.csv").symlink_to(folder / "gone.csv")
    (folder / "latin-1-users.txt").write_bytes("Björk\n".encode("latin-1"))
    (folder / "strange-users.txt").write_text("nobody\n")


def _write_models(folder, model):
    (folder / "torn.eqp").write_bytes(model[: len(model) // 2])
    (folder / "flipped.eqp").write_bytes(bytes([*model[:300], model[300] ^ 1, *model[301:]]))
    (folder / "empty.eqp").write_bytes(b"")


def _write_factors(folder):
    np.save(folder / "narrow.npy", np.ones((7, 3)))
    np.save(folder / "holes.npy", np.full((60, 3), np.nan))
    np.save(folder / "flat.npy", np.ones(60))
    np.save(folder / "words.npy", np.array(["a"] * 60).reshape(60, 1))
    np.save(folder / "pickled.npy", np.array([{"a": 1}] * 60, dtype=object), allow_pickle=True)
    np.savez(folder / "no-factors.npz", colour=np.ones(3))
    (folder / "text.npy").write_text("these are no factors")
    pl.DataFrame({"name": ["a"] * 60}).write_parquet(folder / "names-alone.parquet")


FIT = ["fit", "--rank", "2", "--out", "new.eqp"]
RECOMMEND = ["recommend", "{b}/model.eqp", "{b}/plays.csv", "--out", "new.csv"]
EXPLAIN = ["explain", "{b}/model.eqp", "{b}/plays.csv"]
AUDIT = ["audit", "{b}/plays.csv", "--out", "new.html", "--budget", "0"]


def fit(file, *more):
    return [*FIT, f"{{b}}/{file}", *more]


def fit_plays(*more):
    return fit("plays.csv", *more)


def recommend(*more):
    return [*RECOMMEND, *more]


def audit(*more):
    return [*AUDIT, *more]


CASES = {
    # the data
    "there is no such file": (fit("gone.csv"), "no file .*gone.csv"),
    "the file is empty": (fit("empty.csv"), "empty.csv.*empty"),
    "there is a header alone": (fit("header-only.csv"), "header-only.csv.*no rows"),
    "the link leads nowhere": (fit("dangling.csv"), "no file .*dangling.csv"),
    "the folder holds no table": (fit("nothing here"), "no Parquet or CSV"),
    "no file matches the pattern": (fit("*.tsv"), "no file matches"),
    "the system refuses to read": ([*FIT, "/proc/self/mem"], "/proc/self/mem cannot be read"),
    "the path leads through a file": (fit("plays.csv/x.csv"), "there is no file"),
    "no column is the user": (
        fit("no-user.csv"),
        "the user.*who, item, plays",
    ),
    "no column is the item": (fit("no-item.csv"), "no column.*the item"),
    "the column does not exist": (fit_plays("--user", "whom"), "'whom' is not.*columns"),
    "the position does not exist": (fit_plays("--item", "9"), "'9' is not.*position from 0"),
    "one column plays two roles": (
        fit_plays("--user", "item", "--item", "item"),
        "both user and item",
    ),
    "numbers lie idle": (fit("idle-numbers.csv"), "numbers in 'temperature'.*--value"),
    "two columns could be the item": (fit("two-items.csv"), "several columns.*item"),
    "two columns have one name": (fit("twins.csv"), "twins.csv.*user"),
    "a value is text": (fit("text-value.csv"), "text-value.csv, line 5.*many"),
    "a value is NaN": (fit("nan.csv"), "nan.csv, line 5"),
    "a value is infinite": (fit("infinite.csv"), "infinite.csv, line 5"),
    "a value is negative": (fit("negative.csv"), "negative.csv, line 5.*-3"),
    "a value is missing": (fit("missing-value.csv"), "missing-value.csv, line 5"),
    "an id is missing": (fit("missing-id.csv"), "missing-id.csv, line 5"),
    "every value is zero": (fit("all-zero.csv"), "all-zero.csv has no interactions"),
    "values are beyond floating point": (fit("beyond.csv"), "squares beyond floating point"),
    "a line has too many cells": (fit("ragged.csv"), "ragged.csv, line 3"),
    "the text is Latin-1": (fit("latin-1.csv"), "latin-1.csv, line 2.*not UTF-8"),
    "the text is UTF-16": (fit("utf-16.csv"), "UTF-16 text.*UTF-8"),
    "the file is not text": (fit("nul.dat"), "unknown format"),
    "the gzip file is cut off": (fit("torn.csv.gz"), "torn.csv.gz cannot be read"),
    "the gzip file is called .csv": (fit("disguised.csv"), "gzip, but"),
    "the file is a zip archive": (fit("packed.zip"), "zip archive.*Decompress it"),
    "the Parquet file is broken": (fit("broken.parquet"), "broken.parquet.*as Parquet"),
    "a CSV file is said to be Parquet": (fit_plays("--format", "parquet"), "read as Parquet"),
    "the format is unknown": (fit_plays("--format", "excel"), "format='excel' is not known"),
    "a query is for databases": (fit_plays("--query", "select 1"), "query= is for databases"),
    "the database does not answer": ([*FIT, "postgresql://localhost:1/x", "--query", "s"], ".+"),
    "nothing survives the filter": (fit_plays("--min-users-per-item", "999"), "Lower the thresho"),
    # the model to fit
    "the rank is 0": (fit_plays("--rank", "0"), "--rank"),
    "the rank is negative": (fit_plays("--rank", "-1"), "--rank"),
    "the rank exceeds the items": (fit_plays("--rank", "61"), "--rank 61 exceeds your 60 items"),
    "the rank is huge": (fit_plays("--rank", "1" + "0" * 30), "--rank 1000.* exceeds"),
    "the rank is text": (fit_plays("--rank", "many"), "--rank.*'many'|--rank.*integer"),
    "the rank is a fraction": (fit_plays("--rank", "2.5"), "--rank.*integer"),
    "γ is NaN": (fit_plays("--gamma", "nan"), "gamma.*nan"),
    "γ is infinite": (fit_plays("--gamma", "inf"), "gamma.*inf"),
    "γ is text": (fit_plays("--gamma", "low"), "--gamma.*(number|float)"),
    "γ is beyond floating point": (fit_plays("--gamma", "-1e6"), "gamma.*beyond floating point"),
    "the filter is unknown": (fit_plays("--filter", "soft"), "spectral_filter"),
    "the filter has no strength": (
        fit_plays("--filter", "power:x"),
        "--filter takes hard, power:S",
    ),
    "a setting has no value": (fit_plays("--set", "tol"), "--set takes NAME=VALUE.*'tol'"),
    "a setting is unknown": (fit_plays("--set", "colour=red"), "no parameter 'colour'.*It has: "),
    "a setting is out of range": (fit_plays("--set", "tol=7"), "'tol' parameter.*7"),
    "the default rank exceeds the items": (
        ["fit", "{b}/few-unknown.csv", "--out", "new.eqp"],
        "default rank, 32, exceeds your 2 items.*--rank 2 or less",
    ),
    "the model has no rank": (fit_plays("--model", "ease"), "EASE has no rank; drop --rank"),
    "there is no data to audit": (["audit"], "give DATA"),
    "the model lacks the parameter": (
        fit_plays("--model", "pca", "--gamma", "-1"),
        "PCA has no gamma; drop --gamma",
    ),
    "the model is unknown": (fit_plays("--model", "svd"), "unknown model 'svd'.*item-weighted"),
    "the model goes nowhere": (["fit", "{b}/plays.csv"], "Missing option '--out'"),
    "the memory is beyond all machines": (
        fit_plays("--memory", "9" * 5000 + "GB"),
        "9{40}….*not a size.*4GB",
    ),
    # where results go
    "the output is a folder": (fit_plays("--out", "{b}"), "Is a directory"),
    "the output's folder is missing": (
        fit_plays("--out", "no/new.eqp"),
        "folder no does not exist",
    ),
    "the output lies in a file": (fit_plays("--out", "{b}/plays.csv/m"), "Not a directory"),
    "the output lies in /proc": (fit_plays("--out", "/proc/new.eqp"), "/proc/new.eqp was not wri"),
    "the disk is full": (fit_plays("--out", "/dev/full"), "/dev/full.*No space"),
    "the ending is unknown": (recommend("--out", "new.xlsx"), ".parquet, .csv, .jsonl"),
    "lists go to a folder": (recommend("--out", "{b}/nothing here"), "the ending sets"),
    "lists go to a missing folder": (recommend("--out", "no/new.csv"), "folder no does not exist"),
    "tables go to a missing folder": (
        recommend("--out", "no/new.parquet"),
        "no/new.parquet.*folder no does not exist",
    ),
    "the report goes to a folder": (audit("--out", "{b}"), "Is a directory"),
    "the report goes nowhere": (audit("--out", "no/r.html"), "folder no does not exist"),
    "the cache is a file": (
        ["tune", "{b}/plays.csv", "--cache", "{b}/names.csv"],
        "names.csv is not a folder",
    ),
    "the cache lies in /proc": (
        ["evaluate", "{b}/plays.csv", "--cache", "/proc/cache"],
        "/proc/cache was not written",
    ),
    "the folder of figures is a file": (
        ["reproduce", "fig1", "--out", "{b}/names.csv"],
        "names.csv is not a folder",
    ),
    # the hold-out
    "there is nothing to test on": (
        ["evaluate", "{b}/few-unknown.csv"],
        "no interaction for test.*--test.*--min-items-per-user",
    ),
    "there is nothing to tune on": (
        ["tune", "{b}/plays.csv", "--validation", "0"],
        "leaves nothing.*--validation 0.2",
    ),
    # the saved model
    "the model is a device": (["similar", "/dev/zero", "x"], "/dev/zero.*not a regular file"),
    "the model to serve is a device": (
        ["recommend", "/dev/zero", "{b}/plays.csv"],
        "/dev/zero.*not a regular file",
    ),
    "the model and the data are missing": (
        ["audit", "{b}/gone.csv", "--model", "{b}/gone.eqp", "--out", "r.html"],
        "--model .*gone.eqp does not exist",
    ),
    "there is no model": (["similar", "{b}/gone.eqp", "x"], "gone.eqp does not exist"),
    "the model is a folder": (["similar", "{b}", "x"], "not a regular file"),
    "the model is a table": (
        ["similar", "{b}/plays.csv", "x"],
        "plays.csv cannot be read as an equipoise model",
    ),
    "the model and the data are swapped": (
        ["recommend", "{b}/plays.csv", "{b}/model.eqp"],
        "plays.csv cannot be read as an equipoise model.*swap MODEL and DATA",
    ),
    "the data are a model": (
        ["audit", "{b}/model.eqp", "--out", "r.html"],
        "model.eqp is a saved model.*swap MODEL and DATA.*--model MODEL",
    ),
    "the report and the data are swapped": (
        ["verify", "{b}/plays.csv", "{b}/r.json"],
        "plays.csv is not the JSON report.*swap REPORT and DATA",
    ),
    "the lists and the data are swapped": (
        ["rerank", "{b}/no-user.csv", "{b}/plays.csv"],
        "no-user.csv has columns.*rank or score.*swap LISTS and DATA",
    ),
    "lists are refused before the data are read": (
        ["rerank", "{b}/no-user.csv", "{b}/gone.csv"],
        "no-user.csv has columns",
    ),
    "the audited rank is below 1": (
        ["audit", "{b}/gone.csv", "--rank", "-3", "--out", "r.html"],
        "--rank=-3 must be a whole number, 1 or more",
    ),
    "the ranks exceed the items": (
        ["evaluate", "{b}/plays.csv", "--ranks", "9999"],
        r"\(--ranks, --grid\) must be a whole number.*number of items",
    ),
    "the lists of users exceed the users": (
        ["evaluate", "{b}/plays.csv", "--ranks", "2", "-k", "5000"],
        r"item_precision@5000 lists 5,000 users per item.*Use item_precision@\d+ \(-k \d+\)",
    ),
    "the model is empty": (
        ["similar", "{b}/empty.eqp", "x"],
        "empty.eqp cannot be read as an equipoise model",
    ),
    "the model is cut off": (["similar", "{b}/torn.eqp", "x"], "torn.eqp cannot be read"),
    "a bit of the model flipped": (
        ["similar", "{b}/flipped.eqp", "x"],
        "cannot be read",
    ),
    "no item is the model's": (
        ["recommend", "{b}/model.eqp", "{b}/unknown.csv"],
        "none of the items.*'artist-.*'nobody'",
    ),
    "an item is not the model's": (
        ["recommend", "{b}/model.eqp", "{b}/few-unknown.csv"],
        "1 item id.*'new'.*--drop-unknown-items",
    ),
    # ids
    "the item is unknown": (
        ["similar", "{b}/model.eqp", "artist-001"],
        r"unknown item 'artist-001'.*mean 'artist-\d+'",
    ),
    "the item is huge": (["similar", "{b}/model.eqp", str(2**70)], f"unknown item '{2**70}'"),
    "the item is endless": (["similar", "{b}/model.eqp", LONG], "unknown item 'x{80}…'"),
    "the user is unknown": (recommend("--users", "listener-0001,Ann"), "unknown user 'Ann'"),
    "the user to explain is unknown": (
        [*EXPLAIN, "LISTENER-0001", "artist-0001"],
        "unknown user 'LISTENER-0001'.*mean 'listener-0001'",
    ),
    "the item to explain is unknown": (
        [*EXPLAIN, "listener-0001", "7"],
        "unknown item '7'",
    ),
    "no user is named": (recommend("--users", ","), "--users takes user ids"),
    "users are named twice": (
        recommend("--users", "a", "--users-file", "{b}/empty.csv"),
        "--users and --users-file",
    ),
    "the list of users is missing": (recommend("--users-file", "{b}/gone"), "gone.*No such file"),
    "the list of users is empty": (recommend("--users-file", "{b}/empty.csv"), "is empty. Put one"),
    "the list of users is Latin-1": (
        recommend("--users-file", "{b}/latin-1-users.txt"),
        "latin-1-users.txt.*not UTF-8",
    ),
    "the list names an unknown user": (
        recommend("--users-file", "{b}/strange-users.txt"),
        "unknown user 'nobody'",
    ),
    "the candidates are unknown": (recommend("--only-items", "folk"), "unknown item 'folk'"),
    "the excluded are unknown": (recommend("--exclude-items", "folk"), "unknown item 'folk'"),
    "the list is empty": (recommend("-k", "0"), "-k"),
    "there are no reasons": (recommend("--explain", "--top", "0"), "--top"),
    # names
    "there are no names": (recommend("--names", "{b}/gone.csv"), "no file .*gone.csv"),
    "names have no columns": (recommend("--names", "{b}/nameless.csv"), "column of ids"),
    "names are of other items": (
        recommend("--names", "{b}/others-names.csv"),
        "none of the .*names.*60 items",
    ),
    # the audit
    "the audit's data are missing": (["audit", "{b}/gone.csv", "-o", "new.html"], "there is no fi"),
    "the audit's rank is 0": (audit("--rank", "0"), "rank=0 must be a whole number, 1 or more"),
    "the audit's rank is negative": (audit("--rank", "-1"), "rank=-1 must be a whole number"),
    "the audit's rank is text": (audit("--rank", "some"), "--rank takes.*'some'"),
    "the audit's depth is unknown": (audit("--depth", "shallow"), "depth.*shallow"),
    "the groups are unknown": (audit("--groups", "tall"), "groups.*tall"),
    "the names are missing": (audit("--names", "{b}/gone.csv"), "no file .*gone.csv"),
    "two ways to print": (audit("--json", "--md"), "--json and --md"),
    "there are no factors": (audit("--model", "{b}/gone.npy"), "gone.npy"),
    "the factors are of other items": (audit("--model", "{b}/narrow.npy"), "narrow.npy.*60"),
    "the factors are NaN": (audit("--model", "{b}/holes.npy"), "holes.npy.*(NaN|finite)"),
    "the factors are flat": (audit("--model", "{b}/flat.npy"), "flat.npy"),
    "the factors are words": (audit("--model", "{b}/words.npy"), "words.npy"),
    "the factors are pickled": (audit("--model", "{b}/pickled.npy"), "pickled.npy"),
    "the factors are text": (audit("--model", "{b}/text.npy"), "text.npy"),
    "the archive holds no factors": (audit("--model", "{b}/no-factors.npz"), "no-factors.npz"),
    "the table holds no factors": (
        audit("--model", "{b}/names-alone.parquet"),
        "names-alone.parquet",
    ),
    # the command line itself
    "the command is unknown": (["dance"], "No such command 'dance'"),
    "the option is unknown": (audit("--colour"), "No such option '--colour'"),
    "the data are missing": (["fit"], "Missing (argument|parameter|option)"),
}


def with_folder(arguments, broken):
    return [word.replace("{b}", str(broken)) for word in arguments]


def check_refusal(code, told, message):
    assert code == 2
    errors = [line for line in told.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1, told
    assert told.splitlines()[-1] == errors[0]
    assert re.search(message, errors[0]), errors[0]
    assert "Traceback" not in told
    assert len(errors[0]) < 1500


@pytest.mark.parametrize("case", CASES)
def test_refused_in_one_line(case, broken, tmp_path, monkeypatch, capsys):
    arguments, message = CASES[case]
    before = snapshot(broken)
    monkeypatch.chdir(tmp_path)
    code = run(with_folder(arguments, broken))
    said = capsys.readouterr()
    check_refusal(code, said.err, message)
    assert said.out == ""
    assert snapshot(broken) == before
    assert list(tmp_path.iterdir()) == []


BEFORE_THE_DATA = {
    "the metric": (["evaluate", "--metrics", "nope"], "unknown metric 'nope'"),
    "the cut-off": (["evaluate", "-k", "0"], "k=0 must be a whole number"),
    "the groups": (["evaluate", "--groups", "tall"], "--groups must be one of"),
    "the method": (["evaluate", "--method", "nope"], "method must be one of"),
    "the shares": (["evaluate", "--test", "0.9", "--validation", "0.2"], "must be shares"),
    "the chart": (["evaluate", "--plot", "new.xyz"], "new.xyz: .* use one of .png"),
    "the re-ranker": (["evaluate", "--rerank", "nope"], "unknown re-ranker 'nope'"),
    "the ranks": (["evaluate", "--ranks", "8,0"], "--ranks=0 must be a whole number"),
    "the exponents": (["tune", "--gammas", "nan"], "--gammas takes numbers"),
    "users without items": (["evaluate", "--zero-division", "7"], "must be nan or 0"),
    "the parameters": (["fit", "--gamma", "nan", "-o", "new.eqp"], "'gamma' parameter"),
    "the filter": (["fit", "--filter", "bad:1", "-o", "new.eqp"], "'spectral_filter' parameter"),
    "the goal": (["tune", "--maximize", "nope"], "unknown metric 'nope'"),
    "the limit": (["tune", "--subject-to", "nope>=1"], "unknown metric 'nope'"),
    "the model": (["tune", "--model", "nope"], "unknown model 'nope'"),
    "the chart of tune": (["tune", "--plot", "new"], "new: .* use one of .png"),
    "the re-ranker of fit": (["fit", "--rerank", "nope", "-o", "new.eqp"], "unknown re-ranker"),
    "the method of split": (["split", "--method", "nope", "-o", "new"], "method must be one of"),
    "the depth": (["audit", "--depth", "shallow"], "--depth must be one of"),
}


@pytest.mark.parametrize("case", BEFORE_THE_DATA)
def test_settings_are_refused_before_the_data_are_read(case, tmp_path, monkeypatch, capsys):
    """A large table takes minutes to read, and a search takes hours."""
    (command, *options), message = BEFORE_THE_DATA[case]
    monkeypatch.chdir(tmp_path)
    code = run([command, "there-is-no-such-file.csv", *options])  # reading it would be the error
    check_refusal(code, capsys.readouterr().err, message)
    assert list(tmp_path.iterdir()) == []

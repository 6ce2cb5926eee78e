"""Commands on data larger than memory: from disk in blocks, and on a cluster."""

from __future__ import annotations

import json

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import equipoise
from equipoise import ItemWeightedPCA
from equipoise.cli.app import run
from tests.backends.subspaces import assert_same_model


def fitted(table_folder, tmp_path, capsys, *options: str):
    out = tmp_path / "m.eqp"
    command = ["fit", str(table_folder), "--out", str(out), "--rank", "6", "--set", "tol=1e-9"]
    assert run([*command, "--json", *options]) == 0
    facts = json.loads(capsys.readouterr().out)
    return equipoise.load(out), facts


def test_fit_streams_from_disk_within_the_memory_given(table_folder, local, tmp_path, capsys):
    model, facts = fitted(table_folder, tmp_path, capsys, "--memory", "8MB")
    assert_same_model(model, ItemWeightedPCA(6, tol=1e-9).fit(local))
    assert facts["interactions"] == local.nnz
    assert facts["passes"] == model.certificate_.passes


def test_fit_prepares_blocks_by_the_same_words(table_folder, local, tmp_path, capsys):
    options = ("--memory", "1GB", "--min-users-per-item", "20", "--normalize-rows")
    model, _ = fitted(table_folder, tmp_path, capsys, *options)
    prepared = local.filter(min_users_per_item=20).normalize_rows()
    assert_same_model(model, ItemWeightedPCA(6, tol=1e-9).fit(prepared))


@pytest.mark.distributed
def test_fit_runs_on_the_cluster_at_an_address(client, table_folder, local, tmp_path, capsys):
    model, _ = fitted(table_folder, tmp_path, capsys, "--scheduler", client.scheduler.address)
    assert_same_model(model, ItemWeightedPCA(6, tol=1e-9).fit(local))
    for other in set(type(client)._instances) - {client}:
        other.close()  # the command's own: it would end with its process


def lists_of(command, capsys, *options):
    """The printed lists by user and rank; blocks come in another order than data in memory."""
    assert run([*command, "--json", *options]) == 0
    rows = pl.read_ndjson(capsys.readouterr().out.encode())
    return rows.sort("user", "rank")


@pytest.fixture
def serving(table_folder, local, tmp_path):
    """The words of `recommend` with a model of the table."""
    model = ItemWeightedPCA(6, tol=1e-9).fit(local).save(tmp_path / "serve.eqp")
    return ["recommend", str(model), str(table_folder), "-k", "5"]


@pytest.mark.parametrize("more", [(), ("--explain", "--top", "2")])
def test_recommend_gives_the_same_lists_from_disk(serving, tmp_path, capsys, more):
    expected = lists_of(serving, capsys, *more)
    assert_frame_equal(lists_of(serving, capsys, "--memory", "8MB", *more), expected)
    out = tmp_path / "lists.parquet"
    assert run([*serving, "--memory", "8MB", "--out", str(out), *more]) == 0
    assert_frame_equal(pl.read_parquet(out).sort("user", "rank"), expected, check_dtypes=False)


@pytest.mark.distributed
def test_recommend_gives_the_same_lists_on_a_cluster(serving, client, tmp_path, capsys):
    expected = lists_of(serving, capsys)
    out = tmp_path / "lists.csv"
    cluster = ("--scheduler", client.scheduler.address)
    assert run([*serving, *cluster, "--out", str(out)]) == 0
    assert_frame_equal(
        pl.read_csv(out, schema=expected.schema).sort("user", "rank"), expected, rel_tol=1e-6
    )
    for other in set(type(client)._instances) - {client}:
        other.close()  # the command's own: it would end with its process


def test_explain_reads_one_user_from_disk(serving, local, capsys):
    user, item = str(local.user_ids[0]), str(local.item_ids[0])
    command = ["explain", *serving[1:3], user, item, "--json"]
    assert run(command) == 0
    expected = json.loads(capsys.readouterr().out)
    assert run([*command, "--memory", "8MB"]) == 0
    assert json.loads(capsys.readouterr().out) == expected


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--memory", "4GB", "--scheduler", "tcp://x:1"], "--memory"),
        (["--memory", "4GB", "--query", "select 1"], "--query cannot be used with --memory"),
        (["--scheduler", "tcp://x:1", "--delimiter", ","], "--delimiter cannot be used with"),
        (["--memory", "lots"], "is not a size"),
        (["--memory", "2"], "A number alone counts bytes"),
    ],
)
def test_what_does_not_go_together_is_refused(table_folder, tmp_path, capsys, options, text):
    command = ["fit", str(table_folder), "--out", str(tmp_path / "m.eqp"), *options]
    assert run(command) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert text in said


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "--models", "pca,item-weighted", "--ranks", "2,4", "--metrics", "ndcg,recall"],
        ["tune", "--ranks", "2,4", "--grid", "gamma=-1,0", "--maximize", "ndcg@5"],
    ],
    ids=["evaluate", "tune"],
)
def test_held_out_scores_are_the_same_from_disk(command, table_folder, capsys):
    # with seed 0, two items of one list differ by less than the tolerance of the fits of a search
    words = [command[0], str(table_folder), *command[1:], "--json", "--seed", "1024"]
    assert run(words) == 0
    in_memory = json.loads(capsys.readouterr().out)
    assert run([*words, "--memory", "8MB"]) == 0
    from_disk = json.loads(capsys.readouterr().out.replace(" --memory 8MB", ""))
    assert_same_numbers(from_disk, in_memory)


# tests/audit compares whole audits of data in memory, on disk and on a cluster
QUICK_AUDIT = ("--depth", "quick", "--budget", "0", "--json")


def test_the_audit_is_the_same_from_disk(table_folder, tmp_path, capsys):
    words = ["audit", str(table_folder), *QUICK_AUDIT, "--out", str(tmp_path / "r.html")]
    assert run(words) == 0
    in_memory = json.loads(capsys.readouterr().out)
    assert run([*words, "--memory", "24MB"]) == 0
    from_disk = json.loads(capsys.readouterr().out)
    advice = from_disk["advice"]
    assert "--memory 24MB" in advice["command"]
    assert advice["settings"] == in_memory["advice"]["settings"]
    assert from_disk["answer"] == in_memory["answer"]
    assert_same_numbers(from_disk["data"]["groups"], in_memory["data"]["groups"])


@pytest.mark.distributed
def test_the_audit_runs_on_a_cluster(client, table_folder, local, tmp_path, capsys):
    words = ["audit", str(table_folder), *QUICK_AUDIT, "--out", str(tmp_path / "r.html")]
    assert run([*words, "--scheduler", client.scheduler.address]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out)
    assert "in memory; a cluster takes longer" in printed.err
    assert found["data"]["n_interactions"] == local.nnz
    assert f"--scheduler {client.scheduler.address}" in found["advice"]["command"]
    for other in set(type(client)._instances) - {client}:
        other.close()  # the command's own: it would end with its process


def assert_same_numbers(found, expected):
    """Compare what was printed: words exactly, numbers within rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_same_numbers(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-6)
    else:
        assert found == expected

"""`equipoise fit` past one memory: from disk in blocks, and on a cluster."""

from __future__ import annotations

import json

import pytest

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
    assert facts["passes over the data"] == model.certificate_.passes


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


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--memory", "4GB", "--scheduler", "tcp://x:1"], "give either memory"),
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

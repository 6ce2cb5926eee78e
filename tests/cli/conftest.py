"""What the tests of the commands share: a small table of plays, a model of it, real processes."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from equipoise.cli import console
from equipoise.cli.app import run
from equipoise.data.synthetic import listening, scale

COMMAND = [sys.executable, "-m", "equipoise"]


@pytest.fixture(autouse=True)
def _loud():
    """`--quiet` of one test is not that of the next."""
    yield
    console.show_progress = True


def write_table(path: Path, header: list[str], rows) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
    return path


@pytest.fixture(scope="session")
def plays():
    """80 listeners of 60 artists."""
    return listening(n_users=80, n_items=60, seed=3)


@pytest.fixture(scope="session")
def world(plays, tmp_path_factory):
    """A folder with plays.csv, names.csv and model.eqp, which no test may change."""
    folder = tmp_path_factory.mktemp("world")
    entries = plays.matrix.tocoo()
    write_table(
        folder / "plays.csv",
        ["user", "item", "plays"],
        zip(
            plays.user_ids[entries.row],
            plays.item_ids[entries.col],
            entries.data.astype(int),
            strict=True,
        ),
    )
    named = zip(plays.item_ids, plays.item_names, strict=True)
    write_table(folder / "names.csv", ["id", "name"], named)
    fit = ["--quiet", "fit", str(folder / "plays.csv"), "--rank", "4"]
    assert run([*fit, "--out", str(folder / "model.eqp")]) == 0
    return folder


@pytest.fixture(scope="session")
def table(tmp_path_factory):
    """A CSV file of who played what: 120 users of 40 items."""
    plays = scale(120, 40, 1100, seed=2).matrix.tocoo()
    rows = zip(plays.row, plays.col, plays.data, strict=True)
    path = tmp_path_factory.mktemp("data") / "plays.csv"
    return write_table(path, ["user", "item", "plays"], rows)


def call(*arguments: object, text: bool = True, **options) -> subprocess.CompletedProcess:
    """Run the command in a process of its own."""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", **options.pop("env", {})}
    return subprocess.run(
        [*COMMAND, *map(str, arguments)],
        capture_output=True,
        text=text,
        timeout=600,
        check=False,
        env=environment,
        **options,
    )


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Name, size and time of everything in a folder."""
    return {
        str(path.relative_to(folder)): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }

"""What is promised of two runs on the same input, and that it holds.

The same number of threads gives the same bytes, in any process. Another number of threads adds
floating-point numbers in another order: then eigenvalues, spaces and lists agree to rounding.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import equipoise
from tests.determinism.program import SOLVERS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILES = {f"{solver}.eqp" for solver in SOLVERS} | {"pca.eqp", "normalized.eqp", "fit.eqp"}
FILES |= {"lists.parquet", "lists.csv", "lists.jsonl", "report.html", "audit.json", "plays.csv"}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of four processes at once: two hash seeds and none, two threads and one."""
    kinds = {"first": ("0", "2"), "second": ("1", "2"), "third": ("random", "2")}
    kinds["one thread"] = ("0", "1")
    started = {}
    for name, (hashing, threads) in kinds.items():
        # the same name in another place: results may not tell where they were made
        folder = tmp_path_factory.mktemp(name.replace(" ", "-")) / "run"
        folder.mkdir()
        started[name] = folder, _start(folder, hashing, threads)
    for name, (folder, process) in started.items():
        shown, errors = process.communicate(timeout=1800)
        assert process.returncode == 0, (name, errors)
        record = shown[shown.index("\n{\n") + 1 :]  # behind what the other commands said
        (folder / "audit.json").write_text(record)
    return {name: folder for name, (folder, _) in started.items()}


def _start(folder: Path, hashing: str, threads: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": _path()}
    environment |= {"NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.determinism.program", str(folder)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _path() -> str:
    return os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])


@pytest.mark.parametrize("name", sorted(FILES))
@pytest.mark.parametrize("other", ["second", "third"])
def test_the_same_threads_give_the_same_bytes(name, other, runs):
    assert {path.name for path in runs["first"].iterdir()} == FILES
    one, two = ((runs[run] / name).read_bytes() for run in ("first", other))
    if name in ("audit.json", "report.html"):  # they tell which file was read
        one, two = (
            text.replace(str(runs[run]).encode(), b"run")
            for text, run in ((one, "first"), (two, other))
        )
    assert one == two


def both(name, runs):
    return [equipoise.load(runs[run] / name) for run in ("first", "one thread")]


@pytest.mark.parametrize("name", [name for name in sorted(FILES) if name.endswith(".eqp")])
def test_other_threads_give_the_same_eigenvalues_and_the_same_space(name, runs):
    two, one = both(name, runs)
    np.testing.assert_allclose(two.eigenvalues_, one.eigenvalues_, rtol=1e-9)
    sines = np.linalg.svd(two.components_ - (two.components_ @ one.components_.T) @ one.components_)
    assert sines[1].max() < 1e-4
    assert max(two.certificate_.gap, one.certificate_.gap) < 1e-9


def test_other_threads_give_the_same_lists_but_for_near_ties(runs):
    two, one = (pl.read_parquet(runs[run] / "lists.parquet") for run in ("first", "one thread"))
    assert two.select("user", "rank").equals(one.select("user", "rank"))
    np.testing.assert_allclose(two["score"], one["score"], atol=1e-4 * one["score"].max())
    moved = two["item"].to_numpy() != one["item"].to_numpy()
    apart = np.abs(two["score"].to_numpy() - one["score"].to_numpy())[moved]
    assert np.all(apart <= 1e-4 * one["score"].max())
    assert moved.mean() < 0.01

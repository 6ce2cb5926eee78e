"""Two runs on the same input give the same files.

The same number of threads gives the same bytes, in any process. Another number of threads adds
floating-point numbers in another order: eigenvalues, subspaces and lists then agree to rounding.
Run as a program (``python -m tests.test_determinism FOLDER``) it writes the files of one run.
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
from equipoise import ItemWeightedPCA, NormalizedPCA, VanillaPCA
from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from equipoise.spectral import gram

pytestmark = [pytest.mark.medium, pytest.mark.slow]

SOLVERS = ("matrix_free", "gram", "dense")
ROOT = Path(__file__).parents[1]
FILES = {f"{solver}.eqp" for solver in SOLVERS} | {"pca.eqp", "normalized.eqp", "fit.eqp"}
FILES |= {"lists.parquet", "lists.csv", "lists.jsonl", "report.html", "audit.json", "plays.csv"}


def main(folder: Path) -> None:
    """Fit by every path, recommend and audit, into this folder."""
    gram.PARALLEL_FROM = 0  # use the parallel loops
    plays = listening(n_users=400, n_items=120, seed=8)
    entries = plays.matrix.tocoo()
    table = {"user": plays.user_ids[entries.row], "item": plays.item_ids[entries.col]}
    data = folder / "plays.csv"
    pl.DataFrame({**table, "plays": entries.data}).write_csv(data)
    for solver in SOLVERS:
        ItemWeightedPCA(12, solver=solver).fit(plays).save(folder / f"{solver}.eqp")
    VanillaPCA(12, random_state=3).fit(plays).save(folder / "pca.eqp")
    NormalizedPCA(12, random_state=3).fit(plays).save(folder / "normalized.eqp")
    commands = [["fit", str(data), "--rank", "6", "--out", str(folder / "fit.eqp")]]
    for ending in ("parquet", "csv", "jsonl"):
        out = ["--explain", "--out", str(folder / f"lists.{ending}")]
        commands.append(["recommend", str(folder / "fit.eqp"), str(data), "-N", "20", *out])
    commands.append(["audit", str(data), "--budget", "0", "--json", "--out", "report.html"])
    for words in commands:
        if run(["--quiet", *words]) != 0:
            raise SystemExit(f"failed: {words}")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Folders of four processes at once: two hash seeds and none, two threads and one."""
    kinds = {"first": ("0", "2"), "second": ("1", "2"), "third": ("random", "2")}
    kinds["one thread"] = ("0", "1")
    started = {}
    for name, (hashing, threads) in kinds.items():
        # the same name in another place: results may not contain the path
        folder = tmp_path_factory.mktemp(name.replace(" ", "-")) / "run"
        folder.mkdir()
        started[name] = folder, _start(folder, hashing, threads)
    for name, (folder, process) in started.items():
        shown, errors = process.communicate(timeout=1800)
        assert process.returncode == 0, (name, errors)
        record = shown[shown.index("\n{\n") + 1 :]  # after the output of the other commands
        (folder / "audit.json").write_text(record)
    return {name: folder for name, (folder, _) in started.items()}


def _start(folder: Path, hashing: str, threads: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONHASHSEED": hashing, "PYTHONPATH": _path()}
    environment |= {"NUMBA_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.test_determinism", str(folder)],
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
    if name in ("audit.json", "report.html"):  # they name the file that was read
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


if __name__ == "__main__":
    main(Path(sys.argv[1]))

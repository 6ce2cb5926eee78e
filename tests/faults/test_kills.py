"""SIGKILL at any moment: what was there is intact, what was finished is kept, a rerun completes."""

from __future__ import annotations

import json
import zlib

import numpy as np
import polars as pl
import pytest

import equipoise
from equipoise import ItemWeightedPCA
from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from tests.faults.killing import duration, finish, killed_after, killed_once, moments, start
from tests.publisher import WHOLE, files_in, publishing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A table of plays, two models, and what each command gives when it is left alone."""
    folder = tmp_path_factory.mktemp("world")
    plays = listening(n_users=300, n_items=80, seed=5)
    entries = plays.matrix.tocoo()
    table = {"user": plays.user_ids[entries.row], "item": plays.item_ids[entries.col]}
    pl.DataFrame({**table, "plays": entries.data}).write_csv(folder / "plays.csv")
    for name, gamma in (("old", 0.0), ("new", -1.0)):
        ItemWeightedPCA(16, gamma=gamma).fit(plays).save(folder / f"{name}.eqp")
    return folder


@pytest.fixture(scope="module")
def large_models(tmp_path_factory):
    """Two models of some megabytes, so writing one takes a while."""
    folder = tmp_path_factory.mktemp("models")
    X = np.random.default_rng(0).random((30, 20_000))
    for name, gamma in (("old", 0.0), ("new", -1.0)):
        ItemWeightedPCA(16, gamma=gamma, solver="matrix_free").fit(X).save(folder / f"{name}.eqp")
    return folder


def visible(folder):
    """Names in a folder, without the hidden ones that a kill may leave."""
    return {path.name for path in folder.iterdir() if not path.name.startswith(".equipoise-")}


def test_a_killed_save_leaves_the_old_model_or_the_new_one(large_models, tmp_path):
    old, new = ((large_models / f"{name}.eqp").read_bytes() for name in ("old", "new"))
    out = tmp_path / "model.eqp"
    arguments = ("save", large_models / "new.eqp", out)
    longest = duration(*arguments)
    for delay in moments(longest, seed=1):
        out.write_bytes(old)
        killed_after(delay, *arguments)
        assert out.read_bytes() in (old, new)
        assert visible(tmp_path) == {"model.eqp"}
    assert finish(start(*arguments)) == 0
    assert out.read_bytes() == new


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_a_killed_recommend_leaves_the_old_lists_or_the_new_ones(ending, world, tmp_path):
    out = tmp_path / f"lists{ending}"
    words = ["recommend", world / "new.eqp", world / "plays.csv", "-N", "20", "--out", out]
    longest = duration("command", *words)
    new = out.read_bytes()
    for delay in moments(longest, seed=2):
        out.write_bytes(b"the old lists")
        killed_after(delay, "command", *words)
        assert out.read_bytes() in (b"the old lists", new)
        assert visible(tmp_path) == {out.name}
    assert finish(start("command", *words)) == 0
    assert out.read_bytes() == new


def test_a_download_can_be_repeated_after_a_kill(tmp_path, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pytest.importorskip("pooch")
    with publishing() as site:
        dataset = site.dataset()
        longest = duration("download", dataset.url, dataset.hash, tmp_path / "alone")
        whole = contents(tmp_path / "alone")
        assert set(whole) == WHOLE
        for number, delay in enumerate(moments(longest, seed=3)):
            folder = tmp_path / str(number)
            arguments = ("download", dataset.url, dataset.hash, folder)
            killed_after(delay, *arguments)
            if folder.exists():  # whatever has its final name is whole
                assert contents(folder).items() <= whole.items()
            assert finish(start(*arguments)) == 0
            assert contents(folder) == whole


def contents(folder):
    """The files of the data set; a kill may leave hidden ones, and a download's next to them."""
    return {name: (folder / name).read_bytes() for name in files_in(folder) & WHOLE}


def tuning(world):
    """The words of a command that fits several models."""
    words = ["tune", world / "plays.csv", "--ranks", "2,4", "--gammas=0,-1"]
    return [*words, "--grid", "value_transform=log1p,binary"]


def test_a_killed_tuning_run_keeps_its_fits_and_is_completed_from_them(world, tmp_path):
    words = tuning(world)
    alone = tmp_path / "alone"
    longest = duration("command", *words, "--cache", alone, "--csv", tmp_path / "alone.csv")
    expected, fits = (tmp_path / "alone.csv").read_bytes(), bodies(alone)
    assert len(fits) >= 4
    for number, delay in enumerate(moments(longest, seed=4)):
        cache, csv = tmp_path / str(number), tmp_path / f"{number}.csv"
        again = [*words, "--cache", cache, "--csv", csv]
        killed_after(delay, "command", *again)
        done = bodies(cache) if cache.exists() else {}
        assert done.keys() <= fits.keys()
        assert not csv.exists() or csv.read_bytes() == expected
        before = {name: (cache / name).stat().st_mtime_ns for name in done}
        assert finish(start("command", *again)) == 0
        assert csv.read_bytes() == expected
        assert {name: (cache / name).stat().st_mtime_ns for name in done} == before


def test_a_tuning_run_killed_after_some_fits_does_not_repeat_them(world, tmp_path):
    cache = tmp_path / "cache"
    words = [*tuning(world), "--cache", cache, "--csv", tmp_path / "tuned.csv"]
    killed_once(lambda: len(list(cache.glob("[!.]*.zlib"))) >= 2, "command", *words)
    before = {name: (cache / name).stat().st_mtime_ns for name in bodies(cache)}
    assert len(before) >= 2
    assert finish(start("command", *words)) == 0
    assert {name: (cache / name).stat().st_mtime_ns for name in before} == before


def bodies(cache):
    """The fits in a cache, by file; each must be whole."""
    files = cache.glob("[!.]*.zlib")
    return {path.name: json.loads(zlib.decompress(path.read_bytes())) for path in files}


def test_what_a_kill_leaves_behind_does_not_disturb(world, tmp_path):
    """A temporary file of a killed run is hidden, and nobody reads it."""
    out = tmp_path / "model.eqp"
    (tmp_path / ".equipoise-0123456789abcdef.tmp").write_bytes(b"half a model")
    fit = ["--quiet", "fit", str(world / "plays.csv"), "--rank", "3", "--out", str(out)]
    assert run(fit) == 0
    assert equipoise.load(out).n_components_ == 3

"""Full disks, read-only folders, files that change while they are read, two writers of one file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import equipoise
from equipoise import Interactions, ItemWeightedPCA
from equipoise.cli.app import run
from equipoise.data.synthetic import listening
from equipoise.exceptions import EquipoiseError, InvalidDataError, OutputError
from equipoise.serving.service import LiveModel
from tests.extreme_matrices import counts
from tests.faults.killing import finish, start

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")


@pytest.fixture
def small_disk(tmp_path):
    """A disk of its own of 64 kB; only root may mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount a disk: full and read-only disks were NOT tried")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture(scope="module")
def models():
    """Two models of about 40 kB: one fits on the small disk, two do not."""
    X = np.random.default_rng(0).random((30, 600))
    return [ItemWeightedPCA(8, gamma=gamma).fit(X) for gamma in (0.0, -1.0)]


def test_a_save_on_a_full_disk_keeps_the_old_model(models, small_disk):
    path = small_disk / "model.eqp"
    models[0].save(path)
    before = path.read_bytes()
    with pytest.raises(OutputError, match=r"model\.eqp was not written: No space"):
        models[1].save(path)
    assert path.read_bytes() == before
    assert [entry.name for entry in small_disk.iterdir()] == ["model.eqp"]
    np.testing.assert_array_equal(equipoise.load(path).components_, models[0].components_)


def test_a_service_keeps_its_model_when_an_update_finds_the_disk_full(small_disk, tmp_path):
    data = listening(n_users=60, n_items=600)
    rows = data.matrix.tocoo()
    table = {"user": data.user_ids[rows.row], "item": data.item_ids[rows.col], "plays": rows.data}
    pl.DataFrame(table).write_csv(tmp_path / "plays.csv")
    path = small_disk / "model.eqp"
    fit = ["--quiet", "fit", str(tmp_path / "plays.csv"), "--rank", "6", "--out", str(path)]
    assert run(fit) == 0
    (small_disk / "ballast").write_bytes(bytes(8192))  # a second model does not fit
    live = LiveModel(path)
    before, content = live.current.model.recommend({"artist-0003": 1.0}), path.read_bytes()
    assert run(["update", str(path), str(tmp_path / "plays.csv"), "--passes", "1"]) == 2
    assert path.read_bytes() == content
    assert {entry.name for entry in small_disk.iterdir()} == {"model.eqp", "ballast"}
    assert not live.refresh()
    assert live.error is None
    np.testing.assert_array_equal(
        live.current.model.recommend({"artist-0003": 1.0}).ids, before.ids
    )


@pytest.fixture
def plays(tmp_path):
    """A table whose lists are larger than the small disk."""
    X = counts(400, 60)
    users, items = np.nonzero(X)
    table = {"user": [f"user-{u}" for u in users], "item": [f"item-{i}" for i in items]}
    pl.DataFrame({**table, "plays": X[users, items]}).write_csv(tmp_path / "plays.csv")
    words = ["--quiet", "fit", str(tmp_path / "plays.csv"), "--rank", "4"]
    assert run([*words, "--out", str(tmp_path / "model.eqp")]) == 0
    return tmp_path


@pytest.mark.parametrize("ending", [".parquet", ".csv", ".jsonl"])
def test_lists_on_a_full_disk_keep_the_old_ones(ending, plays, small_disk, capsys):
    out = small_disk / f"lists{ending}"
    out.write_text("the old lists")
    data = [str(plays / "model.eqp"), str(plays / "plays.csv")]
    assert run(["recommend", *data, "-N", "40", "--out", str(out)]) == 2
    told = capsys.readouterr().err
    assert f"lists{ending} was not written" in told
    assert "No space left" in told
    assert out.read_text() == "the old lists"
    assert [entry.name for entry in small_disk.iterdir()] == [out.name]


def test_an_audit_on_a_full_disk_keeps_the_old_page(plays, small_disk, capsys):
    out = small_disk / "report.html"
    out.write_text("the old page")
    words = ["audit", str(plays / "plays.csv"), "--budget", "0", "--out", str(out)]
    assert run(words) == 2
    assert "report.html was not written: No space" in capsys.readouterr().err
    assert out.read_text() == "the old page"


def test_a_read_only_disk_is_reported_before_the_work(plays, small_disk, capsys):
    (small_disk / "model.eqp").write_text("the old model")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    words = ["fit", str(plays / "plays.csv"), "--rank", "2"]
    assert run([*words, "--out", str(small_disk / "model.eqp")]) == 2
    told = capsys.readouterr().err
    assert "model.eqp was not written: Read-only" in told
    assert "reading" not in told.lower()
    assert (small_disk / "model.eqp").read_text() == "the old model"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_reported(models, tmp_path):
    folder = tmp_path / "theirs"
    folder.mkdir(mode=0o555)
    with pytest.raises(OutputError, match="was not written: Permission denied"):
        models[0].save(folder / "model.eqp")
    assert list(folder.iterdir()) == []


def test_a_loaded_model_does_not_depend_on_its_file(models, tmp_path):
    """Nothing is mapped: a file that shrinks under a map would kill the process."""
    path = models[0].save(tmp_path / "model.eqp")
    loaded = equipoise.load(path)
    with path.open("r+b") as file:
        file.truncate(10)
    row = np.random.default_rng(1).random(600)
    expected = models[0].recommend(row, k=5, filter_already_liked_items=False)
    found = loaded.recommend(row, k=5, filter_already_liked_items=False)
    np.testing.assert_array_equal(found.ids, expected.ids)
    assert "model.eqp" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
def test_interactions_that_were_read_do_not_depend_on_their_file(ending, tmp_path):
    path = tmp_path / f"plays{ending}"
    table = pl.DataFrame({"user": [f"u{k % 97}" for k in range(5_000)], "item": range(5_000)})
    table.write_parquet(path) if ending == ".parquet" else table.write_csv(path)
    data = Interactions.read(path)
    with path.open("r+b") as file:
        file.truncate(10)
    assert data.nnz == 5_000
    assert data.user_ids.tolist() == [f"u{k}" for k in range(97)]
    assert f"plays{ending}" not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("ending", [".parquet", ".csv"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_file_cut_off_between_two_batches_is_refused_or_read_short(ending, share, tmp_path):
    from equipoise.data.readers import Options, open_files, parquet

    path = tmp_path / f"plays{ending}"
    rows = np.arange(3_000_000)  # 29 MB of text
    table = pl.DataFrame({"user": rows, "item": rows % 97})
    if ending == ".parquet":
        table.write_parquet(path, row_group_size=100_000)
    else:
        table.write_csv(path)
    # nothing is read ahead: polars maps files, and a page that is cut off meanwhile is a bus error
    ahead = open_files(path, Options()).batches if ending == ".csv" else None
    batches = iter(ahead or parquet.batches([path], Options().columns))
    assert next(batches).rows["item"].len() > 0
    with path.open("r+b") as file:
        file.truncate(int(share * path.stat().st_size))
    if ending == ".parquet":
        with pytest.raises(InvalidDataError, match=r"plays\.parquet cannot be read"):
            list(batches)
    else:  # text has no footer: what is left of it is read, and a torn line refused
        try:
            n_rows = sum(len(batch.rows) for batch in batches)
        except EquipoiseError as error:
            assert "plays.csv" in str(error)  # noqa: PT017
        else:
            assert n_rows < len(rows)


def test_two_processes_that_write_one_model_leave_one_of_the_two_whole(models, tmp_path):
    paths = [model.save(tmp_path / f"{name}.eqp") for name, model in zip("ab", models, strict=True)]
    either = [path.read_bytes() for path in paths]
    out = tmp_path / "shared.eqp"
    out.write_bytes(either[0])
    stop = tmp_path / "stop"
    writers = [start("save until", path, out, stop) for path in paths]
    seen = {out.read_bytes()}
    try:
        while all(content in either for content in seen) and len(seen) < 2:  # until both wrote
            seen.add(out.read_bytes())
    finally:
        stop.touch()
    assert [finish(writer) for writer in writers] == [0, 0]
    assert seen == set(either)
    assert out.read_bytes() in either
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"a.eqp", "b.eqp", "shared.eqp", "stop"}


def test_two_threads_that_write_one_model_leave_one_of_the_two_whole(models, tmp_path):
    either = [m.save(tmp_path / f"{n}.eqp").read_bytes() for n, m in enumerate(models)]
    out = tmp_path / "shared.eqp"
    threads = [threading.Thread(target=model.save, args=(out,)) for model in models * 10]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out.read_bytes() in either
    assert {path.name for path in tmp_path.iterdir()} == {"0.eqp", "1.eqp", "shared.eqp"}


@pytest.mark.skipif(
    int(pl.__version__.partition(".")[0]) < 2, reason="polars 1 maps Parquet files into memory"
)
def test_a_file_cut_off_at_any_moment_does_not_kill_its_reader(tmp_path):
    """SIGBUS is what a map of a file that shrinks ends in; ours is refused, or read before."""
    path = tmp_path / "plays.parquet"
    rng = np.random.default_rng(0)
    table = pl.DataFrame({"user": rng.integers(0, 10**6, 400_000), "item": range(400_000)})
    codes = []
    for delay in (0.0, 0.005, 0.02, 0.05, 0.1):
        table.write_parquet(path, row_group_size=20_000)
        process = start("read", path)
        timer = threading.Timer(delay, os.truncate, (path, 1_000))
        timer.start()
        codes.append(finish(process))
        timer.join()
    assert -signal.SIGBUS not in codes
    assert set(codes) <= {0, 3}  # read before, or refused with InvalidDataError

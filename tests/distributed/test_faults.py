"""Workers die, stop, run out of memory; files and the scheduler vanish: same bits, or an error."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import polars as pl
import pytest

from equipoise import Interactions, ItemWeightedPCA
from equipoise.distributed import ClusterError, DistributedInteractions
from equipoise.distributed.gram import BlockedGram
from equipoise.distributed.waiting import Patience
from equipoise.exceptions import EquipoiseError
from tests.distributed.slow_models import SlowModel, hog, not_allowed, out_of_memory
from tests.distributed.subspaces import assert_same_model

pytestmark = pytest.mark.distributed


def on_sweep(monkeypatch, number: int, act) -> None:
    """Call `act` from another thread while sweep `number` is under way."""
    sweep, count = BlockedGram._sweep, iter(range(1, 10**6))

    def counted(self, V, weights):
        if next(count) == number:
            threading.Timer(0.03, act).start()
        return sweep(self, V, weights)

    monkeypatch.setattr(BlockedGram, "_sweep", counted)


def pids(client) -> dict[str, int]:
    return client.run(os.getpid)


def test_a_worker_killed_in_the_middle_of_a_sweep_changes_no_bit(client, spread, monkeypatch):
    expected = ItemWeightedPCA(6).fit(spread)
    before = pids(client)
    address, victim = next(iter(before.items()))
    on_sweep(monkeypatch, 3, lambda: os.kill(victim, signal.SIGKILL))
    fitted = ItemWeightedPCA(6).fit(spread)
    assert address not in pids(client)
    assert fitted.components_.tobytes() == expected.components_.tobytes()
    assert fitted.certificate_ == expected.certificate_


def test_a_worker_that_stops_for_a_while_changes_no_bit(client, spread, monkeypatch):
    expected = ItemWeightedPCA(6).fit(spread).components_.tobytes()
    victim = next(iter(pids(client).values()))

    def pause() -> None:
        os.kill(victim, signal.SIGSTOP)
        time.sleep(1.5)
        os.kill(victim, signal.SIGCONT)

    on_sweep(monkeypatch, 2, pause)
    assert ItemWeightedPCA(6).fit(spread).components_.tobytes() == expected


def test_a_worker_killed_while_lists_are_written_leaves_them_whole(client, spread, local, tmp_path):
    model = ItemWeightedPCA(6, tol=1e-9).fit(local)
    victims = pids(client)

    def kill_after_the_first_file() -> None:
        while not list(tmp_path.glob(".equipoise-*.tmp/part-*.parquet")):
            time.sleep(0.01)
        os.kill(next(iter(victims.values())), signal.SIGKILL)

    killer = threading.Thread(target=kill_after_the_first_file)
    killer.start()
    rows = spread.recommend(SlowModel(model, 0.3), tmp_path / "lists", N=5)
    killer.join()
    assert set(pids(client)) != set(victims)
    assert [path.name for path in tmp_path.iterdir()] == ["lists"]
    names = sorted(path.name for path in (tmp_path / "lists").iterdir())
    assert names == [f"part-{number:05}.parquet" for number in range(7)]
    table = pl.read_parquet(tmp_path / "lists")
    assert len(table) == rows == 5 * local.n_users
    assert table["user"].n_unique() == local.n_users


def test_blocks_whose_file_is_gone_are_named_when_their_worker_dies(client, table_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(table_folder, folder)
    spread = DistributedInteractions.from_parquet(str(folder), client=client, n_blocks=4)
    shutil.rmtree(folder)
    held = client.who_has(spread.blocks.futures)
    victim = pids(client)[next(iter(held.values()))[0]]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(EquipoiseError, match=r"a\.parquet is gone|b\.parquet is gone"):
        ItemWeightedPCA(4).fit(spread)


def test_lists_are_not_begun_where_the_data_are_gone(client, table_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(table_folder, folder)
    spread = DistributedInteractions.from_parquet(str(folder), client=client, n_blocks=4)
    model = ItemWeightedPCA(4).fit(spread)
    shutil.rmtree(folder)
    os.kill(pids(client)[next(iter(client.who_has(spread.blocks.futures).values()))[0]], 9)
    with pytest.raises(EquipoiseError, match="is gone"):
        spread.recommend(SlowModel(model, 0.2), tmp_path / "lists")
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_does_not_go_away_is_passed_on_after_a_few_tries(spread):
    with pytest.raises(ClusterError, match=r"failed 3 times .* PermissionError: not yours"):
        spread.blocks.collect(not_allowed)


def test_memory_errors_of_a_task_are_said_plainly(spread):
    with pytest.raises(ClusterError, match="a worker ran out of memory"):
        spread.blocks.collect(out_of_memory)


def test_workers_without_memory_end_in_a_clear_error():
    distributed = pytest.importorskip("distributed")
    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with (
        distributed.LocalCluster(
            n_workers=1, memory_limit="700MB", host="127.0.0.1", silence_logs=50, **options
        ) as small,
        distributed.Client(small) as client,
    ):
        client.run_on_scheduler(forgive_nothing)
        data = Interactions.from_pairs([1, 1, 2], [1, 2, 2])
        spread = DistributedInteractions.from_interactions(data, client=client, n_blocks=1)
        with pytest.raises(ClusterError, match=r"workers died again and again .* memory"):
            spread.blocks.collect(hog)


def forgive_nothing(dask_scheduler) -> None:
    dask_scheduler.allowed_failures = 0


def free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def started_by_hand(tmp_path):
    """A scheduler and two workers, started by command line, speaking TCP on loopback."""
    distributed = pytest.importorskip("distributed")
    address = f"tcp://127.0.0.1:{free_port()}"
    base = [sys.executable, "-m", "distributed.cli"]
    scheduler = [f"{base[2]}.dask_scheduler", "--host", address, "--no-dashboard"]
    worker = [f"{base[2]}.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    commands = [scheduler, worker, worker]
    running = [
        subprocess.Popen(
            [*base[:2], *command],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for command in commands
    ]
    client = distributed.Client(address, timeout=60)
    client.wait_for_workers(2, timeout=60)
    yield client, running
    for process in running:
        process.kill()
        process.wait()
    client.close(timeout=2)


def test_workers_started_by_command_line_fit_and_a_lost_scheduler_is_named(
    started_by_hand, table_folder, local, monkeypatch
):
    client, (scheduler, *_) = started_by_hand
    patience = Patience(lost_after=2.0, glance=0.2)
    spread = DistributedInteractions.from_parquet(
        str(table_folder), client=client, n_blocks=4, patience=patience
    )
    assert_same_model(
        ItemWeightedPCA(8, tol=1e-9).fit(spread), ItemWeightedPCA(8, tol=1e-9).fit(local)
    )
    on_sweep(monkeypatch, 3, scheduler.kill)
    with pytest.raises(ClusterError, match="the scheduler is lost"):
        ItemWeightedPCA(8, tol=1e-9).fit(spread)


def test_a_cluster_whose_workers_all_died_is_named(started_by_hand, table_folder):
    client, (_, *workers) = started_by_hand
    patience = Patience(lost_after=1.0, glance=0.2)
    spread = DistributedInteractions.from_parquet(
        str(table_folder), client=client, n_blocks=4, patience=patience
    )
    for worker in workers:
        worker.kill()
    with pytest.raises(ClusterError, match=r"has had no worker for 1 seconds. Start workers"):
        ItemWeightedPCA(4).fit(spread)


def test_an_address_where_no_scheduler_is_is_named():
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1"),
    ):
        DistributedInteractions.from_parquet("x", client=f"tcp://127.0.0.1:{free_port()}")

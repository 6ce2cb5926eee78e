"""Workers die, stop, run out of memory; files and the scheduler vanish: same bits, or an error."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import polars as pl
import pytest

from equipoise import Interactions, ItemWeightedPCA, memory
from equipoise.exceptions import ClusterError, EquipoiseError
from equipoise.serving.lists import write_lists
from tests.backends.slow_models import (
    Gate,
    GatedModel,
    gated,
    hog,
    not_allowed,
    out_of_memory,
)
from tests.recorded_progress import OnNote
from tests.waiting import wait_until

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


@pytest.fixture
def gate(tmp_path_factory):
    """A gate that is open again after the test, whatever happened."""
    made = Gate(tmp_path_factory.mktemp("gate"))
    yield made
    made.open()


def during_a_pass(monkeypatch, gate: Gate, act: Callable[[int], None]):
    """Return a fit that, on a cluster, calls `act` in the middle of a pass over the blocks.

    `act` is given the process of a worker that has begun to multiply a block and not finished.
    """
    gram, acting = Interactions.gram, []

    def gated_gram(data, prepare=None, **options):
        return gram(data, partial(gated, gate=gate, prepare=prepare), **options)

    def meddle() -> None:
        act(gate.waiting())
        gate.open()

    def start_once() -> None:
        if not acting:
            gate.close()
            acting.append(threading.Thread(target=meddle, daemon=True))
            acting[0].start()

    monkeypatch.setattr(Interactions, "gram", gated_gram)
    return partial(ItemWeightedPCA(6).fit, progress=OnNote(start_once))


def pids(client) -> dict[str, int]:
    return client.run(os.getpid)


def test_a_worker_killed_in_the_middle_of_a_pass_changes_no_bit(client, spread, monkeypatch, gate):
    expected = ItemWeightedPCA(6).fit(spread)
    workers = {pid: address for address, pid in pids(client).items()}
    killed = []

    def kill(victim: int) -> None:
        killed.append(workers[victim])
        os.kill(victim, signal.SIGKILL)

    fitted = during_a_pass(monkeypatch, gate, kill)(spread)
    (address,) = killed
    assert address not in pids(client)
    assert fitted.components_.tobytes() == expected.components_.tobytes()
    assert fitted.certificate_ == expected.certificate_


def test_a_worker_that_stops_for_a_while_changes_no_bit(client, spread, monkeypatch, gate):
    expected = ItemWeightedPCA(6).fit(spread).components_.tobytes()
    workers = {pid: address for address, pid in pids(client).items()}
    stopped = []

    def pause(victim: int) -> None:
        os.kill(victim, signal.SIGSTOP)
        gate.open()  # the others go on
        time.sleep(0.5)  # any length will do: nothing is asserted about it
        os.kill(victim, signal.SIGCONT)
        stopped.append(victim)

    fitted = during_a_pass(monkeypatch, gate, pause)(spread)
    assert fitted.components_.tobytes() == expected
    (victim,) = stopped
    assert pids(client)[workers[victim]] == victim


def test_a_worker_killed_while_lists_are_written_leaves_them_whole(
    client, spread, local, tmp_path, gate
):
    model = ItemWeightedPCA(6, tol=1e-9).fit(local)
    workers = pids(client)
    gate.close()

    def kill_after_the_first_file() -> None:
        wait_until(lambda: list(tmp_path.rglob("part-*.parquet")))
        os.kill(gate.waiting(), signal.SIGKILL)
        gate.open()

    killer = threading.Thread(target=kill_after_the_first_file, daemon=True)
    killer.start()
    rows = write_lists(GatedModel(model, gate), spread, tmp_path / "lists", k=5)
    assert set(pids(client)) != set(workers)
    assert [path.name for path in tmp_path.iterdir()] == ["lists"]
    names = sorted(path.name for path in (tmp_path / "lists").iterdir())
    assert names == [f"part-{number:05}-00000.parquet" for number in range(7)]
    table = pl.read_parquet(tmp_path / "lists")
    assert len(table) == rows == 5 * local.n_users
    assert table["user"].n_unique() == local.n_users


def lose_a_block(client, spread: Interactions) -> None:
    """Kill every worker that has a copy of the first block: a stolen task leaves a second one."""
    workers = pids(client)
    for holder in client.who_has(spread.rows.futures[:1])[spread.rows.futures[0].key]:
        os.kill(workers[holder], signal.SIGKILL)


def test_blocks_whose_file_is_gone_are_named_when_their_worker_dies(client, table_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(table_folder, folder)
    spread = Interactions.read(str(folder), client=client, n_blocks=4)
    shutil.rmtree(folder)
    lose_a_block(client, spread)
    with pytest.raises(EquipoiseError, match=r"[ab]\.parquet no longer exists"):
        ItemWeightedPCA(4).fit(spread)


def test_lists_are_not_begun_where_the_data_are_gone(client, table_folder, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(table_folder, folder)
    spread = Interactions.read(str(folder), client=client, n_blocks=4)
    model = ItemWeightedPCA(4).fit(spread)
    shutil.rmtree(folder)
    lose_a_block(client, spread)
    with pytest.raises(EquipoiseError, match="no longer exists"):
        write_lists(model, spread, tmp_path / "lists")
    assert list(tmp_path.iterdir()) == []


def test_an_error_that_does_not_go_away_is_passed_on_after_a_few_tries(spread):
    with pytest.raises(ClusterError, match=r"failed 3 times.* PermissionError: not yours"):
        spread.map(not_allowed)


def test_memory_errors_of_a_task_are_said_plainly(spread):
    with pytest.raises(ClusterError, match="ran out of memory"):
        spread.map(out_of_memory)


@pytest.fixture(scope="module")
def small_worker():
    """A client of one worker with little memory, which its nanny holds it to."""
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1,
            threads_per_worker=1,
            processes=True,
            memory_limit="700MB",
            host="127.0.0.1",
            dashboard_address=":0",
            silence_logs=50,
        ) as small,
        distributed.Client(small, set_as_default=False) as client,
    ):
        yield client


def test_a_catalog_too_wide_for_a_worker_is_refused_with_the_number(small_worker):
    items = np.arange(400_000)
    data = Interactions.from_pairs(items % 1_000, items)
    spread = data.distribute(small_worker, 1)
    with pytest.raises(ClusterError, match=r"worker .* 819 MB .* 700 MB"):
        ItemWeightedPCA(64).fit(spread)


def test_workers_without_memory_end_in_a_clear_error(small_worker):
    small_worker.run_on_scheduler(forgive_nothing)
    data = Interactions.from_pairs([1, 1, 2], [1, 2, 2])
    spread = data.distribute(small_worker, 1)
    with pytest.raises(ClusterError, match=r"workers died repeatedly .* memory"):
        spread.map(hog)


def forgive_nothing(dask_scheduler) -> None:
    dask_scheduler.allowed_failures = 0


def test_a_catalog_too_wide_for_the_caller_is_refused_with_the_number(client, monkeypatch):
    data = Interactions.from_pairs(np.arange(20_000) % 200, np.arange(20_000))
    spread = data.distribute(client)
    monkeypatch.setattr(memory, "available_memory", lambda: 80_000_000)
    with pytest.raises(ClusterError, match=r"87 MB .* 80 MB"):
        ItemWeightedPCA(64).fit(spread)

"""Clusters started by command line: workers that join in the middle of a fit, or vanish."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import pytest

import equipoise
from equipoise import Interactions, ItemWeightedPCA
from equipoise.data.backends.retry import RetryPolicy
from equipoise.exceptions import ClusterError
from tests.backends.by_hand import ByHand
from tests.backends.object_store import object_store
from tests.backends.subspaces import assert_same_model
from tests.backends.test_faults import during_a_pass, gate  # noqa: F401 (a fixture)
from tests.recorded_progress import OnNote
from tests.waiting import HANGS

pytestmark = [pytest.mark.distributed, pytest.mark.slow]


@pytest.fixture(scope="module")
def store():
    """An object store that the cluster's processes are given as one gives them Amazon's."""
    pytest.importorskip("s3fs")
    with object_store() as (objects, options):
        environment = {
            "AWS_ENDPOINT_URL": str(options["endpoint_url"]),
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
            # Either of the two may take a block away from the worker that it was moved to: the
            # first runs a task elsewhere, the second deletes all copies of a block but one.
            "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False",
            "DASK_DISTRIBUTED__SCHEDULER__ACTIVE_MEMORY_MANAGER__START": "False",
        }
        yield objects, environment


@pytest.fixture(scope="module")
def cluster_by_hand(tmp_path_factory, store):
    pytest.importorskip("distributed")
    started = ByHand(tmp_path_factory.mktemp("by-hand"), store[1])
    yield started
    started.end()


def spread_by_hand(by_hand, table_folder, workers=2, lost_after=2.0) -> Interactions:
    return Interactions.read(
        str(table_folder),
        client=by_hand.ready(workers),
        n_blocks=8,
        retry=RetryPolicy(lost_after=lost_after, interval=0.2),
    )


def test_a_worker_that_joins_in_the_middle_of_a_fit_does_its_share(
    cluster_by_hand, table_folder, local
):
    spread = spread_by_hand(cluster_by_hand, table_folder)
    client = cluster_by_hand.client
    expected = ItemWeightedPCA(8, tol=1e-9).fit(spread)
    assert_same_model(expected, ItemWeightedPCA(8, tol=1e-9).fit(local))
    known, before = set(client.nthreads()), {future.key for future in spread.rows.futures}

    def join() -> None:
        if set(client.nthreads()) == known:
            cluster_by_hand.start_worker()
            client.wait_for_workers(len(known) + 1, timeout=HANGS)

    fitted = ItemWeightedPCA(8, tol=1e-9).fit(spread, progress=OnNote(join))
    (new_worker,) = set(client.nthreads()) - known
    holders = client.who_has(spread.rows.futures)
    moved = set(holders) - before
    given = sum(new_worker in holders[block] for block in moved)
    assert given >= 2  # its share of 8 blocks for 3 workers is 2 or 3
    assert fitted.components_.tobytes() == expected.components_.tobytes()
    assert fitted.certificate_ == expected.certificate_


def test_the_command_fits_a_table_of_an_object_store_on_a_scheduler(
    cluster_by_hand, store, table_folder, local, tmp_path
):
    objects, environment = store
    for path in table_folder.iterdir():
        objects[f"bucket/plays/{path.name}"] = path.read_bytes()
    cluster_by_hand.ready(2)
    out = tmp_path / "m.eqp"
    command = ["fit", "s3://bucket/plays/", "--scheduler", cluster_by_hand.address]
    command += ["--rank", "6", "--set", "tol=1e-9", "--out", str(out), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "equipoise", *command],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | environment,
    )
    facts = json.loads(done.stdout)
    model = equipoise.load(out)
    assert facts["interactions"] == local.nnz
    assert facts["passes"] == model.certificate_.passes
    assert_same_model(model, ItemWeightedPCA(6, tol=1e-9).fit(local))


def test_a_cluster_whose_workers_all_died_is_named(cluster_by_hand, table_folder):
    spread = spread_by_hand(cluster_by_hand, table_folder, lost_after=1.0)
    for worker in cluster_by_hand.workers:
        worker.kill()
    with pytest.raises(ClusterError, match="no worker for 1 second"):
        ItemWeightedPCA(4).fit(spread)


def test_a_scheduler_lost_in_the_middle_of_a_pass_is_named(
    cluster_by_hand,
    table_folder,
    monkeypatch,
    gate,  # noqa: F811
):
    spread = spread_by_hand(cluster_by_hand, table_folder)
    fit = during_a_pass(monkeypatch, gate, lambda _: cluster_by_hand.scheduler.kill())
    with pytest.raises(ClusterError, match="scheduler is lost"):
        fit(spread)


def test_an_address_where_no_scheduler_is_is_named():
    import dask

    with (
        socket.socket() as taken,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
    ):
        taken.bind(("127.0.0.1", 0))  # and not listening: nobody else can be there
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClusterError, match=rf"no scheduler .*{address}"):
            Interactions.read("x", client=address)

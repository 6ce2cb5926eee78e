"""Clusters started by command line: workers that join in the middle of a fit, or vanish."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import equipoise
from equipoise import ItemWeightedPCA
from equipoise.distributed import ClusterError, DistributedInteractions
from equipoise.distributed.gram import BlockedGram
from equipoise.distributed.waiting import Patience
from tests.distributed.by_hand import ByHand, free_port
from tests.distributed.object_store import object_store
from tests.distributed.subspaces import assert_same_model
from tests.distributed.test_faults import on_sweep

pytestmark = pytest.mark.distributed


@pytest.fixture(scope="module")
def store():
    """An object store that the cluster's processes are told of as one tells them of Amazon's."""
    pytest.importorskip("s3fs")
    with object_store() as (objects, options):
        environment = {
            "AWS_ENDPOINT_URL": str(options["endpoint_url"]),
            "AWS_ACCESS_KEY_ID": "any",
            "AWS_SECRET_ACCESS_KEY": "any",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        yield objects, environment


@pytest.fixture(scope="module")
def cluster_by_hand(tmp_path_factory, store):
    pytest.importorskip("distributed")
    started = ByHand(tmp_path_factory.mktemp("by-hand"), store[1])
    yield started
    started.end()


def spread_by_hand(by_hand, table_folder, workers=2, lost_after=2.0) -> DistributedInteractions:
    return DistributedInteractions.from_parquet(
        str(table_folder),
        client=by_hand.ready(workers),
        n_blocks=8,
        patience=Patience(lost_after=lost_after, glance=0.2),
    )


def test_a_worker_that_joins_in_the_middle_of_a_fit_does_its_share(
    cluster_by_hand, table_folder, local, monkeypatch
):
    from distributed import get_task_stream

    spread = spread_by_hand(cluster_by_hand, table_folder)
    client = cluster_by_hand.client
    model = ItemWeightedPCA(8, tol=1e-9)
    expected = model.fit(spread)
    assert_same_model(expected, ItemWeightedPCA(8, tol=1e-9).fit(local))
    known = set(client.nthreads())
    sweep, count = BlockedGram._sweep, iter(range(1, 10**6))

    def joined(self, V, weights):
        if next(count) == 3:
            cluster_by_hand.start_worker()
            client.wait_for_workers(len(known) + 1, timeout=60)
        return sweep(self, V, weights)

    monkeypatch.setattr(BlockedGram, "_sweep", joined)
    with get_task_stream(client=client) as records:
        fitted = ItemWeightedPCA(8, tol=1e-9).fit(spread)
    (newcomer,) = set(client.nthreads()) - known
    products = [task for task in records.data if task["key"].startswith("block_product-")]
    passes = fitted.certificate_.sweeps
    assert len(products) >= 8 * passes  # the last of the fit before may be told late
    done = sum(task["worker"] == newcomer for task in products)
    assert done >= passes - 2  # of 8 blocks, 2 or 3 a pass are its share; at least one every pass
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
    assert facts["sweeps"] == model.certificate_.sweeps
    assert_same_model(model, ItemWeightedPCA(6, tol=1e-9).fit(local))


def test_a_cluster_whose_workers_all_died_is_named(cluster_by_hand, table_folder):
    spread = spread_by_hand(cluster_by_hand, table_folder, lost_after=1.0)
    for worker in cluster_by_hand.workers:
        worker.kill()
    with pytest.raises(ClusterError, match=r"has had no worker for 1 seconds. Start workers"):
        ItemWeightedPCA(4).fit(spread)


def test_a_scheduler_lost_in_the_middle_of_a_sweep_is_named(
    cluster_by_hand, table_folder, monkeypatch
):
    spread = spread_by_hand(cluster_by_hand, table_folder)
    on_sweep(monkeypatch, 3, cluster_by_hand.scheduler.kill)
    with pytest.raises(ClusterError, match="the scheduler is lost"):
        ItemWeightedPCA(8, tol=1e-9).fit(spread)


def test_an_address_where_no_scheduler_is_is_named():
    import dask

    with (
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(ClusterError, match=r"no scheduler answers at tcp://127\.0\.0\.1"),
    ):
        DistributedInteractions.from_parquet("x", client=f"tcp://127.0.0.1:{free_port()}")

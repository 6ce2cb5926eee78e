"""A real cluster of worker processes, and tables to read onto it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from equipoise import Interactions
from equipoise.data.synthetic import scale

# Workers are processes of their own: they inherit what is set here before they start.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session")
def cluster():
    """Three worker processes with one thread each, on this machine."""
    distributed = pytest.importorskip("distributed")
    import dask

    # After 15 s, the default, a killed worker that starts again on a busy machine is given up.
    lost = {"distributed.deploy.lost-worker-timeout": "1 hour"}
    with (
        dask.config.set(lost),
        distributed.LocalCluster(
            n_workers=3,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address=":0",  # any free port
            memory_limit="2GB",
            silence_logs=50,
        ) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def session_client(cluster):
    distributed = pytest.importorskip("distributed")
    with distributed.Client(cluster) as connected:
        yield connected


@pytest.fixture
def client(cluster, session_client):
    """Three workers again, whatever the test before did to them."""
    cluster.scale(3)
    session_client.wait_for_workers(3, timeout=600)  # only a hang takes so long
    return session_client


@pytest.fixture(scope="session")
def spread_out(session_client, table_folder) -> Interactions:
    return Interactions.read(
        str(table_folder), client=session_client, n_blocks=7, rows_per_task=8_000
    )


@pytest.fixture
def spread(client, spread_out) -> Interactions:
    """The table on the cluster, in seven blocks."""
    assert len(client.nthreads()) >= 3
    return spread_out


def shuffled_rows(interactions: Interactions, seed: int = 0) -> pl.DataFrame:
    """The interactions as a table whose rows stand in no order."""
    entries = interactions.matrix.tocoo()
    rows = np.random.default_rng(seed).permutation(interactions.nnz)
    return pl.DataFrame(
        {
            "user": [f"u{user}" for user in entries.row[rows]],
            "item": entries.col[rows].astype(np.int64),
            "value": entries.data[rows].astype(np.float64),
            "timestamp": np.arange(interactions.nnz),
        }
    )


@pytest.fixture(scope="session")
def table_folder(tmp_path_factory) -> Path:
    """Two Parquet files of several row groups: 60,000 interactions of 3,000 users."""
    folder = tmp_path_factory.mktemp("table")
    table = shuffled_rows(scale(3_000, 500, 60_000, seed=1))
    table[:25_000].write_parquet(folder / "a.parquet", row_group_size=7_000)
    table[25_000:].write_parquet(folder / "b.parquet", row_group_size=9_000)
    return folder


@pytest.fixture(scope="session")
def local(table_folder) -> Interactions:
    return Interactions.read(table_folder)

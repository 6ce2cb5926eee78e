"""The runs of `bench_distributed`, each a fit that says what it took."""

from __future__ import annotations

import importlib.util
import os
import resource
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from cost_model import Comparison, compare

_FILES = 4
_ROW_GROUP = 500_000
_ONE_THREAD = {
    "threads_per_worker": 1,
    "processes": True,
    "host": "127.0.0.1",
    "dashboard_address": None,
    "silence_logs": 50,
}


class Size(NamedTuple):
    """A synthetic table."""

    name: str
    users: int
    items: int
    nnz: int


class Run(NamedTuple):
    """What one fit took.

    `sweep_s` is the median pass over the data, `moved_mb` what workers sent a pass, `peak_mb` the
    largest resident memory of a worker (of the process, where there is none).
    """

    way: str
    load_s: float
    fit_s: float
    sweeps: int
    sweep_s: float
    peak_mb: float
    moved_mb: float | None
    objective: float
    foretold: Comparison | None = None


def write_table(size: Size, folder: Path) -> None:
    """Write the table as Parquet files, rows in order of users."""
    from equipoise.data.synthetic import scale

    entries = scale(size.users, size.items, size.nnz, seed=0).matrix.tocoo()
    for number, part in enumerate(np.array_split(np.arange(size.nnz), _FILES)):
        rows = slice(int(part[0]), int(part[-1]) + 1)
        table = pl.DataFrame(
            {
                "user": entries.row[rows].astype(np.int32),
                "item": entries.col[rows].astype(np.int32),
                "value": entries.data[rows],
            }
        )
        table.write_parquet(folder / f"{number}.parquet", row_group_size=_ROW_GROUP)


@contextmanager
def timed_sweeps() -> Iterator[list[float]]:
    """Yield a list that fills with the seconds of each pass."""
    from equipoise.distributed.gram import BlockedGram

    seconds: list[float] = []
    sweep = BlockedGram._sweep

    def timed(self: Any, V: Any, weights: Any) -> Any:
        started = time.perf_counter()
        answer = sweep(self, V, weights)
        seconds.append(time.perf_counter() - started)
        return answer

    BlockedGram._sweep = timed
    try:
        yield seconds
    finally:
        BlockedGram._sweep = sweep


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def _fit(way: str, data: Any, load_s: float, rank: int) -> Run:
    from equipoise import ItemWeightedPCA

    with timed_sweeps() as sweeps:
        started = time.perf_counter()
        model = ItemWeightedPCA(rank, sweeps="few", solver="matrix_free").fit(data)
        fit_s = time.perf_counter() - started
    certificate = model.certificate_
    middle = float(np.median(sweeps)) if sweeps else fit_s / certificate.sweeps
    found = (certificate.sweeps, middle, _peak_mb(), None, certificate.objective)
    return Run(way, load_s, fit_s, *found)


def local(folder: Path, rank: int) -> Run:
    """In the memory of one process."""
    from equipoise import Interactions

    started = time.perf_counter()
    data = Interactions.read(folder)
    return _fit("local, in memory", data, time.perf_counter() - started, rank)


def streamed(folder: Path, rank: int, memory: str) -> Run:
    """From disk in blocks."""
    from equipoise.distributed import StreamedInteractions

    started = time.perf_counter()
    data = StreamedInteractions.read(folder, memory=memory)
    way = f"streamed, --memory {memory}, {len(data.blocks)} blocks"
    return _fit(way, data, time.perf_counter() - started, rank)


def on_cluster(
    folder: Path, little: list[Path], rank: int, workers: int, limit: str, blocks: int
) -> Run:
    """On worker processes of one thread each; beside them one that calibrates the cost model."""
    from distributed import Client, LocalCluster
    from equipoise.distributed import DistributedInteractions
    from equipoise.spectral.lanczos import wide_block

    with (
        LocalCluster(n_workers=workers, memory_limit=limit, **_ONE_THREAD) as cluster,
        LocalCluster(n_workers=1, **_ONE_THREAD) as alone,
        Client(cluster) as client,
        Client(alone, set_as_default=False) as other,
    ):
        started = time.perf_counter()
        data = DistributedInteractions.from_parquet(str(folder), client=client, n_blocks=blocks)
        load_s = time.perf_counter() - started
        data.blocks.total(_touch)  # loads code on every worker
        before = _sent(client)
        run = _fit(f"Dask, {workers} worker(s)", data, load_s, rank)
        moved = (_sent(client) - before) / run.sweeps / 1e6
        peak = max(client.run(_peak_mb).values())
        tiny, small = (
            DistributedInteractions.from_parquet(str(each), client=other, n_blocks=8)
            for each in little
        )
        foretold = compare(tiny, small, data, wide_block(rank), workers=workers)
        return run._replace(peak_mb=peak, moved_mb=moved, foretold=foretold)


def _touch(_block: Any) -> float:
    import numba  # noqa: F401

    return 0.0


def _sent(client: Any) -> float:
    return float(
        sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())
    )


def dask_ml(folder: Path, rank: int, size: Size) -> Run | str:
    """TruncatedSVD of dask-ml on dense chunks, all that it takes; or why it cannot run."""
    dense = 8 * size.users * size.items
    if dense > 4e9:
        return f"dask-ml takes dense chunks: {dense / 1e9:.0f} GB for this table"
    if importlib.util.find_spec("dask_ml") is None:
        return "dask-ml is not installed (pip install dask-ml)"
    import dask.array as da
    from dask_ml.decomposition import TruncatedSVD

    from distributed import Client, LocalCluster
    from equipoise import Interactions

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    started = time.perf_counter()
    X = Interactions.read(folder).matrix
    with LocalCluster(n_workers=2, **_ONE_THREAD) as cluster, Client(cluster):
        rows = -(-X.shape[0] // 8)
        chunks = [
            da.from_array(X[first : first + rows].toarray(), chunks=(rows, X.shape[1]))
            for first in range(0, X.shape[0], rows)
        ]
        array = da.concatenate(chunks).persist()
        load_s, started = time.perf_counter() - started, time.perf_counter()
        model = TruncatedSVD(rank, algorithm="randomized", n_iter=5, compute=True).fit(array)
        fit_s = time.perf_counter() - started
    objective = float(np.square(np.asarray(model.singular_values_)).sum())
    return Run("dask-ml TruncatedSVD (PCA, randomized, 5 it.)", load_s, fit_s, 12, fit_s / 12,
               _peak_mb(), None, objective)  # fmt: skip

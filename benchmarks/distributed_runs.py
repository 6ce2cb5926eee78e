"""The runs of `bench_distributed`, each a fit that says what it took."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import polars as pl
import scipy.sparse as sp

from cost_model import CostModel, Job, Small, calibrate
from machine_load import OtherLoad, QuietWait

_ROWS_A_FILE = 4_000_000
_ROW_GROUP = 500_000
_ROWS_A_BLOCK, _FEWEST_BLOCKS = 4_000_000, 8
_ROUNDS = 9
ONE_THREAD = {
    "threads_per_worker": 1,
    "processes": True,
    "host": "127.0.0.1",
    "dashboard_address": ":0",
    "silence_logs": 50,
}


class Size(NamedTuple):
    """A synthetic table, and the memory that a stream of it and a worker may take."""

    name: str
    users: int
    items: int
    nnz: int
    memory: str = "1GB"
    worker: str = "4GB"

    @property
    def blocks(self) -> int:
        """What `from_parquet` takes by default."""
        return max(_FEWEST_BLOCKS, self.nnz // _ROWS_A_BLOCK)


class Run(NamedTuple):
    """What one fit took.

    Attributes
    ----------
    way, threads : str, int
        How it was fitted; threads, or workers of one thread each.
    load_s, fit_s, pass_s : float
        Seconds of reading, of the fit, and of its median pass over the data.
    passes, caller_s : int, float
        Passes of the fit, and the other seconds of the fit, if the data are in blocks.
    peak_mb, limit_mb : float
        Largest resident memory of a worker (of the process, where there is none), interpreter and
        libraries included, and what was allowed; 0 where nothing was said.
    moved_mb : float or None
        What workers sent, and V from the caller, a pass.
    objective : float
        What the fit reached.
    others : float
        Cores that processes other than ours kept busy during the fit.
    """

    way: str
    threads: int
    load_s: float
    fit_s: float
    passes: int
    pass_s: float
    caller_s: float
    peak_mb: float
    limit_mb: float
    moved_mb: float | None
    objective: float
    others: float


def in_process(run: Callable[[], Any], threads: int = 1) -> Any:
    """Run in a fresh process, whose memory is the run's alone, with so many threads."""
    variables = ("NUMBA_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")
    os.environ.update(dict.fromkeys(variables, str(threads)))  # read when libraries are loaded
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(run).result()


def write_table(size: Size, folder: Path) -> None:
    """Write the table as Parquet files, rows in order of users; one file is held at a time."""
    from equipoise.data.synthetic.benchmark import scale_in_parts

    files = -(-size.nnz // _ROWS_A_FILE)
    parts = scale_in_parts(size.users, size.items, size.nnz, files)
    for number, part in enumerate(parts):
        entries = part.matrix.tocoo()
        columns = {
            "user": part.user_ids[entries.row].astype(np.int32),
            "item": entries.col.astype(np.int32),
            "value": entries.data,
        }
        path = folder / f"{number:03}.parquet"
        pl.DataFrame(columns).write_parquet(path, row_group_size=_ROW_GROUP)


class _LoadBesideCluster(OtherLoad):
    """Cores kept busy by processes that are neither this one nor below it."""

    def __init__(self) -> None:
        self._below = _seconds_below()
        super().__init__()

    def cores(self) -> float:
        ours = (_seconds_below() - self._below) / (time.perf_counter() - self._started)
        return max(0.0, super().cores() - ours)


def _seconds_below() -> float:
    import psutil

    spent = (child.cpu_times() for child in psutil.Process().children(recursive=True))
    return float(sum(times.user + times.system for times in spent))


@contextmanager
def timed_passes() -> Iterator[list[float]]:
    """Yield a list that fills with the seconds of each pass."""
    from equipoise.spectral.gram import BlockGram

    seconds: list[float] = []
    product = BlockGram._multiply

    def timed(self: Any, V: Any, weights: Any) -> Any:
        started = time.perf_counter()
        result = product(self, V, weights)
        seconds.append(time.perf_counter() - started)
        return result

    BlockGram._multiply = timed
    try:
        yield seconds
    finally:
        BlockGram._multiply = product


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def _fit(way: str, threads: int, data: Any, load_s: float, rank: int, limit: float) -> Run:
    from equipoise import ItemWeightedPCA

    warm_up()
    with timed_passes() as passes:
        load, started = _LoadBesideCluster(), time.perf_counter()
        model = ItemWeightedPCA(rank, passes="few", solver="matrix_free").fit(data)
        fit_s, others = time.perf_counter() - started, load.cores()
    certificate = model.certificate_
    return Run(
        way=way,
        threads=threads,
        load_s=load_s,
        fit_s=fit_s,
        passes=certificate.passes,
        pass_s=float(np.median(passes)) if passes else fit_s / certificate.passes,
        caller_s=fit_s - sum(passes) if passes else 0.0,
        peak_mb=_peak_mb(),
        limit_mb=limit,
        moved_mb=None,
        objective=certificate.objective,
        others=others,
    )


def local(folder: Path, rank: int, threads: int) -> Run:
    """In the memory of one process."""
    from equipoise import Interactions

    started = time.perf_counter()
    data = Interactions.read(folder)
    way = f"in memory, {threads} thread(s)"
    return _fit(way, threads, data, time.perf_counter() - started, rank, 0.0)


def streamed(folder: Path, rank: int, threads: int, memory: str) -> Run:
    """From disk in blocks."""
    from equipoise import Interactions
    from equipoise.memory import parse_bytes

    started = time.perf_counter()
    data = Interactions.read(folder, memory=memory)
    way = f"streamed, memory={memory}, {len(data.rows)} blocks, {threads} thread(s)"
    spent = time.perf_counter() - started
    return _fit(way, threads, data, spent, rank, parse_bytes(memory) / 1e6)


def on_cluster(folder: Path, rank: int, workers: int, limit: str) -> Run:
    """On worker processes of one thread each."""
    from distributed import Client, LocalCluster

    from equipoise import Interactions
    from equipoise.memory import parse_bytes
    from equipoise.spectral.lanczos import wide_block

    with (
        LocalCluster(n_workers=workers, memory_limit=limit, **ONE_THREAD) as cluster,
        Client(cluster) as client,
    ):
        started = time.perf_counter()
        data = Interactions.read(str(folder), client=client)
        load_s = time.perf_counter() - started
        client.run(warm_up)
        before, bytes_mb = _sent(client), parse_bytes(limit) / 1e6
        run = _fit(f"Dask, {workers} worker(s)", workers, data, load_s, rank, bytes_mb)
        sent = (_sent(client) - before) / run.passes + 4 * data.n_items * wide_block(rank)
        return run._replace(peak_mb=max(client.run(_peak_mb).values()), moved_mb=sent / 1e6)


def calibration(small: Size, rank: int, wait_s: float) -> CostModel:
    """The numbers of the cost model, from little data on one worker and on two."""
    from distributed import Client, LocalCluster

    from equipoise import Interactions
    from equipoise.spectral.lanczos import wide_block

    hardly_any = small._replace(name="vectors", users=1_000, nnz=20_000)
    with (
        TemporaryDirectory() as place,
        LocalCluster(n_workers=1, **ONE_THREAD) as alone,
        LocalCluster(n_workers=2, **ONE_THREAD) as pair,
        Client(alone, set_as_default=False) as one,
        Client(pair, set_as_default=False) as two,
    ):
        empty, table = (_written(size, Path(place)) for size in (hardly_any, small))
        read = Interactions.read
        vectors = read(empty, client=one, n_blocks=_FEWEST_BLOCKS)
        products = read(table, client=one, n_blocks=2)
        crowded = read(table, client=two, n_blocks=2)
        one.run(warm_up)
        fit = _fit("", 1, products, 0.0, rank, 0.0)
        measured = Small(vectors, products, crowded, fit.passes, fit.caller_s)
        return calibrate(measured, wide_block(rank), _ROUNDS, QuietWait(wait_s).wait)


def _written(size: Size, place: Path) -> str:
    folder = place / size.name
    folder.mkdir()
    write_table(size, folder)
    return str(folder)


def job(size: Size, rank: int, workers: int) -> Job:
    """Return what the cost model needs of a run."""
    from equipoise.spectral.lanczos import wide_block

    return Job(size.nnz, size.items, wide_block(rank), workers, size.blocks)


def warm_up() -> None:
    """Load the compiled loops, which is not part of a fit."""
    from equipoise.data.block_ops import block_product
    from equipoise.data.rows import RowBlock
    from equipoise.spectral.gram import GramProduct

    X = sp.csr_array(np.eye(4))
    for dtype in (np.float32, np.float64):
        V, weights = np.ones((4, 32), dtype), np.ones(4, dtype)
        ask = GramProduct(V, weights, 1.0, True, 1)
        block_product(RowBlock(X, np.arange(4), np.arange(4)), ask)


def _sent(client: Any) -> float:
    return float(
        sum(client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total).values())
    )

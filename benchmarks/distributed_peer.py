"""dask-ml's TruncatedSVD and `VanillaPCA` on a table whose dense form fits into the workers."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from distributed_runs import ONE_THREAD, Size, write_table

_REPEATS = 3
_WORKERS = 2


class Peer(NamedTuple):
    """Median seconds of a fit, the share of XᵀX's trace that it captured, and what it held."""

    way: str
    fit_s: float
    captured: float
    data_mb: float


def missing() -> str:
    """Why dask-ml cannot take part; empty if it can."""
    if importlib.util.find_spec("dask_ml") is None:
        return "dask-ml is not installed (pip install dask-ml): it was NOT measured"
    return ""


def compare(size: Size, rank: int) -> list[Peer]:
    """Ours, dask-ml's exact and its randomized algorithm, on the same two workers in turn."""
    from distributed import Client, LocalCluster

    from equipoise import Interactions, VanillaPCA

    with (
        TemporaryDirectory() as place,
        LocalCluster(n_workers=_WORKERS, **ONE_THREAD) as cluster,
        Client(cluster) as client,
    ):
        write_table(size, Path(place))
        X = Interactions.read(place).matrix.astype(np.float64)
        spread = Interactions.read(place, client=client)
        dense = _chunks(X)
        ways: dict[str, Callable[[], Any]] = {
            "VanillaPCA, tol=1e-6": lambda: VanillaPCA(rank).fit(spread),
            "dask-ml TruncatedSVD(tsqr), exact": lambda: _dask_ml(dense, rank, "tsqr"),
            "dask-ml TruncatedSVD(randomized)": lambda: _dask_ml(dense, rank, "randomized"),
        }
        fitted = {way: run() for way, run in ways.items()}
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        for _ in range(_REPEATS):
            for way, run in ways.items():
                started = time.perf_counter()
                run()
                seconds[way].append(time.perf_counter() - started)
    whole, sparse_mb = float(np.square(X.data).sum()), 12 * X.nnz / 1e6
    return [
        Peer(
            way,
            float(np.median(seconds[way])),
            float(np.linalg.norm(X @ fitted[way].components_.T) ** 2 / whole),
            8 * size.users * size.items / 1e6 if "dask-ml" in way else sparse_mb,
        )
        for way in ways
    ]


def _chunks(X: Any) -> Any:
    import dask
    import dask.array as da

    rows = -(-X.shape[0] // 8)
    chunks = [
        da.from_array(X[first : first + rows].toarray(), chunks=(rows, X.shape[1]))
        for first in range(0, X.shape[0], rows)
    ]
    with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
        return da.concatenate(chunks).persist()


def _dask_ml(array: Any, rank: int, algorithm: str) -> Any:
    from dask_ml.decomposition import TruncatedSVD

    return TruncatedSVD(rank, algorithm=algorithm, n_iter=5, random_state=0).fit(array)

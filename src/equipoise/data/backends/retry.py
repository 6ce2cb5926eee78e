"""Retries on a cluster: what is repeated, how often, and when to give up."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, NamedTuple

from equipoise.exceptions import ClusterError, EquipoiseError

# How often a computation is tried where the next attempt may succeed.
ATTEMPTS = 3


class RetryPolicy(NamedTuple):
    """How long to wait for a cluster, and seconds between checks.

    Attributes
    ----------
    lost_after : float
        Seconds that a cluster may be without scheduler or workers.
    idle_after : float
        Seconds that its workers may have no task while a result is missing: the scheduler then lost
        the task.
    interval : float
        Seconds between checks.
    """

    lost_after: float = 60.0
    idle_after: float = 180.0
    interval: float = 2.0


def with_retries(client: Any, submit: Callable[[], list[Any]], retry: RetryPolicy) -> list[Any]:
    """Return the results of the futures that `submit` returns; retry what was lost with a worker.

    Raises
    ------
    ClusterError
        If the scheduler is lost, no worker is left, workers keep dying, or memory ran out.
    EquipoiseError
        Whatever a task refused, unchanged.
    """
    from distributed import KilledWorker

    for _ in range(ATTEMPTS):
        try:
            return [_result(client, future, retry) for future in submit()]
        except EquipoiseError:
            raise
        except (KilledWorker, MemoryError) as error:
            raise ClusterError(
                f"workers died repeatedly on one block, or ran out of memory ({error!r}). The "
                "usual reason is memory: use smaller blocks (more of them), fewer threads per "
                "worker, or larger workers."
            ) from error
        except FileNotFoundError as error:
            raise ClusterError(
                f"a block had to be read again, and its file no longer exists: {error}. Restore "
                "it, or read the data again."
            ) from error
        except (CancelledError, OSError, TimeoutError) as error:
            _refuse_lost_scheduler(client, retry, error)
            reason = error
    raise ClusterError(
        f"the cluster failed {ATTEMPTS} times; the last time with {type(reason).__name__}: "
        f"{reason}. Check the logs of the workers, and that all of them can read the files."
    ) from reason


def _result(client: Any, future: Any, retry: RetryPolicy) -> Any:
    """Wait for one result, and check from time to time that the cluster has workers."""
    without_workers_since: float | None = None
    idle_since: float | None = None
    arriving = _in_background(future.result)
    while True:
        try:
            return arriving.result(timeout=retry.interval)
        except TimeoutError:
            if arriving.done():  # a time-out of the task itself, or it ended just now
                return arriving.result()
        if client.status != "running":
            raise CancelledError("the connection to the scheduler is lost")
        if client.nthreads():
            without_workers_since = None
            if future.status == "finished" or any(client.processing().values()):
                idle_since = None
                continue
            idle_since = idle_since or time.monotonic()
            if time.monotonic() - idle_since > retry.idle_after:
                raise CancelledError(f"no worker has had a task for {retry.idle_after:g} seconds")
            continue
        without_workers_since = without_workers_since or time.monotonic()
        if time.monotonic() - without_workers_since > retry.lost_after:
            raise ClusterError(
                f"the cluster at {client.scheduler.address} has had no worker for "
                f"{retry.lost_after:g} seconds. Start workers (dask worker "
                f"{client.scheduler.address}) and repeat the call."
            )


def _in_background(function: Callable[[], Any]) -> Future[Any]:
    """Call a function in a thread that does not keep the process from ending.

    `future.result(timeout=...)` of Dask would cancel the transfer when time is over. All transfers
    of a client wait for the same request, so every later one would fail.
    """
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return outcome


def _refuse_lost_scheduler(client: Any, retry: RetryPolicy, error: BaseException) -> None:
    """Give the client time to reconnect to the scheduler; refuse if it does not."""
    deadline = time.monotonic() + retry.lost_after
    while client.status == "connecting" and time.monotonic() < deadline:
        time.sleep(min(retry.interval, 0.2))
    if client.status != "running":
        raise ClusterError(
            "the scheduler is lost, and with it the blocks that its workers held. Start the "
            "cluster again, load the data, and repeat the call; nothing was half-written."
        ) from error

"""Waiting for a cluster: not for ever, and with a clear word when it is gone."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any, NamedTuple

from equipoise.distributed.errors import ClusterError
from equipoise.exceptions import EquipoiseError

# A question is asked so often where it may go well next time.
ATTEMPTS = 3


class Patience(NamedTuple):
    """How long a cluster may be without scheduler or without any worker, and how often to look."""

    lost_after: float = 60.0
    glance: float = 2.0


class AskAgain(Exception):  # noqa: N818 - it is caught and acted upon, never shown
    """The question itself was lost, for the reason given: it must be repeated."""


def answers(client: Any, ask: Callable[[], list[Any]], patience: Patience) -> list[Any]:
    """Return the results of the futures that `ask` gives.

    Raises
    ------
    AskAgain
        If something on the way failed that may go well next time.
    ClusterError
        If the scheduler is lost, no worker is left, workers keep dying, or memory ran out.
    EquipoiseError
        Whatever a task refused, as it was said there.
    """
    from distributed import KilledWorker

    try:
        futures = ask()
        return [_result(client, future, patience) for future in futures]
    except EquipoiseError:
        raise
    except KilledWorker as error:
        raise ClusterError(
            f"workers died again and again over one block ({error}). The usual reason is memory: "
            "use smaller blocks (more of them), fewer threads a worker, or larger workers."
        ) from error
    except MemoryError as error:
        raise ClusterError(
            "a worker ran out of memory. Use smaller blocks (more of them), fewer threads a "
            "worker, or larger workers."
        ) from error
    except FileNotFoundError as error:
        raise ClusterError(
            f"a block had to be read again, and its file is gone: {error}. Put it back, or load "
            "the data anew."
        ) from error
    except (CancelledError, OSError, TimeoutError) as error:
        _refuse_lost_scheduler(client, patience, error)
        raise AskAgain(f"{type(error).__name__}: {error}") from error


def persistently(client: Any, ask: Callable[[], list[Any]], patience: Patience) -> list[Any]:
    """Ask, and ask again where the question was lost with a worker; not for ever."""
    reason: BaseException = AskAgain("")
    for _ in range(ATTEMPTS):
        try:
            return answers(client, ask, patience)
        except AskAgain as again:
            reason = again
    raise ClusterError(
        f"the cluster failed {ATTEMPTS} times to answer; the last time with {reason}. Look at the "
        "workers' logs, and whether all of them reach the files."
    ) from reason


def _result(client: Any, future: Any, patience: Patience) -> Any:
    """Wait for one result, looking now and then whether anybody is still working on it."""
    alone_since: float | None = None
    glance = patience.glance
    while True:
        try:
            return future.result(timeout=glance)
        except TimeoutError:
            if future.status == "error":
                return future.result()  # raises the error of the task
            if future.status == "finished":  # and the transfer of the result takes longer
                glance *= 2
        if client.status != "running":
            raise CancelledError("the connection to the scheduler is lost")
        if client.nthreads():
            alone_since = None
            continue
        alone_since = alone_since or time.monotonic()
        if time.monotonic() - alone_since > patience.lost_after:
            raise ClusterError(
                f"the cluster at {client.scheduler.address} has had no worker for "
                f"{patience.lost_after:g} seconds. Start workers (dask worker "
                f"{client.scheduler.address}) and ask again."
            )


def _refuse_lost_scheduler(client: Any, patience: Patience, error: BaseException) -> None:
    """Give the client time to find the scheduler again; refuse if it does not."""
    deadline = time.monotonic() + patience.lost_after
    while client.status == "connecting" and time.monotonic() < deadline:
        time.sleep(min(patience.glance, 0.2))
    if client.status != "running":
        raise ClusterError(
            "the scheduler is lost, and with it the blocks that its workers held. Start the "
            "cluster again, load the data, and repeat the call; nothing was half-written."
        ) from error

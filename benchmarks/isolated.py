"""Run tasks in separate processes, with their own peak memory and a time limit."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import multiprocessing
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

# ru_maxrss counts kilobytes, on macOS bytes
_UNIT = 1 if sys.platform == "darwin" else 1024


class Outcome(NamedTuple):
    """Result of an isolated run.

    Attributes
    ----------
    value : object
        What the task returned; None if it did not end.
    peak_mb : float
        Largest resident memory of the run, above what its process held before it.
    failure : str
        Empty, or why there is no value: the time limit, an error, out of memory.
    """

    value: Any
    peak_mb: float
    failure: str = ""


class _Order(NamedTuple):
    task: Callable[[Any], Any]
    warm_up: Callable[[Any], Any] | None
    limit: float | None
    memory_gb: float | None


class Isolated:
    """A process that holds the data and forks a child for each run.

    The process is spawned, because a fork would lose the threads of the caller, and it computes
    nothing itself. A child first warms up on a small task, which loads and compiles code. Then free
    memory is returned to the system and the peak is reset, so the peak above it is that of the run.

    Parameters
    ----------
    load : callable
        Returns the data; it, the tasks and warm-ups must be picklable.
    """

    def __init__(self, load: Callable[[], Any]) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, load), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.close()
        self._process.join()

    def run(
        self,
        task: Callable[[Any], Any],
        *,
        warm_up: Callable[[Any], Any] | None = None,
        limit: float | None = None,
        memory_gb: float | None = None,
    ) -> Outcome:
        """Run ``task(data)`` in a fresh child.

        Parameters
        ----------
        task : callable
            Gets the data; what it returns is sent back.
        warm_up : callable, optional
            Called first, with the data too, and not counted.
        limit : float, optional
            Seconds after which the child is ended.
        memory_gb : float, optional
            Limit of the child's address space, which protects the machine.
        """
        self._line.send(_Order(task, warm_up, limit, memory_gb))
        outcome: Outcome = self._line.recv()
        return outcome


def _serve(line: Connection, load: Callable[[], Any]) -> None:
    # children end by os._exit, so their locks must not depend on a clean-up
    multiprocessing.set_start_method("fork", force=True)
    data = load()
    while True:
        try:
            order: _Order = line.recv()
        except EOFError:  # the owner closed the pipe
            return
        line.send(_fork(data, order))


def _fork(data: Any, order: _Order) -> Outcome:
    reader, writer = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if child == 0:
        reader.close()
        writer.send(_measure(data, order))
        os._exit(0)  # skip the clean-up of the parent
    writer.close()
    try:
        if not reader.poll(order.limit):
            return Outcome(None, 0.0, f"not done after {order.limit:g} s")
        outcome: Outcome = reader.recv()
        return outcome
    except EOFError:  # libraries that get no memory abort
        allowed = f"; it may have {order.memory_gb:g} GB" if order.memory_gb else ""
        return Outcome(None, 0.0, f"out of memory{allowed}")
    finally:
        reader.close()
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def _measure(data: Any, order: _Order) -> Outcome:
    try:
        if order.memory_gb is not None:
            allowed = int(order.memory_gb * 2**30)
            resource.setrlimit(resource.RLIMIT_AS, (allowed, allowed))
        if order.warm_up is not None:
            order.warm_up(data)
        _forget_peak()
        baseline = _peak()
        value = order.task(data)
        return Outcome(value, (_peak() - baseline) / 2**20)
    except Exception as error:  # the benchmark reports any error and continues
        traceback.print_exc()
        return Outcome(None, 0.0, f"{type(error).__name__}: {error}")


def _forget_peak() -> None:
    """Reset the peak to the current memory, where supported: otherwise a warm-up hides the run."""
    gc.collect()
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError):  # another libc, a locked-down /proc
            ctypes.CDLL(None).malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")


def _peak() -> float:
    return float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT)

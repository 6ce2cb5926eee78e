"""Parallel computation: loops that numba compiles on first use, Python threads, limits on BLAS.

Compiled loops release the GIL and run in Python threads. numba's own thread pool is not used: it
aborts the process when two Python threads use it concurrently, as in a web server. Each thread
gets a fixed part of the work: same input, same number of threads, same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from equipoise.exceptions import InvalidParameterError

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")


def compile_loop(loop: Callable[..., Any], *, fastmath: bool = False) -> Callable[..., Any]:
    """Compile `loop` for the types it will be called with, when it is called.

    Importing numba takes most of a second, so call this where a loop is used, not at import time.
    """
    import numba

    try:
        return numba.njit(cache=True, nogil=True, fastmath=fastmath)(loop)
    except RuntimeError:  # numba finds no folder to write its cache to
        return numba.njit(nogil=True, fastmath=fastmath)(loop)


def thread_count() -> int:
    """Return how many threads to use: NUMBA_NUM_THREADS, or the cores this process may run on.

    This is numba's own rule, without the time to import numba.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    asked = os.environ.get("NUMBA_NUM_THREADS") or str(cores)
    if not asked.isdecimal() or int(asked) < 1:
        raise InvalidParameterError(
            f"NUMBA_NUM_THREADS must be a whole number of at least 1, got {asked!r}. "
            "Change or unset the variable."
        )
    return int(asked)


def in_threads(run: Callable[[int], Any], parts: int) -> list[Any]:
    """Return [run(0), …, run(parts − 1)]: the first runs here, each other in its own thread."""
    if parts == 1:
        return [run(0)]
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(run, part) for part in range(1, parts)]
        return [run(0), *(other.result() for other in others)]


def map_in_threads(
    work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int
) -> Iterator[_Result]:
    """Yield work(part) for every part, in order; an interruption cancels parts not yet started.

    BLAS is limited to one thread: idle BLAS threads spin and would take the cores from ours.
    """
    pool = ThreadPoolExecutor(threads)
    with one_blas_thread():
        try:
            yield from pool.map(work, parts)
        finally:
            pool.shutdown(cancel_futures=True)


class _BlasLimit:
    """Limit BLAS to one thread while any caller in the process requests it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders = 0
        self._limits: Any = None
        self._controller = ThreadpoolController()
        self._modules = len(sys.modules)

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            self._holders += 1
            if self._holders == 1:
                self._limits = self._libraries().limit(limits=1, user_api="blas")
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if self._holders == 0:
                    self._limits.restore_original_limits()

    def _libraries(self) -> ThreadpoolController:
        """Return the BLAS libraries of the process; search again (4 ms) only after new imports."""
        if len(sys.modules) != self._modules:
            self._controller, self._modules = ThreadpoolController(), len(sys.modules)
        return self._controller


one_blas_thread = _BlasLimit().held
"""Context in which BLAS uses one thread; the last caller to leave restores the original limit.

The limit holds for the whole process. If two threads each saved and restored it on their own, the
second could save the limit of the first and leave it in place forever.
"""

"""How this package uses the cores: loops compiled on first use, plain threads, tamed BLAS.

Loops release the GIL and are spread over Python threads instead of numba's own thread pool: that
pool aborts the process when two Python threads enter it at once, as a web server's would, and
plain threads give every part of the work a fixed place: same input, same threads, same bits.
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

    Importing numba alone takes most of a second, so this is called where a loop is needed and
    not where a module is imported.
    """
    import numba

    try:
        return numba.njit(cache=True, nogil=True, fastmath=fastmath)(loop)
    except RuntimeError:  # there is no folder that numba may write its cache to
        return numba.njit(nogil=True, fastmath=fastmath)(loop)


def thread_count() -> int:
    """Threads to use: the cores this process may run on, or what NUMBA_NUM_THREADS says.

    As numba itself decides, without loading numba.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    asked = os.environ.get("NUMBA_NUM_THREADS") or str(cores)
    if not asked.isdecimal() or int(asked) < 1:
        raise InvalidParameterError(
            f"NUMBA_NUM_THREADS must be a whole number from 1 on, not {asked!r}. "
            "Change or unset the variable."
        )
    return int(asked)


def in_threads(run: Callable[[int], Any], parts: int) -> list[Any]:
    """Return [run(0), …, run(parts − 1)], the first here, the others in threads of their own."""
    if parts == 1:
        return [run(0)]
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(run, part) for part in range(1, parts)]
        return [run(0), *(other.result() for other in others)]


def map_in_threads(
    work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int
) -> Iterator[_Result]:
    """Yield work(part) for every part, in order; an interruption drops what has not begun.

    The parts are shared among our threads, so BLAS gets one: its own would spin between products
    and take the cores from whatever comes next.
    """
    pool = ThreadPoolExecutor(threads)
    with one_blas_thread():
        try:
            yield from pool.map(work, parts)
        finally:
            pool.shutdown(cancel_futures=True)


class _BlasLimit:
    """BLAS limited to one thread while anybody in the process wants it so."""

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
        """The BLAS libraries of the process; looked for anew (4 ms) after imports alone."""
        if len(sys.modules) != self._modules:
            self._controller, self._modules = ThreadpoolController(), len(sys.modules)
        return self._controller


one_blas_thread = _BlasLimit().held
"""Context in which BLAS uses one thread; the last to leave restores what was before the first.

The limit is the process's: two fits in two Python threads that each saved and restored it on
their own would leave it in place for good.
"""

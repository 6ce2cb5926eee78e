"""Parallel computation: loops that numba compiles on first use, Python threads, limits on BLAS.

Compiled loops release the GIL and run in Python threads. numba's own thread pool is not used: it
aborts the process when two Python threads use it concurrently, as in a web server. Each thread
gets a fixed part of the work: same input, same number of threads, same bits.
"""

from __future__ import annotations

import os
import sys
import threading
from _thread import start_new_thread
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController

from equipoise.exceptions import ForkedProcessError, InvalidParameterError

_Part = TypeVar("_Part")
_Result = TypeVar("_Result")
_Outcome = tuple[_Result | None, BaseException | None]


def compile_loop(loop: Callable[..., Any], *, inline: bool = False) -> Callable[..., Any]:
    """Compile `loop` for the types it will be called with, when it is called.

    Importing numba takes most of a second, so call this where a loop is used, not at import time.
    With `inline`, the loop becomes a part of the loops that call it and is not compiled before
    them: half the time to compile, but LLVM finds fewer vector instructions in long loops.
    """
    import numba

    how: Any = {"nogil": True, "inline": "always" if inline else "never"}
    try:
        return numba.njit(cache=True, **how)(loop)
    except RuntimeError:  # numba finds no folder to write its cache to
        return numba.njit(**how)(loop)


class Tally:
    """Decides whether so much work is worth a compiled loop; no result may depend on it.

    Work is counted over all calls, because many small calls are worth the import of numba too. If
    numba is loaded, far less is worth a compiled loop.
    """

    def __init__(self) -> None:
        self._so_far = 0

    def is_large(self, work: int, *, at_first: int, when_loaded: int) -> bool:
        """Return whether to use the compiled loop for so much more work."""
        if "numba" in sys.modules:
            return work >= when_loaded
        self._so_far += work
        return self._so_far >= at_first


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


_working = threading.local()


def threads_left() -> int:
    """Return how many threads work may start here: all, or the share of a part of parallel work.

    Only for work whose results do not depend on the number of threads.
    """
    others: int = getattr(_working, "side_by_side", 1)
    return max(1, thread_count() // others)


def in_threads(run: Callable[[int], Any], parts: int) -> list[Any]:
    """Return [run(0), …, run(parts − 1)]: the first runs here, each other in its own thread.

    Work that shares the cores with work next to it runs one part after another.
    """
    if parts == 1 or threads_left() == 1:
        return [run(part) for part in range(parts)]
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(run, part) for part in range(1, parts)]
        return [run(0), *(other.result() for other in others)]


def map_in_threads(
    work: Callable[[_Part], _Result], parts: Iterable[_Part], threads: int
) -> Iterator[_Result]:
    """Yield work(part) for every part, in order.

    If a part fails, the error is raised when no other part is running. Ctrl-C, and a caller that
    stops early, do not wait for parts that run. BLAS is limited to one thread: idle BLAS threads
    spin and would take the cores from ours.
    """
    waiting: SimpleQueue[tuple[int, _Part]] = SimpleQueue()
    ended: SimpleQueue[tuple[int, _Outcome[_Result]]] = SimpleQueue()
    for numbered in enumerate(parts):
        waiting.put(numbered)
    count = missing = waiting.qsize()
    results: dict[int, _Outcome[_Result]] = {}
    with one_blas_thread():
        try:
            workers = min(threads, count)
            for _ in range(workers):
                # not Thread or Future: Ctrl-C during their waits may become a RuntimeError
                start_new_thread(_work_off, (work, waiting, ended, workers))
            for number in range(count):
                while number not in results:
                    results.update([_next(ended)])
                    missing -= 1
                yield _result(*results.pop(number))
        except Exception:
            for _ in range(missing - _clear(waiting)):
                _next(ended)
            raise
        finally:
            _clear(waiting)


def _work_off(
    work: Callable[[_Part], _Result],
    waiting: SimpleQueue[tuple[int, _Part]],
    ended: SimpleQueue[tuple[int, _Outcome[_Result]]],
    workers: int,
) -> None:
    """Take parts until none is left; results belong to the caller alone, who may free them."""
    _working.side_by_side = workers
    while True:
        try:
            number, part = waiting.get_nowait()
        except Empty:
            return
        try:
            ended.put((number, (work(part), None)))
        except BaseException as error:  # the caller raises it
            ended.put((number, (None, error)))
        del part


def _next(queue: SimpleQueue[_Part]) -> _Part:
    """Wait in short steps: Ctrl-C just before a wait does not end that wait."""
    while True:
        try:
            return queue.get(timeout=0.2)
        except Empty:
            pass


def _clear(queue: SimpleQueue[_Part]) -> int:
    """Take everything out of a queue and return how much it was."""
    count = 0
    try:
        while True:
            queue.get_nowait()
            count += 1
    except Empty:
        return count


def _result(result: Any, error: BaseException | None) -> Any:
    if error is not None:
        raise error
    return result


class _BlasLimit:
    """Limit BLAS to one thread while any caller in the process requests it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._holders: set[object] = set()
        self._limits: Any = None
        self._controller = _blas_libraries()
        self._modules = len(sys.modules)

    @contextmanager
    def held(self) -> Iterator[None]:
        holder = object()  # not a count: an interruption may come before or after it is changed
        try:
            with self._lock:
                self._holders.add(holder)
                if self._limits is None:
                    self._set()
            yield
        finally:
            with self._lock:
                self._holders.discard(holder)
                if not self._holders and self._limits is not None:
                    self._restore()

    def _set(self) -> None:
        libraries = self._libraries()
        self._limits = libraries.limit(limits=None)  # only notes the present limits
        _allow_this_thread(libraries)
        libraries.limit(limits=1)

    def _restore(self) -> None:
        _allow_this_thread(self._controller)
        self._limits.restore_original_limits()
        self._limits = None

    def _libraries(self) -> ThreadpoolController:
        """Return the BLAS libraries of the process; search again (4 ms) only after new imports."""
        if len(sys.modules) != self._modules:
            self._controller, self._modules = _blas_libraries(), len(sys.modules)
        return self._controller


def _blas_libraries() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _allow_this_thread(libraries: ThreadpoolController) -> None:
    """Let this thread set the limits of OpenBLAS.

    Recent versions of threadpoolctl let only the first thread that set a limit change it, as long
    as that thread lives. The caller that ends our limit may run in another thread.
    """
    for library in libraries.lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


one_blas_thread = _BlasLimit().held
"""Context in which BLAS uses one thread; the last caller to leave restores the original limit.

The limit holds for the whole process. If two threads each saved and restored it on their own, the
second could save the limit of the first and leave it in place forever.
"""


# Items from which LAPACK may use BLAS threads. Its tridiagonal reduction gains little from them,
# and if another process needs the cores, threads that wait for each other make it, and Cholesky
# factorizations, twenty times slower. Only large matrices are worth the risk.
_LAPACK_THREADS_FROM = 4_000


def lapack_threads(size: int) -> AbstractContextManager[None]:
    """Return a context that limits BLAS to one thread, except for large dense problems."""
    return nullcontext() if size >= _LAPACK_THREADS_FROM else one_blas_thread()


# Forked processes: polars' threads do not exist in them, and polars waits for them forever.
_THREADS = Path("/proc/self/task")


class _Polars:
    """Whether polars has started its threads, and whether a fork has lost them."""

    started = False
    lost = False

    @classmethod
    def before_fork(cls) -> None:
        """Look for the threads where the system lists them: other code may have started them."""
        if _THREADS.is_dir():
            names = map(_read, _THREADS.glob("*/comm"))
            cls.started = any(name.startswith("polars-0") for name in names)

    @classmethod
    def after_fork(cls) -> None:
        """Note in the child that the threads stayed in the parent."""
        cls.lost = cls.lost or cls.started


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread has just ended
        return ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_Polars.before_fork, after_in_child=_Polars.after_fork)


def require_polars_threads() -> None:
    """Refuse to use polars where it would hang; to be called before polars starts its threads."""
    if _Polars.lost:
        raise ForkedProcessError(
            "this process was forked after polars had started its threads, so reading a table here "
            "would wait forever. Start workers with multiprocessing.get_context('spawn'), or read "
            "the data before the fork and use it in the workers."
        )
    _Polars.started = True

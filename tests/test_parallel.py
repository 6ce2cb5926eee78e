"""Python threads, and limits on BLAS threads in a process that has several of them.

Programs about BLAS and Ctrl-C run in processes of their own: which BLAS libraries are loaded, who
limits them, and who handles signals is then the same in every run.
"""

import subprocess
import sys
import threading
import time

import numba
import pytest

from equipoise.parallel import compile_loop, map_in_threads, threads_left


def test_parts_of_parallel_work_share_the_threads(monkeypatch):
    monkeypatch.setenv("NUMBA_NUM_THREADS", "4")
    assert threads_left() == 4
    assert list(map_in_threads(lambda _: threads_left(), range(3), 2)) == [2, 2, 2]
    assert list(map_in_threads(lambda _: threads_left(), range(8), 8)) == [1] * 8
    assert threads_left() == 4


START = """
from concurrent.futures import ThreadPoolExecutor
import scipy.linalg  # loads BLAS, as NumPy does
from threadpoolctl import ThreadpoolController
from equipoise.parallel import one_blas_thread

blas = ThreadpoolController().select(user_api="blas")
blas.limit(limits=2)

def threads():
    return {library["num_threads"] for library in blas.info()}

assert threads() == {2}
"""

ENDS_IN_ANOTHER_THREAD = """
first, last = one_blas_thread(), one_blas_thread()
with ThreadPoolExecutor(1) as pool:  # its thread lives until the end
    pool.submit(first.__enter__).result()
    last.__enter__()
    pool.submit(first.__exit__, None, None, None).result()
    assert threads() == {1}
    last.__exit__(None, None, None)
    assert threads() == {2}
"""

BEGINS_IN_ANY_THREAD = """
def limited():
    with one_blas_thread():
        return threads()

with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as other:
    found = [limited(), one.submit(limited).result(), other.submit(limited).result()]
assert found == [{1}] * 3
assert threads() == {2}
"""


@pytest.mark.medium
@pytest.mark.parametrize("program", [ENDS_IN_ANOTHER_THREAD, BEGINS_IN_ANY_THREAD])
def test_the_blas_limit_begins_and_ends_in_any_thread(program):
    done = subprocess.run([sys.executable, "-c", START + program], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()


def test_without_a_folder_for_its_cache_a_loop_still_compiles(monkeypatch):
    njit = numba.njit

    def njit_in_a_read_only_system(*function, **options):
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*function, **options)

    monkeypatch.setattr(numba, "njit", njit_in_a_read_only_system)
    assert compile_loop(lambda number: number + 1)(2) == 3


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_results_come_in_order(threads):
    assert list(map_in_threads(lambda part: 10 * part, range(5), threads)) == [0, 10, 20, 30, 40]
    assert list(map_in_threads(str, [], threads)) == []


def test_an_error_comes_when_nothing_runs_and_the_rest_does_not_begin():
    other_runs, ended = threading.Event(), []

    def work(part):
        if part == 0:
            other_runs.wait()
            raise ValueError("part 0")
        other_runs.set()
        time.sleep(0.05)
        ended.append(part)

    with pytest.raises(ValueError, match="part 0"):
        list(map_in_threads(work, range(1000), 2))
    now = list(ended)
    assert 1 in now
    assert len(now) < 999
    time.sleep(0.1)
    assert ended == now


def test_a_caller_who_stops_early_does_not_wait():
    release = threading.Event()
    results = map_in_threads(lambda part: part or release.wait(), [1, 0], 2)
    assert next(results) == 1
    results.close()  # waits forever if it waits for the second part
    release.set()


INTERRUPTED = """
import os, signal, threading
from equipoise.parallel import map_in_threads

for pause in range(0, 2000, 20):
    release = threading.Event()

    def work(part):
        if part == 0:
            sum(range(pause))
            os.kill(os.getpid(), signal.SIGINT)
        release.wait()

    try:
        list(map_in_threads(work, range(4), 2))
    except KeyboardInterrupt:
        release.set()
    else:
        raise SystemExit("not interrupted")
"""


@pytest.mark.medium
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_ctrl_c_at_any_moment_ends_the_wait():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()

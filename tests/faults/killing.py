"""Processes that are killed, by their id, at moments spread over their real duration."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from typing import Any

from tests.faults import operations

# More by EQUIPOISE_KILLS: the campaign whose counts docs/reliability.md tells had 100.
MOMENTS = int(os.environ.get("EQUIPOISE_KILLS", "20"))

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.faults.operations"])


def start(name: str, *arguments: Any) -> BaseProcess:
    """Start an operation, and return when it is about to begin."""
    here, there = _context.Pipe(duplex=False)
    process = _context.Process(target=operations.perform, args=(name, arguments, there))
    process.start()
    there.close()
    assert here.recv()
    return process


def finish(process: BaseProcess) -> int:
    """Wait for its end; how it ended."""
    process.join(timeout=600)  # only a hang takes so long
    code = process.exitcode
    assert code is not None, "it hangs"
    return code


def duration(name: str, *arguments: Any) -> float:
    """Seconds of one that is left alone."""
    process = start(name, *arguments)
    before = time.perf_counter()
    assert finish(process) == 0
    return time.perf_counter() - before


def moments(longest: float, seed: int) -> Iterator[float]:
    """Delays from the beginning to a little past the end, in random order."""
    draw = random.Random(seed)
    shares = [(place + draw.random()) / MOMENTS for place in range(MOMENTS)]
    draw.shuffle(shares)
    return (1.1 * longest * share for share in shares)


def killed_once(condition: Callable[[], bool], name: str, *arguments: Any) -> None:
    """Start it, and kill it as soon as the condition holds or it has ended."""
    process = start(name, *arguments)
    while process.is_alive() and not condition():
        time.sleep(0.001)
    process.kill()
    finish(process)


def killed_after(delay: float, name: str, *arguments: Any) -> bool:
    """Start it and kill it; whether it was still at work."""
    process = start(name, *arguments)
    time.sleep(delay)
    process.kill()
    return finish(process) != 0

"""What a fit costs: seconds, memory, and the size of the model."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

_STATUS = Path("/proc/self/status")

# Short compared with any fit whose memory matters; a sample takes some 20 µs.
_EVERY_SECONDS = 0.005


class Cost(NamedTuple):
    """What one model with one setting took to fit, and its size.

    Attributes
    ----------
    model, settings
        As in `Result`.
    fit_seconds : float
        Wall time of the fit. Sizes that come from one fit all show that fit; fits that share their
        work show equal parts of it. Imports and compilation of a first fit are included.
    peak_bytes : int or None
        How far resident memory rose above its level before the fit, data excluded: exact if the
        fit set a record for the process, otherwise the maximum of samples every 5 ms, which may
        miss a shorter peak. Memory outside the process (of a GPU or a cluster) is not included.
        None on systems without /proc.
    parameters_kept : int
        Learned numbers in the saved model; of a sparse matrix the stored values without their
        positions.
    """

    model: str
    settings: Mapping[str, Any]
    fit_seconds: float
    peak_bytes: int | None
    parameters_kept: int


class Usage(NamedTuple):
    """Seconds and memory of a fit, without the model they belong to."""

    seconds: float
    peak_bytes: int | None


class UsageMeter:
    """Measure the time and the peak memory of a ``with`` block; `usage` contains them after it.

    Parameters
    ----------
    memory : callable, optional
        Returns the `Memory` of this process now, or None where the system does not report it.

    Examples
    --------
    >>> with UsageMeter() as measured:
    ...     _ = sum(range(1000))
    >>> measured.usage.seconds > 0
    True
    """

    usage: Usage

    def __init__(self, memory: Callable[[], Memory | None] | None = None) -> None:
        self._memory = memory or resident_memory

    def __enter__(self) -> Self:
        _return_free_memory()
        self._before = self._memory()
        self._highest = 0 if self._before is None else self._before.now
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._sample, daemon=True)
        if self._before is not None:
            self._watch.start()
        self._started = time.perf_counter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        seconds = time.perf_counter() - self._started
        self._done.set()
        self.usage = Usage(seconds, self._rise())

    def _sample(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            sample = self._memory()
            if sample is not None:
                self._highest = max(self._highest, sample.now)

    def _rise(self) -> int | None:
        if self._before is None:
            return None
        self._watch.join()
        after = self._memory() or self._before
        record = after.record > self._before.record
        highest = after.record if record else max(self._highest, after.now)
        return max(0, highest - self._before.now)


class Memory(NamedTuple):
    """Bytes of resident memory of this process."""

    now: int
    record: int


def resident_memory(status: Path = _STATUS) -> Memory | None:
    """Read the memory of this process; None where the system has no such file."""
    try:
        lines = status.read_text(encoding="ascii", errors="replace").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return Memory(*(int(sizes[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")))
    except (OSError, KeyError, ValueError):  # another system
        return None


def _return_free_memory() -> None:
    """Return freed memory to the system: a fit that reuses it would seem to need nothing."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another libc
            ctypes.CDLL(None).malloc_trim(0)

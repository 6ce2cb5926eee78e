"""What a fit costs: seconds, memory, and the numbers that the model keeps."""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from equipoise.models import Recommender

_STATUS = Path("/proc/self/status")

# Short against any fit whose memory matters; a reading takes some 20 µs.
_EVERY_SECONDS = 0.005


class Cost(NamedTuple):
    """What one model at one rank took and keeps.

    Attributes
    ----------
    model, gamma, rank
        As in `Row`.
    fit_seconds : float
        Wall time of the fit. Ranks that come from one fit all show that fit; fits along γ that
        share their work show equal parts of it. What a first fit imports and compiles counts.
    peak_bytes : int or None
        How far resident memory rose above its level before the fit, data excluded: exact where
        the fit set a record for the process, else the highest of readings every 5 ms, which may
        miss a shorter peak. Memory outside the process (a GPU's) is not seen. None where the
        system does not tell (it is Linux that does).
    parameters_kept : int
        Learned numbers that the model keeps and `save` writes; of a sparse matrix the values
        stored, without their positions.
    """

    model: str
    gamma: float | None
    rank: int | None
    fit_seconds: float
    peak_bytes: int | None
    parameters_kept: int


class Effort(NamedTuple):
    """Seconds and memory of a fit, without the model they belong to."""

    seconds: float
    peak_bytes: int | None


class Measured:
    """Take the time and the peak of memory of a ``with`` block; `effort` holds them after it.

    Parameters
    ----------
    memory : callable, optional
        Returns the `Memory` of this process now, or None where the system does not report it.

    Examples
    --------
    >>> with Measured() as measured:
    ...     _ = sum(range(1000))
    >>> measured.effort.seconds > 0
    True
    """

    effort: Effort

    def __init__(self, memory: Callable[[], Memory | None] | None = None) -> None:
        self._memory = memory or resident_memory

    def __enter__(self) -> Self:
        _return_free_memory()
        self._before = self._memory()
        self._highest = 0 if self._before is None else self._before.now
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._read_on, daemon=True)
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
        self.effort = Effort(seconds, self._rise())

    def _read_on(self) -> None:
        while not self._done.wait(_EVERY_SECONDS):
            reading = self._memory()
            if reading is not None:
                self._highest = max(self._highest, reading.now)

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


def resident_memory() -> Memory | None:
    """Read the memory of this process; None where the system does not report it."""
    try:
        lines = _STATUS.read_text(encoding="ascii", errors="replace").splitlines()
        sizes = dict(line.split(":", 1) for line in lines)
        return Memory(*(int(sizes[name].split()[0]) * 1024 for name in ("VmRSS", "VmHWM")))
    except (OSError, KeyError, ValueError):  # another system
        return None


def _return_free_memory() -> None:
    """Give back what earlier work freed: a fit that uses it again would seem to need nothing."""
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another libc
            ctypes.CDLL(None).malloc_trim(0)


def parameters_kept(model: Recommender) -> int:
    """Count the numbers of a fitted model's arrays; of sparse ones, those stored.

    Examples
    --------
    Three items with two coordinates each and a popularity; two eigenvalues and two residuals:

    >>> from equipoise.models import NormalizedPCA
    >>> model = NormalizedPCA(2).fit(np.array([[1.0, 1, 0], [0, 1, 1], [1, 0, 0]]))
    >>> parameters_kept(model)
    13
    """
    arrays = [getattr(model, name) for name in model._arrays if hasattr(model, name)]
    return sum(map(_numbers, arrays))


def _numbers(array: Any) -> int:
    values = array.data if sp.issparse(array) else np.asarray(array)
    return int(values.size) if np.issubdtype(values.dtype, np.number) else 0

"""One mechanism for every way in: what goes in, what may come out, and what is a finding."""

from __future__ import annotations

import contextlib
import math
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple

from equipoise.exceptions import EquipoiseError
from fuzz.mutation import mutated

# An input of some kilobytes that keeps a reader busy for so long has found a hang
HANG_SECONDS = 10
_CLOCK_PER_WORK = 12
# What reading one of them may add to the memory of the process
MEMORY_MB = 256
_UNIT = 2**20 if sys.platform == "darwin" else 2**10


class Mismatch(AssertionError):  # noqa: N818 (what it is, not who erred)
    """The package accepted an input and made something else of it than the oracle."""


@dataclass(frozen=True)
class Door:
    """A way into the package.

    Attributes
    ----------
    name : str
        What `fuzz/run.py` calls it.
    enter : callable
        Turns bytes into one call, in a folder of its own; raises `Mismatch` where it can tell
        that what came out is wrong.
    seeds : callable
        Returns valid inputs to start from.
    text : bool
        Whether mutations of lines and fields make sense.
    mutate : callable, optional
        Changes an input with knowledge of its structure.
    allowed : tuple of exceptions
        What the door may raise: the package's own errors, and nothing else.
    apart : bool
        Whether an input may end the process: then forked processes try them.
    """

    name: str
    enter: Callable[[bytes, Path], None]
    seeds: Callable[[], Sequence[bytes]]
    text: bool = False
    mutate: Callable[[Random, bytes], bytes] | None = None
    allowed: tuple[type[BaseException], ...] = (EquipoiseError,)
    apart: bool = False

    def changed(self, random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
        """Return another input."""
        if self.mutate is not None and random.getrandbits(2):
            return self.mutate(random, content)
        return mutated(random, content, others, text=self.text)


class Finding(NamedTuple):
    """What an input should not have been able to do."""

    kind: Literal["traceback", "wrong", "hang", "memory", "abort"]
    summary: str
    content: bytes
    detail: str


Verdict = Finding | Literal["accepted", "refused"]


def judge(door: Door, content: bytes, folder: Path) -> Verdict:
    """Try one input: accepted, refused with an error of the package, or a finding."""
    before = peak_mb()
    try:
        with _time_limit(HANG_SECONDS):
            door.enter(content, folder)
        verdict: Verdict = "accepted"
    except door.allowed:
        verdict = "refused"
    except TooLong:
        return Finding("hang", _last_place(), content, traceback.format_exc())
    except Mismatch as error:
        return Finding("wrong", str(error)[:300], content, traceback.format_exc())
    except KeyboardInterrupt:
        raise
    except BaseException:
        return Finding("traceback", _last_place(), content, traceback.format_exc())
    if peak_mb() - before > MEMORY_MB:
        return Finding("memory", f"{peak_mb() - before:.0f} MB", content, "")
    return verdict


def peak_mb() -> float:
    """The highest memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 2**20


class TooLong(BaseException):
    """Time is up. Not `TimeoutError`: that is an `OSError`, which readers catch and explain."""


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """So many seconds of work, and many more on the clock: a busy machine makes no hang."""

    def stop(*_: object) -> None:
        raise TooLong

    clocks = {
        signal.SIGPROF: (signal.ITIMER_PROF, seconds),
        signal.SIGALRM: (signal.ITIMER_REAL, _CLOCK_PER_WORK * seconds),
    }
    before = {number: signal.signal(number, stop) for number in clocks}
    for clock, limit in clocks.values():
        signal.setitimer(clock, limit)
    try:
        yield
    finally:
        for clock, _ in clocks.values():
            signal.setitimer(clock, 0)
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_place() -> str:
    """The error, and the line of the package that it left: one finding for each."""
    kind, error, where = sys.exc_info()
    places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(where)
              if "/equipoise/" in f.filename]  # fmt: skip
    name = "" if kind is None else kind.__name__
    return f"{name} at {places[-1] if places else '?'}: {' '.join(str(error).split())[:160]}"


@dataclass
class Tally:
    """What a run came to."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    aborts: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Count one input; of equal findings the first is kept."""
        self.inputs += 1
        if verdict == "accepted":
            self.accepted += 1
        elif verdict == "refused":
            self.refused += 1
        else:
            key = verdict.summary.partition(": ")[0] if verdict.kind != "wrong" else verdict.summary
            self.findings.setdefault(f"{verdict.kind} {key[:80]}", verdict)


def campaign(
    door: Door, inputs: int, seed: int, folder: Path, corpus: Sequence[bytes] = (),
    until: float = math.inf,
) -> Tally:  # fmt: skip
    """Try so many inputs: the valid ones, then changes of them and of changes of them.

    A monotonic time of `until` ends it early; the tally says how many were tried.
    """
    random = Random(seed)
    seeds = [*door.seeds(), *corpus]
    pool, tally = list(seeds), Tally()
    for number in range(inputs):
        if time.monotonic() > until:
            break
        content = (
            pool[number] if number < len(seeds) else door.changed(random, random.choice(pool), pool)
        )
        verdict = judge(door, content, folder)
        tally.add(verdict)
        # what is accepted is a good start for the next change; the first ones stay for good
        if verdict == "accepted" and number >= len(seeds) and random.random() < 0.05:
            if len(pool) < len(seeds) + 200:
                pool.append(content)
            else:
                pool[len(seeds) + random.randrange(200)] = content
    return tally

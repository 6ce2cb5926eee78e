"""Fuzz targets: how inputs are tried, and what counts as a finding."""

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

# A longer run on an input of some kilobytes is a hang
HANG_SECONDS = 10
_CLOCK_PER_WORK = 12
# How much one input may add to the memory of the process
MEMORY_MB = 256
_UNIT = 2**20 if sys.platform == "darwin" else 2**10


class Mismatch(AssertionError):  # noqa: N818 (a result, not an error of the program)
    """The package accepted an input, and its result differs from that of the oracle."""


@dataclass(frozen=True)
class Target:
    """An entry point of the package to fuzz.

    Attributes
    ----------
    name : str
        Its name in `fuzz/run.py`.
    call : callable
        Turns bytes into one call, in a separate folder; raises `Mismatch` if the result differs
        from that of an oracle.
    seeds : callable
        Returns valid inputs to start from.
    text : bool
        Whether to mutate lines and fields, too.
    mutate : callable, optional
        Changes an input according to its structure.
    allowed : tuple of exceptions
        What the target may raise: only errors of the package.
    isolated : bool
        Whether an input may end the process. Such inputs are tried in forked processes.
    may_abort : bool
        Whether the end of the process counts as a refusal, since it is known of a library.
    """

    name: str
    call: Callable[[bytes, Path], None]
    seeds: Callable[[], Sequence[bytes]]
    text: bool = False
    mutate: Callable[[Random, bytes], bytes] | None = None
    allowed: tuple[type[BaseException], ...] = (EquipoiseError,)
    isolated: bool = False
    may_abort: bool = False

    def changed(self, random: Random, content: bytes, others: Sequence[bytes]) -> bytes:
        """Return another input."""
        if self.mutate is not None and random.getrandbits(2):
            return self.mutate(random, content)
        return mutated(random, content, others, text=self.text)


class Finding(NamedTuple):
    """A failure that an input caused."""

    kind: Literal["traceback", "wrong", "hang", "memory", "abort"]
    summary: str
    content: bytes
    detail: str


Verdict = Finding | Literal["accepted", "refused"]


def judge(target: Target, content: bytes, folder: Path) -> Verdict:
    """Try one input: accepted, refused with an error of the package, or a finding."""
    before = peak_mb()
    try:
        with _time_limit(HANG_SECONDS):
            target.call(content, folder)
        verdict: Verdict = "accepted"
    except target.allowed:
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
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT / 2**20


class TooLong(BaseException):
    """The time limit is over. Not a `TimeoutError`, which is an `OSError` that readers catch."""


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Limit CPU time, and wall time generously: a busy machine is not a hang."""

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
    """Return the error and the last line of the package in its traceback."""
    kind, error, where = sys.exc_info()
    places = [f"{Path(f.filename).name}:{f.lineno}" for f in traceback.extract_tb(where)
              if "/equipoise/" in f.filename]  # fmt: skip
    name = "" if kind is None else kind.__name__
    return f"{name} at {places[-1] if places else '?'}: {' '.join(str(error).split())[:160]}"


@dataclass
class Tally:
    """Counts and findings of a run."""

    inputs: int = 0
    accepted: int = 0
    refused: int = 0
    aborts: int = 0
    findings: dict[str, Finding] = field(default_factory=dict)

    def add(self, verdict: Verdict) -> None:
        """Count one input; the first of equal findings is kept."""
        self.inputs += 1
        if verdict == "accepted":
            self.accepted += 1
        elif verdict == "refused":
            self.refused += 1
        else:
            key = verdict.summary.partition(": ")[0] if verdict.kind != "wrong" else verdict.summary
            self.findings.setdefault(f"{verdict.kind} {key[:80]}", verdict)


def campaign(
    target: Target, inputs: int, seed: int, folder: Path, corpus: Sequence[bytes] = (),
    until: float = math.inf,
) -> Tally:  # fmt: skip
    """Try inputs: first the valid ones, then mutations of them.

    It ends early at the monotonic time `until`; the tally contains the number of inputs tried.
    """
    random = Random(seed)
    seeds = [*target.seeds(), *corpus]
    pool, tally = list(seeds), Tally()
    for number in range(inputs):
        if time.monotonic() > until:
            break
        content = (
            pool[number]
            if number < len(seeds)
            else target.changed(random, random.choice(pool), pool)
        )
        verdict = judge(target, content, folder)
        tally.add(verdict)
        # accepted inputs are mutated further; the seeds always stay
        if verdict == "accepted" and number >= len(seeds) and random.random() < 0.05:
            if len(pool) < len(seeds) + 200:
                pool.append(content)
            else:
                pool[len(seeds) + random.randrange(200)] = content
    return tally

"""Inputs tried in forked processes: ending the process is a finding, too."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from random import Random

from fuzz.target import Finding, Tally, Target, judge

# Inputs per process: one that ends the process costs only these
_AT_A_TIME = 500


def campaign_isolated(
    target: Target, inputs: int, seed: int, folder: Path, corpus: Sequence[bytes], until: float
) -> Tally:
    """Do what `campaign` does, without learning which changes were accepted.

    This process uses no library of the target's itself: its threads would not survive the fork.
    """
    tally, batch = Tally(), 0
    while tally.inputs < inputs and time.monotonic() < until:
        number = min(_AT_A_TIME, inputs - tally.inputs)
        _try(target, Random(f"{seed} {batch}"), number, folder, corpus, tally)
        batch += 1
    return tally


def _try(
    target: Target, random: Random, number: int, folder: Path, corpus: Sequence[bytes], tally: Tally
) -> None:
    """Try a batch in a child; an abort ends it, and the input is the one written down last."""
    receiver, sender = os.pipe()
    child = os.fork()
    if not child:
        os.close(receiver)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # messages of Rust before it aborts
        try:
            _report(target, random, number, folder, corpus, sender)
        finally:
            os._exit(0)
    os.close(sender)
    with os.fdopen(receiver, encoding="utf-8", errors="replace") as pipe:
        lines = pipe.read().splitlines()
    os.waitpid(child, 0)
    for line in lines:
        if line in ("accepted", "refused"):
            tally.add(line)  # type: ignore[arg-type]  # one of the two words
        else:
            kind, content, summary = line.split(" ", 2)
            # written by `_report`
            tally.add(Finding(kind, summary, bytes.fromhex(content), ""))  # type: ignore[arg-type]
    if len(lines) < number:
        current = (folder / "current").read_bytes()
        finding = Finding("abort", "the process ended", current, "")
        tally.add("refused" if target.may_abort else finding)
        tally.aborts += 1


def _report(
    target: Target, random: Random, number: int, folder: Path, corpus: Sequence[bytes], pipe: int
) -> None:
    pool = [*target.seeds(), *corpus]
    for _ in range(number):
        content = target.changed(random, random.choice(pool), pool)
        (folder / "current").write_bytes(content)
        verdict = judge(target, content, folder)
        told = verdict
        if isinstance(verdict, Finding):
            told = f"{verdict.kind} {content.hex() or '00'} {verdict.summary}"
        os.write(pipe, " ".join(str(told).split()).encode(errors="replace") + b"\n")

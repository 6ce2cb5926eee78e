"""What is killed, in a process of its own; preloaded, so a process costs milliseconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import equipoise
import equipoise.audit
import equipoise.cli.evaluate
import equipoise.cli.recommend
import equipoise.evaluation
import equipoise.models
from equipoise.cli.app import run
from equipoise.data.catalog import CATALOG, fetch
from equipoise.exceptions import InvalidDataError


def save(model: Path, out: Path) -> Callable[[], Any]:
    """Save one model over another."""
    loaded = equipoise.load(model)
    return lambda: loaded.save(out)


def save_until(model: Path, out: Path, stop: Path) -> Callable[[], Any]:
    """Save one model over another, again and again until a file appears."""
    loaded = equipoise.load(model)

    def work() -> None:
        while not stop.exists():
            loaded.save(out)

    return work


def read(path: Path) -> Callable[[], Any]:
    """Read a table; end with 3 where it is refused."""

    def work() -> None:
        try:
            equipoise.Interactions.read(path)
        except InvalidDataError:
            sys.exit(3)

    return work


def command(*words: object) -> Callable[[], Any]:
    """Run the command line."""
    return lambda: run(["--quiet", *map(str, words)])


def download(url: str, known: str, folder: Path) -> Callable[[], Any]:
    """Fetch a data set from a publisher."""
    dataset = replace(CATALOG["lastfm-2k"], url=url, hash=known)
    return lambda: fetch(dataset, folder)


OPERATIONS = {
    "save": save,
    "save until": save_until,
    "read": read,
    "command": command,
    "download": download,
}


def perform(name: str, arguments: tuple[Any, ...], ready: Connection) -> None:
    """Prepare, say that it begins, and do it."""
    work = OPERATIONS[name](*arguments)
    ready.send(True)
    work()

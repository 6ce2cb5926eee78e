"""What workers run in the fault tests; a module, because workers must import it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np

from tests.waiting import wait_until


class Gate:
    """Stops tasks in other processes at a known point until the test lets them go on.

    The state is a folder of files, which survives the death of workers and of the scheduler.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._closed = folder / "closed"

    def close(self) -> None:
        self._closed.touch()

    def open(self) -> None:
        self._closed.unlink(missing_ok=True)

    def wait(self) -> None:
        """Called by a task: continue when the gate is open."""
        if self._closed.exists():
            (self.folder / f"waiting-{os.getpid()}").touch()
            wait_until(lambda: not self._closed.exists())

    def waiting(self) -> int:
        """Called by the test: the process of a task that has arrived, once there is one."""
        found = wait_until(lambda: sorted(self.folder.glob("waiting-*")))
        return int(found[0].name.removeprefix("waiting-"))

    def first(self) -> bool:
        """Whether nobody asked before."""
        try:
            (self.folder / "first").mkdir()
        except FileExistsError:
            return False
        return True


class GatedModel:
    """A model that recommends for one block, and waits at the gate before every other."""

    def __init__(self, model, gate: Gate) -> None:
        self.model, self.gate = model, gate
        self.item_ids_, self.n_features_in_ = model.item_ids_, model.n_features_in_

    def recommend(self, user_items, k=10, **options):
        if not self.gate.first():
            self.gate.wait()
        return self.model.recommend(user_items, k, **options)


def gated(X, gate: Gate, prepare=None):
    """Wait at the gate before a block is multiplied."""
    gate.wait()
    return X if prepare is None else prepare(X)


def hog(_block) -> None:
    """Take more memory than the small worker has, and keep it until the worker is killed."""
    held = np.ones(100_000_000)  # 800 MB
    while held.size:
        time.sleep(0.1)


def out_of_memory(_block) -> None:
    raise MemoryError


def not_allowed(_block) -> None:
    raise PermissionError("not yours")

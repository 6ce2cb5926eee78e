"""One process at a time: the others wait, and find the work done."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from equipoise.exceptions import OutputError

_PAUSE_SECONDS = 0.2


@contextmanager
def alone(lock: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """Hold `lock` while the block runs; call `waiting` as long as somebody else holds it.

    The lock is the system's, on an open file: it ends with the process, however that ends.
    """
    while (held := _try_to_hold(lock)) is None:
        waiting()
        time.sleep(_PAUSE_SECONDS)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # Windows removes no open files: an empty one stays
            lock.unlink()
        held.close()


def _try_to_hold(lock: Path) -> BinaryIO | None:
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise OutputError(
            f"{lock.parent} cannot be written to: {error.strerror}. Name another folder with "
            "--out, or set EQUIPOISE_CACHE."
        ) from error
    if _is_ours(file) and _is_still(lock, file):
        return file
    file.close()
    return None


def _is_ours(file: BinaryIO) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):  # how Unix and how Windows say "somebody else's"
        return False
    return True


def _is_still(lock: Path, file: BinaryIO) -> bool:
    """Tell whether the name still means this file: its last holder removed it, maybe just now."""
    try:
        return os.path.samestat(lock.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False

"""Forked processes: polars' threads do not exist in them, and polars waits for them forever."""

from __future__ import annotations

import os
from pathlib import Path

from equipoise.exceptions import ForkedProcessError

_THREADS = Path("/proc/self/task")


class _Polars:
    """Whether polars has started its threads, and whether a fork has lost them."""

    started = False
    lost = False

    @classmethod
    def before_fork(cls) -> None:
        """Look for the threads where the system lists them: other code may have started them."""
        if _THREADS.is_dir():
            names = map(_read, _THREADS.glob("*/comm"))
            cls.started = any(name.startswith("polars-0") for name in names)

    @classmethod
    def after_fork(cls) -> None:
        """Note in the child that the threads stayed in the parent."""
        cls.lost = cls.lost or cls.started


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # the thread has just ended
        return ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_Polars.before_fork, after_in_child=_Polars.after_fork)


def require_polars_threads() -> None:
    """Refuse to use polars where it would hang; to be called before polars starts its threads."""
    if _Polars.lost:
        raise ForkedProcessError(
            "this process was forked after polars had started its threads, so reading a table here "
            "would wait forever. Start workers with multiprocessing.get_context('spawn'), or read "
            "the data before the fork and use it in the workers."
        )
    _Polars.started = True

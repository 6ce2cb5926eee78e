"""How busy other processes keep the machine while we measure."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")

# From this many busy cores of others on, a round of measurements counts as disturbed. The
# kernel counts in ticks of 10 ms, so that a round of a second is known to a few hundredths.
DISTURBED = 0.15
_GLANCE = 0.5


class Neighbours:
    """Cores that other processes kept busy, on average, since this was made.

    Threaded peers suffer from neighbours far more than we do: spinning BLAS threads wait for each
    other. Numbers from a busy machine would flatter us.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._others = _busy_seconds() - time.process_time()

    def cores(self) -> float:
        """Average number of cores busy for others; 0 where the system does not say."""
        others = _busy_seconds() - time.process_time() - self._others
        elapsed = time.perf_counter() - self._started
        return max(0.0, others / elapsed) if _STAT.exists() else 0.0


class Patience:
    """Waits for quiet moments, so long in all.

    Parameters
    ----------
    seconds : float
        To wait at most, over all calls; 0 never waits.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def wait(self) -> None:
        """Return when others are quiet, or when patience has run out."""
        while self.left > 0:
            neighbours = Neighbours()
            time.sleep(_GLANCE)
            if neighbours.cores() <= DISTURBED:
                return
            self.left -= _GLANCE


def _busy_seconds() -> float:
    """Seconds that all cores together have worked since the machine was started."""
    if not _STAT.exists():
        return 0.0
    user, nice, system, _idle, _wait, hard, soft, steal = _STAT.read_text().split()[1:9]
    ticks = sum(map(int, (user, nice, system, hard, soft, steal)))
    return ticks / os.sysconf("SC_CLK_TCK")

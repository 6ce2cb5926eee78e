"""How busy other processes keep the machine while we measure."""

from __future__ import annotations

import os
import time
from pathlib import Path

_STAT = Path("/proc/stat")

# From this many busy cores of others on, a round of measurements counts as disturbed. The
# kernel counts in ticks of 10 ms, so a round of a second is measured to a few hundredths.
DISTURBED = 0.15
_GLANCE = 0.5


class OtherLoad:
    """Cores that other processes kept busy, on average, since this was made.

    Other load slows threaded peers far more than us, because spinning BLAS threads wait for each
    other. Numbers from a busy machine would favor us.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self._others = _busy_seconds() - time.process_time()

    def cores(self) -> float:
        """Return the mean number of cores busy for others; 0 where this is unknown."""
        others = _busy_seconds() - time.process_time() - self._others
        elapsed = time.perf_counter() - self._started
        return max(0.0, others / elapsed) if _STAT.exists() else 0.0


class QuietWait:
    """Wait until other processes are idle, within a total time limit.

    Parameters
    ----------
    seconds : float
        Total limit over all calls; 0 never waits.
    """

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    def wait(self) -> None:
        """Return when other processes are idle or the limit is reached."""
        while self.left > 0:
            load = OtherLoad()
            time.sleep(_GLANCE)
            if load.cores() <= DISTURBED:
                return
            self.left -= _GLANCE


def _busy_seconds() -> float:
    """Return the CPU seconds of all cores since the machine was started."""
    if not _STAT.exists():
        return 0.0
    user, nice, system, _idle, _wait, hard, soft, steal = _STAT.read_text().split()[1:9]
    ticks = sum(map(int, (user, nice, system, hard, soft, steal)))
    return ticks / os.sysconf("SC_CLK_TCK")

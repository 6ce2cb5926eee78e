"""Waiting for other processes on a machine whose cores may be busy."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

# Seconds until a process counts as hung: far more than a busy machine needs.
HANGS = 600


def wait_until(condition: Callable[[], Any]) -> Any:
    """Poll until the condition is true, and return it; there is no time limit to miss."""
    while not (found := condition()):
        time.sleep(0.01)
    return found

"""A cluster as people start it: a scheduler and workers by command line, TCP on loopback."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ByHand:
    """Starts the processes that are missing, and ends all of them."""

    def __init__(self, folder: Path, extra: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
            **(extra or {}),
        }
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self.client: Any = None

    def ready(self, workers: int) -> Any:
        """Return a client of a scheduler with so many workers, whatever was killed before."""
        from distributed import Client

        if self.scheduler is None or self.scheduler.poll() is not None:
            self.end()
            self.address = f"tcp://127.0.0.1:{free_port()}"
            self.scheduler = self._start("dask_scheduler", "--host", self.address)
            self.client = Client(self.address, timeout=60)
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(workers - len(self.workers)):
            self.start_worker()
        self.client.wait_for_workers(workers, timeout=60)
        return self.client

    def start_worker(self) -> None:
        """As `dask worker ADDRESS` does."""
        self.workers.append(
            self._start("dask_worker", self.address, "--nthreads", "1", "--no-nanny")
        )

    def end(self) -> None:
        """Kill what runs."""
        for process in [*self.workers, *([self.scheduler] if self.scheduler else [])]:
            process.kill()
            process.wait()
        self.workers = []
        if self.client is not None:
            self.client.close(timeout=2)

    def _start(self, tool: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{tool}", *options, "--no-dashboard"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

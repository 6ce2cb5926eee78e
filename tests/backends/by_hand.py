"""A cluster as people start it: a scheduler and workers by command line, TCP on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from uuid import uuid4

from tests.waiting import HANGS, wait_until


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
            self.address = self._start_scheduler()
            self.client = Client(self.address, timeout=HANGS)
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        for _ in range(workers - len(self.workers)):
            self.start_worker()
        self.client.wait_for_workers(workers, timeout=HANGS)
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
            self.client.close(timeout=HANGS)

    def _start_scheduler(self) -> str:
        """Start one on a free port that the system chooses, and return its address."""
        told = self.folder / f"scheduler-{uuid4().hex}.json"
        options = ("--host", "tcp://127.0.0.1", "--port", "0", "--scheduler-file", str(told))
        started = self.scheduler = self._start("dask_scheduler", *options)

        def address() -> str | None:
            assert started.poll() is None, "the scheduler ended"
            try:
                return str(json.loads(told.read_text())["address"])
            except (FileNotFoundError, json.JSONDecodeError):
                return None

        return str(wait_until(address))

    def _start(self, tool: str, *options: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{tool}", *options, "--no-dashboard"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

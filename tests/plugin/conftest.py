"""The package in `package/` is installed by the tests, never imported from here."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.plugin.installing import build_wheel, install

collect_ignore_glob = ["package/*"]

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which pip has installed the package."""
    folder = tmp_path_factory.mktemp("plugin")
    wheel = build_wheel(Path(__file__).with_name("package"), folder)
    install(wheel, folder / "site")
    return folder / "site"


@pytest.fixture(scope="session")
def python(installed: Path) -> Run:
    """Run Python where the package is installed."""

    def run(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        paths = [str(installed), *filter(None, [os.environ.get("PYTHONPATH")])]
        done = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            encoding="utf-8",
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(paths),
                "PYTHONUTF8": "1",
                "COLUMNS": "200",
            },
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    return run

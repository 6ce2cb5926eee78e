"""Fixtures that all tests share: where the real data are, and one deterministic Hypothesis."""

from __future__ import annotations

import os

# Before NumPy is imported: BLAS threads of parallel test workers would wait for each other.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


# Folders whose tests start processes or work on more than a toy: `make quick` leaves them out.
MEDIUM_FOLDERS = {
    "backends",
    "docs",
    "examples",
    "faults",
    "fuzz",
    "paper",
    "soak",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder: medium ones, and those of LightGCN."""
    here = Path(__file__).parent
    for item in items:
        folders = item.path.relative_to(here).parts if item.path.is_relative_to(here) else ()
        if MEDIUM_FOLDERS.intersection(folders):
            item.add_marker(pytest.mark.medium)
        if "lightgcn" in folders:
            item.add_marker(pytest.mark.torch)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with `lastfm-2k/` and `ml-1m/`; without it the test is skipped, loudly."""
    folder = os.environ.get("EQUIPOISE_DATA")
    if not folder:
        pytest.skip("EQUIPOISE_DATA is not set: the tests on the paper's data were NOT run")
    if not (Path(folder) / "lastfm-2k" / "user_artists.dat").is_file():
        pytest.fail(f"EQUIPOISE_DATA={folder} holds no lastfm-2k/user_artists.dat")
    return Path(folder)


def pytest_report_header() -> str:
    folder = os.environ.get("EQUIPOISE_DATA")
    return f"EQUIPOISE_DATA: {folder or 'not set, tests on the real data will be skipped'}"

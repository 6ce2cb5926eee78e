"""Fixtures that all tests share: where the real data are, and one deterministic Hypothesis."""

from __future__ import annotations

import os

# Before NumPy is imported: threads of parallel test workers would wait for each other.
for library in ("OPENBLAS", "OMP"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

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
settings.register_profile("quick", settings.get_profile("repeatable"), max_examples=15)


def pytest_configure(config: pytest.Config) -> None:
    """Draw fewer examples where the option `-m` leaves out tests that take long."""
    settings.load_profile("quick" if "not medium" in config.option.markexpr else "repeatable")


# Folders whose tests have one marker: a run that leaves the marker out does not import them.
FOLDERS = {
    # these start processes or work on more than a toy
    **dict.fromkeys(
        ("backends", "docs", "examples", "faults", "fuzz", "paper", "plugin", "soak"), "medium"
    ),
    "browser": "browser",
    "lightgcn": "torch",
}
HERE = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders whose marker the option `-m` excludes by `not`."""
    marker = FOLDERS.get(collection_path.name) if collection_path.is_dir() else None
    return True if marker and f"not {marker}" in config.option.markexpr else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark tests by their folder."""
    for item in items:
        folders = item.path.relative_to(HERE).parts if item.path.is_relative_to(HERE) else ()
        for folder in FOLDERS.keys() & set(folders):
            item.add_marker(FOLDERS[folder])


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

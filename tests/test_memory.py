"""Sizes in bytes, and the one check that a computation fits into memory."""

from __future__ import annotations

import pytest

from equipoise import memory
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import available_memory, format_bytes, parse_bytes, require


@pytest.mark.parametrize("size", ["", "4XB", "-1GB", True, "0", "4 G B", "9" * 99, 10**99])
def test_text_that_is_not_a_size_is_refused(size):
    with pytest.raises(InvalidParameterError, match="is not a size"):
        parse_bytes(size)


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 KB"), (6.66e9, "6.66 GB"), (3e16, "")]
)
def test_sizes_are_shown_in_decimal_units(size, text):
    assert format_bytes(size) == (text or "3e+04 TB")


def test_memory_that_just_fits_or_is_unknown_is_accepted(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 100)
    require(100, "a fit", "Use less.")
    with pytest.raises(InvalidDataError, match=r"101 B .* 100 B .*Use less"):
        require(101, "a fit", "Use less.")
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    require(10**30, "a fit", "Use less.")


def test_a_limit_of_the_caller_replaces_what_the_machine_has(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10**9)
    with pytest.raises(KeyError, match="7 B is available"):
        require(8, "a fit", "Use less.", available=7, error=KeyError)


def test_available_memory_is_read_from_the_system_and_its_container(tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal:  9000 kB\nMemAvailable:    4096 kB\n")
    files = (tmp_path / "meminfo", tmp_path / "max")
    assert available_memory(*files) == 4096 * 1024
    (tmp_path / "max").write_text("max\n")
    assert available_memory(*files) == 4096 * 1024
    (tmp_path / "max").write_text("5000\n")
    assert available_memory(*files) == 5000


def test_available_memory_falls_back_to_physical_memory_or_unknown(monkeypatch, tmp_path):
    files = (tmp_path / "none", tmp_path / "none")
    pages = {"SC_PHYS_PAGES": 100, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", pages.__getitem__, raising=False)
    assert available_memory(*files) == 409_600
    monkeypatch.delattr(memory.os, "sysconf")
    assert available_memory(*files) is None

"""Sizes in bytes, parts of long arrays, and the check that a computation fits into memory."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

from equipoise.exceptions import EquipoiseError, InvalidDataError, InvalidParameterError

_MEMINFO = Path("/proc/meminfo")
_CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
_PREFIXES = ("", "K", "M", "G", "T")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)
# A larger number is a typing error.
_LARGEST = 1e18


def slices(length: int, step: int) -> Iterator[slice]:
    """Yield slices of so many rows or columns at a time.

    Examples
    --------
    >>> list(slices(5, 3))
    [slice(0, 3, None), slice(3, 5, None)]
    """
    for start in range(0, length, step):
        yield slice(start, min(start + step, length))


def parse_bytes(size: str | int, name: str = "memory") -> int:
    """Return a size in bytes.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes(10)
    (4000000000, 1572864, 10)
    """
    found = None if isinstance(size, bool) else _SIZE.fullmatch(str(size))
    if found is None or not 0 < float(found[1]) < _LARGEST:
        shown = str(size) if len(str(size)) <= 40 else f"{str(size)[:40]}…"
        raise InvalidParameterError(
            f"{name}={shown!r} is not a size. Write it like '4GB' or '512MB'."
        )
    base = 1024 if found[3] else 1000
    return int(float(found[1]) * base ** _PREFIXES.index(found[2].upper()))


def format_bytes(size: float) -> str:
    """Return a size with a unit and three significant digits.

    Examples
    --------
    >>> format_bytes(2_500_000_000), format_bytes(12)
    ('2.5 GB', '12 B')
    """
    power = max(p for p in range(len(_PREFIXES)) if p == 0 or size >= 1000**p)
    return f"{size / 1000**power:.3g} {_PREFIXES[power]}B" if power else f"{size:.0f} B"


def available_memory(
    meminfo: Path = _MEMINFO, container_limit: Path = _CONTAINER_LIMIT
) -> int | None:
    """Return how many bytes this process can still allocate; None if that is unknown.

    Linux reports it, caches that it can drop included. Elsewhere all physical memory is counted.
    The limit of a container (cgroup v2) is respected.

    Parameters
    ----------
    meminfo, container_limit : Path
        Files of the system that contain both.
    """
    limits = (_system_memory(meminfo), _container_limit(container_limit))
    return min((limit for limit in limits if limit is not None), default=None)


def require(
    needed: int,
    purpose: str,
    advice: str,
    *,
    available: int | None = None,
    error: type[EquipoiseError] = InvalidDataError,
) -> None:
    """Refuse a computation that does not fit into memory, before anything is allocated.

    Parameters
    ----------
    needed : int
        Bytes that the computation takes at its peak.
    purpose : str
        What takes them: the subject of the error message.
    advice : str
        What to do instead, as a sentence.
    available : int, optional
        Bytes that it may take. By default what this machine can still give.
    error : type
        What to raise.

    Examples
    --------
    >>> require(8 * 10**9, "a dense matrix", "Use fewer items.", available=4 * 10**9)
    Traceback (most recent call last):
    equipoise.exceptions.InvalidDataError: a dense matrix takes about 8 GB of memory, and 4 GB is \
available. Use fewer items.
    """
    limit = available_memory() if available is None else available
    if limit is not None and needed > limit:
        raise error(
            f"{purpose} takes about {format_bytes(needed)} of memory, and {format_bytes(limit)} "
            f"is available. {advice}"
        )


def _system_memory(meminfo: Path) -> int | None:
    with contextlib.suppress(OSError, KeyError, ValueError):
        lines = meminfo.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    with contextlib.suppress(AttributeError, OSError, ValueError):  # Windows has no sysconf
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return None


def _container_limit(path: Path) -> int | None:
    with contextlib.suppress(OSError, ValueError):  # not Linux, no container, or "max"
        return int(path.read_text(encoding="ascii"))
    return None

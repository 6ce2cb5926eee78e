"""Bytes as people write them, and what a fit will need of them."""

from __future__ import annotations

import re

from equipoise.exceptions import InvalidParameterError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE)


def parse_bytes(size: str | int, name: str = "memory") -> int:
    """Return a size in bytes.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes(10)
    (4000000000, 1572864, 10)
    """
    found = None if isinstance(size, bool) else _SIZE.fullmatch(str(size))
    if found is None or not float(found[1]):
        raise InvalidParameterError(f"{name}={size!r} is no size; write it like '4GB' or '512MB'.")
    unit = found[2].upper()
    step = 1024 ** ("", "K", "M", "G", "T").index(unit) if found[3] else _UNITS[unit]
    return int(float(found[1]) * step)


def in_words(size: float) -> str:
    """Return a size as people read it.

    Examples
    --------
    >>> in_words(2_500_000_000), in_words(12)
    ('2.5 GB', '12 B')
    """
    for unit in ("T", "G", "M", "K"):
        if size >= _UNITS[unit]:
            return f"{size / _UNITS[unit]:.3g} {unit}B"
    return f"{size:.0f} B"


def worker_bytes(n_items: int, width: int, threads: int = 1) -> int:
    """What a worker needs for a sweep beside its blocks: V, and three m × b sums a thread.

    A thread holds the sum that it makes and, while it adds two, those two and their total.
    V is weighted in place of being sent twice, and the last sweep is in float64: 8 bytes.
    """
    return 8 * n_items * width * (1 + 3 * threads)


def driver_bytes(n_items: int, columns: int, width: int) -> int:
    """What the process that calls `fit` needs: the Krylov basis in float32, and working copies."""
    return 4 * n_items * (columns + width) + 8 * n_items * 4 * width

"""Bytes as people write them, and what a fit will need of them."""

from __future__ import annotations

import re

from equipoise.exceptions import InvalidParameterError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
# Beyond so many digits a number is a slip, and at some length no float and no text either
_DIGITS = 18
_SIZE = re.compile(
    rf"\s*(\d{{1,{_DIGITS}}}(?:\.\d{{1,{_DIGITS}}})?)\s*([KMGT]?)(i?)B?\s*", re.IGNORECASE
)
_LONGEST_SHOWN = 40


def parse_bytes(size: str | int, name: str = "memory") -> int:
    """Return a size in bytes.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 MiB"), parse_bytes(10)
    (4000000000, 1572864, 10)
    """
    beyond = isinstance(size, int) and abs(size) >= 10**_DIGITS
    text = f"a number of more than {_DIGITS} digits" if beyond else str(size)
    found = None if isinstance(size, bool) else _SIZE.fullmatch(text)
    if found is None or not float(found[1]):
        shown = text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
        raise InvalidParameterError(f"{name}={shown!r} is no size; write it like '4GB' or '512MB'.")
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

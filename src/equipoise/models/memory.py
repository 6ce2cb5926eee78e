"""What dense matrices of items × items may take: what this machine can still give, and no more."""

from __future__ import annotations

import os
from pathlib import Path

from equipoise.exceptions import InvalidDataError

_MEMINFO = Path("/proc/meminfo")

# Such matrices of float64 held at once. On the dense Gram matrix: XᵀX, the same in units of its
# scale, and M. By EASE: XᵀX beside a sparse product of up to 1.5 of them, later the inverse and the
# weights made from it.
_MATRICES = 3


def require_dense_room(n_items: int, who: str, instead: str) -> None:
    """Refuse to form matrices of items × items that this machine cannot hold.

    Raises
    ------
    InvalidDataError
        Before anything is allocated.
    """
    needed, available = _MATRICES * 8 * n_items**2, available_memory()
    if available is not None and needed > available:
        raise InvalidDataError(
            f"{who} forms dense matrices of {n_items:,} × {n_items:,} items, which take about "
            f"{needed / 2**30:.1f} GiB, and {available / 2**30:.1f} GiB are free. {instead}"
        )


def available_memory() -> int | None:
    """Bytes that this machine can still give, all of its memory where only that is known, or None.

    Reads MemAvailable of Linux, which counts caches that would make room; elsewhere asks
    `os.sysconf`. Limits of a container are not looked for.
    """
    try:
        lines = _MEMINFO.read_text(encoding="ascii").splitlines()
        fields = dict(line.split(":", 1) for line in lines)
        return int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return None

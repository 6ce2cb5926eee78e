"""Files appear under their name only when they are whole."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import IO

from equipoise.exceptions import OutputError


def write_whole(path: Path, content: bytes | Callable[[IO[bytes]], None]) -> None:
    """Fill a temporary file beside `path`, flush it to the disk, and only then rename it.

    Parameters
    ----------
    path : Path
        The file to write. What was there before stays until the new one is complete.
    content : bytes or callable
        What to write, or who gets the open binary file and fills it.

    Raises
    ------
    OutputError
        If the disk is full, the folder missing or not writable.
    """
    temporary = path.with_name(f".equipoise-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            if callable(content):
                content(file)
            else:
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:  # Ctrl-C too: half a file must not stay behind
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        if not isinstance(error, OSError):
            raise
        message = (
            f"{path} was not written: {error.strerror}. What was there before is untouched. Free "
            "space on the disk, check that its folder exists and is yours, or write elsewhere."
        )
        raise OutputError(message) from error
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the system can (Windows opens no folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

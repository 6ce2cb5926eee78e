"""Files appear under their name only when they are whole."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from equipoise.exceptions import OutputError


def write_whole(path: Path, content: bytes | Callable[[IO[bytes]], None]) -> None:
    """Fill a temporary file beside `path`, flush it to the disk, and only then rename it.

    A link is followed: the file that it leads to is replaced, and the link stays. What is no
    file (a pipe, ``/dev/stdout``) is written to as it is. A file that is replaced hands its
    permissions on; a new one has those of the umask.

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
    with _explained(path):
        target = _target(path)
        if _is_device(target):
            with _OneWay(io.FileIO(target, "wb")) as device:
                _fill(device, content)
            return
        temporary = target.with_name(f".equipoise-{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                _hand_permissions_on(target, temporary)  # before there is any content to see
                _fill(file, content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:  # Ctrl-C too: half a file must not stay behind
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


class _OneWay(io.BufferedWriter):
    """A device that says where it stands is not to be believed: /dev/null is always at 0."""

    def seekable(self) -> bool:
        return False

    def tell(self) -> int:
        raise io.UnsupportedOperation


def require_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before the hours of work whose result goes there.

    Raises
    ------
    OutputError
        If it is a folder, or its own folder is missing or not writable.
    """
    with _explained(path):
        target = _target(path)
        if not _is_device(target):
            with tempfile.TemporaryFile(dir=target.parent, prefix=".equipoise-"):
                pass


def require_folder(path: Path) -> None:
    """Refuse a folder in which nothing could be written; it need not be there yet.

    Raises
    ------
    OutputError
        If it is a file, or neither it nor the folder that it would be made in is writable.
    """
    with _explained(path):
        there = path.absolute()
        while not (there.exists() or there.is_symlink() or there == there.parent):
            there = there.parent
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there} is no folder")
        with tempfile.TemporaryFile(dir=there, prefix=".equipoise-"):
            pass


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """A folder on the disk of `path` for the pieces of it; gone at the end, whatever happens.

    Raises
    ------
    OutputError
        If there cannot be one, as for `write_whole`.
    """
    with _explained(path):
        target = _target(path)
        beside = None if _is_device(target) else target.parent
        folder = tempfile.TemporaryDirectory(prefix=".equipoise-", dir=beside)
    with folder as name:
        yield Path(name)


def _hand_permissions_on(old: Path, new: Path) -> None:
    """Keep private what is private, where there is an old file."""
    if old.exists():
        mode = stat.S_IMODE(old.stat().st_mode)
        if mode != stat.S_IMODE(new.stat().st_mode):  # some file systems know one mode alone
            new.chmod(mode)


def _fill(file: IO[bytes], content: bytes | Callable[[IO[bytes]], None]) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def _target(path: Path) -> Path:
    """The file itself, where `path` is a link to it; no folder."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # /dev/stdout leads to a pipe that has no path of its own
    return path if _is_device(path) else Path(os.path.realpath(path))


def _is_device(path: Path) -> bool:
    """A pipe, a terminal or another thing with a name that must not be renamed away."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Say of whatever the system refuses which file it was, and what to do."""
    try:
        yield
    except (BrokenPipeError, OutputError):  # a reader that has enough; told already
        raise
    except OSError as error:
        message = (
            f"{path} was not written: {error.strerror or error}. What was there before is "
            "untouched. Free space on the disk, check that its folder exists and is yours, or "
            "write elsewhere."
        )
        raise OutputError(message) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the system can (Windows opens no folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

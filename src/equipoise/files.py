"""Write files atomically: a file gets its name when it is complete."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, TypeAlias, TypeVar

from equipoise.exceptions import InvalidParameterError, OutputError

Format = TypeVar("Format")
Content: TypeAlias = bytes | Callable[[IO[bytes]], None]


def write_whole(path: Path, content: Content) -> None:
    """Fill a temporary file next to `path`, flush it to disk, then rename it.

    A symbolic link is followed: its target is replaced and the link stays. Pipes and devices such
    as ``/dev/stdout`` are written to directly. A replaced file keeps its permissions; a new one
    gets those of the umask.

    Parameters
    ----------
    path : Path
        The file to write. An old file stays until the new one is complete.
    content : bytes or callable
        The content, or a function that writes it to an open binary file.

    Raises
    ------
    OutputError
        If the disk is full, or the folder is missing or not writable.
    """
    with _explained(path):
        target = _target(path)
        if _is_device(target):
            # devices report bogus positions (/dev/null is always at 0), which writers ask for
            with target.open("wb") as device, tempfile.TemporaryFile() as whole:
                _fill(whole, content)
                whole.seek(0)
                shutil.copyfileobj(whole, device)
            return
        temporary = target.with_name(f".equipoise-{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                _copy_permissions(target, temporary)  # before there is content to protect
                _fill(file, content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, target)
        except BaseException:  # also Ctrl-C: remove the incomplete file
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise
    _sync_folder(target.parent)


def by_ending(path: str | os.PathLike[str], formats: Mapping[str, Format]) -> Format:
    """Return what belongs to the ending of an output file, which sets its format.

    Examples
    --------
    >>> by_ending("report.JSON", {".html": "a page", ".json": "text"})
    'text'
    """
    found = formats.get(Path(path).suffix.lower())
    if found is None:
        endings = ", ".join(filter(None, formats))
        raise InvalidParameterError(f"{path}: the ending sets the format; use one of {endings}.")
    return found


def require_writable(path: Path) -> None:
    """Refuse a path that cannot be written, before the computation whose result it will store.

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
    """Refuse a folder that cannot be written to; it need not exist yet.

    Raises
    ------
    OutputError
        If it is a file, or it (or the folder it would be created in) is not writable.
    """
    with _explained(path):
        there = path.absolute()
        while not (there.exists() or there.is_symlink() or there == there.parent):
            there = there.parent
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{there} is not a folder")
        with tempfile.TemporaryFile(dir=there, prefix=".equipoise-"):
            pass


@contextlib.contextmanager
def scratch_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder on the disk of `path`; it is removed at the end.

    Raises
    ------
    OutputError
        As for `write_whole`.
    """
    with _explained(path):
        target = _target(path)
        parent = None if _is_device(target) else target.parent
        folder = tempfile.TemporaryDirectory(prefix=".equipoise-", dir=parent)
    with folder as name:
        yield Path(name)


def _copy_permissions(old: Path, new: Path) -> None:
    """Give a new file the permissions of the file that it replaces, if there is one."""
    if old.exists():
        mode = stat.S_IMODE(old.stat().st_mode)
        if mode != stat.S_IMODE(new.stat().st_mode):  # some file systems have a single mode
            new.chmod(mode)


def _fill(file: IO[bytes], content: Content) -> None:
    if callable(content):
        content(file)
    else:
        file.write(content)


def _target(path: Path) -> Path:
    """Return the file that `path` links to; refuse a folder."""
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    # /dev/stdout may link to a pipe that has no path
    return path if _is_device(path) else Path(os.path.realpath(path))


def _is_device(path: Path) -> bool:
    """Whether a path is a pipe, a terminal or another device, which must not be replaced."""
    return path.exists() and not path.is_file()


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of the system into an `OutputError` that names the file and what to do."""
    try:
        yield
    except (BrokenPipeError, OutputError):  # the reader closed the pipe; already explained
        raise
    except OSError as error:
        if not path.parent.exists():
            raise OutputError(
                f"{path} cannot be written: the folder {path.parent} does not exist. Create it, or "
                "choose another path."
            ) from error
        message = (
            f"{path} was not written: {error.strerror or error}. What was there before is "
            "untouched. Free space on the disk, check that the folder exists and is writable, or "
            "choose another path."
        )
        raise OutputError(message) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power failure, if the system can (Windows cannot)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

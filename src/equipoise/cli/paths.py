"""What a command reads and what it writes: told apart before the work, so that nothing is lost."""

from __future__ import annotations

import glob
import itertools
import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

from equipoise.cli.streams import need_output
from equipoise.exceptions import EquipoiseError, InvalidDataError, InvalidParameterError
from equipoise.files import require_folder, require_writable

_Given = Mapping[str, Path | None]

# Addresses of files on this machine; other URLs lead to none that could be overwritten
_LOCAL_URL = re.compile(r"(?:sqlite(?:\+pysqlite)?:///|file://)(?P<path>[^?]+)", re.IGNORECASE)

# Where the system lists the open files of this process; a shell passes <(command) as one of them
_OPEN_FILES = ("/dev/fd/", "/proc/self/fd/", "/dev/stdin")


class _Named(NamedTuple):
    """A file, and the word of the command line that names it."""

    word: str
    path: Path


def check(
    *,
    outputs: _Given | None = None,
    data: str | None = None,
    file_format: str | None = None,
    inputs: _Given | None = None,
    factors: Sequence[Path] = (),
    folder: Path | None = None,
    printed: bool = False,
) -> None:
    """Refuse outputs that are inputs or one another, and paths that cannot be read or written.

    Parameters
    ----------
    outputs : mapping of str to Path or None
        What will be written, by option.
    data, file_format : str, optional
        DATA and its --format.
    inputs, factors : mapping of str to Path or None, sequence of Path
        What else will be read; a missing file is left to its reader, who says it better.
    folder : Path, optional
        What many files will be written into, such as a cache.
    printed : bool
        Whether the standard output is needed even where files are written.
    """
    written = _given(outputs)
    need_output(printed or not (written or folder))
    beside = [*_given(inputs), *(_Named("--factors", path) for path in factors)]
    for one in beside:
        _require_an_end(one)
    read = [*_files_of(data, file_format), *beside] if written else []
    for output, other in itertools.chain(
        itertools.product(written, read), itertools.combinations(written, 2)
    ):
        if _same(output.path, other.path):
            raise InvalidParameterError(
                f"{output.word} {output.path} is the same file as {other.word} {other.path}, which "
                "would be lost. Write to another file."
            )
    for output in written:
        require_writable(output.path)
    if folder is not None:
        require_folder(folder)


def _given(paths: _Given | None) -> list[_Named]:
    return [_Named(word, path) for word, path in (paths or {}).items() if path is not None]


def _require_an_end(one: _Named) -> None:
    """Refuse devices, which may have no end, and named pipes, which may wait for a writer.

    Users may come through an open pipe, as in ``--users-file <(command)``: they are read once.
    """
    try:
        mode = one.path.stat().st_mode
    except OSError:
        return
    is_open = str(one.path).startswith(_OPEN_FILES)
    read_once = one.word == "--users-file" and stat.S_ISFIFO(mode) and is_open
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode) or read_once):
        raise InvalidDataError(
            f"{one.word} {one.path} is not a regular file but a device, a pipe or a socket. "
            "Give a file."
        )


def _files_of(data: str | None, file_format: str | None) -> Iterator[_Named]:
    """The files on this machine that DATA stands for."""
    from equipoise.data.readers import files, sql

    if data is None:
        return
    local = _LOCAL_URL.match(data)
    if sql.is_url(data) and local is None:
        return
    text = os.path.expanduser(data if local is None else unquote(local["path"]))
    if os.path.isdir(text) or (not os.path.exists(text) and glob.has_magic(text)):
        try:
            found = files.find(text, file_format)
        except EquipoiseError:  # whoever reads them will say the same
            return
        beside = [] if found.names is None else [found.names]
        yield from (_Named("DATA", path) for path in [*found.paths, *beside])
    else:
        yield _Named("DATA", Path(text))


def _same(one: Path, other: Path) -> bool:
    """Whether two paths are one file, by whatever links and spellings; devices are none."""
    if os.path.exists(one) and not os.path.isfile(one):
        return False
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)

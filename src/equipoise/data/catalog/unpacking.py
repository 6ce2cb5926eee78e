"""Unpack the files we know from a zip archive, and refuse an archive that tries anything else."""

from __future__ import annotations

import shutil
import stat
import zipfile
import zlib
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from equipoise.data.catalog.entries import Dataset
from equipoise.exceptions import InvalidDataError, OutputError
from equipoise.files import write_whole

# zipfile bounds what these two unpack by the size they declare; bzip2 and LZMA may fill the memory
_BOUNDED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1
# Files and folders, or nothing said: an archive made elsewhere than on Unix says nothing
_PLAIN = (0, stat.S_IFREG, stat.S_IFDIR)


def unpack(dataset: Dataset, archive: Path, folder: Path) -> None:
    """Unpack the members that `dataset` names into `folder`, the interactions last.

    The whole archive is looked through before the first file is written, and each file appears
    under its name only when it is whole.
    """
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = _checked(dataset, zipped)
            _make(folder)
            for member in members:
                name = PurePosixPath(member.filename).name
                write_whole(folder / name, partial(_copy, zipped, member))
    except InvalidDataError:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, ValueError) as error:
        raise InvalidDataError(
            f"{archive} is no whole zip archive ({error}). Delete it and download it again."
        ) from error


def _checked(dataset: Dataset, zipped: zipfile.ZipFile) -> list[zipfile.ZipInfo]:
    there = zipped.infolist()
    for member in there:
        _refuse_hostile(member, zipped)
    names = [member.filename for member in there]
    for name in dataset.members:
        if names.count(name) != 1:
            raise InvalidDataError(
                f"{zipped.filename} holds {name} {names.count(name)} times, and {dataset.name} "
                "needs it once. It is not the publisher's archive; delete it."
            )
    wanted = (dataset.readme, *dataset.members)
    members = [zipped.getinfo(name) for name in wanted if name in names]
    total = sum(member.file_size for member in members)
    if total > dataset.unpacked_limit:
        raise InvalidDataError(
            f"{zipped.filename} would unpack to {total:,} bytes; {dataset.name} has at most "
            f"{dataset.unpacked_limit:,}. It is not the publisher's archive; delete it."
        )
    return members


def _refuse_hostile(member: zipfile.ZipInfo, zipped: zipfile.ZipFile) -> None:
    path = PurePosixPath(member.filename.replace("\\", "/"))
    trick = None
    if path.is_absolute() or ".." in path.parts or ":" in member.filename:
        trick = "leads out of its folder"
    elif stat.S_IFMT(mode := member.external_attr >> 16) not in _PLAIN:
        trick = "is a symbolic link" if stat.S_ISLNK(mode) else "is a device, no file"
    elif member.flag_bits & _ENCRYPTED:
        trick = "is encrypted"
    elif member.compress_type not in _BOUNDED:
        trick = "is packed by a method whose size cannot be bounded"
    if trick:
        raise InvalidDataError(
            f"{zipped.filename}: {member.filename!r} {trick}. Nothing was unpacked. It is not the "
            "publisher's archive; delete it."
        )


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"the folder {folder} cannot be made: {error.strerror}. Name another with --out."
        ) from error


def _copy(zipped: zipfile.ZipFile, member: zipfile.ZipInfo, file: IO[bytes]) -> None:
    with zipped.open(member) as source:
        shutil.copyfileobj(source, file, 1 << 20)

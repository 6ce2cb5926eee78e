"""Read .npy files, and zip archives of them, from sources that may be damaged or malicious.

Pickled objects are never loaded, and archives that unpack to far more than their size are refused.
"""

from __future__ import annotations

import hashlib
import math
import struct
import zipfile
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

_CHUNK = 1 << 20
#: bytes from which on an array is worth a mapping of its own
MAPPED_FROM = 1 << 20
# Learned numbers hardly shrink when they are compressed, and zeros by a factor of some tens. An
# archive that unpacks to more than both limits was made to exhaust the memory.
_MAX_UNPACKED, _MAX_RATIO = 1 << 28, 64


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of an .npy file."""
    with path.open("rb") as file:
        return npy.read_array(file, allow_pickle=False)


class ArrayArchive:
    """A zip archive of .npy files (.npz, a saved model); a context manager.

    Parameters
    ----------
    path : Path
        The archive. It is refused if it would unpack to far more than the file's size.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        unpacked = sum(entry.file_size for entry in self._zip.infolist())
        limit = max(_MAX_UNPACKED, _MAX_RATIO * path.stat().st_size)
        if unpacked > limit:
            self._zip.close()
            raise ValueError(
                f"it would unpack to {unpacked:,} bytes, more than the {limit:,} bytes allowed "
                "for a file of this size"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def entries(self) -> list[str]:
        """Names of all entries."""
        return self._zip.namelist()

    @property
    def digest(self) -> str:
        """Twelve letters that are equal for equal content: names, sizes and checksums, hashed."""
        facts = [(entry.filename, entry.file_size, entry.CRC) for entry in self._zip.infolist()]
        return hashlib.sha256(repr(sorted(facts)).encode()).hexdigest()[:12]

    @property
    def names(self) -> list[str]:
        """Names of the arrays, without ".npy"."""
        return [name.removesuffix(".npy") for name in self.entries if name.endswith(".npy")]

    def read(self, entry: str) -> bytes:
        """Return the content of an entry."""
        return self._zip.read(entry)

    def check(self, entry: str) -> None:
        """Read an entry to its end, where its checksum is compared."""
        with self._zip.open(entry) as file:
            while file.read(_CHUNK):
                pass

    def is_pickled(self, name: str) -> bool:
        """Whether an array holds pickled objects, which are never loaded."""
        return self._header(name).dtype.hasobject

    def mapped(self, name: str) -> NDArray[Any]:
        """Return a read-only array in the file's pages, which processes share; small ones are read.

        The file may be replaced by renaming another one to its name, and must not be overwritten.
        """
        info = self._zip.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size < MAPPED_FROM:
            return self.array(name)
        shape, fortran, dtype, start = self._header(name)
        if dtype.hasobject:  # the bytes of the file would become pointers
            raise ValueError(f"{name} holds pickled objects, which are never loaded")
        if math.prod(shape) * dtype.itemsize > info.file_size - start:
            raise ValueError(f"{name} is shorter than its header claims")
        opened: Any = self._zip.fp  # not the path, which may name another file by now
        opened.seek(info.header_offset)
        name_length, extra_length = struct.unpack("<HH", opened.read(30)[26:])
        content = info.header_offset + 30 + name_length + extra_length
        order: Any = "F" if fortran else "C"
        return np.asarray(np.memmap(opened, dtype, "r", content + start, shape, order))

    def array(self, name: str) -> NDArray[Any]:
        """Return one array; its checksum is compared when its last byte is read."""
        with self._zip.open(f"{name}.npy") as file:
            return npy.read_array(file, allow_pickle=False)

    def _header(self, name: str) -> _Header:
        with self._zip.open(f"{name}.npy") as file:
            old = npy.read_magic(file) == (1, 0)
            read = npy.read_array_header_1_0 if old else npy.read_array_header_2_0
            return _Header(*read(file), file.tell())


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]
    start: int  # of the first number

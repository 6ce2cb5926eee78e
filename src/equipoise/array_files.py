"""Read .npy files, and zip archives of them, from sources that may be damaged or malicious.

NumPy allocates whatever a header claims and can unpickle objects. Here every claim is compared with
the size of the file before memory is allocated, and objects are refused.
"""

from __future__ import annotations

import hashlib
import math
import os
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, Self

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from equipoise.exceptions import EquipoiseError, InvalidDataError

_CHUNK = 1 << 20
#: bytes from which on an array is worth a mapping of its own
MAPPED_FROM = 1 << 20
# Learned numbers hardly shrink when they are compressed, and zeros by a factor of some tens. An
# archive that unpacks to more than both limits was made to exhaust the memory.
_MAX_UNPACKED, _MAX_RATIO = 1 << 28, 64
# Everything that zipfile, zlib, json and NumPy raise on damaged input
_DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OSError,
    EOFError,
    SyntaxError,
    RuntimeError,
    OverflowError,
    MemoryError,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
)


@contextmanager
def refuse_damage(
    path: Path, kind: str, advice: str, error: type[EquipoiseError] = InvalidDataError
) -> Iterator[None]:
    """Turn whatever a parser raises on a damaged file into one error that names the file.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        The expected kind, e.g. "an equipoise model".
    advice : str
        What to do, as a sentence.
    error : type
        What to raise.
    """
    try:
        yield
    except error:
        raise
    except _DAMAGE as problem:
        reason = (" ".join(str(problem).split()) or type(problem).__name__).rstrip(".")
        raise error(f"{path} cannot be read as {kind}: {reason}. {advice}") from problem


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of an .npy file."""
    with path.open("rb") as file:
        _check_claim(file, os.fstat(file.fileno()).st_size)
        file.seek(0)
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

    def shape(self, name: str) -> tuple[int, ...]:
        """Return an array's shape without reading the array."""
        with self._zip.open(f"{name}.npy") as file:
            return _read_header(file).shape

    def mapped(self, name: str) -> NDArray[Any]:
        """Return a read-only array in the file's pages, which processes share; small ones are read.

        The file may be replaced by renaming another one to its name, and must not be overwritten.
        """
        info = self._zip.getinfo(f"{name}.npy")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size < MAPPED_FROM:
            return self.array(name)
        with self._zip.open(info) as file:
            shape, fortran, dtype = _read_header(file)
            start = file.tell()
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
        entry = f"{name}.npy"
        with self._zip.open(entry) as file:
            _check_claim(file, self._zip.getinfo(entry).file_size)
        with self._zip.open(entry) as file:  # seeking back would switch the checksum off
            return npy.read_array(file, allow_pickle=False)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    fortran_order: bool
    dtype: np.dtype[Any]


def _read_header(file: IO[bytes]) -> _Header:
    """Read the header of an .npy file; the first number follows."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the .npy format is not supported")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    header = _Header(*read(file))
    if header.dtype.hasobject:
        raise ValueError("it holds pickled objects, which are never loaded")
    if any(type(length) is not int or length < 0 for length in header.shape):
        raise ValueError(f"{header.shape} is not a shape")
    return header


def _check_claim(file: IO[bytes], size: int) -> None:
    shape, _, dtype = _read_header(file)
    claimed, left = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed > left:
        raise ValueError(
            f"its header claims an array of shape {shape}, {claimed:,} bytes, but {left:,} follow"
        )

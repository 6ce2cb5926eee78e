"""Read .npy files, and zip archives of them, from sources that may be damaged or malicious.

NumPy allocates whatever a header claims and can unpickle objects. Here every claim is compared with
the size of the file before memory is allocated, and objects are refused.
"""

from __future__ import annotations

import hashlib
import math
import os
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
_ENCRYPTED = 0x1
# Learned numbers hardly shrink when they are compressed, and zeros by a factor of some tens. An
# archive that unpacks to more than both limits was made to exhaust the memory.
_MAX_UNPACKED, _MAX_RATIO = 1 << 28, 64
# Everything that zipfile, zlib, json and NumPy raise on damaged input
_DAMAGE = (
    ValueError,
    TypeError,
    KeyError,
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
        return _read_array(file, os.fstat(file.fileno()).st_size)


class ArrayArchive:
    """A zip archive of .npy files (.npz, a saved model); a context manager.

    Parameters
    ----------
    path : Path
        The archive. It is refused here if its entries are encrypted, repeated, compressed by a
        method whose output cannot be bounded, or would unpack to far more than the file's size.
    """

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        try:
            self._check(path.stat().st_size)
        except BaseException:
            self._zip.close()
            raise

    def _check(self, size: int) -> None:
        entries = self._zip.infolist()
        if len({entry.filename for entry in entries}) < len(entries):
            raise ValueError("two entries have the same name")
        for entry in entries:
            if entry.flag_bits & _ENCRYPTED:
                raise ValueError(f"{entry.filename} is encrypted")
            # Python stops these two at the declared size; other methods could fill the memory
            if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError(f"{entry.filename} is compressed by a method NumPy does not use")
        unpacked, limit = sum(e.file_size for e in entries), max(_MAX_UNPACKED, _MAX_RATIO * size)
        if unpacked > limit:
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
    def names(self) -> list[str]:
        """Names of the arrays, without ".npy"."""
        return [name.removesuffix(".npy") for name in self.entries if name.endswith(".npy")]

    def read(self, entry: str) -> bytes:
        """Return the content of an entry."""
        return self._zip.read(entry)

    def sha256(self, entry: str) -> str:
        """Return the hash of an entry's content; its CRC is checked too."""
        digest = hashlib.sha256()
        with self._zip.open(entry) as file:
            while piece := file.read(_CHUNK):
                digest.update(piece)
        return digest.hexdigest()

    def shape(self, name: str) -> tuple[int, ...]:
        """Return an array's shape without reading the array."""
        with self._zip.open(f"{name}.npy") as file:
            return _read_header(file).shape

    def array(self, name: str) -> NDArray[Any]:
        """Return an array."""
        with self._zip.open(f"{name}.npy") as file:
            return _read_array(file, self._zip.getinfo(f"{name}.npy").file_size)


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


def _read_array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array of a file with `size` bytes."""
    shape, _, dtype = _read_header(file)
    claimed, left = math.prod(shape) * dtype.itemsize, size - file.tell()
    if claimed > left:
        raise ValueError(
            f"its header claims an array of shape {shape}, {claimed:,} bytes, but {left:,} follow"
        )
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array

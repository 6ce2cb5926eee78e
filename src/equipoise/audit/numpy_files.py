"""NumPy's files from strangers: headers are believed only as far as the file bears them out."""

from __future__ import annotations

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

from equipoise.exceptions import InvalidDataError

# Numbers that a model learned hardly shrink when they are packed, and zeros by a factor of some
# tens. What unpacks to more than either of these was made to fill the memory.
_LARGEST_UNPACKED, _LARGEST_RATIO = 1 << 28, 64
_ENCRYPTED = 0x1
# All that NumPy and Python's zip reader raise on damaged input
_DAMAGE = (
    ValueError,
    TypeError,
    EOFError,
    OSError,
    KeyError,
    SyntaxError,
    OverflowError,
    RuntimeError,
    MemoryError,
    RecursionError,
    zipfile.BadZipFile,
    zlib.error,
    tokenize.TokenError,
)


class _Header(NamedTuple):
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_array(path: Path) -> NDArray[Any]:
    """Return the array of an .npy file; refuse one that claims more than the file holds."""
    with reading(path), path.open("rb") as file:
        return _array(file, os.fstat(file.fileno()).st_size)


class NumpyArchive:
    """The arrays of an .npz file by name; a context manager.

    Nothing is unpacked before its header was read and its size found within bounds.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with reading(path):
            self._zip = zipfile.ZipFile(path)
        self._bound = max(_LARGEST_UNPACKED, _LARGEST_RATIO * path.stat().st_size)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._zip.close()

    @property
    def names(self) -> list[str]:
        """The arrays' names."""
        entries = (name for name in self._zip.namelist() if name.endswith(".npy"))
        return [name.removesuffix(".npy") for name in entries]

    def shape(self, name: str) -> tuple[int, ...]:
        """Return an array's shape without reading the array."""
        with reading(self._path), self._opened(name) as file:
            return _header(file).shape

    def array(self, name: str) -> NDArray[Any]:
        """Return an array."""
        with reading(self._path), self._opened(name) as file:
            return _array(file, self._zip.getinfo(f"{name}.npy").file_size)

    def _opened(self, name: str) -> IO[bytes]:
        entry = self._zip.getinfo(f"{name}.npy")
        if entry.file_size > self._bound:
            raise ValueError(
                f"{name} would unpack to {entry.file_size:,} bytes, more than "
                f"{self._bound:,} are taken from a file of this size"
            )
        if entry.flag_bits & _ENCRYPTED:
            raise ValueError(f"{name} is encrypted")
        # Python bounds what these two unpack by the declared size; others may fill the memory
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name} is packed by a method that NumPy does not use")
        return self._zip.open(entry)


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Refuse what is broken or pickled, naming the file."""
    try:
        yield
    except InvalidDataError:
        raise
    except _DAMAGE as error:
        reason = (" ".join(str(error).split()) or type(error).__name__).rstrip(".")
        raise InvalidDataError(
            f"{path} cannot be read as NumPy arrays: {reason}. Pickled objects are refused; save "
            "the bare matrix with numpy.save or numpy.savez."
        ) from error


def _header(file: IO[bytes]) -> _Header:
    """Read what the array claims to be; the file stands at its first number then."""
    version = npy.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version} of the format is not read")
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, _, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("it holds pickled objects")
    if any(type(length) is not int or length < 0 for length in shape):
        raise ValueError(f"{shape} is no shape")
    return _Header(shape, dtype)


def _array(file: IO[bytes], size: int) -> NDArray[Any]:
    """Read the array of a file of this size, which is checked before anything is allocated."""
    shape, dtype = _header(file)
    claimed = math.prod(shape) * dtype.itemsize
    there = size - file.tell()
    if claimed > there:
        raise ValueError(
            f"its header claims an array of shape {shape}, {claimed:,} bytes, and {there:,} follow"
        )
    file.seek(0)
    array: NDArray[Any] = npy.read_array(file, allow_pickle=False)
    return array

"""Reading a model file: nothing is used before it is verified."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from equipoise.data.structure import is_sound
from equipoise.exceptions import ArtefactError
from equipoise.models.persistence.format import (
    CSR_PARTS,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MAX_DIMENSIONS,
    OBJECT,
    Artefact,
    decode,
    file_name,
    json_bytes,
    npy_header,
    sha256_of,
    storable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_CHUNK = 2**20

# The type of every field of the manifest, and of every array declared in it.
_FIELDS = {
    "format": str,
    "format_version": int,
    "equipoise_version": str,
    "model": str,
    "parameters": dict,
    "scalars": dict,
    "arrays": dict,
    "csr": list,
    "sha256": str,
}

_ARRAY_FIELDS = {"dtype": str, "shape": list, "bytes": int, "sha256": str}

# All that Python's zip reader raises on damaged input, besides `BadZipFile`: an encrypted or
# unknown entry (RuntimeError), an offset outside the file (OSError, ValueError); and NumPy's
# TypeError about a dtype that does not exist.
_DAMAGE = (
    zipfile.BadZipFile,
    OSError,
    EOFError,
    ValueError,
    RuntimeError,
    TypeError,
    OverflowError,
)


def read_artefact(path: str | os.PathLike[str]) -> Artefact:
    """Read a model file, and refuse it unless every byte that matters is as it was written.

    Raises
    ------
    ArtefactError
        If the file is missing, foreign, truncated, edited, or of a newer format.
    """
    path = Path(path)
    try:
        _refuse_device(path)
        with path.open("rb") as file:
            return _read_zip(path, file)
    except FileNotFoundError as error:
        message = f"{path}: there is no such file. Check the path, or save the model there first."
        raise ArtefactError(message) from error
    except IsADirectoryError as error:
        message = f"{path} is a folder; a saved model is one file. Give the path of that file."
        raise ArtefactError(message) from error
    except OSError as error:
        message = f"{path} cannot be read: {error.strerror}. Check the disk and your permissions."
        raise ArtefactError(message) from error


def _refuse_device(path: Path) -> None:
    """Before it is opened: a pipe would wait for a writer, and a device has no end."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        message = (
            f"{path} is no regular file but a device, a pipe or a socket; a saved model is one "
            "file. Give the path of that file."
        )
        raise ArtefactError(message)


def _read_zip(path: Path, file: IO[bytes]) -> Artefact:
    """Verify, then load. Checks below raise a bare `ValueError`; the file is named here."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_entries(archive, os.fstat(file.fileno()).st_size)
            manifest = _read_manifest(path, archive)
            flat = {name: _read_array(archive, name, d) for name, d in manifest["arrays"].items()}
            return Artefact(
                manifest["model"],
                decode(manifest["parameters"]),
                decode(manifest["scalars"]),
                _join_csr(flat, manifest["csr"]),
                manifest["equipoise_version"],
            )
    except ArtefactError:
        raise
    except _DAMAGE as error:
        message = (
            f"{path} is no whole model file: {error}. "
            "Copy it again from where it came, or save the model again."
        )
        raise ArtefactError(message) from error


def _require(condition: bool, problem: str) -> None:
    if not condition:
        raise ValueError(problem)


def _check_entries(archive: zipfile.ZipFile, file_size: int) -> None:
    """Bound what reading may allocate by the size of the file itself."""
    entries = archive.infolist()
    for entry in entries:
        stored = entry.compress_type == zipfile.ZIP_STORED
        _require(
            stored and entry.file_size == entry.compress_size,
            f"entry {entry.filename!r} is compressed, and equipoise never writes those",
        )
    _require(len(set(archive.namelist())) == len(entries), "two entries have the same name")
    _require(sum(e.file_size for e in entries) <= file_size, "its entries overlap")
    _require(MANIFEST in archive.namelist(), f"it has no {MANIFEST}, so equipoise never wrote it")


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    raw = archive.read(MANIFEST)
    manifest: dict[str, Any] = json.loads(raw)
    _require(
        isinstance(manifest, dict) and manifest.get("format") == FORMAT,
        f"its {MANIFEST} is not that of an equipoise model",
    )
    version = manifest.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        message = (
            f"{path} was written by a newer equipoise (format {version}; this one reads up to "
            f"{FORMAT_VERSION}). Upgrade: pip install --upgrade equipoise"
        )
        raise ArtefactError(message)
    _check_fields(manifest, _FIELDS, MANIFEST)
    _require(version == FORMAT_VERSION, f"there is no format version {version}")
    unsealed = {key: value for key, value in manifest.items() if key != "sha256"}
    _require(
        manifest["sha256"] == sha256_of(json_bytes(unsealed)) and raw == json_bytes(manifest, 2),
        f"its {MANIFEST} was edited",
    )
    _check_arrays(manifest, set(archive.namelist()))
    return manifest


def _check_fields(record: Any, fields: Mapping[str, type], where: str) -> None:
    _require(isinstance(record, dict) and set(record) == set(fields), f"{where} has other fields")
    for key, kind in fields.items():
        _require(type(record[key]) is kind, f"field {key!r} of {where} is no {kind.__name__}")


def _check_arrays(manifest: dict[str, Any], found: set[str]) -> None:
    arrays, csr = manifest["arrays"], manifest["csr"]
    for name, declared in arrays.items():
        _check_fields(declared, _ARRAY_FIELDS, f"array {name!r}")
        sound = all(type(size) is int and size >= 0 for size in declared["shape"])
        _require(sound and len(declared["shape"]) <= MAX_DIMENSIONS, f"shape of {name!r} is wrong")
    files = {file_name(name, declared["dtype"]) for name, declared in arrays.items()}
    missing, extra = sorted(files - found), sorted(found - files - {MANIFEST})
    _require(not missing, f"entry {missing[:1]} is missing")
    _require(not extra, f"entry {extra[:1]} is not declared in its {MANIFEST}")
    parts = {f"{name}.{part}" for name in csr for part in CSR_PARTS}
    _require(parts == {name for name in arrays if "." in name}, "its sparse matrices lack parts")


def _read_array(archive: zipfile.ZipFile, name: str, declared: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = declared["dtype"], tuple(declared["shape"])
    entry = archive.getinfo(file_name(name, dtype))
    _require(entry.file_size == declared["bytes"], f"{entry.filename!r} has not its declared size")
    if dtype == OBJECT:
        raw = archive.read(entry)
        array, digest = _decode_ids(name, raw, shape), sha256_of(raw)
    else:
        array = _empty_array(name, declared)
        digest = _fill(array, archive.open(entry), npy_header(dtype, shape))
    _require(digest == declared["sha256"], f"{entry.filename!r} has not its declared sha256")
    return array


def _empty_array(name: str, declared: dict[str, Any]) -> NDArray[Any]:
    """Allocate an array, once its declared shape agrees with its declared size."""
    text, shape = declared["dtype"], tuple(declared["shape"])
    _require(re.fullmatch(r"[<>|]\w+(\[\w+\])?", text) is not None, f"dtype of {name!r} is wrong")
    dtype = np.dtype(text)
    _require(storable(dtype) and dtype.str == text, f"dtype {text} of {name!r} is not allowed")
    size = len(npy_header(text, shape)) + math.prod(shape) * dtype.itemsize
    _require(size == declared["bytes"], f"shape and size of {name!r} disagree")
    return np.empty(shape, dtype)


def _fill(array: NDArray[Any], file: IO[bytes], header: bytes) -> str:
    """Read an ``.npy`` into `array`, to the end so that its CRC is checked; return its sha256."""
    body = array.reshape(-1).view(np.uint8)
    with file:
        _require(file.read(len(header)) == header, "an array's header is not the declared one")
        digest, filled = hashlib.sha256(header), 0
        while piece := file.read(_CHUNK):
            body[filled : filled + len(piece)] = np.frombuffer(piece, np.uint8)
            digest.update(piece)
            filled += len(piece)
    return digest.hexdigest()


def _decode_ids(name: str, raw: bytes, shape: tuple[int, ...]) -> NDArray[Any]:
    values = decode(json.loads(raw))
    _require(isinstance(values, list) and shape == (len(values),), f"length of {name!r} is wrong")
    plain = not any(isinstance(value, list | tuple | dict) for value in values)
    _require(plain, f"array {name!r} holds more than plain values")
    array = np.empty(shape, dtype=object)
    array[:] = values
    return array


def _join_csr(flat: dict[str, NDArray[Any]], names: list[str]) -> dict[str, Any]:
    from scipy.sparse import csr_array

    arrays: dict[str, Any] = {name: array for name, array in flat.items() if "." not in name}
    for name in names:
        data, indices, indptr, shape = (flat[f"{name}.{part}"] for part in CSR_PARTS)
        whole = indices.dtype.kind == indptr.dtype.kind == shape.dtype.kind == "i"
        _require(whole, f"indices of {name!r} are no whole numbers")
        matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        _require(is_sound(matrix), f"indices of {name!r} lead outside of it")
        _require(matrix.nnz == len(data) == len(indices), f"{name!r} has entries outside its rows")
        matrix.indices, matrix.indptr = indices, indptr  # SciPy may have narrowed their type
        arrays[name] = matrix
    return arrays

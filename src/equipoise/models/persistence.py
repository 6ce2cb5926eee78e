"""A saved model is one file: written whole or not at all, verified before use, no pickle.

The file is a zip without compression: one ``.npy`` per array (ids of mixed types as JSON) and a
``manifest.json`` with the sha256, size, dtype and shape of each. Entries are sorted and carry a
fixed date, so equal models are equal bytes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from equipoise.exceptions import ArtefactError

if TYPE_CHECKING:
    from numpy.typing import NDArray

JSONValue: TypeAlias = (
    "bool | int | float | str | list[JSONValue] | tuple[JSONValue, ...]"
    " | dict[str, JSONValue] | None"
)

FORMAT = "equipoise-model"
FORMAT_VERSION = 1
_MANIFEST = "manifest.json"
_OBJECT = "object"
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_CHUNK = 2**20
_MAX_DIMENSIONS = 32  # the most that every NumPy we support can hold
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


@dataclass(frozen=True)
class Artefact:
    """What a model file holds.

    Attributes
    ----------
    model : str
        Name of the model's class.
    parameters, scalars : dict
        Constructor arguments, and learned numbers.
    arrays : dict
        Learned arrays and ids; sparse matrices as ``csr_array``.
    version : str
        The version of equipoise that wrote the file.
    """

    model: str
    parameters: dict[str, Any]
    scalars: dict[str, Any]
    arrays: dict[str, Any]
    version: str


def write_artefact(
    path: str | os.PathLike[str],
    *,
    model: str,
    parameters: Mapping[str, JSONValue],
    scalars: Mapping[str, JSONValue],
    arrays: Mapping[str, NDArray[Any]],
) -> Path:
    """Save a model to one file, which appears under its name only when it is whole.

    Parameters
    ----------
    path : path-like
        The file to write. What was there before stays until the new file is complete.
    model : str
        Name of the model's class.
    parameters, scalars : mapping
        JSON values; NaN, infinities and tuples are kept, NumPy scalars become Python's.
    arrays : mapping
        Arrays of numbers, bool, dates or text; 1-D object arrays of str, int, float, bool and
        None; SciPy CSR matrices (read back as ``csr_array``).

    Raises
    ------
    ArtefactError
        If a value cannot be stored, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_artefact(
    ...         Path(folder) / "pca.model", model="VanillaPCA", parameters={"rank": 2},
    ...         scalars={"gap": float("inf")}, arrays={"U": np.eye(3)[:, :2]},
    ...     )
    ...     saved = read_artefact(path)
    >>> saved.model, saved.scalars, saved.arrays["U"].shape
    ('VanillaPCA', {'gap': inf}, (3, 2))
    """
    path = Path(path)
    flat, csr = _split_csr(arrays)
    entries = {name: _entry(name, array) for name, array in flat.items()}
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "equipoise_version": metadata.version("equipoise"),
        "model": model,
        "parameters": _encode(dict(parameters), "parameters"),
        "scalars": _encode(dict(scalars), "scalars"),
        "arrays": {name: entry.declared for name, entry in entries.items()},
        "csr": sorted(csr),
    }
    sealed = _json_bytes({**manifest, "sha256": _sha256(_json_bytes(manifest))}, 2)
    contents = {_file_name(name, e.declared["dtype"]): e.pieces for name, e in entries.items()}
    _write_whole(path, lambda file: _write_zip(file, {**contents, _MANIFEST: (sealed,)}))
    return path


def read_artefact(path: str | os.PathLike[str]) -> Artefact:
    """Read a model file, and refuse it unless every byte that matters is as it was written.

    Raises
    ------
    ArtefactError
        If the file is missing, foreign, truncated, edited, or of a newer format.
    """
    path = Path(path)
    try:
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


# ---------------------------------------------------------------------------- what is stored


@dataclass(frozen=True)
class _Entry:
    """One array: how the manifest declares it, and the pieces of its file in the zip."""

    declared: dict[str, Any]
    pieces: tuple[bytes | memoryview, ...]


def _split_csr(arrays: Mapping[str, Any]) -> tuple[dict[str, NDArray[Any]], list[str]]:
    """Lay out each sparse matrix as four plain arrays, ``name.data`` to ``name.shape``."""
    flat: dict[str, NDArray[Any]] = {}
    csr = []
    for name, array in arrays.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            message = f"array name {name!r} is not an identifier. Use letters, digits and '_'."
            raise ArtefactError(message)
        if getattr(array, "format", None) == "csr":
            csr.append(name)
            for part in _CSR_PARTS:
                flat[f"{name}.{part}"] = np.asarray(getattr(array, part))
        elif isinstance(array, np.ndarray):
            flat[name] = array
        else:
            message = (
                f"array {name!r} is a {type(array).__name__}, which a model file cannot hold. "
                "Pass a NumPy array or a SciPy CSR matrix."
            )
            raise ArtefactError(message)
    return flat, csr


def _entry(name: str, array: NDArray[Any]) -> _Entry:
    pieces: tuple[bytes | memoryview, ...]
    if array.dtype == object:
        pieces = (_json_bytes(_encode_ids(name, array)),)
        dtype = _OBJECT
    else:
        if not _storable(array.dtype) or array.ndim > _MAX_DIMENSIONS:
            message = (
                f"array {name!r} has dtype {array.dtype} and {array.ndim} dimensions, which a "
                "model file cannot hold. Use numbers up to 64 bits, bool, dates or text."
            )
            raise ArtefactError(message)
        dtype = array.dtype.str
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        pieces = (_npy_header(dtype, array.shape), body.data)
    declared = {
        "dtype": dtype,
        "shape": list(array.shape),
        "bytes": sum(len(piece) for piece in pieces),
        "sha256": _sha256(*pieces),
    }
    return _Entry(declared, pieces)


def _storable(dtype: np.dtype[Any]) -> bool:
    """Tell plain dtypes of one width on every platform (so no long double) from the rest."""
    return (
        dtype.kind in "biufmMU"
        and dtype.itemsize > 0
        and (dtype.kind == "U" or dtype.itemsize <= 8)
    )


def _npy_header(dtype: str, shape: tuple[int, ...]) -> bytes:
    """Write the header of NumPy's format 1.0, padded as it asks to a multiple of 64 bytes.

    Ours, because NumPy's own padding has changed over its versions and equal models shall be
    equal bytes; and because to compare headers byte by byte is safer than to parse them.
    """
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode("latin1")
    padded = text + b" " * (-(10 + len(text) + 1) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


def _file_name(name: str, dtype: str) -> str:
    return f"arrays/{name}.{'json' if dtype == _OBJECT else 'npy'}"


def _sha256(*pieces: bytes | memoryview) -> str:
    digest = hashlib.sha256()
    for piece in pieces:
        digest.update(piece)
    return digest.hexdigest()


def _json_bytes(value: Any, indent: int | None = None) -> bytes:
    return json.dumps(value, sort_keys=True, indent=indent, allow_nan=False).encode("ascii")


def _encode(value: Any, where: str) -> Any:
    """Write a value in JSON, tagging what JSON has no word for."""
    if type(value) is tuple:
        return {"$tuple": _encode(list(value), where)}
    if type(value) is list:
        return [_encode(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if type(value) is dict and all(type(k) is str and not k.startswith("$") for k in value):
        return {key: _encode(item, f"{where}[{key!r}]") for key, item in value.items()}
    return _encode_scalar(value, where)


def _encode_scalar(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is float and not math.isfinite(value):
        return {"$float": str(value)}
    if value is None or type(value) in (bool, float, str):
        return value
    # Python refuses to print integers of some thousand digits; ids need far fewer.
    if type(value) is int and value.bit_length() <= 4096:
        return value
    message = (
        f"{where} is of type {type(value).__name__}, which a model file cannot hold. "
        "Use None, bool, int (of at most 4096 bits), float or str."
    )
    raise ArtefactError(message)


def _encode_ids(name: str, array: NDArray[Any]) -> list[Any]:
    if array.ndim != 1:
        message = f"array {name!r} of objects has {array.ndim} dimensions. Pass a 1-D array."
        raise ArtefactError(message)
    return [_encode_scalar(value, f"array {name!r}, element {i},") for i, value in enumerate(array)]


def _decode(value: Any) -> Any:
    match value:
        case {"$float": "nan" | "inf" | "-inf" as text, **rest} if not rest:
            return float(text)
        case {"$tuple": [*items], **rest} if not rest:
            return tuple(_decode(item) for item in items)
        case [*items]:
            return [_decode(item) for item in items]
        case {**fields} if any(str(key).startswith("$") for key in fields):
            raise ValueError(f"the manifest holds an unknown tag in {value!r:.60}")
        case {**fields}:
            return {key: _decode(item) for key, item in fields.items()}
    return value


# ------------------------------------------------------------------------------------ writing


def _write_whole(path: Path, write: Callable[[IO[bytes]], None]) -> None:
    """Fill a temporary file beside `path`, flush it to the disk, and only then rename it."""
    temporary = path.with_name(f".equipoise-{secrets.token_hex(8)}.tmp")
    try:
        with temporary.open("xb") as file:
            write(file)
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
            "space on the disk, check that its folder exists and is yours, or save elsewhere."
        )
        raise ArtefactError(message) from error
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make the rename survive a power cut, where the system can (Windows opens no folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _write_zip(file: IO[bytes], contents: Mapping[str, tuple[bytes | memoryview, ...]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            info.file_size = sum(len(piece) for piece in contents[name])
            with archive.open(info, "w") as entry:
                for piece in contents[name]:
                    entry.write(piece)


# ------------------------------------------------------------------------------------ reading


def _read_zip(path: Path, file: IO[bytes]) -> Artefact:
    """Verify, then load. Checks below raise a bare `ValueError`; the file is named here."""
    try:
        with zipfile.ZipFile(file) as archive:
            _check_entries(archive, os.fstat(file.fileno()).st_size)
            manifest = _read_manifest(path, archive)
            flat = {name: _read_array(archive, name, d) for name, d in manifest["arrays"].items()}
            return Artefact(
                manifest["model"],
                _decode(manifest["parameters"]),
                _decode(manifest["scalars"]),
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
    _require(_MANIFEST in archive.namelist(), f"it has no {_MANIFEST}, so equipoise never wrote it")


def _read_manifest(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    raw = archive.read(_MANIFEST)
    manifest: dict[str, Any] = json.loads(raw)
    _require(
        isinstance(manifest, dict) and manifest.get("format") == FORMAT,
        f"its {_MANIFEST} is not that of an equipoise model",
    )
    version = manifest.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        message = (
            f"{path} was written by a newer equipoise (format {version}; this one reads up to "
            f"{FORMAT_VERSION}). Upgrade: pip install --upgrade equipoise"
        )
        raise ArtefactError(message)
    _check_fields(manifest, _FIELDS, _MANIFEST)
    _require(version == FORMAT_VERSION, f"there is no format version {version}")
    unsealed = {key: value for key, value in manifest.items() if key != "sha256"}
    _require(
        manifest["sha256"] == _sha256(_json_bytes(unsealed)) and raw == _json_bytes(manifest, 2),
        f"its {_MANIFEST} was edited",
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
        _require(sound and len(declared["shape"]) <= _MAX_DIMENSIONS, f"shape of {name!r} is wrong")
    files = {_file_name(name, declared["dtype"]) for name, declared in arrays.items()}
    missing, extra = sorted(files - found), sorted(found - files - {_MANIFEST})
    _require(not missing, f"entry {missing[:1]} is missing")
    _require(not extra, f"entry {extra[:1]} is not declared in its {_MANIFEST}")
    parts = {f"{name}.{part}" for name in csr for part in _CSR_PARTS}
    _require(parts == {name for name in arrays if "." in name}, "its sparse matrices lack parts")


def _read_array(archive: zipfile.ZipFile, name: str, declared: dict[str, Any]) -> NDArray[Any]:
    dtype, shape = declared["dtype"], tuple(declared["shape"])
    entry = archive.getinfo(_file_name(name, dtype))
    _require(entry.file_size == declared["bytes"], f"{entry.filename!r} has not its declared size")
    if dtype == _OBJECT:
        raw = archive.read(entry)
        array, digest = _decode_ids(name, raw, shape), _sha256(raw)
    else:
        array = _empty_array(name, declared)
        digest = _fill(array, archive.open(entry), _npy_header(dtype, shape))
    _require(digest == declared["sha256"], f"{entry.filename!r} has not its declared sha256")
    return array


def _empty_array(name: str, declared: dict[str, Any]) -> NDArray[Any]:
    """Allocate an array, once its declared shape agrees with its declared size."""
    text, shape = declared["dtype"], tuple(declared["shape"])
    _require(re.fullmatch(r"[<>|]\w+(\[\w+\])?", text) is not None, f"dtype of {name!r} is wrong")
    dtype = np.dtype(text)
    _require(_storable(dtype) and dtype.str == text, f"dtype {text} of {name!r} is not allowed")
    size = len(_npy_header(text, shape)) + math.prod(shape) * dtype.itemsize
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
    values = _decode(json.loads(raw))
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
        data, indices, indptr, shape = (flat[f"{name}.{part}"] for part in _CSR_PARTS)
        matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        matrix.check_format(full_check=True)
        matrix.indices, matrix.indptr = indices, indptr  # SciPy may have narrowed their type
        arrays[name] = matrix
    return arrays

"""Writing a model file: whole or not at all."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from equipoise import __version__
from equipoise.exceptions import ArtefactError
from equipoise.files import write_whole
from equipoise.models.persistence.format import (
    CSR_PARTS,
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MAX_DIMENSIONS,
    OBJECT,
    JSONValue,
    encode,
    encode_scalar,
    file_name,
    json_bytes,
    npy_header,
    sha256_of,
    storable,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        If a value cannot be stored.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from equipoise.models.persistence import read_artefact
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
        "equipoise_version": __version__,
        "model": model,
        "parameters": encode(dict(parameters), "parameters"),
        "scalars": encode(dict(scalars), "scalars"),
        "arrays": {name: entry.declared for name, entry in entries.items()},
        "csr": sorted(csr),
    }
    sealed = json_bytes({**manifest, "sha256": sha256_of(json_bytes(manifest))}, 2)
    contents = {file_name(name, e.declared["dtype"]): e.pieces for name, e in entries.items()}
    write_whole(path, lambda file: _write_zip(file, {**contents, MANIFEST: (sealed,)}))
    return path


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
            for part in CSR_PARTS:
                values = np.asarray(getattr(array, part))
                # SciPy may keep unused space behind the last entry
                stored = values[: array.nnz] if part in ("data", "indices") else values
                flat[f"{name}.{part}"] = stored
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
        pieces = (json_bytes(_encode_ids(name, array)),)
        dtype = OBJECT
    else:
        if not storable(array.dtype) or array.ndim > MAX_DIMENSIONS:
            message = (
                f"array {name!r} has dtype {array.dtype} and {array.ndim} dimensions, which a "
                "model file cannot hold. Use numbers up to 64 bits, bool, dates or text."
            )
            raise ArtefactError(message)
        dtype = array.dtype.str
        body = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        pieces = (npy_header(dtype, array.shape), body.data)
    declared = {
        "dtype": dtype,
        "shape": list(array.shape),
        "bytes": sum(len(piece) for piece in pieces),
        "sha256": sha256_of(*pieces),
    }
    return _Entry(declared, pieces)


def _encode_ids(name: str, array: NDArray[Any]) -> list[Any]:
    if array.ndim != 1:
        message = f"array {name!r} of objects has {array.ndim} dimensions. Pass a 1-D array."
        raise ArtefactError(message)
    return [encode_scalar(value, f"array {name!r}, element {i},") for i, value in enumerate(array)]


def _write_zip(file: IO[bytes], contents: Mapping[str, tuple[bytes | memoryview, ...]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(contents):
            info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            info.file_size = sum(len(piece) for piece in contents[name])
            with archive.open(info, "w") as entry:
                for piece in contents[name]:
                    entry.write(piece)

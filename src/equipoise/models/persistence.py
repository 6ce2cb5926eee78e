"""Save and load fitted models: one zip of .npy arrays and a JSON manifest, without pickle.

``manifest.json`` contains the class, parameters and learned numbers, and the sha256 of every other
entry. ``arrays/NAME.npy`` contains an array, ``arrays/NAME.json`` ids of mixed types. A sparse
matrix is four arrays, ``NAME.data`` to ``NAME.shape``. Entries are sorted and have a fixed date:
equal models are equal bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.array_files import ArrayArchive, refuse_damage
from equipoise.data.identifiers import as_id_array, duplicate_at
from equipoise.data.sparse_checks import is_sound
from equipoise.exceptions import ArtifactError
from equipoise.files import write_whole
from equipoise.models.registry import BY_CLASS, ENTRY_POINTS

if TYPE_CHECKING:
    from equipoise.models.base import Recommender

FORMAT, FORMAT_VERSION = "equipoise-model", 2

_MANIFEST, _FOLDER = "manifest.json", "arrays/"
_CSR_PARTS = ("data", "indices", "indptr", "shape")
_FIELDS = {
    "format": str,
    "format_version": int,
    "equipoise_version": str,
    "model": str,
    "parameters": dict,
    "scalars": dict,
    "sha256": dict,
}
_ITEM_IDS, _NAMES = "item_ids_", "feature_names_in_"
# The learned numbers that give the lengths of axes m and r
_LENGTHS = {"m": "n_features_in_", "r": "n_components_"}


@dataclass(frozen=True)
class SavedModel:
    """The content of a model file.

    Attributes
    ----------
    model : str
        The class, as `class_name` returns it.
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


def class_name(model_class: type[Recommender]) -> str:
    """Return a class's name in a model file: "EASE", or "package.module:Class" if not ours."""
    if model_class.__name__ in BY_CLASS and model_class.__module__.startswith("equipoise."):
        return model_class.__name__
    return f"{model_class.__module__}:{model_class.__qualname__}"


def find_class(name: str) -> type[Recommender]:
    """Return the class that a model file names.

    Classes of other packages are found if they are registered under the entry point
    ``equipoise.models``. A file cannot cause any other import.
    """
    if name in BY_CLASS:
        return BY_CLASS[name].load_class()
    registered = entry_points(group=ENTRY_POINTS)
    package = name.partition(":")[0].partition(".")[0]
    for entry in registered:
        if entry.module.partition(".")[0] == package:
            found: type[Recommender] = entry.load()
            if class_name(found) == name:
                return found
    known = ", ".join([*BY_CLASS, *(entry.value for entry in registered)])
    raise ArtifactError(
        f"the model class {name!r} is not known (known: {known}). Upgrade equipoise, or install "
        f"the package that registers the class under the entry point {ENTRY_POINTS!r}."
    )


def write_model(
    path: str | os.PathLike[str],
    *,
    model: str,
    parameters: Mapping[str, Any],
    scalars: Mapping[str, Any],
    arrays: Mapping[str, Any],
) -> Path:
    """Save a model to one file. The file is complete or not there; an old one is replaced.

    Parameters
    ----------
    path : path-like
        The file to write.
    model : str
        The class, as `class_name` returns it.
    parameters, scalars : mapping
        JSON values; NaN and infinities are allowed, NumPy scalars become Python's.
    arrays : mapping
        Arrays of numbers, bool, dates or text; 1-D object arrays of text, numbers and None;
        SciPy CSR matrices.

    Raises
    ------
    ArtifactError
        If a value cannot be stored.
    OutputError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = write_model(
    ...         Path(folder) / "pca.eqp", model="VanillaPCA", parameters={"rank": 2},
    ...         scalars={"gap": float("inf")}, arrays={"U": np.eye(3)[:, :2]},
    ...     )
    ...     saved = read_model(path)
    >>> saved.model, saved.scalars, saved.arrays["U"].shape
    ('VanillaPCA', {'gap': inf}, (3, 2))
    """
    path = Path(path)
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "equipoise_version": __version__,
        "model": model,
        "parameters": {name: _plain(value, name) for name, value in parameters.items()},
        "scalars": {name: _plain(value, name) for name, value in scalars.items()},
    }
    entries = dict(_entry(name, array) for name, array in _flat(arrays).items())
    write_whole(path, lambda file: _write_zip(file, entries, manifest))
    return path


def _plain(value: Any, name: str) -> Any:
    """Return what JSON makes of a value; refuse what it cannot represent."""
    try:
        return json.loads(json.dumps(value, default=_python_scalar))
    except (TypeError, ValueError) as error:
        raise ArtifactError(
            f"{name!r} cannot be saved: {error}. Use None, bool, int, float, str, or lists of them."
        ) from error


def _python_scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"a value of type {type(value).__name__} cannot be stored in a model file")


def _flat(arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Replace each sparse matrix by its four arrays."""
    flat: dict[str, Any] = {}
    for name, array in arrays.items():
        if getattr(array, "format", None) == "csr":
            parts = {part: np.asarray(getattr(array, part)) for part in _CSR_PARTS}
            for part in ("data", "indices"):  # SciPy may keep unused space after the last entry
                parts[part] = parts[part][: array.nnz]
            flat |= {f"{name}.{part}": values for part, values in parts.items()}
        else:
            flat[name] = array
    return flat


def _entry(name: str, array: Any) -> tuple[str, bytes | NDArray[Any]]:
    """Return the name and the content of an array's entry in the zip."""
    if isinstance(array, np.ndarray) and array.dtype == object and array.ndim == 1:
        nested = any(isinstance(value, list | tuple | dict) for value in array)
        values = _plain([object()] if nested else array.tolist(), name)
        return f"{_FOLDER}{name}.json", json.dumps(values).encode("ascii")
    if not isinstance(array, np.ndarray) or not _is_storable(array.dtype):
        kind = getattr(array, "dtype", type(array).__name__)
        raise ArtifactError(
            f"{name!r} cannot be saved: it is of type {kind}. Use an array of numbers up to 64 "
            "bits, bool, dates or text, or a SciPy CSR matrix."
        )
    return f"{_FOLDER}{name}.npy", np.asarray(array, order="C")


def _is_storable(dtype: np.dtype[Any]) -> bool:
    """Whether a type has the same width on every platform (long double has not)."""
    return dtype.kind == "U" or (dtype.kind in "biufmM" and dtype.itemsize <= 8)


class _HashingWriter:
    """Pass writes on to a file and hash them."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.digest.update(data)
        return self._file.write(data)


def _write_zip(
    file: IO[bytes], entries: Mapping[str, bytes | NDArray[Any]], manifest: Mapping[str, Any]
) -> None:
    hashes = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(entries):
            hashes[name] = _write_entry(archive, name, entries[name])
        text = json.dumps({**manifest, "sha256": hashes}, sort_keys=True, indent=2)
        _write_entry(archive, _MANIFEST, text.encode("ascii"))


def _write_entry(archive: zipfile.ZipFile, name: str, content: bytes | NDArray[Any]) -> str:
    """Write one entry and return its hash."""
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system, info.external_attr = 3, 0o644 << 16
    large = not isinstance(content, bytes) and content.nbytes > zipfile.ZIP64_LIMIT // 2
    with archive.open(info, "w", force_zip64=large) as entry:
        writer = _HashingWriter(entry)
        if isinstance(content, bytes):
            writer.write(content)
        else:
            npy.write_array(writer, content, allow_pickle=False)
    return writer.digest.hexdigest()


def read_model(path: str | os.PathLike[str]) -> SavedModel:
    """Read a model file; every entry is compared with its hash before it is used.

    Raises
    ------
    ArtifactError
        If the file is missing, damaged, of another format version, or not a model.
    """
    path = Path(path)
    if not path.is_file():  # opening a pipe would wait for a writer
        kind = "is not a regular file" if path.exists() else "does not exist"
        raise ArtifactError(f"{path} {kind}. A saved model is one file; check the path.")
    with refuse_damaged_model(path), ArrayArchive(path) as archive:
        manifest = _read_manifest(path, archive)
        for entry, expected in manifest["sha256"].items():
            if archive.sha256(entry) != expected:
                raise ValueError(f"{entry} has changed since it was saved (sha256)")
        flat = {entry: _read_entry(archive, entry) for entry in manifest["sha256"]}
        return SavedModel(
            manifest["model"],
            manifest["parameters"],
            manifest["scalars"],
            _join_sparse({_array_name(entry): array for entry, array in flat.items()}),
            manifest["equipoise_version"],
        )


@contextmanager
def refuse_damaged_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever goes wrong while a model is loaded into an `ArtifactError`."""
    advice = "Pass a file that a model's `save` wrote; copy it again, or save the model again."
    with refuse_damage(Path(path), "an equipoise model", advice, ArtifactError):
        yield


def _read_manifest(path: Path, archive: ArrayArchive) -> dict[str, Any]:
    if _MANIFEST not in archive.entries:
        raise ValueError(f"it has no {_MANIFEST}")
    manifest: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ValueError(f"its {_MANIFEST} is of another program")
    version = manifest.get("format_version")
    if version != FORMAT_VERSION:
        raise ArtifactError(
            f"{path} has format version {version}, and this equipoise reads version "
            f"{FORMAT_VERSION}. Upgrade equipoise, or save the model again with this version."
        )
    for field, kind in _FIELDS.items():
        if not isinstance(manifest.get(field), kind):
            raise ValueError(f"{field!r} is missing from its {_MANIFEST} or of a wrong type")
    if set(manifest["sha256"]) | {_MANIFEST} != set(archive.entries):
        raise ValueError(f"its entries are not those listed in its {_MANIFEST}")
    return manifest


def _array_name(entry: str) -> str:
    return entry.removeprefix(_FOLDER).rpartition(".")[0]


def _read_entry(archive: ArrayArchive, entry: str) -> NDArray[Any]:
    if entry.endswith(".npy"):
        return archive.array(entry.removesuffix(".npy"))
    values = json.loads(archive.read(entry))
    if not isinstance(values, list) or any(isinstance(value, list | dict) for value in values):
        raise ValueError(f"{entry} is not a list of plain values")
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _join_sparse(flat: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Build sparse matrices from their four arrays; refuse indices out of bounds."""
    from scipy.sparse import csr_array

    arrays: dict[str, Any] = {name: array for name, array in flat.items() if "." not in name}
    for name in {name.partition(".")[0] for name in flat if "." in name}:
        data, indices, indptr, shape = (flat[f"{name}.{part}"] for part in _CSR_PARTS)
        if any(part.dtype.kind != "i" for part in (indices, indptr, shape)):
            raise ValueError(f"the indices of {name!r} are not integers")
        matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        if not is_sound(matrix) or not matrix.nnz == len(data) == len(indices):
            raise ValueError(f"the indices of {name!r} are out of bounds")
        arrays[name] = matrix
    return arrays


def check_contents(
    saved: SavedModel,
    parameters: Collection[str],
    scalars: Mapping[str, type],
    arrays: Mapping[str, str],
) -> None:
    """Refuse a file whose names, types or shapes are not those of its class.

    A file with correct hashes may still contain anything: an extra name could replace a method, and
    shapes that disagree would fail in the middle of a request.

    Parameters
    ----------
    saved : SavedModel
        The content of the file.
    parameters : collection of str
        Names of the constructor's arguments.
    scalars : mapping
        The type of each learned number.
    arrays : mapping
        The axes of each learned array, as `Recommender._arrays` declares them.

    Raises
    ------
    ValueError
        With what is wrong.
    """
    check_names("parameter", saved.parameters, parameters)
    check_scalars(saved.scalars, scalars)
    known = {*arrays, *parameters, _ITEM_IDS}
    check_names("array", saved.arrays, known, required=set(arrays) - {_NAMES})
    lengths = {axis: saved.scalars[name] for axis, name in _LENGTHS.items() if name in scalars}
    if lengths["m"] < 1:
        raise ValueError("it has no items")
    for name, declared in arrays.items():
        if name in saved.arrays:
            _check_array(name, saved.arrays[name], declared, lengths)
    ids = saved.arrays.get(_ITEM_IDS)
    if ids is not None:
        _check_array(_ITEM_IDS, ids, "m:biufMmO", lengths)
        as_id_array(ids, "item")
        if duplicate_at(ids, "item") is not None:
            raise ValueError(f"{_ITEM_IDS} contains an id twice")


def check_names(
    kind: str, found: Collection[str], known: Collection[str], required: Collection[str] = ()
) -> None:
    """Refuse unknown and missing names."""
    if unknown := sorted(set(found) - set(known)):
        raise ValueError(f"its class has no {kind} {unknown[0]!r}")
    if missing := sorted(set(required) - set(found)):
        raise ValueError(f"the {kind} {missing[0]!r} is missing")


def check_scalars(found: Mapping[str, Any], kinds: Mapping[str, type]) -> None:
    """Refuse learned numbers of other names or types. Counts are from 0 to 2⁶³ − 1."""
    check_names("number", found, kinds, required=kinds)
    for name, kind in kinds.items():
        value = found[name]
        accepted = (int, float) if kind is float else kind
        sound = isinstance(value, accepted) and not isinstance(value, bool)
        if not sound or (kind is int and not 0 <= value < 2**63):
            raise ValueError(f"{name} is {value!r:.40}, expected {kind.__name__}")


def _check_array(name: str, array: Any, declared: str, lengths: dict[str, int]) -> None:
    axes, _, kinds = declared.partition(":")
    half = array.dtype.kind == "f" and array.dtype.itemsize < 4  # models compute in 32 or 64 bits
    if array.dtype.kind not in (kinds or "f") or half:
        raise ValueError(f"{name} has the type {array.dtype}")
    # a length that no learned number gives is taken from the first array, and is at least 1
    fits = len(array.shape) == len(axes) and all(
        length == (int(axis) if axis.isdecimal() else lengths.setdefault(axis, max(1, length)))
        for axis, length in zip(axes, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} has the shape {array.shape}, which does not fit the other arrays")

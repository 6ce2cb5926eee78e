"""Save and load fitted models: one zip of .npy arrays and a JSON manifest, without pickle.

``manifest.json`` contains the class, parameters and learned numbers, and the preparation of the
training data. ``arrays/NAME.npy`` contains an array, ``arrays/NAME.json`` ids of mixed types. A
sparse matrix is four arrays, ``NAME.data`` to ``NAME.shape``. The checksums of the zip reveal
damage. Entries are sorted and have a fixed date: equal models are equal bytes.
"""

from __future__ import annotations

import importlib
import json
import os
import struct
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, is_dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.array_files import MAPPED_FROM, ArrayArchive
from equipoise.data.preparation import Step, steps_from_json
from equipoise.data.validation import is_sound
from equipoise.exceptions import ArtifactError
from equipoise.files import write_whole
from equipoise.models.registry import BY_CLASS, ENTRY_POINTS, WRAPPERS

if TYPE_CHECKING:
    from equipoise.models.base import Recommender

FORMAT, FORMAT_VERSION = "equipoise-model", 4

_MANIFEST, _FOLDER = "manifest.json", "arrays/"
# The id of padding in a zip's extra field that Android's zipalign uses
_ALIGNMENT, _PADDING = 64, 0xD935
_CSR_PARTS = ("data", "indices", "indptr", "shape")


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
    preparation : tuple of Step
        What was done to the training data before the fit.
    verified : bool
        Whether hashes were compared; the ids are then compared with each other, too.
    digest : str
        Equal for equal files.
    """

    model: str
    parameters: dict[str, Any]
    scalars: dict[str, Any]
    arrays: dict[str, Any]
    version: str
    preparation: tuple[Step, ...] = ()
    verified: bool = True
    digest: str = ""

    def restore(self, path: str | os.PathLike[str]) -> Recommender:
        """Return the fitted model; `path` is named in errors."""
        with refuse_damaged_model(path):
            return find_class(self.model)._deserialize(self)


def class_name(model_class: type[Recommender]) -> str:
    """Return a class's name in a model file: "EASE", or "package.module:Class" if not ours."""
    own = model_class.__name__ in {*BY_CLASS, *WRAPPERS}
    if own and model_class.__module__.startswith("equipoise."):
        return model_class.__name__
    return f"{model_class.__module__}:{model_class.__qualname__}"


def find_class(name: str) -> type[Recommender]:
    """Return the class that a model file names.

    Classes of other packages are found if they are registered under the entry point
    ``equipoise.models``. A file cannot cause any other import.
    """
    if name in BY_CLASS:
        return BY_CLASS[name].load_class()
    if name in WRAPPERS:
        return getattr(importlib.import_module(WRAPPERS[name]), name)
    package = name.partition(":")[0].partition(".")[0]
    registered = entry_points(group=ENTRY_POINTS)
    for entry in registered:
        if entry.module.partition(".")[0] == package and class_name(entry.load()) == name:
            return entry.load()
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
    preparation: Sequence[Step] = (),
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
    preparation : sequence of Step
        What was done to the training data before the fit.

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
        "preparation": _plain([list(step) for step in preparation], "preparation"),
    }
    entries = dict(_entry(name, array) for name, array in _flat(arrays).items())
    entries[_MANIFEST] = json.dumps(manifest, sort_keys=True, indent=2).encode("ascii")

    def write(file: IO[bytes]) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, content in sorted(entries.items()):
                _write_entry(archive, name, content)

    write_whole(path, write)
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
    if is_dataclass(value) and not isinstance(value, type):  # a certificate
        return asdict(value)
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


def _write_entry(archive: zipfile.ZipFile, name: str, content: bytes | NDArray[Any]) -> None:
    info = zipfile.ZipInfo(name)  # of 1980, whenever it is written
    info.create_system, info.external_attr = 3, 0o644 << 16  # on every system
    if isinstance(content, bytes):
        archive.writestr(info, content)
        return
    is_mapped = content.nbytes >= MAPPED_FROM
    if is_mapped:  # at a multiple of 64 bytes, so arrays in mapped pages are aligned
        padding = -(archive.start_dir + 30 + len(name) + 20 + 4) % _ALIGNMENT
        info.extra = struct.pack("<HH", _PADDING, padding) + bytes(padding)
    with archive.open(info, "w", force_zip64=is_mapped) as entry:  # which adds the 20 bytes
        npy.write_array(entry, content, allow_pickle=False)


def read_model(
    path: str | os.PathLike[str], *, mmap: bool = False, verify: bool = True
) -> SavedModel:
    """Read a model file.

    Parameters
    ----------
    path : path-like
        The file.
    mmap : bool
        Keep large arrays in the pages of the file, which processes share.
    verify : bool
        Compare every entry with its checksum. Without, with `mmap`, a file of any size is loaded at
        once, and damage goes unnoticed.

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
        flat: dict[str, NDArray[Any]] = {}
        for entry in archive.entries:
            if mmap and verify:  # what is read at once is checked while it is read
                archive.check(entry)
            if entry != _MANIFEST:
                name = entry.removeprefix(_FOLDER).rpartition(".")[0]
                flat[name] = _read_entry(archive, entry, mmap)
        return SavedModel(
            manifest["model"],
            manifest["parameters"],
            manifest["scalars"],
            _join_sparse(flat),
            manifest["equipoise_version"],
            steps_from_json(manifest["preparation"]),
            verify,
            archive.digest,
        )


@contextmanager
def refuse_damaged_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn whatever goes wrong while a model is loaded into an `ArtifactError`."""
    advice = (
        "Pass a file that `equipoise fit` or a model's `save` wrote; copy it again, or save the "
        "model again. Did you swap MODEL and DATA?"
    )
    try:
        yield
    except ArtifactError:
        raise
    except Exception as problem:  # a dozen types; MemoryError for a forged header
        reason = (" ".join(str(problem).split()) or type(problem).__name__).rstrip(".")
        message = f"{path} cannot be read as an equipoise model: {reason}. {advice}"
        raise ArtifactError(message) from problem


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
    return manifest


def _read_entry(archive: ArrayArchive, entry: str, mmap: bool) -> NDArray[Any]:
    name, _, ending = entry.rpartition(".")
    if ending == "npy":
        return archive.mapped(name) if mmap else archive.array(name)
    values = json.loads(archive.read(entry))
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _join_sparse(flat: Mapping[str, NDArray[Any]]) -> dict[str, Any]:
    """Build sparse matrices from their four arrays; refuse indices out of bounds."""
    from scipy.sparse import csr_array

    arrays: dict[str, Any] = {name: array for name, array in flat.items() if "." not in name}
    for name in {name.partition(".")[0] for name in flat if "." in name}:
        data, indices, indptr, shape = (flat[f"{name}.{part}"] for part in _CSR_PARTS)
        matrix = csr_array((data, indices, indptr), shape=tuple(shape.tolist()))
        if not is_sound(matrix) or not matrix.nnz == len(data) == len(indices):
            raise ValueError(f"the indices of {name!r} are out of bounds")
        arrays[name] = matrix
    return arrays

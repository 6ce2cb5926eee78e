"""Tables of vectors and of lists, from objects and files of other libraries; never from a pickle.

A table of vectors is a matrix, with ids if its source has them. Files and objects that contain many
tensors (NumPy archives, safetensors, PyTorch, ONNX, state dicts) are searched for the one that is
named or that fits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.array_files import ArrayArchive, read_array
from equipoise.data.identifiers import Lookup, as_id_array, duplicate_at, name_a_few, show
from equipoise.data.readers.columns import normalized
from equipoise.data.readers.lists import read_frame
from equipoise.data.readers.tables import frame_of, is_frame
from equipoise.data.validation import refuse_broken_structure
from equipoise.exceptions import InvalidDataError, explained, require_extra
from equipoise.memory import require

if TYPE_CHECKING:
    import polars as pl

# Names of item factors in an .npz or of an object: those of implicit and scikit-learn, and common
# choices.
FACTOR_NAMES = ("item_factors", "components_", "item_embeddings", "item_vectors")

# The users' factors that implicit saves next to those of the items.
USER_FACTORS = "user_factors"

# A column of this name contains the ids of the rows, not a factor.
_ID_COLUMNS = ("item", "itemid", "user", "userid", "id")

# A column of this name in a vocabulary contains the number of the row.
_ROW_COLUMNS = ("row", "index", "idx", "position", "code")

# The parts of a sparse matrix in an .npz.
_SPARSE = {"data", "indptr", "indices", "shape"}

# Item × item matrices of float64 while a score matrix is measured: itself and two copies.
_MATRICES = 3

# Rows for padding and unknown ids that an embedding table may have besides those of the ids.
_SPARE_ROWS = 2


class Table(NamedTuple):
    """A matrix of vectors.

    Attributes
    ----------
    values : ndarray
        One row per id; without ids, items may also be columns.
    ids : ndarray or None
        Of the rows.
    is_factors : bool
        Factors by name or by ids, even if it is square.
    users : ndarray or None
        User vectors that come with those of the items (implicit).
    """

    values: NDArray[Any]
    ids: NDArray[Any] | None = None
    is_factors: bool = False
    users: NDArray[Any] | None = None


def read_vectors(
    source: Any, where: str, role: str, n_rows: int, tensor: str | None = None, ids: Any = None
) -> Table:
    """Read vectors or an item × item matrix.

    Parameters
    ----------
    source : path, array, sparse matrix, table, tensor, module, state dict or model
        .npy, .npz (of implicit, of SciPy, or of arrays), Parquet, CSV, .safetensors, .pt, .pth,
        .ckpt, .bin or .onnx; NumPy, SciPy, polars, pandas, Arrow, PyTorch; any object with
        `item_factors` or `components_`.
    where : str
        Name of the source in errors.
    role : {"item", "user"}
        For errors.
    n_rows : int
        Number of rows without `ids`, to find the tensor that fits.
    tensor : str, optional
        Name of the tensor, or how its name ends.
    ids : path, mapping, table or sequence, optional
        See `read_ids`; replaces ids of the source.
    """
    if ids is None:
        return _read_table(source, where, n_rows, tensor)
    vocabulary = read_ids(ids, role)
    table = _read_table(source, where, len(vocabulary.ids), tensor)
    return table._replace(values=rows_of(table, vocabulary, where), ids=vocabulary.ids)


def _read_table(source: Any, where: str, n_rows: int, tensor: str | None) -> Table:
    if isinstance(source, str | PathLike):
        source = read_file(Path(source))
    if is_frame(source):
        return _from_frame(frame_of(source), where)
    padding: dict[str, int] = {}
    if hasattr(source, "named_modules"):  # of PyTorch
        padding = {
            f"{name}.weight".removeprefix("."): each.padding_idx
            for name, each in source.named_modules()
            if getattr(each, "padding_idx", None) is not None
        }
        source = source.state_dict()
    elif any(hasattr(source, name) for name in FACTOR_NAMES):
        names = (*FACTOR_NAMES, USER_FACTORS)
        source = {name: getattr(source, name) for name in names if hasattr(source, name)}
    if isinstance(source, Mapping):
        return _chosen(dict(_flat(source)), padding, where, n_rows, tensor)
    if sp.issparse(source):
        check_score_size(source.shape[0])
        source = source.toarray()
    return Table(_as_numpy(source))


def _as_numpy(value: Any) -> NDArray[Any]:
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().cpu()
        value = value.float().numpy() if value.is_floating_point() else value.numpy()
    array = np.asarray(value)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def _flat(arrays: Mapping[Any, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a nested mapping with the names on the way to them."""
    for name, value in arrays.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        elif getattr(value, "shape", None) is not None:
            yield f"{prefix}{name}", value


def _chosen(
    arrays: Mapping[str, Any],
    padding: Mapping[str, int],
    where: str,
    n_rows: int,
    tensor: str | None,
) -> Table:
    """Return the named array; else one with a known name; else the only one that fits."""
    if tensor is None:
        found = [name for name in FACTOR_NAMES if name in arrays][:1]
    else:
        found = [name for name in arrays if name == tensor]
        found = found or [name for name in arrays if name.endswith(f".{tensor}")]
    named = bool(found)
    if not found and tensor is None:
        found = [name for name, each in arrays.items() if _fits(each.shape, n_rows)]
    if len(found) != 1:
        shapes = [f"{name} {tuple(each.shape)}" for name, each in arrays.items()]
        wanted = "a matrix" if tensor is None else f"called {tensor!r}"
        problem = f"none is {wanted}" if not found else f"{', '.join(found)} all are {wanted}"
        raise InvalidDataError(
            f"{where} contains {', '.join(shapes) or 'nothing'}: {problem} with one row or column "
            f"for each of {n_rows:,} ids. Name the right one (--tensor), or save it as "
            "item_factors."
        )
    (name,) = found
    values = _as_numpy(arrays[name])
    if name in padding:
        values = values.copy()
        values[padding[name]] = 0  # rows of zeros are left out
    users = arrays.get(USER_FACTORS) if tensor is None else None
    return Table(values, None, named, None if users is None else _as_numpy(users))


def _fits(shape: tuple[int, ...], n_rows: int) -> bool:
    if len(shape) != 2:
        return False
    return n_rows in shape or n_rows < shape[0] <= n_rows + _SPARE_ROWS


def read_file(path: Path) -> Any:
    """Return what a file contains: an array, a sparse matrix, a table, or arrays by name."""
    ending = path.suffix.lower()
    if ending not in _READERS:
        raise InvalidDataError(
            f"{path}: models are read from {', '.join(_READERS)} and .eqp files, got "
            f"{ending or 'no ending'!r}. Save the matrix with numpy.save. Pickles are not read."
        )
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidDataError(f"{path} {kind}: there are no factors to read. Check the path.")
    problem = f"{path} cannot be read as a matrix. Save it with numpy.save, without pickles"
    with explained(problem, Exception):  # whatever a library raises on a file that is not its own
        return _READERS[ending](path)


def _npz(path: Path) -> Any:
    """Return arrays by name, or one sparse matrix; pickled arrays are left out."""
    with ArrayArchive(path) as archive:
        arrays = {n: archive.array(n) for n in archive.names if not archive.is_pickled(n)}
    return _sparse(path, arrays) if set(arrays) >= _SPARSE else arrays


def _sparse(path: Path, arrays: Mapping[str, NDArray[Any]]) -> Any:
    """Return a sparse matrix that SciPy saved, or similarities of implicit (CSR, not named)."""
    shape = tuple(arrays["shape"].ravel().tolist())
    if len(set(shape)) != 1:
        raise InvalidDataError(
            f"{path} contains a sparse matrix of shape {shape}; a sparse one must be item × item, "
            "in the order of interactions.item_ids."
        )
    kinds = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
    named = arrays["format"].item() if "format" in arrays else "csr"
    kind = kinds[named.decode() if isinstance(named, bytes) else str(named)]
    stored = kind(tuple(arrays[name] for name in ("data", "indices", "indptr")), shape=shape)
    refuse_broken_structure(stored, str(path))
    return stored


def check_score_size(n_items: int) -> None:
    """Refuse a full item × item matrix that does not fit into memory."""
    require(
        _MATRICES * 8 * n_items**2,
        f"auditing a full {n_items:,} × {n_items:,} score matrix",
        "Filter rare items, or pass item factors.",
    )


def _safetensors(path: Path) -> Any:
    library = require_extra("safetensors", "safetensors", f"reading {path}")
    with library.safe_open(path, framework="np") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def _torch(path: Path) -> Any:
    torch = require_extra("torch", "torch", f"reading {path}")
    return torch.load(path, map_location="cpu", weights_only=True)


def _onnx(path: Path) -> Any:
    onnx = require_extra("onnx", "onnx", f"reading {path}")
    stored = onnx.load(path).graph.initializer
    return {each.name: onnx.numpy_helper.to_array(each) for each in stored}


_READERS: dict[str, Callable[[Path], Any]] = {
    ".npy": read_array,
    ".npz": _npz,
    **dict.fromkeys((".parquet", ".pq", ".csv", ".tsv"), read_frame),
    ".safetensors": _safetensors,
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".bin"), _torch),
    ".onnx": _onnx,
}


def _from_frame(table: pl.DataFrame, where: str) -> Table:
    """Return one factor per column, or the lists of a single column; ids if there is such."""
    names = [name for name in table.columns if normalized(name) in _ID_COLUMNS]
    values = _factor_columns(table.drop(names), where)
    if not names:
        return Table(values)
    return Table(values, as_id_array(table[names[0]].to_numpy(), "item"), is_factors=True)


def _factor_columns(table: pl.DataFrame, where: str) -> NDArray[Any]:
    import polars as pl

    if table.width == 1 and isinstance(table.dtypes[0], pl.List | pl.Array):
        column = table.columns[0]
        problem = f"{where}: column {column!r} must contain lists of numbers of the same length"
        with explained(problem, TypeError, ValueError):
            return np.array(table.to_series().to_list(), dtype=np.float64)
    other = [name for name, kind in table.schema.items() if not kind.is_numeric()]
    if other or not table.width:
        raise InvalidDataError(
            f"{where}: factors must be columns of numbers, and "
            f"{f'these are not: {other}' if other else 'there are none'}. Remove other columns; "
            "item ids go into a column named 'item'."
        )
    return np.asarray(table.cast(pl.Float64).to_numpy())


class Vocabulary(NamedTuple):
    """Ids, and their rows in a table; None if they are in the order of its rows."""

    ids: NDArray[Any]
    rows: NDArray[np.intp] | None = None


def read_ids(source: Any, role: str) -> Vocabulary:
    """Read the ids of the rows of a table.

    Parameters
    ----------
    source : path, mapping, table or sequence
        Ids in the order of the rows: a sequence, a text file with one id per line, a JSON list, or
        a table with one column. Or ids with their rows: a mapping, a JSON object, or a table with
        a column `row` (or index, idx, position, code).
    role : {"item", "user"}
        For errors.
    """
    where = f"the {role} ids"
    if isinstance(source, str | PathLike):
        path = Path(source)
        where = str(path)
        if _READERS.get(path.suffix.lower()) is read_frame:
            source = read_frame(path)
        else:
            with explained(f"{path} cannot be read as a list of ids", OSError, ValueError):
                text = path.read_text(encoding="utf-8-sig")
                is_json = path.suffix.lower() == ".json"
                source = json.loads(text) if is_json else text.splitlines()
    rows: Any = None
    if is_frame(source):
        table = frame_of(source)
        numbers = [name for name in table.columns if normalized(name) in _ROW_COLUMNS]
        ids = [name for name in table.columns if name not in numbers]
        if len(ids) != 1 or len(numbers) > 1:
            raise InvalidDataError(
                f"{where} has columns {table.columns}. Give one of ids and, if they are not in "
                "the order of the rows, one called 'row'."
            )
        source = table[ids[0]].to_numpy()
        rows = table[numbers[0]].to_numpy() if numbers else None
    elif isinstance(source, Mapping):
        source, rows = list(source), list(source.values())
    found = as_id_array(source, role)
    if rows is None:
        return Vocabulary(found)
    places = np.asarray(rows)
    if places.dtype.kind not in "iu" or (len(places) and places.min() < 0):
        raise InvalidDataError(f"{where}: rows must be whole numbers from 0 on.")
    return Vocabulary(found, places.astype(np.intp))


def rows_of(table: Table, vocabulary: Vocabulary, where: str) -> NDArray[Any]:
    """Return the vectors of the ids, one row each; rows for padding are dropped."""
    values, n_ids = table.values, len(vocabulary.ids)
    if vocabulary.rows is not None:
        if n_ids and vocabulary.rows.max() >= len(values):
            raise InvalidDataError(
                f"{where} has {len(values):,} rows, and an id of the vocabulary has row "
                f"{vocabulary.rows.max():,}, counted from 0. They do not belong together."
            )
        return np.asarray(values[vocabulary.rows])
    if len(values) > n_ids and values.ndim == 2:  # PyTorch keeps the padding row at 0
        values = values[np.any(values != 0, axis=1)]
    if len(values) != n_ids:
        raise InvalidDataError(
            f"{where} has {len(values):,} rows without padding, and there are {n_ids:,} ids. Give "
            "one id per row, or each id with its row."
        )
    return np.asarray(values)


class Matched(NamedTuple):
    """The row of each id of the data, −1 for none; and how many rows have no id of the data."""

    place: NDArray[np.intp]
    extra: int = 0

    def note(self, role: str, without: str) -> tuple[str, ...]:
        """Return what is missing as sentences; `without` says what follows."""
        found, missing = [], int((self.place < 0).sum())
        if missing:
            found.append(
                f"{missing:,} of the {len(self.place):,} {role}s of the data are not in it: "
                f"{without}."
            )
        if self.extra:
            found.append(f"{self.extra:,} of its {role}s are not in the data and are left out.")
        return tuple(found)


def find_rows(ids: NDArray[Any], wanted: NDArray[Any], role: str, where: str) -> Matched:
    """Find each id of the data among the ids of a table, by value, or by text if the types differ.

    Examples
    --------
    >>> find_rows(np.array(["7", "5", "x"], object), np.array([5, 6, 7]), "item", "ids.txt")
    Matched(place=array([ 1, -1,  0]), extra=1)
    """
    twice = duplicate_at(ids, role)
    if twice is not None:
        raise InvalidDataError(
            f"{where} has more than one row for {show(ids[twice])}, or its ids contain it more "
            f"than once. Keep one row per {role}."
        )
    own, asked = ids, wanted
    if (ids.dtype.kind == "O") != (wanted.dtype.kind == "O"):
        own, asked = (as_id_array(list(map(str, each.tolist())), role) for each in (ids, wanted))
    place = Lookup(own, role).find(asked)
    known = int((place >= 0).sum())
    if not known:
        raise InvalidDataError(
            f"{where} has no row for any of the {len(wanted):,} {role}s: its ids are like "
            f"{name_a_few(ids, 3)}, those of the data like {name_a_few(wanted, 3)}."
        )
    return Matched(place, len(ids) - known)

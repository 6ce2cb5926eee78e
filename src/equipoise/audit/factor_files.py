"""Read the factors or scores of another library's model: .npy, .npz or Parquet, never a pickle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from equipoise.array_files import ArrayArchive, read_array, refuse_damage
from equipoise.data.interactions import Interactions
from equipoise.data.sparse_checks import refuse_broken_structure
from equipoise.exceptions import InvalidDataError
from equipoise.memory import require

# Names of item factors in an .npz: those of implicit and scikit-learn, and common choices.
_FACTOR_NAMES = ("item_factors", "components_", "item_embeddings", "item_vectors")

# A Parquet column of this name holds the items' ids, not a factor.
_ID_COLUMNS = ("item", "itemid", "id")

# The parts of a sparse matrix in an .npz.
_SPARSE = {"data", "indptr", "indices", "shape"}

# Full matrices of items × items of float64 while a score matrix is measured: itself and two copies.
_MATRICES = 3

_ENDINGS = ".npy, .npz, .parquet or .eqp"


class Matrix(NamedTuple):
    """A matrix, and whether its name marks it as factors even if it is square."""

    values: NDArray[Any]
    as_factors: bool


def read_matrix(path: Path, data: Interactions) -> Matrix:
    """Read item factors or a score matrix.

    Parameters
    ----------
    path : Path
        .npy; .npz of implicit (`item_factors`, or the similarities of its neighbor models), with
        `components_`, of SciPy (a sparse matrix), or with a single matrix; Parquet with one row
        per item, with or without a column `item`.
    data : Interactions
        For the number of items, and their ids.
    """
    readers = {".npy": _npy, ".npz": _npz, ".parquet": _parquet, ".pq": _parquet}
    ending = path.suffix.lower()
    if ending not in readers:
        raise InvalidDataError(
            f"{path}: factors are read from {_ENDINGS} files, got {ending or 'no ending'!r}. "
            "Save the matrix with numpy.save."
        )
    if not path.is_file():
        kind = "is a folder" if path.is_dir() else "does not exist"
        raise InvalidDataError(f"{path} {kind}: there are no factors to read. Check the path.")
    advice = "Save the matrix itself with numpy.save or numpy.savez; pickles are refused."
    with refuse_damage(path, "a matrix", advice):
        return readers[ending](path, data)


def _npy(path: Path, data: Interactions) -> Matrix:  # noqa: ARG001
    return Matrix(read_array(path), as_factors=False)


def _npz(path: Path, data: Interactions) -> Matrix:
    with ArrayArchive(path) as archive:
        names = archive.names
        if set(names) >= _SPARSE:
            return _sparse(path, archive, data)
        known = [name for name in _FACTOR_NAMES if name in names]
        if known:
            return Matrix(archive.array(known[0]), as_factors=True)
        shapes = {name: archive.shape(name) for name in names}
        fitting = [name for name, shape in shapes.items() if _fits(shape, data.n_items)]
        if len(fitting) != 1:
            listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items()) or "nothing"
            problem = "none is" if not fitting else f"{', '.join(fitting)} all are"
            raise InvalidDataError(
                f"{path} holds {listed}: {problem} a matrix with one row or column for each of the "
                f"{data.n_items:,} items. Save the right one under the name item_factors."
            )
        return Matrix(archive.array(fitting[0]), as_factors=False)


def _fits(shape: tuple[int, ...], n_items: int) -> bool:
    return len(shape) == 2 and n_items in shape


def _sparse(path: Path, archive: ArrayArchive, data: Interactions) -> Matrix:
    """Read a sparse matrix that SciPy saved, or similarities of implicit (CSR, no format named)."""
    import scipy.sparse as sp

    shape = tuple(archive.array("shape").ravel().tolist())
    if shape != (data.n_items, data.n_items):
        raise InvalidDataError(
            f"{path} holds a sparse matrix of shape {shape}; a sparse one must be item × item, "
            f"{data.n_items:,} × {data.n_items:,}, in the order of interactions.item_ids."
        )
    check_score_size(data.n_items)
    kinds = {"csr": sp.csr_array, "csc": sp.csc_array, "bsr": sp.bsr_array}
    named = archive.array("format").item() if "format" in archive.names else "csr"
    kind = kinds[named.decode() if isinstance(named, bytes) else str(named)]
    values, columns, starts = (archive.array(name) for name in ("data", "indices", "indptr"))
    stored = kind((values, columns, starts), shape=shape)
    refuse_broken_structure(stored, str(path))
    return Matrix(stored.toarray(), as_factors=False)


def check_score_size(n_items: int) -> None:
    """Refuse a full item × item matrix that does not fit into memory."""
    require(
        _MATRICES * 8 * n_items**2,
        f"auditing a full {n_items:,} × {n_items:,} score matrix",
        "Filter rare items, or pass item factors.",
    )


def _parquet(path: Path, data: Interactions) -> Matrix:
    from equipoise.data.readers import parquet

    table = parquet.read_table(path)
    ids = [name for name in table.columns if name.lower().replace("_", "") in _ID_COLUMNS]
    values = _columns(path, table.drop(ids))
    if not ids:
        return Matrix(values, as_factors=False)
    return Matrix(_in_order(path, values, table[ids[0]], data), as_factors=True)


def _columns(path: Path, table: Any) -> NDArray[Any]:
    """Return one factor per column, or the lists of a single column."""
    import polars as pl

    if table.width == 1 and table.dtypes[0] in (pl.List, pl.Array):
        rows = table.to_series().to_list()
        lengths = {-1 if row is None else len(row) for row in rows}
        if len(lengths) != 1 or -1 in lengths:
            raise InvalidDataError(
                f"{path}: the lists in column {table.columns[0]!r} differ in length or are "
                "missing. Each item needs the same number of factors."
            )
        try:
            return np.array(rows, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidDataError(
                f"{path}: the lists in column {table.columns[0]!r} must hold numbers: {error}. "
                "Use one list of numbers per item."
            ) from error
    other = [name for name, kind in table.schema.items() if not kind.is_numeric()]
    if other or not table.width:
        raise InvalidDataError(
            f"{path}: factors must be columns of numbers, and "
            f"{f'these are not: {other}' if other else 'there are none'}. Remove other columns; "
            "item ids go into a column named 'item'."
        )
    return np.asarray(table.cast(pl.Float64).to_numpy())


def _in_order(path: Path, values: NDArray[Any], ids: Any, data: Interactions) -> NDArray[Any]:
    """Return the rows in the order of the data's items, matched by id."""
    from equipoise.data.identifiers import Lookup, as_id_array, name_a_few

    vocabulary = as_id_array(ids.to_numpy(), "item")
    place = Lookup(vocabulary, "item").find(data.item_ids)
    missing = data.item_ids[place < 0]
    if len(missing):
        raise InvalidDataError(
            f"{path} has no row for {len(missing):,} of the {data.n_items:,} items: "
            f"{name_a_few(missing)}. Its column {ids.name!r} must hold the ids of the data."
        )
    repeated = [each for each, times in Counter(vocabulary.tolist()).items() if times > 1]
    if repeated:
        raise InvalidDataError(
            f"{path} has more than one row for {name_a_few(repeated)}. Keep one row per item."
        )
    return np.asarray(values[place])

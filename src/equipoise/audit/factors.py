"""Models to audit that were fitted elsewhere: models, arrays and files, never a pickle.

Item factors Y (m × r) are measured by the space that they span. With A an orthonormal basis of it
(the left singular vectors of Y, longest direction first; Y itself if its columns are orthonormal),
P = AAᵀ = Y(YᵀY)⁻¹Yᵀ: a user's scores are the projection XP of the user's row, a fold-in by least
squares. Self-reconstruction, error and AUC are defined for it. The confidences, biases and
regularization with which a library folds users in are not part of its item factors. An item × item
matrix B is used unchanged: scores X B, self-reconstruction B_jj.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.array_files import ArrayArchive, read_array, refuse_damage
from equipoise.audit.audited_model import (
    AnyRecommender,
    AuditedModel,
    Projection,
    ScoreMatrix,
    prepare_reordered,
)
from equipoise.audit.findings import Floats
from equipoise.data.identifiers import Lookup, as_id_array, name_a_few
from equipoise.data.interactions import Interactions
from equipoise.data.sparse_checks import refuse_broken_structure
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.memory import require
from equipoise.models import Recommender
from equipoise.models.low_rank import LowRank, unchanged

# Float32 solvers are orthonormal to about 1e-6 (see `metrics.orthonormal_basis`). What was saved in
# float16 is orthonormal to about 1e-3, and is made so again without a change of order.
_ORTHONORMAL_WITHIN, _ROUNDED_WITHIN = 1e-5, 2e-3

# Sums of squares of larger numbers overflow.
_LARGEST = 1e150

# Directions shorter than this share of the longest are rounding.
_NOTHING_BELOW = 1e-7

# Names of item factors in an .npz: those of implicit and scikit-learn, and common choices.
_FACTOR_NAMES = ("item_factors", "components_", "item_embeddings", "item_vectors")

# A Parquet column of this name contains the ids of the items, not a factor.
_ID_COLUMNS = ("item", "itemid", "id")

# The parts of a sparse matrix in an .npz.
_SPARSE = {"data", "indptr", "indices", "shape"}

# Item × item matrices of float64 while a score matrix is measured: itself and two copies.
_MATRICES = 3

_ENDINGS = ".npy, .npz, .parquet or .eqp"


def read_models(
    factors: Mapping[str, Any] | Sequence[Any], data: Interactions
) -> list[AuditedModel]:
    """Read the models that are audited next to ours.

    Parameters
    ----------
    factors : mapping of label to model, or sequence of models
        A path (.npy, .npz, .parquet, .eqp), an array of shape (m, r), (r, m) or (m, m), a sparse
        m × m matrix, a fitted `Recommender` of any package, or any object with `item_factors`
        (implicit) or `components_` (scikit-learn). Rows are in the order of ``data.item_ids``,
        unless the file or model contains the ids.
    data : Interactions
        For the items.
    """
    if isinstance(factors, str | PathLike) or not isinstance(factors, Mapping | Sequence):
        raise InvalidParameterError(
            f"factors takes a list of files or models, or a mapping of names to them, got "
            f"{type(factors).__name__}. Pass [it]."
        )
    named = (
        list(factors.items())
        if isinstance(factors, Mapping)
        else [(_label(one, place), one) for place, one in enumerate(factors)]
    )
    return [
        _read_model(f"given:{place}", str(label), one, data)
        for place, (label, one) in enumerate(named)
    ]


def notes_on(models: Sequence[AuditedModel]) -> list[str]:
    """Return how given models are measured, if there are any."""
    kinds = {model.kind for model in models}
    notes = {
        "factors": "Item factors are measured by the space that they span, leading direction "
        "first: a user's scores are the projection of the user's row onto it (a fold-in by least "
        "squares). Confidences, biases and regularization are not part of the factors, so the "
        "lists of their library may differ. In tables they have the audited rank, or all their "
        "directions if they have fewer.",
        "scores": "An item × item matrix B is used unchanged: scores are X B, and its diagonal is "
        "the self-reconstruction. It has no components to count.",
        "model": "A model with neither item factors nor an item × item matrix is measured by its "
        "lists only.",
    }
    found = [note for kind, note in notes.items() if kind in kinds]
    if found:
        found.append(
            "Given models are not refitted: one that was fitted on all of these data has seen the "
            "held-out items, so its accuracy is too high."
        )
    return found


def _label(model: Any, place: int) -> str:
    if isinstance(model, str | PathLike):
        return Path(model).name
    if isinstance(model, np.ndarray) or sp.issparse(model):
        return f"array {place + 1}"
    return type(model).__name__


def _read_model(key: str, label: str, given: Any, data: Interactions) -> AuditedModel:
    if isinstance(given, str | PathLike):
        path = Path(given)
        if path.suffix.lower() == ".eqp":
            from equipoise.models import load

            return _of_model(key, label, load(path), data)
        return _of_matrix(key, label, read_matrix(path, data), data, str(path))
    if isinstance(given, Recommender):
        return _of_model(key, label, given, data)
    for attribute in ("item_factors", "components_"):
        if hasattr(given, attribute):
            found = np.asarray(getattr(given, attribute))
            return _of_matrix(key, label, Matrix(found, as_factors=True), data, label)
    whole = given.toarray() if _is_score_matrix(given, data.n_items) else given
    return _of_matrix(key, label, Matrix(np.asarray(whole), as_factors=False), data, label)


def _is_score_matrix(given: Any, n_items: int) -> bool:
    if not sp.issparse(given):
        return False
    check_score_size(n_items)
    return True


def _of_matrix(
    key: str, label: str, matrix: Matrix, data: Interactions, where: str
) -> AuditedModel:
    n_items = data.n_items
    values = _finite(matrix.values, where)
    if values.shape == (n_items, n_items) and not matrix.as_factors:
        check_score_size(n_items)
        return ScoreMatrix(key, label, "scores", {}, values, unchanged)
    if values.shape[0] == n_items:
        return _of_factors(key, label, values, where)
    if values.shape[1] == n_items:
        return _of_factors(key, label, values.T, where)
    raise InvalidDataError(
        f"{where} contains a {values.shape[0]:,} × {values.shape[1]:,} matrix, and neither side is "
        f"the number of items, {n_items:,}. Give one row per item of the data, in the order of "
        "interactions.item_ids (first appearance in the file), with the same filters."
    )


def _of_factors(key: str, label: str, Y: Floats, where: str) -> Projection:
    A = leading_directions(Y)
    if not A.shape[1]:
        raise InvalidDataError(f"{where} contains only zeros. Fit the model first.")
    components = np.ascontiguousarray(A.T)
    low_rank = LowRank(components, np.ones(len(components)), unchanged)
    return Projection(key, label, "factors", {}, low_rank, given=True, vectors=Y)


def leading_directions(Y: Floats) -> Floats:
    """Orthonormal columns that span the columns of Y, longest direction first.

    Columns that are orthonormal already are returned unchanged.

    Examples
    --------
    >>> np.abs(leading_directions(np.array([[0.0, 3.0], [1.0, 0.0], [0.0, 0.0]])).round(6))
    array([[1., 0.],
           [0., 1.],
           [0., 0.]])
    """
    if Y.shape[1] <= Y.shape[0]:
        gram = Y.T @ Y
        deviation = np.abs(gram - np.eye(len(gram))).max(initial=0.0)
        if deviation <= _ORTHONORMAL_WITHIN:
            return Y
        if deviation <= _ROUNDED_WITHIN:
            Q, R = np.linalg.qr(Y)
            return np.asarray(Q * np.sign(R.diagonal()))
    A, lengths, _ = np.linalg.svd(Y, full_matrices=False)
    directions: Floats = A[:, lengths > _NOTHING_BELOW * lengths.max(initial=0.0)]
    return directions


def _of_model(key: str, label: str, model: Recommender, data: Interactions) -> AuditedModel:
    """Return a fitted model, its columns in the order of the data."""
    order = _columns_in(model, data, label)
    low_rank = model.low_rank()
    if low_rank is not None:
        components, weights, prepare = low_rank
        if order is not None:
            components = np.ascontiguousarray(components[:, order])
            prepare = partial(prepare_reordered, prepare=prepare, order=order)
        return Projection(
            key, label, "factors", {}, LowRank(components, weights, prepare), given=True
        )
    item_item = model.item_item()
    if item_item is not None:
        check_score_size(data.n_items)
        given: Any = item_item.coefficients
        B = _finite(given.toarray() if sp.issparse(given) else np.asarray(given), label)
        prepare = item_item.prepare
        if order is not None:
            B = B[np.ix_(order, order)]
            prepare = partial(prepare_reordered, prepare=prepare, order=order)
        return ScoreMatrix(key, label, "scores", {}, B, prepare)
    factors = model.factors()
    if factors is not None:
        Y = _finite(np.asarray(factors.items), label)
        return _of_factors(key, label, Y if order is None else Y[order], label)
    return AnyRecommender.of(key, label, model, order)


def _columns_in(model: Recommender, data: Interactions, label: str) -> NDArray[np.intp] | None:
    """Return the model's columns of the data's items; None if they are the same."""
    if model.item_ids_ is None:
        if model.n_features_in_ != data.n_items:
            raise InvalidDataError(
                f"{label} was fitted on {model.n_features_in_:,} items, the data have "
                f"{data.n_items:,}. Audit it on the data that it was fitted on."
            )
        return None
    order = Lookup(model.item_ids_, "item").find(data.item_ids)
    unknown = data.item_ids[order < 0]
    if len(unknown) or len(model.item_ids_) != data.n_items:
        raise InvalidDataError(
            f"{label} was fitted on {len(model.item_ids_):,} items, the data have "
            f"{data.n_items:,}, of which {len(unknown):,} are not in the model"
            f"{': ' + name_a_few(unknown) if len(unknown) else ''}. Audit it on the data that it "
            "was fitted on, with the same filters."
        )
    return None if np.array_equal(order, np.arange(data.n_items)) else order


def _finite(values: NDArray[Any], where: str) -> Floats:
    if values.dtype.kind not in "fiu":
        raise InvalidDataError(
            f"{where} must contain real numbers, got dtype {values.dtype}. Save item factors as "
            "floats."
        )
    if values.ndim != 2 or not values.size:
        raise InvalidDataError(
            f"{where} must contain a matrix with one row (or column) per item, got shape "
            f"{values.shape}."
        )
    wide = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(wide))
    if len(bad):
        raise InvalidDataError(
            f"{where} has {len(bad):,} NaN or infinite entries, the first in row {bad[0][0]}, "
            f"column {bad[0][1]}. Was the model fitted to the end?"
        )
    largest = float(np.abs(wide).max())
    if largest > _LARGEST:
        raise InvalidDataError(
            f"{where} has entries as large as {largest:.3g}, too large to compute with: the model "
            "diverged. Fit it again."
        )
    return wide


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
    advice = "Save the matrix itself with numpy.save or numpy.savez. Pickles are not read."
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
                f"{path} contains {listed}: {problem} a matrix with one row or column for each of "
                f"the {data.n_items:,} items. Save the right one as item_factors."
            )
        return Matrix(archive.array(fitting[0]), as_factors=False)


def _fits(shape: tuple[int, ...], n_items: int) -> bool:
    return len(shape) == 2 and n_items in shape


def _sparse(path: Path, archive: ArrayArchive, data: Interactions) -> Matrix:
    """Read a sparse matrix that SciPy saved, or similarities of implicit (CSR, no format named)."""
    shape = tuple(archive.array("shape").ravel().tolist())
    if shape != (data.n_items, data.n_items):
        raise InvalidDataError(
            f"{path} contains a sparse matrix of shape {shape}; a sparse one must be item × item, "
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
                f"{path}: the lists in column {table.columns[0]!r} must contain numbers: {error}. "
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
    vocabulary = as_id_array(ids.to_numpy(), "item")
    place = Lookup(vocabulary, "item").find(data.item_ids)
    missing = data.item_ids[place < 0]
    if len(missing):
        raise InvalidDataError(
            f"{path} has no row for {len(missing):,} of the {data.n_items:,} items: "
            f"{name_a_few(missing)}. Its column {ids.name!r} must contain the ids of the data."
        )
    repeated = [each for each, times in Counter(vocabulary.tolist()).items() if times > 1]
    if repeated:
        raise InvalidDataError(
            f"{path} has more than one row for {name_a_few(repeated)}. Keep one row per item."
        )
    return np.asarray(values[place])

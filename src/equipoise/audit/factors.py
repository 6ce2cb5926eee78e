"""Models that people already run, as subjects of an audit: files, arrays, fitted models.

What is measured of item factors Y (m × r) is the space that they span. With A an orthonormal
basis of it (the left singular vectors of Y, longest direction first; Y itself where its columns
are orthonormal), P = AAᵀ = Y(YᵀY)⁻¹Yᵀ: a user is folded in by least squares over all items, and
scores are the projection XP of the user's row. That needs nothing but the factors, and is what
diagonal, error and AUC are defined for; the confidences, biases and regularisation that a library
folds users in with are not in its item factors. A full item × item matrix B is taken as it is:
scores X B, diagonal B_jj.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.factor_files import Matrix, check_score_size, read_matrix
from equipoise.audit.findings import Floats
from equipoise.audit.subjects import Projection, ScoreMatrix, Subject
from equipoise.data.identifiers import Lookup, name_a_few
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.models.base import Recommender
from equipoise.models.low_rank import LowRank
from equipoise.models.peers.base import FactorModel, ItemItemModel
from equipoise.models.projection import ProjectionModel

# Float32 solvers are orthonormal to about 1e-6 (see `metrics.orthonormal_basis`); what was saved in
# float16 is so to about 1e-3, and is made so again without a change of order.
_ORTHONORMAL_WITHIN, _ROUNDED_WITHIN = 1e-5, 2e-3

# Sums of squares of larger numbers overflow.
_LARGEST = 1e150

# Directions shorter than this share of the longest are rounding.
_NOTHING_BELOW = 1e-7


def read_subjects(factors: Mapping[str, Any] | Sequence[Any], data: Interactions) -> list[Subject]:
    """Read whatever is to be audited beside our models.

    Parameters
    ----------
    factors : mapping of label to model, or sequence of models
        A path (.npy, .npz, .parquet, .eqp), an array of shape (m, r), (r, m) or (m, m), a sparse
        m × m matrix, a fitted model of this package, or any object with `item_factors` (implicit)
        or `components_` (scikit-learn). Rows are in the order of ``data.item_ids``, except where
        the file or model brings the ids along.
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
        _subject(f"factors:{place}", str(label), one, data)
        for place, (label, one) in enumerate(named)
    ]


def notes_on_files(subjects: Sequence[Subject]) -> list[str]:
    """How files of factors are measured, where there are any."""
    notes = []
    given = [subject for subject in subjects if subject.kind in ("factors", "scores")]
    if any(subject.kind == "factors" for subject in given):
        notes.append(
            "Files of item factors are measured by the space that they span, leading direction "
            "first: a user's scores are the projection of the user's row onto it (a fold-in by "
            "least squares). Confidences, biases and regularisation of the library that made "
            "them are not in the factors, so that its own lists may differ. In tables they stand "
            "at the audited rank, or with all their directions where there are fewer."
        )
    if any(subject.kind == "scores" for subject in given):
        notes.append(
            "A full item × item matrix B is taken as it is: scores are X B, its diagonal is what "
            "an item says for itself; it has no components to count."
        )
    if given:
        notes.append(
            "Files are not refitted: one that was fitted on all of these data has seen the "
            "held-out items, and its accuracy flatters it."
        )
    return notes


def _label(model: Any, place: int) -> str:
    if isinstance(model, str | PathLike):
        return Path(model).name
    if isinstance(model, np.ndarray) or sp.issparse(model):
        return f"array {place + 1}"
    return type(model).__name__


def _subject(key: str, label: str, given: Any, data: Interactions) -> Subject:
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


def _of_matrix(key: str, label: str, matrix: Matrix, data: Interactions, where: str) -> Subject:
    n_items = data.n_items
    values = _finite(matrix.values, where)
    if values.shape == (n_items, n_items) and not matrix.as_factors:
        check_score_size(n_items)
        return ScoreMatrix(key, label, "scores", None, values, _as_it_is)
    if values.shape[0] == n_items:
        return _of_factors(key, label, values, where)
    if values.shape[1] == n_items:
        return _of_factors(key, label, values.T, where)
    raise InvalidDataError(
        f"{where} holds a {values.shape[0]:,} × {values.shape[1]:,} matrix, and neither side is "
        f"the number of items, {n_items:,}. Give one row for each item of the data, in the order "
        "of interactions.item_ids (first appearance in the file); filters must be the same."
    )


def _of_factors(key: str, label: str, Y: Floats, where: str) -> Projection:
    A = leading_directions(Y)
    if not A.shape[1]:
        raise InvalidDataError(f"{where} holds zeros only: the model was not fitted.")
    components = np.ascontiguousarray(A.T)
    low_rank = LowRank(components, np.ones(len(components)), _as_it_is)
    return Projection(key, label, "factors", None, low_rank, own_rank=True, vectors=Y)


def leading_directions(Y: Floats) -> Floats:
    """Orthonormal columns that span the columns of Y, longest direction first.

    Columns that are orthonormal already stay as they are, in the order given.

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


def _of_model(key: str, label: str, model: Recommender, data: Interactions) -> Subject:
    """A fitted model of this package, its columns in the order of the data."""
    order = _columns_in(model, data, label)
    if isinstance(model, ProjectionModel):
        read = model.low_rank()
        signal = _reordered(model.preprocess, order)
        components = read.components if order is None else read.components[:, order]
        low_rank = LowRank(np.ascontiguousarray(components), read.component_weights, signal)
        return Projection(key, label, "factors", None, low_rank, own_rank=True)
    if isinstance(model, FactorModel):
        Y = _finite(np.asarray(model.item_factors_), label)
        return _of_factors(key, label, Y if order is None else Y[order], label)
    if isinstance(model, ItemItemModel):
        check_score_size(data.n_items)
        weights: Any = model.coefficients_
        B = _finite(weights.toarray() if sp.issparse(weights) else np.asarray(weights), label)
        B = B if order is None else B[np.ix_(order, order)]
        return ScoreMatrix(key, label, "scores", None, B, _reordered(model.preprocess, order))
    raise InvalidParameterError(
        f"{label} is a {type(model).__name__}, which has neither item factors nor an item × item "
        "matrix to look into. Compare its accuracy with equipoise.evaluate."
    )


def _columns_in(model: Recommender, data: Interactions, label: str) -> NDArray[np.intp] | None:
    """Columns of the model for the data's items in their order; None where they are the same."""
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
            f"{data.n_items:,}, of which it does not know {len(unknown):,}"
            f"{': ' + name_a_few(unknown) if len(unknown) else ''}. Audit it on the data that it "
            "was fitted on, with the same filters."
        )
    return None if np.array_equal(order, np.arange(data.n_items)) else order


def _reordered(preprocess: Any, order: NDArray[np.intp] | None) -> Any:
    """A model's view of rows whose columns stand in the order of the data."""
    if order is None:
        return preprocess
    back = np.argsort(order)

    def signal(rows: sp.csr_array) -> sp.csr_array:
        seen = preprocess(sp.csr_array(rows[:, back]))
        again = sp.csr_array(seen[:, order])
        again.sort_indices()
        return again

    return signal


def _as_it_is(rows: sp.csr_array) -> sp.csr_array:
    return rows


def _finite(values: NDArray[Any], where: str) -> Floats:
    if values.dtype.kind not in "fiu":
        raise InvalidDataError(
            f"{where} must hold real numbers, got dtype {values.dtype}. Save item factors as "
            "floats."
        )
    if values.ndim != 2 or not values.size:
        raise InvalidDataError(
            f"{where} must hold a matrix with one row (or column) for each item, got shape "
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

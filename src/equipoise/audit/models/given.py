"""Models to audit that were fitted elsewhere: models, arrays, embeddings, lists, and files of them.

Item factors Y (m × r) are measured by the space that they span. With A an orthonormal basis of it
(the left singular vectors of Y, longest direction first; Y itself if its columns are orthonormal),
P = AAᵀ = Y(YᵀY)⁻¹Yᵀ: a user's scores are the projection XP of the user's row, a fold-in by least
squares. Self-reconstruction, error and AUC are defined for it. With user vectors, lists are by the
inner products of user and item, which are the model's own scores. An item × item matrix B is used
unchanged: scores X B, self-reconstruction B_jj.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from equipoise.audit.findings import Floats
from equipoise.audit.formatting import NOTES
from equipoise.audit.models import tables
from equipoise.audit.models.audited import (
    AnyRecommender,
    AuditedModel,
    ColumnOrder,
    Lists,
    OwnScores,
    Projection,
    ScoreMatrix,
    UserVectors,
    squared_errors,
)
from equipoise.audit.models.tables import check_score_size
from equipoise.audit.plan import Preparation
from equipoise.data.identifiers import Lookup, factorize, name_a_few
from equipoise.data.interactions import Interactions
from equipoise.data.readers.lists import ListTable, is_list_table, read_lists
from equipoise.data.readers.tables import frame_of, is_frame
from equipoise.data.rows import Prepare, RowBlock
from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.models import Recommender, VanillaPCA, load
from equipoise.models.item_vectors import ItemItem, LowRank, unchanged
from equipoise.models.user_rows import (
    ValueTransform,
    by_column,
    has_different_values,
    transform_rows,
)

# Float32 solvers are orthonormal to about 1e-6 (see `metrics.orthonormal_basis`). What was saved in
# float16 is orthonormal to about 1e-3, and is made so again without a change of order.
_ORTHONORMAL_WITHIN, _ROUNDED_WITHIN = 1e-5, 2e-3

# Sums of squares of larger numbers overflow.
_LARGEST = 1e150

# Directions shorter than this share of the longest are rounding.
_NOTHING_BELOW = 1e-7

# Values that models of other libraries are commonly fitted on.
_TRANSFORMS: tuple[ValueTransform | None, ...] = (None, "binary", "log1p", "shares")

# Values as given are taken unless others fit better by more than rounding and sampling.
_SMALLEST_GAIN = 0.02

_NO_IDS = "It has no ids, so its rows are taken to be in the order of the data."
_FOLDED = "Its user vectors are not as many as the users of the data: users are folded in instead."
_CHECKPOINTS = (".safetensors", ".pt", ".pth", ".ckpt", ".bin", ".onnx")


@dataclass(frozen=True, eq=False)
class Embeddings:
    """Vectors of a model, and the ids of their rows.

    Attributes
    ----------
    items : path, array, table, tensor, module or state dict
        Item vectors: see `equipoise.audit.audit`.
    item_ids : path, mapping, table or sequence, optional
        Ids in the order of the rows (one per line of a text file, a JSON list), or ids with their
        rows (a mapping, a JSON object, a table with a column `row`). Not needed if `items` has
        them; without any, rows are in the order of the data's items. Rows for padding are dropped.
    users : like `items`, optional
        User vectors, or a user tower's outputs: lists are then by the model's own scores, the
        inner products of user and item. By default a user is folded in by least squares.
    user_ids : like `item_ids`, optional
        Ids of the users.
    tensor, user_tensor : str, optional
        Names of the two tensors, or how the names end, where a source contains several.
    """

    items: Any
    item_ids: Any = None
    users: Any = None
    user_ids: Any = None
    tensor: str | None = None
    user_tensor: str | None = None


def read_models(
    models: Mapping[str, Any] | Sequence[Any], data: Interactions
) -> list[AuditedModel]:
    """Read the models that are audited next to ours.

    Parameters
    ----------
    models : mapping of label to model, or sequence of models
        See `equipoise.audit.audit`.
    data : Interactions
        For the items and users.
    """
    if isinstance(models, str | PathLike) or not isinstance(models, Mapping | Sequence):
        raise InvalidParameterError(
            f"models takes a list of files or models, or a mapping of names to them, got "
            f"{type(models).__name__}. Pass [it]."
        )
    named = (
        list(models.items())
        if isinstance(models, Mapping)
        else [(_label(one, place), one) for place, one in enumerate(models)]
    )
    return [
        replace(
            _read_model(str(label), one, data), key=f"given:{place}", label=str(label), given=True
        )
        for place, (label, one) in enumerate(named)
    ]


def with_preparation(model: AuditedModel, data: Interactions) -> AuditedModel:
    """Return a given model with the preparation of values that it was most likely fitted on.

    Factors and matrices of other libraries do not contain it, and numbers on other values than
    those of the fit would blame the model for the values. For factors, each preparation is scored
    by the sum of squares that they retain, divided by what PCA of as many components retains; for
    an item × item matrix by the share of squares that its scores explain. Of equals, values as
    given are taken.
    """
    if not isinstance(model, Projection | ScoreMatrix) or model.model.prepare is not unchanged:
        return model
    if not has_different_values(data):
        return model
    scores = {name: _fit_quality(model, data, name) for name in _TRANSFORMS}
    best = max(scores, key=lambda name: scores[name])
    if scores[best] <= scores[None] + _SMALLEST_GAIN:
        return model
    note = (
        f"Its fit agrees best with {Preparation(best)} ({scores[best]:.2f}; values as given "
        f"{scores[None]:.2f}; 1 is a perfect fit), so these are taken as its values."
    )
    prepared: Any = model.model._replace(prepare=partial(transform_rows, value_transform=best))
    return replace(model, model=prepared, notes=(*model.notes, note))


def _fit_quality(
    model: Projection | ScoreMatrix, data: Interactions, name: ValueTransform | None
) -> float:
    prepare = partial(transform_rows, value_transform=name)
    if isinstance(model, ScoreMatrix):
        left, total = data.total(squared_errors, model.model.coefficients, prepare)
        return float(1 - left.sum() / total.sum())
    components = model.model.components
    retained = float(data.total(_retained, components, prepare))
    pca = VanillaPCA(len(components), value_transform=name).for_search()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # fewer components than requested are fine
        return retained / float(pca.fit(data).eigenvalues_.sum())


def _retained(block: RowBlock, components: Floats, prepare: Prepare) -> Floats:
    return np.array(np.square(prepare(block.matrix) @ components.T).sum())


def notes_on(models: Sequence[AuditedModel]) -> list[str]:
    """Return how given models are measured, if there are any, and what they lack."""
    kinds = {model.kind for model in models if model.given}
    found = [note for kind, note in NOTES.items() if kind in kinds - {"intervals"}]
    return found + [f"{model.label}: {note}" for model in models for note in model.notes]


def _label(model: Any, place: int) -> str:
    if isinstance(model, Embeddings):
        model = model.items
    if isinstance(model, str | PathLike):
        return Path(model).name
    if isinstance(model, np.ndarray) or sp.issparse(model) or is_frame(model):
        return f"array {place + 1}"
    return type(model).__name__


def _read_model(label: str, given: Any, data: Interactions) -> AuditedModel:
    where = label
    if isinstance(given, str | PathLike):
        where, path = str(given), Path(given)
        given = load(path) if path.suffix.lower() == ".eqp" else tables.read_file(path)
    if isinstance(given, Recommender):
        order = _columns_in(given, data, label)
        notes = tables.Matched(order.model).note("item", "they are never recommended")
        return replace(audited(given, order, label), notes=notes)
    if is_frame(given):
        frame = frame_of(given)
        if is_list_table(frame.columns):
            return _of_lists(read_lists(frame, where), data, where)
        given = frame
    parts = given if isinstance(given, Embeddings) else Embeddings(given)
    if isinstance(parts.items, str | PathLike):
        where = str(parts.items)
    return _of_embeddings(parts, data, where)


def _of_embeddings(parts: Embeddings, data: Interactions, where: str) -> AuditedModel:
    """Return item vectors or an item × item matrix, with user vectors if there are any."""
    n_items = data.n_items
    table = tables.read_vectors(parts.items, where, "item", n_items, parts.tensor, parts.item_ids)
    values, ids = _finite(table.values, where), table.ids
    if ids is None:
        has_users = data.popularity() > 0
        ids = _ids_in_order(values.shape, data.item_ids, has_users)
        if ids is None or Path(where).suffix.lower() in _CHECKPOINTS:
            fewer = f" ({has_users.sum():,} of them in the training part)"
            raise InvalidDataError(
                f"{where} contains a {values.shape[0]:,} × {values.shape[1]:,} matrix without ids, "
                f"for {n_items:,} items{'' if has_users.all() else fewer}. Give the ids of the "
                "rows: --item-ids FILE, or Embeddings(..., item_ids=...). Without ids, an array "
                "needs one row per item, in the order of interactions.item_ids (first appearance "
                "in the file), with the same filters."
            )
    found = tables.find_rows(ids, data.item_ids, "item", where)
    notes = found.note("item", "they are never recommended")
    if table.ids is None:
        if values.shape == (len(ids), len(ids)) and not table.is_factors:
            check_score_size(n_items)
            B = _spread(_spread(values, found.place).T, found.place).T
            return ScoreMatrix(n_items, ItemItem(B, unchanged), notes=notes)
        values, notes = values if len(values) == len(ids) else values.T, (_NO_IDS, *notes)
    Y = _spread(values, found.place)
    low_rank = _low_rank(Y, where)
    users = _user_vectors(parts, table.users, data, Y.shape[1], where)
    if users is None:
        notes = notes if table.users is None else (*notes, _FOLDED)
        return Projection(n_items, low_rank, Y, notes=notes)
    vectors, missing = users
    own = UserVectors(n_items, vectors, Lookup(data.user_ids, "user"), Y, found.place < 0)
    return OwnScores(n_items, low_rank, Y, scoring=own, notes=(*notes, *missing))


def _ids_in_order(
    shape: tuple[int, ...], ids: NDArray[Any], present: NDArray[np.bool_]
) -> NDArray[Any] | None:
    """Return the ids of rows (or columns) without ids; None if their number fits neither set.

    All ids of the data, or those with an interaction: a model that was fitted on the file of a
    training part has no rows for items and users that only the other parts contain.
    """
    return next((c for c in (ids, ids[present]) if len(c) in shape), None)


def _spread(values: NDArray[Any], place: NDArray[np.intp], missing: float = 0.0) -> NDArray[Any]:
    """Return one row per place; where there is none, the missing value."""
    return np.where((place < 0)[:, None], np.asarray(missing, values.dtype), values[place])


def _user_vectors(
    parts: Embeddings, own: NDArray[Any] | None, data: Interactions, width: int, where: str
) -> tuple[Floats, tuple[str, ...]] | None:
    """Return one vector per user of the data and a last row of nan, and what is missing.

    The vectors are given, or come with the items; None without any.
    """
    where = f"{where} (users)"

    def in_order(values: NDArray[Any]) -> NDArray[Any] | None:
        return _ids_in_order(values.shape[:1], data.user_ids, data.items_per_user() > 0)

    if parts.users is not None or parts.user_tensor is not None:
        source = parts.items if parts.users is None else parts.users
    elif own is not None and (parts.user_ids is not None or in_order(own) is not None):
        source = own
    else:
        return None
    table = tables.read_vectors(
        source, where, "user", data.n_users, parts.user_tensor, parts.user_ids
    )
    values = _finite(table.values, where)
    known = in_order(values) if table.ids is None else table.ids
    known = data.user_ids if known is None else known
    if len(values) != len(known) or values.shape[1] != width:
        raise InvalidDataError(
            f"{where} is {len(values):,} × {values.shape[1]:,}, and {len(known):,} users × {width} "
            "were expected: one vector per user, as long as those of the items. Pass user_ids "
            "(--user-ids FILE) if its rows are not the users of the data."
        )
    found = tables.find_rows(known, data.user_ids, "user", where)
    vectors = _spread(values, np.append(found.place, -1), np.nan)
    return vectors, found.note("user", "they get no list")


def _of_lists(found: ListTable, data: Interactions, where: str) -> Lists:
    users, items = factorize(found.users, "user"), factorize(found.items, "item")
    matched_users = tables.find_rows(users.ids, data.user_ids, "user", where)
    matched_items = tables.find_rows(items.ids, data.item_ids, "item", where)
    column = np.full(len(items.ids), -1, dtype=np.int32)
    here = matched_items.place >= 0
    column[matched_items.place[here]] = np.flatnonzero(here)
    listed = np.full((len(users.ids), int(found.places.max()) + 1), -1, dtype=np.int32)
    listed[users.codes, found.places] = column[items.codes]
    # one row per user of the data, and an empty last one for users without a list
    shown = _spread(listed, np.append(matched_users.place, -1), -1)
    never = data.n_items - len(np.unique(shown[shown >= 0]))
    notes = [
        f"Lists of {int((matched_users.place >= 0).sum()):,} users, with up to "
        f"{shown.shape[1]:,} items; {never:,} of the {data.n_items:,} items are in none of them.",
        *matched_users.note("user", "they have no list"),
    ]
    if matched_items.extra:
        notes.append(f"{matched_items.extra:,} items of the lists are not in the data.")
    if found.older:
        notes.append(f"{found.older:,} rows of earlier lists are left out.")
    return Lists(data.n_items, shown, Lookup(data.user_ids, "user"), notes=tuple(notes))


def _low_rank(Y: Floats, where: str) -> LowRank:
    """Return the projection onto the space that item vectors span."""
    components = np.ascontiguousarray(leading_directions(Y).T)
    if not len(components):
        raise InvalidDataError(f"{where} contains only zeros. Fit the model first.")
    return LowRank(components, np.ones(len(components)), unchanged)


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
    return A[:, lengths > _NOTHING_BELOW * lengths.max(initial=0.0)]


def audited(model: Recommender, order: ColumnOrder | None = None, label: str = "") -> AuditedModel:
    """Return a fitted model as the audit measures it.

    Parameters
    ----------
    model : Recommender
        Fitted.
    order : ColumnOrder, optional
        Where the model has the items; by default in the order of the data.
    label : str
        Its name in errors.
    """
    order = order or ColumnOrder.of(np.arange(model.n_features_in_), model.n_features_in_)
    n_items, low_rank, item_item = len(order.model), model.low_rank(), model.item_item()
    if low_rank is not None:
        components, weights, prepare = low_rank
        aligned = LowRank(order.take(components, 1), weights, order.preparation(prepare))
        return Projection(n_items, aligned)
    if item_item is not None:
        check_score_size(n_items)
        given: Any = item_item.coefficients
        B = order.take(_finite(given.toarray() if sp.issparse(given) else given, label), 0, 1)
        return ScoreMatrix(n_items, ItemItem(B, order.preparation(item_item.prepare)))
    own, factors = AnyRecommender(n_items, by_column(model), order), model.factors()
    if factors is None:
        return own
    Y = order.take(_finite(np.asarray(factors.items), label), 0)
    return OwnScores(n_items, _low_rank(Y, label), Y, scoring=own)


def _columns_in(model: Recommender, data: Interactions, label: str) -> ColumnOrder:
    """Return the model's columns of the data's items."""
    if model.item_ids_ is None:
        if model.n_features_in_ != data.n_items:
            raise InvalidDataError(
                f"{label} was fitted on {model.n_features_in_:,} items, the data have "
                f"{data.n_items:,}. Audit it on the data that it was fitted on."
            )
        return ColumnOrder.of(np.arange(data.n_items), data.n_items)
    columns = Lookup(data.item_ids, "item").find(model.item_ids_)
    if (columns < 0).any():
        raise InvalidDataError(
            f"{label} was fitted on {len(columns):,} items, of which {(columns < 0).sum():,} are "
            f"not among the {data.n_items:,} of the data: "
            f"{name_a_few(model.item_ids_[columns < 0])}. Audit it on the data that it was fitted "
            "on, with the same filters."
        )
    return ColumnOrder.of(columns, data.n_items)


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
    bad = np.argwhere(~(np.abs(wide) <= _LARGEST))
    if len(bad):
        raise InvalidDataError(
            f"{where} has {len(bad):,} entries that are NaN, infinite or too large, the first in "
            f"row {bad[0][0]}, column {bad[0][1]}. Did the fit diverge?"
        )
    return wide

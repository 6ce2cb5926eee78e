"""Update a fitted PCA on new data in one or two passes, with a bound of what a refit would gain."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from equipoise.checks import check_whole_number
from equipoise.data.identifiers import show
from equipoise.data.interactions import Interactions
from equipoise.data.preparation import Step, state_of
from equipoise.exceptions import InvalidDataError, InvalidParameterError, PreparationWarning
from equipoise.models.estimator import check_is_fitted, clone
from equipoise.parallel import one_blas_thread
from equipoise.progress import Progress
from equipoise.spectral.certificate import Components, certify_pairs
from equipoise.spectral.gram import DenseGram, WeightedGram
from equipoise.spectral.refine import refine

if TYPE_CHECKING:
    from equipoise.models.pca.projection import ProjectionModel

# Random vectors in addition to the old components: they find new directions. More hardly help.
_EXTRA = 8

# Passes after which a refit follows if the bound is still too large. Each pass adds as many vectors
# as the first one, and divides the bound by about three; a fit takes 7 to 27 passes.
_MOST_PASSES = 6

# Differences of sums below this, relative to the largest sum, are rounding.
_ROUNDING = 1e-9


class Update(NamedTuple):
    """An updated model and what it may lack.

    Attributes
    ----------
    model : ProjectionModel
        The model of the new data.
    loss : float
        Upper bound of what a full refit would gain, relative to the objective: the gap of the
        certificate, an estimate unless ``certificate_.method`` is rigorous.
    passes : int
        Passes over the data, those of a refit included.
    refitted : bool
        Whether the bound exceeded `refit_above`.
    """

    model: Any
    loss: float
    passes: int
    refitted: bool


def update(
    model: ProjectionModel,
    interactions: Interactions,
    *,
    passes: int = 2,
    refit_above: float | None = None,
    progress: Progress | None = None,
) -> Update:
    """Update a model on all data of today; see `ProjectionModel.update`."""
    check_is_fitted(model)
    check_whole_number("passes", passes, least=1)
    if refit_above is not None and not refit_above >= 0:  # NaN is not, either
        raise InvalidParameterError(
            f"refit_above={refit_above!r} (--refit-above) must be a number of at least 0."
        )
    data = _like_training(model, interactions)
    new = _with_new_items(model, data.item_ids)
    data = data.align_items(new._item_lookup, unknown="drop")
    start = np.zeros((new.n_features_in_, len(model.components_)))  # 0 for the new items
    start[: model.n_features_in_] = model.components_.T
    new._accept(data)
    _warn_of_amount(model, int(new.item_counts_.sum()), all_data=True)
    new._dtype, new.solver_ = data.dtype, "matrix_free"
    gram = new._signal(data).gram(kind="matrix_free")
    weights = new._weights_of(new.item_norms_)
    operator = WeightedGram(gram, weights)
    rank, rng = new.n_components, np.random.default_rng(0)
    with one_blas_thread():
        for pairs in refine(operator, start, rank, extra=_EXTRA, passes=passes, rng=rng):
            certificate = certify_pairs(pairs, rank, operator.scale)
            enough = refit_above is None or certificate.gap <= refit_above
            if enough or pairs.passes >= _MOST_PASSES:
                break
    if refit_above is not None and certificate.gap > refit_above:
        refitted = clone(model).fit(data, progress=progress)
        taken = pairs.passes + refitted.certificate_.passes
        return Update(refitted, refitted.certificate_.gap, taken, refitted=True)
    _learn(new, weights, Components(pairs.in_units(operator.scale), certificate))
    return Update(new, certificate.gap, pairs.passes, refitted=False)


def _warn_of_amount(old: ProjectionModel, given: int, *, all_data: bool) -> None:
    """Warn of fewer entries than those of the fit as all data, and of as many as new rows."""
    before = int(old.item_counts_.sum())
    if all_data and given < before:
        message = (
            f"the data have {given:,} interactions, those of the fit had {before:,}. An update "
            "with all data (all_data=True, --all) forgets what is not in them. To add the rows of "
            "new users alone, leave that out; the fit must have kept its sums (keep_gram, fit "
            "--keep-sums)."
        )
    elif not all_data and given >= before:
        message = (
            f"{given:,} interactions are added to the {before:,} of the fit. Rows that were part "
            "of the fit would count twice. Pass new rows alone, or all data with all_data=True "
            "(--all)."
        )
    else:
        return
    warnings.warn(message, PreparationWarning, stacklevel=4)


def _refuse_other_rows(item_ids: Any, counts: Any, squared_norms: Any) -> None:
    """Refuse replaced rows that were not part of the fit: nothing can be left below zero."""
    below = (counts < 0) | (squared_norms < -_ROUNDING * np.abs(squared_norms).max())
    if below.any():
        raise InvalidDataError(
            f"the replaced rows have more of item {show(item_ids[below.argmax()])} than the fit "
            "had. Pass rows that were part of it, with the values of that time."
        )


def update_from_gram(
    model: ProjectionModel, added: Interactions, replaced: Interactions | None = None
) -> Update:
    """Fit again from the sums XᵀX that the model keeps, and the rows that changed."""
    check_is_fitted(model)
    if not hasattr(model, "gram_"):
        raise InvalidParameterError(
            "new rows alone cannot be added: the model keeps no sums XᵀX of its training data. "
            "Pass all data, old and new, with all_data=True (--all), or fit it with keep_gram "
            "(fit --keep-sums)."
        )
    chosen = state_of(model.preparation_).selected  # items were left out before the fit
    new = _with_new_items(model, added.item_ids[:0] if chosen else added.item_ids)
    size = new.n_features_in_
    C = np.zeros((size, size))
    summed = len(model.gram_)  # items of add_items are not in the sums
    C[:summed, :summed] = model.gram_
    counts = np.zeros(size, dtype=np.int32)
    counts[:summed] = model.item_counts_[:summed]
    for given, sign in ((replaced, -1), (added, 1)):
        data = None if given is None else _active_users(model, given)
        if data is not None:
            rows = new.prepare(data)
            C += sign * rows.prepared(new._row_transform()).dense_gram().matrix()
            changes = rows.popularity("count").astype(np.int32)
            counts += sign * changes
            if sign < 0:
                _refuse_other_rows(new.item_ids_, counts, C.diagonal())
            elif replaced is None:
                _warn_of_amount(model, int(changes.sum()), all_data=False)
    gone = counts == 0  # what is left of their sums is rounding
    C[gone], C[:, gone] = 0.0, 0.0
    new.gram_, new.item_counts_ = C, counts
    new.item_norms_ = np.sqrt(np.maximum(C.diagonal(), 0.0))
    weights = new._weights_of(new.item_norms_)
    new.solver_, new._dtype = "gram", model.components_.dtype
    found = new._leading(DenseGram(C), "gram", weights)
    _learn(new, weights, found)
    return Update(new, found.certificate.gap, 0, refitted=True)


def _active_users(model: ProjectionModel, data: Interactions) -> Interactions | None:
    """Leave out users with too few items for the filter of the fit; None if no user is left.

    Rows that were filtered before are taken as they are.
    """
    if any(step.name == "filter" for step in data.preparation):
        return data
    for settings in (step.settings for step in model.preparation_ if step.name == "filter"):
        users_first = settings["order"] == "users_first" and not settings["until_stable"]
        counted = data if users_first else data.align_items(model._item_lookup, unknown="drop")
        active = counted.items_per_user() >= settings["min_items_per_user"]
        if not active.any():
            return None
        if not active.all():
            data = data.select_users(data.user_ids[active])
    return data


def _learn(model: Any, weights: Any, found: Components) -> None:
    if hasattr(model, "item_weights_"):
        model.item_weights_, model.error_budget_multiplier_ = weights, 0.0
    model._learn(found)


def _with_new_items(model: ProjectionModel, item_ids: Any) -> Any:
    """Return a copy of a model with the items that it lacks, last; nothing is learned of them."""
    new = model._with_new_items(item_ids)
    for name in ("gram_", "projection_errors_"):
        new.__dict__.pop(name, None)
    return new


def _like_training(model: ProjectionModel, data: Interactions) -> Interactions:
    """Repeat the preparation of the fit, filters included, on all data."""
    done, wanted = _without_read(data.preparation), _without_read(model.preparation_)
    if wanted[: len(done)] != done:
        raise InvalidDataError(
            f"the data were prepared in another way than those of the fit: "
            f"{', '.join(map(str, done))}. Pass the data as they were read."
        )
    for step in wanted[len(done) :]:
        if step.name not in ("filter", "binarize", "normalize_rows"):
            raise InvalidDataError(
                f"{step} was done before the fit and cannot be repeated. Do it before the update."
            )
        data = getattr(data, step.name)(**step.settings)
    return data.with_preparation(model.preparation_)


def _without_read(steps: tuple[Step, ...]) -> list[Step]:
    return [step for step in steps if step.name != "read"]

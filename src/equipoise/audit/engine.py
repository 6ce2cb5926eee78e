"""`audit`: from interactions, and optionally other models, to `Findings`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np

from equipoise import __version__
from equipoise.audit.advice import UNNAMED, Selection, advise, select
from equipoise.audit.audited_model import AuditedModel, Projection
from equipoise.audit.factors import notes_on, read_models
from equipoise.audit.findings import Findings, Settings
from equipoise.audit.formatting import plain, symbol
from equipoise.audit.measure import Measured, measure, to_variant
from equipoise.audit.plan import (
    LARGEST_TRIED,
    Study,
    depth_for,
    exponents_with,
    prepare,
    sizes_up_to,
    summarize,
)
from equipoise.audit.sampling import as_positions, columns_of, items_of, pick_items, view_users
from equipoise.audit.verdict import judge
from equipoise.checks import check_whole_number
from equipoise.data.interactions import Interactions
from equipoise.exceptions import InvalidDataError, InvalidParameterError, SolverWarning
from equipoise.models import Recommender
from equipoise.models.low_rank import LowRank
from equipoise.models.registry import find_model
from equipoise.progress import Progress, task

DEFAULT_RANK, DEFAULT_GAMMA, DEFAULT_K = 32, -1.0, 20

# Names in the registry of models: the baseline, another one, and the model that is audited.
_PCA, _NORMALIZED, _WEIGHTED = "pca", "normalized", "item-weighted"

# At smaller sizes than its own a fit has to be more accurate, which is affordable up to this size.
_ACCURATE_UP_TO = 2_000_000


def audit(
    interactions: Interactions,
    *,
    names: Any = None,
    rank: int | Literal["auto"] = DEFAULT_RANK,
    gamma: float = DEFAULT_GAMMA,
    groups: Literal["interactions", "items"] = "interactions",
    factors: Mapping[str, Any] | Sequence[Any] = (),
    k: int = DEFAULT_K,
    seed: int = 0,
    normalize: bool | None = None,
    source: str = UNNAMED,
    data_options: Mapping[str, Any] | None = None,
    progress: Progress | None = None,
) -> Findings:
    """Find which items a low-rank model fails, which it memorizes, and what item weights change.

    PCA, Normalized PCA and Item-Weighted PCA at several exponents γ are fitted once each, with up
    to 1,024 components, as long as a fit takes about ten seconds. They are measured at 1, 2, 4, …
    components. Errors, self-reconstruction and item AUC are measured in-sample, accuracy on a
    hold-out. A setting is recommended by a validation part. ``settings.notes`` lists every sample
    and preparation.

    Parameters
    ----------
    interactions : Interactions
        Users × items, in memory, on disk or on a cluster; the findings are the same.
    names : mapping, table or path, optional
        Names of the items; see `Interactions.with_names`.
    rank : int or "auto"
        Number of components that headlines, tables and neighbors are about; "auto" chooses the
        best on validation.
    gamma : float
        Exponent of the item weights that they are about, to six digits.
    groups : {"interactions", "items"}
        The rule of the popularity groups; see `equipoise.metrics.popularity_groups`.
    factors : mapping of label to model, or sequence of models
        Other models to audit: paths, arrays or fitted models; see `equipoise.audit.factors`.
    k : int
        Length of recommended lists.
    seed : int
        Of the hold-out and of every sample.
    normalize : bool, optional
        Divide each row by its sum. By default only if the heaviest 1 % of users have more than a
        quarter of ‖X‖²: they would dominate PCA.
    source : str
        Name of the data in the report and in the recommended command.
    data_options : mapping of str to value, optional
        How the data were read and prepared, for the recommended calls: names and values of
        command-line options, e.g. ``{"min_items_per_user": 5, "binarize": True}``.
    progress : Progress, optional
        Receives the progress, e.g. `equipoise.progress.display.ProgressBar()`; silent by default.

    Returns
    -------
    Findings
        Equal for equal input.

    Examples
    --------
    >>> from equipoise.data.synthetic import listening
    >>> found = audit(listening(n_users=200, n_items=60), rank=4)
    >>> found
    Findings(interactions: 200 users × 60 items; n_components=4, gamma=-1.0; 7 variants)
    >>> [variant.key for variant in found.variants][:3]
    ['pca', 'normalized', 'item-weighted:0']
    """
    _check(interactions, rank, gamma, groups, k, seed)
    base = find_model(_WEIGHTED).make()
    exponents = exponents_with(float(f"{gamma:g}") + 0.0)  # six digits, as in the keys; no −0
    # one step for each of: preparing, three fits, model selection, measuring PCA and Normalized
    # PCA, the findings
    steps = 8 + len(exponents) + len(factors)
    with task(progress, "Auditing", steps) as auditing:
        step = _Steps(auditing)
        step.begin("Preparing the data")
        named = interactions if names is None else interactions.with_names(names)
        given = read_models(factors, named)
        asked = 1 if rank == "auto" else min(rank, named.n_items)
        depth = depth_for(named, at_least=asked)
        n_sizes = len(sizes_up_to(depth, asked))
        study = prepare(named, groups=groups, seed=seed, normalize=normalize, n_sizes=n_sizes)
        ours = _fit(study.fitted, base, exponents, depth, step)
        available = max(model.depth for model in ours)
        sizes = sizes_up_to(min(available, LARGEST_TRIED), min(asked, available))
        size_parameter, exponent = _parameters(base)
        step.begin("Choosing a setting on the validation part")
        grid = {size_parameter: sizes, exponent: exponents}
        selection = select(study.validation, base, grid, k, auditing)
        size, chosen_by = _audited_size(rank, available, selection, size_parameter)
        common = sizes_up_to(available, size)
        measured: list[Measured] = []
        for model in (*ours, *given):
            step.begin(f"Measuring {_title(model)}")
            if model.settings.get(exponent) == 0:  # PCA, which was measured first
                measured.append(_relabeled(measured[0], model))
            else:
                measured.append(measure(model, study, common, (size_parameter, size), k))
        step.begin("Writing the findings")
        settings = Settings(
            audited={size_parameter: size, exponent: float(f"{gamma:g}") + 0.0},
            size_parameter=size_parameter,
            size_chosen_by=chosen_by,
            k=k,
            groups=groups,
            seed=seed,
            notes=(*study.notes, *_notes(named, depth, measured)),
        )
        options = dict(data_options or {})
        if study.normalized:
            options["normalize_rows"] = True
        found = _findings(study, settings, measured, selection, source, options)
        auditing.advance()
        return found


class _Steps:
    """The steps of an audit; each ends when the next one begins."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress
        self._begun = False

    def begin(self, name: str) -> None:
        """Name the next step; the one before is done."""
        if self._begun:
            self.progress.advance()
        self._begun = True
        self.progress.note(name)


def _check(interactions: Any, rank: Any, gamma: Any, groups: Any, k: Any, seed: Any) -> None:
    if not isinstance(interactions, Interactions):
        raise InvalidDataError(
            f"audit takes Interactions, got {type(interactions).__name__}. Build them with "
            "Interactions.read(path) or Interactions.from_sparse(matrix)."
        )
    if interactions.nnz == 0:
        raise InvalidDataError(
            f"there is nothing to audit: {interactions.n_users} users × {interactions.n_items} "
            "items without any interaction. Check the input and the filters."
        )
    if rank != "auto":
        check_whole_number("rank", rank, least=1)
    if not isinstance(gamma, int | float | np.number) or not np.isfinite(gamma):
        raise InvalidParameterError(f"gamma must be a finite number, got {gamma!r}.")
    if groups not in ("interactions", "items"):
        raise InvalidParameterError(f"groups must be 'interactions' or 'items', got {groups!r}.")
    check_whole_number("k", k, least=1)
    check_whole_number("seed", seed)


class _Parameters(NamedTuple):
    """The two parameters of the audited model: its size, and the exponent of its weights."""

    size: str
    exponent: str


def _parameters(base: Recommender) -> _Parameters:
    (exponent,) = base.shared_parameters
    return _Parameters(str(base.size_parameter), exponent)


def _fit(
    fitted: Interactions, base: Recommender, exponents: Sequence[float], depth: int, step: _Steps
) -> list[Projection]:
    """Fit PCA, Normalized PCA, and Item-Weighted PCA at every exponent, each at full depth."""
    size, exponent = _parameters(base)

    def ready(model: Recommender) -> Recommender:
        accurate = model.for_evaluation() if fitted.nnz <= _ACCURATE_UP_TO else model
        sized: Recommender = accurate.set_params(**{size: depth})
        return sized

    def variant(key: str, model: Recommender, settings: dict[str, Any]) -> Projection:
        name = ":".join([key, *map(plain, settings.values())])
        low_rank: LowRank = model.low_rank()  # type: ignore[assignment]  # all are projections
        return Projection(name, find_model(key).title, key, settings, low_rank)

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SolverWarning)  # fewer components than requested are fine
        for key in (_PCA, _NORMALIZED):
            step.begin(f"Fitting {find_model(key).title}")
            model = ready(find_model(key).make()).fit(fitted, progress=step.progress)
            found.append(variant(key, model, {}))
        path = [{exponent: value} for value in exponents if value != 0]
        values = ", ".join(plain(one[exponent]) for one in path)
        step.begin(f"Fitting {find_model(_WEIGHTED).title} at {symbol(exponent)} = {values}")
        models = ready(base).fit_many(fitted, path, progress=step.progress)
    weighted = {one[exponent]: model for one, model in zip(path, models, strict=True)}
    for value in exponents:
        settings = {exponent: value}
        if value == 0:
            found.append(replace(found[0], key=f"{_WEIGHTED}:0", kind=_WEIGHTED, settings=settings))
            found[-1] = replace(found[-1], label=find_model(_WEIGHTED).title)
        else:
            found.append(variant(_WEIGHTED, weighted[value], settings))
    return found


def _relabeled(measured: Measured, model: AuditedModel) -> Measured:
    """Return the numbers of one variant as those of another that is the same model."""
    rows = tuple(
        replace(row, model=model.label, settings={**model.settings, **row.settings})
        for row in measured.rows
    )
    return replace(measured, model=model, rows=rows)


class _AuditedSize(NamedTuple):
    size: int
    chosen_by: str


def _audited_size(
    rank: int | str, available: int, selection: Selection | None, size_parameter: str
) -> _AuditedSize:
    """Return the audited number of components, and how it was chosen."""
    if rank == "auto":
        if selection is not None:
            best = int(selection.choice.settings[size_parameter])
            return _AuditedSize(best, "best NDCG on the validation part, over γ and rank")
        default = min(DEFAULT_RANK, available)
        return _AuditedSize(default, f"no validation part to choose on, so the default {default}")
    asked = int(rank)
    if asked > available:
        return _AuditedSize(
            available, f"given as {asked}; the data have only {available} components"
        )
    return _AuditedSize(asked, "given")


def _notes(data: Interactions, depth: int, measured: Sequence[Measured]) -> list[str]:
    """List what was limited or sampled, without the preparation of the data."""
    notes = []
    if depth < data.n_items:
        notes.append(
            f"The first {depth:,} components of each model are computed. An item whose error they "
            "do not halve counts with all of them in a mean, which is then a lower bound."
        )
    return notes + notes_on([one.model for one in measured])


def _title(model: AuditedModel) -> str:
    values = [f", {symbol(name)} = {plain(value)}" for name, value in model.settings.items()]
    return "".join([model.label, *values])


def _findings(
    study: Study,
    settings: Settings,
    measured: Sequence[Measured],
    selection: Selection | None,
    source: str,
    data_options: Mapping[str, Any],
) -> Findings:
    audited = settings.audited.items()
    compared = [one for one in measured if one.model.settings.items() <= audited]
    views = view_users(
        study, [one.model for one in compared], settings.size, settings.k, settings.seed
    )
    weighted = next(one for one in compared if one.model.settings)
    columns = pick_items(study, measured, compared[0], weighted, columns_of(views), settings.seed)
    if len(columns) < study.data.n_items:
        listed = (
            f"{len(columns):,} of {study.data.n_items:,} items are listed: the most and least "
            "popular, those that change most, owners of components, those of the listed users, and "
            "a random sample. Neighbors are the nearest of these; means are over all items."
        )
        settings = replace(settings, notes=(*settings.notes, listed))
    variants = tuple(to_variant(one, study, columns, settings.size) for one in measured)
    data = summarize(study, source)
    advice = advise(_WEIGHTED, settings, selection, source, data_options)
    return Findings(
        data=data,
        settings=settings,
        variants=variants,
        items=items_of(study, columns),
        users=tuple(as_positions(view, columns) for view in views),
        verdict=judge(data, settings, variants, selection, advice),
        version=__version__,
    )

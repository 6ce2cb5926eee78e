"""`evaluate`: models × settings × metrics → one tidy table."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__, defaults
from equipoise.checks import check_whole_number
from equipoise.data.groups import Groups
from equipoise.data.identifiers import Lookup, is_missing
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.cache import FORMAT, Cache, Scored
from equipoise.evaluation.cost import Cost, Usage, UsageMeter
from equipoise.evaluation.nested import NestedLists
from equipoise.evaluation.plan import (
    Fit,
    Grid,
    KeptFits,
    Model,
    Models,
    Settings,
    batches,
    named_models,
    plan,
    variant_of,
    with_sizes,
)
from equipoise.evaluation.scoring import GivenLists, ModelLists, measure_items, measure_lists
from equipoise.evaluation.task import Part, Task, as_split
from equipoise.exceptions import (
    InfeasibleError,
    InvalidDataError,
    UnknownIdError,
)
from equipoise.metrics import Context, ItemGroups, Metric, Request, Result, Results
from equipoise.metrics.ranking import check_zero_division
from equipoise.metrics.registry import available, parse_metrics
from equipoise.models import Recommender
from equipoise.models.estimator import clone
from equipoise.models.item_vectors import LowRank
from equipoise.progress import NoProgress, Progress
from equipoise.progress import task as progress_task

DEFAULT_METRICS = (
    "recall",
    "precision",
    "ndcg",
    "mrr",
    "aplt",
    "coverage",
    "item_auc",
    "item_precision",
    "specialization",
)


def evaluate(
    data: Interactions | Split,
    models: Models | None = None,
    *,
    grid: Grid | None = None,
    ranks: int | Sequence[int] | None = None,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    k: int | Sequence[int] = defaults.MEASURED_K,
    groups: str | ItemGroups = defaults.GROUPS,
    user_groups: Groups | None = None,
    zero_division: float = defaults.ZERO_DIVISION,
    part: Part = "test",
    item_sample: int | None = None,
    seed: int = defaults.SEED,
    per_user: bool = False,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Results:
    """Score models with many settings and many metrics.

    One fit of a PCA gives every smaller number of components and every spectral filter. Other
    models are fitted once per setting. Metrics of items (specialization, item AUC, …) need a
    projection: models without one have no such rows. The data may be in memory, on disk or on a
    cluster.

    Parameters
    ----------
    data : Split or Interactions
        Interactions are split by the defaults of `equipoise.data.holdout`.
    models : mapping of name to model, list of models, or model; optional
        Unfitted models, or arrays of lists (users × k, best first) that another model
        recommended: column numbers of items, or ids that are not whole numbers. A list may also
        contain names as in ``equipoise models``, or ``"all"``. PCA, Normalized PCA and
        Item-Weighted PCA by default.
    grid : mapping of str to sequence, or list of such mappings; optional
        Values of parameters, of which every combination is evaluated. Each model takes the
        parameters that it has, and keeps its own value of the others. By default 4, 8, …, 128
        components, for models that have components.
    ranks : int or sequence of int, optional
        Values of the number of components, for models that have one; short for a grid of it.
    metrics : sequence of str or Metric
        ``name[@k][:convention]``, e.g. ``"ndcg"``, ``"mrr@20:lightgcn"``; see
        `equipoise.metrics.available`.
    k : int or sequence of int
        Cut-offs of the metrics without their own.
    groups : {"interactions", "items", "head80"} or Groups
        Groups of items, for the metrics that are reported by group: by popularity, or your own.
    user_groups : Groups, optional
        Groups of users. Every metric that is a mean over users has a row for each of them, whose
        group is ``"users: name"``.
    zero_division : {nan, 0}
        Value for users without held-out items: nan leaves them out of a mean; the paper counts 0.
    part : {"test", "validation"}
        Fit on train + validation and look for the test items, or fit on train and look for the
        validation items.
    item_sample : int, optional
        Compute item AUC and item precision of this many items, drawn at random.
    seed : int
        Draws the item sample.
    per_user : bool
        Keep the value of every user, for intervals and comparisons.
    cache : path, optional
        A folder. Fits in it are not repeated if data and settings agree.
    progress : Progress, optional
        Receives the progress, e.g. `equipoise.progress.display.ProgressBar()`; silent by default.

    Returns
    -------
    Results
        After Ctrl-C those of the completed fits, with ``complete=False``. Its `costs` list the
        seconds and memory of each fit.

    Examples
    --------
    Even users like even items and odd users odd ones:

    >>> import scipy.sparse as sp
    >>> board = [[float((i + j) % 2 == 0) for j in range(12)] for i in range(9)]
    >>> checkerboard = Interactions.from_sparse(sp.csr_array(board))
    >>> table = evaluate(checkerboard, grid={"n_components": [2]}, metrics=["recall"], k=2)
    >>> [(row.model, row.value) for row in table]
    [('PCA', 1.0), ('Normalized PCA', 1.0), ('Item-Weighted PCA', 1.0)]
    """
    check_zero_division(zero_division)
    task = Task.of(as_split(data), part, groups, user_groups)
    requests = parse_metrics(metrics, k)
    chosen = named_models(models)
    chosen = {name: columns_of(name, one, task) for name, one in chosen.items()}
    fits = plan(chosen, with_sizes(grid, ranks, chosen.values()), task.n_items)
    with progress_task(progress, "Evaluating", len(fits)) as evaluating:
        run = Run(
            task,
            requests,
            zero_division,
            items=sampled_items(task.n_items, item_sample, seed),
            per_user=per_user,
            cache=None if cache is None else Cache(cache),
            progress=evaluating,
        )
        done: dict[tuple[str, int], tuple[Settings, Scored]] = {}
        complete = True
        try:
            for fit, scored in run.scored(fits):
                places = zip(fit.positions, fit.settings, scored, strict=True)
                done |= {(fit.name, place): (settings, one) for place, settings, one in places}
                evaluating.advance()
        except KeyboardInterrupt:
            complete = False
    return _results([fit.name for fit in fits], done, complete)


def columns_of(name: str, model: Model, task: Task) -> Model:
    """Return lists of item ids as columns; models and lists of columns unchanged."""
    if isinstance(model, Recommender) or model.dtype.kind in "iu":
        return model
    flat = model.ravel()
    missing = np.array([is_missing(each) for each in flat], dtype=bool)  # short lists
    columns = np.full(flat.size, -1)
    try:
        columns[~missing] = Lookup(task.fitted.item_ids, "item").require(flat[~missing])
    except UnknownIdError as error:
        raise InvalidDataError(
            f"the lists of {name!r} contain items that are not in the data. {error}"
        ) from error
    return columns.reshape(model.shape)


def _results(
    names: Sequence[str], done: dict[tuple[str, int], tuple[Settings, Scored]], complete: bool
) -> Results:
    """Put what was scored in the order of models and settings."""
    order = {name: number for number, name in enumerate(dict.fromkeys(names))}
    rows: list[Result] = []
    costs = []
    for name, place in sorted(done, key=lambda key: (order[key[0]], key[1])):
        settings, scored = done[name, place]
        rows += [replace(row, model=name, settings=settings) for row in scored.rows]
        if scored.usage is not None and scored.parameters_kept is not None:
            costs.append(Cost(name, settings, *scored.usage, scored.parameters_kept))
    return Results(tuple(rows), complete, tuple(costs))


@dataclass(eq=False)
class Run:
    """Fits models and scores them on one task.

    Attributes
    ----------
    task, requests, zero_division, items, per_user
        As in `evaluate`.
    searching : bool
        Compute the lists of projections in float32 where the data allow it, measure no costs of
        fits, and yield no scores for settings that cannot be met, instead of the error.
    cache : Cache or None
        Where scores are stored.
    kept : KeptFits
        Fits of earlier runs on the same data, which are used again, and where these are kept.
    progress : Progress
        Receives notes.
    """

    task: Task
    requests: tuple[Request, ...]
    zero_division: float = np.nan
    items: NDArray[np.intp] | None = None
    per_user: bool = False
    searching: bool = False
    cache: Cache | None = None
    kept: KeptFits = field(default_factory=lambda: KeptFits(0))
    progress: Progress = field(default_factory=NoProgress)

    @cached_property
    def context(self) -> Context:
        """What all metrics share."""
        return self.task.context(self.zero_division)

    def scored(self, fits: Sequence[Fit]) -> Iterator[tuple[Fit, list[Scored]]]:
        """Yield every fit with the scores of its settings: from the cache first, then fitted."""
        pending = []
        for fit in fits:
            stored = self._load(fit)
            if stored is None:
                pending.append(fit)
            else:
                self.progress.note(f"{fit.name}: from the cache")
                yield fit, stored
        for batch in batches(pending):
            self.progress.note(f"{batch[0].name}: fitting")
            try:
                fitted = self._fitted(batch)
            except InfeasibleError as error:
                if not self.searching:
                    raise
                self.progress.note(f"{batch[0].name}: {error}")
                yield from ((fit, []) for fit in batch)
                continue
            for fit, (model, usage) in zip(batch, fitted, strict=True):
                self.progress.note(f"{fit.name}: scoring")
                scored = self._score(fit, model, usage)
                self._store(fit, scored)
                yield fit, scored

    def _fitted(self, batch: Sequence[Fit]) -> list[tuple[Any, Usage | None]]:
        """Fit models; the time of fits that share their work is divided equally."""
        models = [fit.model for fit in batch]
        found = [self.kept.find(m) if isinstance(m, Recommender) else m for m in models]
        missing = [model for model, one in zip(models, found, strict=True) if one is None]
        usage = None
        if missing:
            with nullcontext() if self.searching else UsageMeter() as measured:
                fresh = iter(self._fit(missing))
            if measured is not None:
                seconds = measured.usage.seconds / len(missing)
                usage = measured.usage._replace(seconds=seconds)
        return [(next(fresh), usage) if one is None else (one, None) for one in found]

    def _fit(self, models: Sequence[Any]) -> list[Recommender]:
        names = models[0].shared_parameters
        shared = [{k: v for k, v in each.get_params().items() if k in names} for each in models]
        fitted = models[0].fit_many(self.task.fitted, shared, progress=self.progress)
        for model in fitted:
            self.kept.keep(model)
        return fitted

    def _score(self, fit: Fit, model: Any, usage: Usage | None) -> list[Scored]:
        if not isinstance(model, Recommender):
            return [Scored(self._score_lists(fit.name, model))]
        low_rank = model.low_rank()
        if low_rank is None:
            wanted = (clone(model).set_params(**one) for one in fit.settings)
            variants = (variant_of(model, one) for one in wanted)
            return [
                Scored(self._measure(ModelLists(one))[0], usage, one.stored_numbers())
                for one in variants
            ]
        return self._score_nested(fit, model, low_rank, usage)

    def _score_nested(
        self, fit: Fit, model: Recommender, low_rank: LowRank, usage: Usage | None
    ) -> list[Scored]:
        """Score every size and every free setting of one projection."""
        name = model.size_parameter or ""
        own = len(low_rank.components)
        chosen = [one.get(name, own) for one in fit.settings]
        sizes = sorted(set(chosen))
        free = [
            {k: v for k, v in one.items() if k in model.free_parameters} for one in fit.settings
        ]
        filters = list({repr(one): one for one in free}.values())
        graded = [copy.copy(model).set_params(**one).low_rank() or low_rank for one in filters]
        lister = NestedLists.of(low_rank, sizes, [each.component_weights for each in graded])
        if self.searching and self.task.fits_float32:
            lister = lister.in_single_precision()
        lists = self._measure(lister)
        items = [
            rows
            for each in graded
            for rows in measure_items(
                self.task, each, sizes, self.requests, self.context, self.items
            )
        ]
        scored = []
        for size, one in zip(chosen, free, strict=True):
            at = filters.index(one) * len(sizes) + sizes.index(size)
            kept = model
            if model.nested_parameter is not None and size < own:
                kept = model.truncate(size)
            rows = _in_order(self.requests, lists[at] + items[at])
            scored.append(Scored(rows, usage, kept.stored_numbers()))
        return scored

    def _score_lists(self, name: str, given: NDArray[Any]) -> list[Result]:
        n_users = self.task.seen.n_users
        longest = max(
            (one.k or 1 for one in self.requests if not one.metric.is_item_side), default=0
        )
        if given.ndim != 2 or len(given) != n_users or given.shape[1] < longest:
            raise InvalidDataError(
                f"the lists of {name!r} must be {n_users} users × at least {longest} items, "
                f"got shape {given.shape}."
            )
        (rows,) = self._measure(GivenLists(), given[:, None])
        return rows

    def _measure(self, lister: Any, given: NDArray[Any] | None = None) -> list[list[Result]]:
        return measure_lists(
            self.task, lister, self.requests, self.context, per_user=self.per_user, given=given
        )

    def _key(self, fit: Fit) -> dict[str, Any] | None:
        own = fit.key()
        # the name of a metric that is not registered does not identify its code
        known = all(available().get(one.metric.name) is one.metric for one in self.requests)
        if self.cache is None or own is None or not known:
            return None
        return {
            "format": FORMAT,
            "version": __version__,
            "data": self.task.fingerprint,
            "fit": own,
            "metrics": [request.label for request in self.requests],
            "items": None if self.items is None else self.items.tolist(),
            "zero_division": "nan" if np.isnan(self.zero_division) else self.zero_division,
            "per_user": self.per_user,
            "searching": self.searching,
        }

    def _load(self, fit: Fit) -> list[Scored] | None:
        key = self._key(fit)
        return self.cache.load(key) if self.cache and key else None

    def _store(self, fit: Fit, scored: list[Scored]) -> None:
        key = self._key(fit)
        if self.cache and key:
            self.cache.store(key, scored)


def _in_order(requests: Sequence[Request], rows: Sequence[Result]) -> list[Result]:
    """Sort rows like the metrics that were asked for."""
    place = {(one.metric.name, one.k): number for number, one in enumerate(reversed(requests))}
    return sorted(rows, key=lambda row: -place[row.metric, row.k])


def sampled_items(n_items: int, sample: int | None, seed: int) -> NDArray[np.intp] | None:
    """Draw the items whose AUC and precision are computed; None for all."""
    if sample is not None:
        check_whole_number("item_sample", sample, least=1)
    if sample is None or sample >= n_items:
        return None
    drawn = np.random.default_rng(seed).choice(n_items, sample, replace=False)
    return np.sort(drawn)

"""`evaluate`: split × models × gammas × ranks → one tidy table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from equipoise import __version__
from equipoise.data.interactions import Interactions
from equipoise.data.split import Split
from equipoise.evaluation.cache import FORMAT, Cache
from equipoise.evaluation.case import Case, Part, as_split
from equipoise.evaluation.catalogue import DEFAULT_METRICS, MetricSpec, parse_metrics
from equipoise.evaluation.cost import Cost, Effort, parameters_kept
from equipoise.evaluation.jobs import Job, Model, Models, fitted, plan
from equipoise.evaluation.measures import Measure, measure_items, measure_lists
from equipoise.evaluation.prefixes import Prefixes, top_items_by_rank
from equipoise.evaluation.readings import Reading, from_json, to_json
from equipoise.evaluation.results import Results, Row
from equipoise.evaluation.selection import Lists
from equipoise.exceptions import InvalidDataError, InvalidParameterError
from equipoise.metrics import EMPTY_POLICIES, ItemGroups
from equipoise.metrics.results import FloatArray
from equipoise.models import Recommender
from equipoise.models.projection import ProjectionModel
from equipoise.progress import Progress, task

Answer = list[Reading]

_STEPS_PER_JOB = 3  # fit, users, items


def evaluate(
    data: Interactions | Split,
    models: Models | None = None,
    *,
    ranks: Sequence[int] | None = None,
    gammas: Sequence[float] | None = None,
    metrics: Sequence[str] = DEFAULT_METRICS,
    k: int | Sequence[int] = 20,
    groups: str | ItemGroups = "mass",
    empty: str = "nan",
    part: Part = "test",
    item_sample: int | None = None,
    per_user: bool = False,
    cache: str | PathLike[str] | None = None,
    progress: Progress | None = None,
    seed: int = 0,
) -> Results:
    """Score models at many ranks with many metrics; each (model, γ) is fitted once.

    Models without nested solutions (matrix factorizations, LightGCN) are fitted rank by rank,
    models without a rank (EASE, ItemKNN) once, with rank None. Metrics of the model itself
    (specialization, item AUC, …) are those of a projection: other models have no such rows.

    Parameters
    ----------
    data : Split or Interactions
        Interactions are split as the paper does: see `equipoise.data.holdout`.
    models : mapping of name to model, list of models, or model; optional
        Unfitted models, or arrays of lists (users × k columns of items, best first) that any other
        model recommended; in a list also names as in ``equipoise models``, or ``"all"``. PCA,
        Normalized PCA and Item-Weighted PCA by default.
    ranks : sequence of int, optional
        For PCAs, every rank is a prefix of one fit at the largest. 4, 8, …, 128 by default.
    gammas : sequence of float, optional
        For each Item-Weighted PCA, instead of its own γ.
    metrics : sequence of str
        ``name[@k][:convention]``, e.g. ``"ndcg"``, ``"mrr@20:lightgcn"``; see
        `equipoise.evaluation.METRICS`.
    k : int or sequence of int
        Cut-offs of the metrics that name none.
    groups : {"mass", "items", "head80"} or ItemGroups
        Items of similar popularity, for the metrics that are reported by group.
    empty : {"nan", "zero"}
        Users without held-out items are left out of a mean, or count 0 (the paper).
    part : {"test", "validation"}
        Fit on train + validation and look for the test items, or fit on train and look for the
        validation items.
    item_sample : int, optional
        Take item AUC and item precision from so many items drawn at random.
    per_user : bool
        Keep every user's own value, for intervals and comparisons.
    cache : path, optional
        A folder. What is there is not computed again, provided that data and settings agree.
    progress : Progress, optional
        Receives the progress, e.g. `equipoise.progress.display.ProgressBar()`; silent by default.
    seed : int
        Draws the item sample.

    Returns
    -------
    Results
        After Ctrl-C those of the fits that were done, with ``complete=False``. Its `costs` tell
        the seconds and memory of each fit.

    Examples
    --------
    Even users like even items and odd users odd ones:

    >>> import scipy.sparse as sp
    >>> board = [[float((i + j) % 2 == 0) for j in range(12)] for i in range(9)]
    >>> checkerboard = Interactions.from_sparse(sp.csr_array(board))
    >>> table = evaluate(checkerboard, ranks=[2], metrics=["recall"], k=2)
    >>> [(row.model, row.value) for row in table]
    [('PCA', 1.0), ('Normalized PCA', 1.0), ('Item-Weighted PCA', 1.0)]
    """
    if empty not in EMPTY_POLICIES:
        raise InvalidParameterError(f"empty must be one of {list(EMPTY_POLICIES)}, got {empty!r}.")
    case = Case.of(as_split(data), part, groups)
    specs = parse_metrics(metrics, [k] if isinstance(k, int) else list(k))
    items = _sampled_items(case.n_items, item_sample, seed)
    jobs = plan(models, ranks, gammas, case.n_items)
    with task(progress, "Evaluating", len(jobs) * _STEPS_PER_JOB) as evaluating:
        return _Run(case, specs, items, empty, per_user, cache, evaluating).results(jobs)


@dataclass
class _Run:
    """One call of `evaluate`: what stays the same from job to job."""

    case: Case
    specs: tuple[MetricSpec, ...]
    items: NDArray[np.intp] | None
    empty: str
    per_user: bool
    folder: str | PathLike[str] | None
    progress: Progress

    def __post_init__(self) -> None:
        self.cache = None if self.folder is None else Cache(self.folder)
        # hashing the data takes a second for tens of millions of entries: only for a cache
        self.fingerprint = None if self.cache is None else self.case.fingerprint()
        self.longest = max((s.k or 0 for s in self.specs if not s.is_item_side), default=0)

    def results(self, jobs: list[Job]) -> Results:
        """Answer from the cache, compute the rest, put everything in the order of the jobs."""
        answers: dict[int, Answer] = {}
        complete = True
        try:
            # not a comprehension: after an interruption what is in there counts
            for position, answer in self._answers(list(enumerate(jobs))):
                answers[position] = answer  # noqa: PERF403
        except KeyboardInterrupt:
            complete = False
        rows: list[Row] = []
        users: dict[Row, FloatArray] = {}
        costs: list[Cost] = []
        for position in sorted(answers):
            costs += _costs(jobs[position], answers[position])
            for row, values in _rows(jobs[position], answers[position]):
                rows.append(row)
                if self.per_user and values is not None:
                    users[row] = values
        return Results(tuple(rows), complete, users, tuple(costs))

    def _answers(self, jobs: list[tuple[int, Job]]) -> Iterator[tuple[int, Answer]]:
        pending = []
        for position, job in jobs:
            stored = self._recall(job)
            if stored is None:
                pending.append((position, job))
            else:
                self._advance(_STEPS_PER_JOB, f"{job.name}: from the cache")
                yield position, stored
        for _, group in groupby(pending, key=lambda pair: (pair[1].name, pair[1].ranks)):
            yield from self._computed(list(group))

    def _computed(self, group: list[tuple[int, Job]]) -> Iterator[tuple[int, Answer]]:
        self._advance(0, f"{group[0][1].name}: fitting")
        models = _models([job for _, job in group], self.case.fitted, self.progress)
        for (position, job), (model, effort) in zip(group, models, strict=True):
            self._advance(1, f"{job.name}: scoring users")
            answer = [
                Reading(rank, measures, effort, _kept(model, rank))
                for rank, measures in self._measured(job, model)
            ]
            self._remember(job, answer)
            self._advance(0, f"{job.name}: fitting")
            yield position, answer

    def _measured(self, job: Job, model: Model) -> list[tuple[int | None, list[Measure]]]:
        if not isinstance(model, ProjectionModel):
            lists = _foreign_lists(job.name, model, self.case, self.longest)
            self._advance(2, job.name)
            rank = job.ranks[0] if job.ranks else None
            return [(rank, measure_lists(lists, self.case, self.specs, empty=self.empty))]
        prefixes = Prefixes.of(model)
        by_rank: list[list[Measure]] = [[] for _ in job.ranks]
        if self.longest:
            ranked = top_items_by_rank(prefixes, self.case.seen, job.ranks, self.longest)
            by_rank = [
                measure_lists(lists, self.case, self.specs, empty=self.empty) for lists in ranked
            ]
        self._advance(1, f"{job.name}: scoring items")
        item_side = measure_items(prefixes, self.case, job.ranks, self.specs, self.items)
        self._advance(1, f"{job.name}: done")
        return [(rank, a + b) for rank, a, b in zip(job.ranks, by_rank, item_side, strict=True)]

    def _advance(self, steps: int, doing: str) -> None:
        self.progress.note(doing)
        self.progress.advance(steps)

    def _key(self, job: Job) -> dict[str, Any] | None:
        settings = job.settings()
        if self.cache is None or settings is None:
            return None
        return {
            "format": FORMAT,
            "version": __version__,
            "data": self.fingerprint,
            "job": settings,
            "metrics": [spec.label for spec in self.specs],
            "items": None if self.items is None else self.items.tolist(),
            "empty": self.empty,
            "per_user": self.per_user,
        }

    def _recall(self, job: Job) -> Answer | None:
        key = self._key(job)
        stored = None if key is None or self.cache is None else self.cache.load(key)
        return None if stored is None else from_json(stored)

    def _remember(self, job: Job, answer: Answer) -> None:
        key = self._key(job)
        if key is not None and self.cache is not None:
            self.cache.store(key, to_json(answer, per_user=self.per_user))


def _models(
    jobs: list[Job], X: Interactions, progress: Progress
) -> Iterator[tuple[Model, Effort | None]]:
    if isinstance(jobs[0].model, Recommender):
        yield from fitted(jobs, X, progress)
    else:
        yield from ((job.model, None) for job in jobs)


def _kept(model: Model, rank: int | None) -> int | None:
    """Numbers that the model keeps at this rank, which may be a prefix of what was fitted."""
    if not isinstance(model, Recommender):
        return None
    if isinstance(model, ProjectionModel) and rank is not None and rank < model.n_components_:
        model = model.truncate(rank)
    return parameters_kept(model)


def _foreign_lists(name: str, model: Model, case: Case, longest: int) -> Lists:
    """Lists of a model that is no projection, or lists that were handed in."""
    if isinstance(model, Recommender):
        ids = model.recommend(case.seen, N=max(longest, 1)).ids
        return np.asarray(ids, dtype=np.int32)
    n_users = case.fitted.n_users
    if model.ndim != 2 or len(model) != n_users or model.shape[1] < longest:
        raise InvalidDataError(
            f"the lists of {name!r} must be {n_users} users × at least {longest} items, "
            f"got shape {model.shape}."
        )
    return np.asarray(model[case.users, :longest], dtype=np.int32)


def _rows(job: Job, answer: Answer) -> Iterator[tuple[Row, FloatArray | None]]:
    for reading in answer:
        for one in reading.measures:
            yield Row(job.name, job.gamma, reading.rank, *one[:-1]), one.per_user


def _costs(job: Job, answer: Answer) -> Iterator[Cost]:
    for rank, _, effort, kept in answer:
        if effort is not None and kept is not None:
            yield Cost(job.name, job.gamma, rank, *effort, kept)


def _sampled_items(n_items: int, sample: int | None, seed: int) -> NDArray[np.intp] | None:
    if sample is None or sample >= n_items:
        return None
    if sample < 1:
        raise InvalidParameterError(f"item_sample must be at least 1, got {sample}.")
    drawn = np.random.default_rng(seed).choice(n_items, sample, replace=False)
    return np.sort(drawn)
